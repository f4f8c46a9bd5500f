//! What containers reach.
//!
//! `isolated` is Docker's `none`. `internet` is one bridge network of the installation's own, with
//! rules of ours (`docs/adr/0014`):
//!
//! ```text
//!  network: found or made ─► rules: here, or by a helper ─► nothing amiss ─► offered
//!     ▲                                                                         │
//!     └── amiss and not to be mended ◄── a look before every container, ◄───────┘
//!                                        a closer one with every health check
//! ```
//!
//! No container is connected while anything is amiss, and a mode that cannot be upheld is not offered.

mod engine_network;
mod helper;
mod listener;
mod presence;
mod probe;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bollard::Docker;
use emergent_host_net::bridge::{self, BridgeRules, Flaw, HelperAction, HelperReport, InPlace, Survey};
use emergent_host_net::{Cidr, NetworkError};

use crate::engine::EngineError;
use crate::host::Host;
use engine_network::{EngineNetwork, UnfitNetwork};
use helper::HelperError;
use presence::Presence;

pub(crate) use helper::HELPER;
pub(crate) use probe::{METADATA, judge};

/// Providers of one installation share the network, and make it one after the other.
static SETTING_UP: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// How often a helper is sent to look at rules that this process cannot see, and that nothing speaks against.
const HELPER_LOOKS_EVERY: Duration = Duration::from_secs(300);

/// How a container is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Connection {
    /// Docker's name of the network.
    pub(crate) network: String,
    /// Whom it asks for names.
    pub(crate) nameservers: Vec<IpAddr>,
    /// The bridge's own addresses, on the engine's host.
    pub(crate) gateways: Vec<IpAddr>,
    /// Whether the bridge is in this process's network namespace.
    pub(crate) is_here: bool,
}

/// Why `internet` cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoInternet {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Network(#[from] UnfitNetwork),
    #[error(transparent)]
    Names(#[from] bridge::NoResolver),
    #[error(transparent)]
    Rules(#[from] NetworkError),
    #[error("{}", told(.0))]
    Flaws(Vec<Flaw>),
    #[error(
        "the rules must be put in place by a helper on the engine's host (the server is not root, or has \
         another network namespace than Docker): {0}"
    )]
    Helper(#[from] HelperError),
    #[error("a sandbox that tried it was not held back: it reached {0}")]
    Reached(String),
    #[error("a sandbox that tried it failed: {0}")]
    Trial(String),
}

fn told(flaws: &[Flaw]) -> String {
    flaws.iter().map(Flaw::to_string).collect::<Vec<_>>().join("; ")
}

/// The network `internet` of one provider.
#[derive(Default)]
pub(crate) struct Internet {
    guarded: tokio::sync::Mutex<Option<Guarded>>,
    offer: Mutex<Offer>,
    /// Whether sandboxes may be on it.
    was_offered: AtomicBool,
}

/// Whether it is offered to workspaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Nobody knows yet, so it is not.
    #[default]
    Untried,
    /// A sandbox has tried it.
    Offered,
    /// It cannot be upheld.
    Refused {
        /// Why.
        reason: String,
        /// When it is worth trying again.
        again_at: Instant,
    },
}

/// A network whose rules are in place.
struct Guarded {
    connection: Connection,
    rules: BridgeRules,
    guard: Guard,
}

/// Who put them there, and how it is told that they still are.
enum Guard {
    Here(Arc<Mutex<InPlace>>),
    Helper(OutOfSight),
}

/// Rules that this process cannot see. They are the kernel's: when the engine's host is started again they are
/// gone, while Docker knows the network still.
struct OutOfSight {
    /// What was there when they had just been put in place.
    digest: String,
    /// When they were last looked at; `None` where something speaks against them.
    looked: Option<Instant>,
    /// Whether the engine has been there ever since.
    presence: Presence,
}

impl OutOfSight {
    fn is_due(&self, look: Look) -> bool {
        let is_long_ago = |at: Instant| look == Look::Close && at.elapsed() >= HELPER_LOOKS_EVERY;
        self.looked.is_none_or(is_long_ago) || !self.presence.is_unbroken()
    }
}

/// How closely is looked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Takes microseconds where nobody has changed anything.
    Quick,
    /// Compares everything.
    Close,
}

impl Internet {
    pub(crate) fn offer(&self) -> Offer {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn was_offered(&self) -> bool {
        self.was_offered.load(Ordering::Relaxed)
    }

    pub(crate) fn set_offer(&self, offer: Offer) {
        if offer == Offer::Offered {
            self.was_offered.store(true, Ordering::Relaxed);
        }
        *self.offer.lock().unwrap_or_else(PoisonError::into_inner) = offer;
    }

    /// Everything is found out anew: something did not go as it should.
    pub(crate) async fn doubt(&self) {
        *self.guarded.lock().await = None;
    }

    /// Docker is not to be reached. Containers may run on without it, so what can be seen from here is looked
    /// after; the rest is looked at before anything relies on it.
    pub(crate) async fn engine_was_away(&self) {
        match &mut *self.guarded.lock().await {
            Some(Guarded { guard: Guard::Helper(rules), .. }) => rules.looked = None,
            Some(Guarded { guard: Guard::Here(in_place), .. }) => {
                let in_place = Arc::clone(in_place);
                let repaired = blocking(move || {
                    let mut in_place = in_place.lock().unwrap_or_else(PoisonError::into_inner);
                    Ok(in_place.repair()?)
                });
                if let Err(error) = repaired.await {
                    tracing::warn!(%error, security = true,
                        "the rules of the containers' network cannot be looked after: {error}");
                }
            }
            None => {}
        }
    }
}

impl Host {
    /// How a container is connected that is to be started now; the rules are in place when this
    /// returns.
    pub(crate) async fn internet(&self, docker: &Docker) -> Result<Connection, NoInternet> {
        self.guarded_internet(docker, Look::Quick).await
    }

    /// A closer look at a network that is offered. Where it was doubted, it is set up anew: sandboxes may be on
    /// it.
    pub(crate) async fn look_after_internet(&self, docker: &Docker) -> Result<(), NoInternet> {
        self.guarded_internet(docker, Look::Close).await.map(drop)
    }

    async fn guarded_internet(&self, docker: &Docker, look: Look) -> Result<Connection, NoInternet> {
        let mut guarded = self.internet.guarded.lock().await;
        // Taken out, so that what cannot be mended is made anew next time.
        let kept = match guarded.take() {
            Some(mut kept) => match self.mend(docker, &mut kept, look).await {
                Ok(is_enough) => is_enough.then_some(kept),
                // The bridge is down now, and whoever is on it waits for the next try: that is this one.
                Err(error) => {
                    tracing::warn!(%error, security = true, "the containers' network is set up anew: {error}");
                    None
                }
            },
            None => None,
        };
        let ready = match kept {
            Some(kept) => kept,
            None => self.set_up_internet(docker).await?,
        };
        Ok(guarded.insert(ready).connection.clone())
    }

    /// Puts right what others have changed. `false` where that is not enough.
    async fn mend(&self, docker: &Docker, guarded: &mut Guarded, look: Look) -> Result<bool, NoInternet> {
        match &mut guarded.guard {
            Guard::Here(in_place) => {
                let in_place = Arc::clone(in_place);
                blocking(move || {
                    let mut in_place = in_place.lock().unwrap_or_else(PoisonError::into_inner);
                    if look == Look::Quick && in_place.is_untouched() {
                        return Ok(true);
                    }
                    let mended = in_place.repair()?;
                    if mended.rules || mended.accepts {
                        tracing::warn!(
                            rules = mended.rules,
                            accepts = mended.accepts,
                            security = true,
                            "somebody changed the rules of the containers' network; they are as they were"
                        );
                    }
                    Ok(in_place.verify_here()?.is_empty())
                })
                .await
            }
            Guard::Helper(rules) if !rules.is_due(look) => Ok(true),
            Guard::Helper(rules) => {
                // From before the helper looks: an end of the engine's in between is not missed.
                let presence = Presence::watch(docker);
                let script = guarded.rules.as_helper_script(HelperAction::Verify);
                let report = self.ask_helper(docker, script.as_str()).await?;
                let report = HelperReport::parse(&report).map_err(HelperError::from)?;
                let is_as_it_was = report.flaws.is_empty() && report.digest == rules.digest;
                if !is_as_it_was {
                    tracing::warn!(
                        flaws = told(&report.flaws),
                        security = true,
                        "the rules of the containers' network on the engine's host are changed or gone; \
                         they are put in place again"
                    );
                }
                (rules.looked, rules.presence) = (Some(Instant::now()), presence);
                Ok(is_as_it_was)
            }
        }
    }

    async fn set_up_internet(&self, docker: &Docker) -> Result<Guarded, NoInternet> {
        let _alone = SETTING_UP.lock().await;
        let may_be_here = self.engine.address().socket().is_some() && rustix::process::geteuid().is_root();
        if may_be_here {
            match self.set_up_here(docker).await {
                Ok(Some(guarded)) => return Ok(guarded),
                Ok(None) => {}
                Err(error) => {
                    // It may have failed before there were any rules to put in place.
                    let installation = self.names.installation;
                    blocking(move || {
                        bridge::close_without_rules_here(installation);
                        Ok(())
                    })
                    .await?;
                    return Err(error);
                }
            }
        }
        self.set_up_by_helper(docker).await
    }

    /// `None` when the engine's network is not this process's.
    async fn set_up_here(&self, docker: &Docker) -> Result<Option<Guarded>, NoInternet> {
        let survey = blocking(|| Ok(Survey::of_this_host()?)).await?;
        let ipv6 = bridge::forwards_ipv6_here();
        let network = self.engine_network(docker, &survey, ipv6).await?;
        let rules = self.bridge_rules(&network, &survey)?;
        let applied = rules.clone();
        let (in_place, flaws) = blocking(move || {
            let in_place = applied.apply_here()?;
            let flaws = in_place.verify_here()?;
            Ok((in_place, flaws))
        })
        .await?;
        if flaws.contains(&Flaw::NoBridge) {
            let installation = self.names.installation;
            blocking(move || Ok(bridge::remove_here(installation)?)).await?;
            // Its addresses were chosen for another host than the one it is on.
            network.remove_if_new(docker).await?;
            return Ok(None);
        }
        if !flaws.is_empty() {
            return Err(NoInternet::Flaws(flaws));
        }
        let connection = connection(&network, &rules, true);
        Ok(Some(Guarded { connection, rules, guard: Guard::Here(Arc::new(Mutex::new(in_place))) }))
    }

    async fn set_up_by_helper(&self, docker: &Docker) -> Result<Guarded, NoInternet> {
        let survey = self.ask_helper(docker, &Survey::script()).await?;
        let survey = Survey::parse(&survey).map_err(HelperError::from)?;
        let network = self.engine_network(docker, &survey, false).await?;
        let rules = self.bridge_rules(&network, &survey)?;
        let script = rules.as_helper_script(HelperAction::Install);
        let presence = Presence::watch(docker);
        let report = self.ask_helper(docker, script.as_str()).await?;
        let report = HelperReport::parse(&report).map_err(HelperError::from)?;
        if !report.flaws.is_empty() {
            return Err(NoInternet::Flaws(report.flaws));
        }
        let connection = connection(&network, &rules, false);
        let guard =
            Guard::Helper(OutOfSight { digest: report.digest, looked: Some(Instant::now()), presence });
        Ok(Guarded { connection, rules, guard })
    }

    fn bridge_rules(&self, network: &EngineNetwork, survey: &Survey) -> Result<BridgeRules, NoInternet> {
        Ok(BridgeRules {
            installation: self.names.installation,
            subnets: network.subnets,
            allow: self.options.egress_allow.clone(),
            deny: network.others.clone(),
            resolvers: survey.resolvers(network.subnets.range6().is_some())?,
        })
    }

    async fn engine_network(
        &self,
        docker: &Docker,
        survey: &Survey,
        ipv6: bool,
    ) -> Result<EngineNetwork, NoInternet> {
        let taken: Vec<Cidr> = survey.taken.iter().chain(&self.options.egress_allow).copied().collect();
        Ok(engine_network::ensure(docker, &self.names, &taken, ipv6).await?)
    }
}

fn connection(network: &EngineNetwork, rules: &BridgeRules, is_here: bool) -> Connection {
    let subnets = network.subnets;
    let v6 = subnets.gateway6().map(IpAddr::from);
    Connection {
        network: network.name.clone(),
        nameservers: rules.nameservers(),
        gateways: [subnets.gateway4().into()].into_iter().chain(v6).collect(),
        is_here,
    }
}

/// Runs work that waits for the kernel on a thread that may.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NoInternet> + Send + 'static,
) -> Result<T, NoInternet> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|panic| Err(NoInternet::Trial(panic.to_string())))
}
