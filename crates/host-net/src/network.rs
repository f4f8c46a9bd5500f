//! The network of one installation's sandboxes on this host.
//!
//! ```text
//!  attach ─► rules in place? ─► pair, down ─► alias, settings ─► addresses, up ─► forwarder
//!              │ no                │
//!              ▼                   └─ interrupted: found by its name, closed by the rules
//!            table ─► forwarding ─► accepts in other firewalls
//!
//!  detach ─► forwarder ends ─► link removed ─► (the last one: all of the above, a little later)
//!
//!  watch  ─► rules changed? ─► put back ─► (links up again)
//!                                │ cannot be
//!                                ▼
//!                              every link down
//! ```

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use emergent_types::WorkspaceId;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

use crate::command::{self, block_on};
use crate::error::NetworkError;
use crate::firewall::{self, Passage};
use crate::forwarding::{self, has_ipv6};
use crate::installed::{self, Installed};
use crate::names::{link_alias, link_name, link_prefix, workspace_of};
use crate::namespace::Namespace;
use crate::netlink::{GUEST_LINK, Netlink};
use crate::options::Options;
use crate::resolver::{Resolver, Sockets};
use crate::rules;

/// How often the kernel is asked whether somebody has changed its rules.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often everything is looked at, rules of older firewalls and routes included.
const LOOK_CLOSELY_EVERY: Duration = Duration::from_secs(30);

/// How long the rules stay after the last sandbox: the next one often comes at once.
const LINGER: Duration = Duration::from_secs(2);

/// How long a host that could not enforce the rules is not asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// A link on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Its name.
    pub link: String,
    /// Whose it is; `None` when its maker was interrupted before it said so.
    pub workspace: Option<WorkspaceId>,
}

/// A connected sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attachment {
    /// Its address.
    pub v4: std::net::Ipv4Addr,
    /// Its address in IPv6, where the host has that.
    pub v6: Option<std::net::Ipv6Addr>,
    /// The address of the host's end, which is closed to it.
    pub gateway: std::net::Ipv4Addr,
}

/// What a check has put right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repair {
    /// The table of rules was changed or gone.
    pub rules: bool,
    /// An accept in another firewall was gone or newly needed.
    pub accepts: bool,
}

/// The network of one installation's sandboxes. All methods block and must be called where
/// that is allowed; a call waits for others that change the rules.
pub struct HostNetwork {
    shared: Arc<Shared>,
}

struct Shared {
    options: Options,
    state: Mutex<State>,
    enforceable: Mutex<Option<(Instant, Result<(), String>)>>,
    resolver: Resolver,
    /// Runs the forwarders, apart from the server's own work.
    runtime: Mutex<Option<Runtime>>,
    serving: Mutex<HashMap<WorkspaceId, AbortHandle>>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) installed: Option<Installed>,
    /// Which address every connected sandbox has.
    pub(crate) numbers: BTreeMap<WorkspaceId, u32>,
    /// The rules could not be kept in place, so every link is down.
    pub(crate) closed: bool,
    empty_since: Option<Instant>,
    watched: bool,
}

impl HostNetwork {
    /// A network that has touched nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            shared: Arc::new(Shared {
                resolver: Resolver::new(options.resolv_conf.clone()),
                options,
                state: Mutex::new(State::default()),
                enforceable: Mutex::new(None),
                runtime: Mutex::new(None),
                serving: Mutex::new(HashMap::new()),
            }),
        }
    }

    /// Whether this host can enforce the rules, and if not, what to do about it. The answer is
    /// kept, a bad one for a few seconds.
    pub fn enforceable(&self) -> Result<(), String> {
        let mut known = self.shared.enforceable.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((_, Ok(()))) => return Ok(()),
            Some((asked, Err(reason))) if asked.elapsed() < ASK_AGAIN_AFTER => return Err(reason.clone()),
            _ => {}
        }
        let answer = installed::enforceable(&self.shared.options);
        *known = Some((Instant::now(), answer.clone()));
        answer
    }

    /// Connects a sandbox whose processes have not started yet. Rules come first; when this
    /// returns, both ends are up and names are answered.
    ///
    /// A link that is left from before is removed first. On error nothing is left.
    pub fn attach(&self, workspace: WorkspaceId, namespace: &Namespace) -> Result<Attachment, NetworkError> {
        let attached = self.connect(workspace, namespace);
        if attached.is_err()
            && let Err(remains) = self.detach(workspace)
        {
            tracing::warn!(%workspace, "the network of {workspace} has left something: {remains}");
        }
        attached
    }

    #[expect(clippy::await_holding_lock, reason = "this thread does nothing else until it is done")]
    fn connect(&self, workspace: WorkspaceId, namespace: &Namespace) -> Result<Attachment, NetworkError> {
        self.enforceable().map_err(NetworkError::Unenforceable)?;
        let installation = self.shared.options.installation;
        let name = link_name(installation, workspace);
        let ipv6 = has_ipv6();
        let (index, gateway, guest) = block_on(async {
            let mut state = self.shared.state();
            state.ensure_installed(&self.shared.options).await?;
            let (pool, mtu) = state.pool_and_mtu()?;
            let used = state.numbers.iter().filter(|(of, _)| **of != workspace).map(|(_, number)| *number);
            let number = pool.free_number(&used.collect()).ok_or(NetworkError::NoAddress)?;
            let netlink = Netlink::open()?;
            netlink.remove(&name).await?;
            let index = netlink.add_pair(&name, GUEST_LINK, namespace.as_fd(), mtu).await?;
            netlink.set_alias(index, link_alias(installation, workspace, number)).await?;
            state.numbers.insert(workspace, number);
            state.empty_since = None;
            Ok((index, pool.gateway(), pool.pair(number)))
        })?;
        self.watch()?;
        forwarding::prepare_link(&name, ipv6).map_err(NetworkError::system("link settings"))?;
        block_on(async {
            // Locked, so that the link does not come up behind the back of somebody who closes all.
            let state = self.shared.state();
            state.check_open()?;
            Netlink::open()?.configure_host(index, gateway, guest, ipv6).await
        })?;
        let sockets = in_namespace(namespace, || {
            prepare_guest(ipv6)?;
            block_on(async { Netlink::open()?.configure_guest(GUEST_LINK, gateway, guest, ipv6).await })?;
            Sockets::open().map_err(NetworkError::system("forwarder's sockets"))
        })?;
        self.serve(workspace, sockets)?;
        Ok(Attachment { v4: guest.v4, v6: ipv6.then_some(guest.v6), gateway: gateway.v4 })
    }

    /// Takes over a sandbox that an earlier server has connected: its rules are made whole and
    /// its forwarder is opened again. Where its rules cannot be made whole it is disconnected until
    /// they can.
    #[expect(clippy::await_holding_lock, reason = "this thread does nothing else until it is done")]
    pub fn adopt(&self, workspace: WorkspaceId, namespace: &Namespace) -> Result<(), NetworkError> {
        let watched = self.watch();
        let can_be_kept = watched.and_then(|()| self.enforceable().map_err(NetworkError::Unenforceable));
        let installed = block_on(async {
            let mut state = self.shared.state();
            if can_be_kept.is_err() && state.installed.is_none() {
                state.close(&self.shared.options).await;
            }
            can_be_kept?;
            state.ensure_installed(&self.shared.options).await
        });
        // In any case: what is disconnected now comes back by itself, and asks for names then.
        let sockets =
            in_namespace(namespace, || Sockets::open().map_err(NetworkError::system("forwarder's sockets")))?;
        self.serve(workspace, sockets)?;
        installed
    }

    /// Removes what belongs to a sandbox; nothing at all is success. Also where nothing could
    /// be attached.
    pub fn detach(&self, workspace: WorkspaceId) -> Result<(), NetworkError> {
        if let Some(task) = self.shared.serving().remove(&workspace) {
            task.abort();
        }
        let name = link_name(self.shared.options.installation, workspace);
        block_on(async { Netlink::open()?.remove(&name).await })?;
        let mut state = self.shared.state();
        state.numbers.remove(&workspace);
        if state.numbers.is_empty() && state.installed.is_some() {
            state.empty_since.get_or_insert_with(Instant::now);
        }
        Ok(())
    }

    /// Every link of this installation.
    pub fn list(&self) -> Result<Vec<Left>, NetworkError> {
        let installation = self.shared.options.installation;
        let prefix = link_prefix(installation);
        let links = block_on(async { Netlink::open()?.links().await })?;
        Ok(links
            .into_iter()
            .filter(|link| link.name.starts_with(&prefix))
            .map(|link| Left {
                workspace: link.alias.as_deref().and_then(|alias| workspace_of(alias, installation)),
                link: link.name,
            })
            .collect())
    }

    /// Looks at everything that is in place while sandboxes are connected, and puts right what
    /// somebody else has changed. With none connected, removes what an earlier server left.
    pub fn recheck(&self) -> Result<Repair, NetworkError> {
        self.shared.recheck()
    }

    /// Removes everything that is not a sandbox's, if no sandbox is connected.
    pub fn clean_up(&self) -> Result<(), NetworkError> {
        self.shared.clean_up()
    }

    /// Firewalls of others that may drop what sandboxes send, with what to do about it.
    pub fn obstacles(&self) -> Vec<String> {
        block_on(async {
            Ok(firewall::obstacles(&Passage::of_links(self.shared.options.installation)).await)
        })
        .unwrap_or_default()
    }

    fn serve(&self, workspace: WorkspaceId, sockets: Sockets) -> Result<(), NetworkError> {
        let mut runtime = self.shared.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = match &mut *runtime {
            Some(runtime) => runtime,
            empty => empty.insert(
                tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(1)
                    .thread_name("resolver")
                    .enable_all()
                    .build()
                    .map_err(NetworkError::system("forwarder"))?,
            ),
        };
        let task = runtime.spawn(self.shared.resolver.serve(sockets));
        if let Some(earlier) = self.shared.serving().insert(workspace, task.abort_handle()) {
            earlier.abort();
        }
        Ok(())
    }

    /// Starts the thread that looks after the rules, unless it runs.
    fn watch(&self) -> Result<(), NetworkError> {
        let mut state = self.shared.state();
        if state.watched || !self.shared.options.watch {
            return Ok(());
        }
        let shared = Arc::downgrade(&self.shared);
        std::thread::Builder::new()
            .name("network-watch".to_owned())
            .spawn(move || watch(&shared))
            .map_err(NetworkError::system("watch over the rules"))?;
        state.watched = true;
        Ok(())
    }
}

/// With nothing connected, nothing is left. What is connected stays, as the server's end
/// leaves sandboxes running.
impl Drop for HostNetwork {
    fn drop(&mut self) {
        if let Some(runtime) = self.shared.runtime.lock().unwrap_or_else(PoisonError::into_inner).take() {
            runtime.shutdown_background();
        }
        let shared = Arc::clone(&self.shared);
        let needed = {
            let state = shared.state();
            state.installed.is_some() && state.numbers.is_empty()
        };
        if needed {
            // On a thread of its own: this one may be inside a runtime.
            let cleaning = std::thread::spawn(move || shared.clean_up());
            let _ = cleaning.join();
        }
    }
}

fn watch(shared: &Weak<Shared>) {
    let mut looked = Instant::now();
    // The same trouble every second is told once.
    let mut told = None;
    loop {
        std::thread::sleep(LOOK_EVERY);
        let Some(shared) = shared.upgrade() else { return };
        let (linger_over, changed) = {
            let state = shared.state();
            let over = state.empty_since.is_some_and(|since| since.elapsed() > LINGER);
            let changed = state.closed || state.installed.as_ref().is_some_and(|there| !there.is_untouched());
            (over, changed)
        };
        let outcome = if linger_over {
            shared.clean_up()
        } else if changed || looked.elapsed() > LOOK_CLOSELY_EVERY {
            looked = Instant::now();
            shared.recheck().map(drop)
        } else {
            Ok(())
        };
        let trouble = outcome.err().map(|error| error.to_string());
        if let Some(error) = trouble.as_ref().filter(|_| trouble != told) {
            tracing::error!("the network rules of the sandboxes could not be looked after: {error}");
        }
        told = trouble;
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serving(&self) -> MutexGuard<'_, HashMap<WorkspaceId, AbortHandle>> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[expect(clippy::await_holding_lock, reason = "this thread does nothing else until it is done")]
    fn recheck(&self) -> Result<Repair, NetworkError> {
        block_on(async {
            let mut state = self.state();
            // What stays of them keeps nobody from looking at the rest.
            let removed = self.remove_nameless().await;
            let repair = state.look_after(&self.options).await?;
            removed?;
            if repair.rules {
                tracing::warn!(
                    "the network rules of the sandboxes had been changed or removed; they are back"
                );
            }
            if repair.accepts {
                tracing::info!("the accepts for sandboxes in another firewall were renewed");
            }
            Ok(repair)
        })
    }

    /// Removes links whose maker was interrupted before it said whose they are. The state is
    /// locked, so nobody is making one.
    async fn remove_nameless(&self) -> Result<(), NetworkError> {
        let netlink = Netlink::open()?;
        let prefix = link_prefix(self.options.installation);
        for link in netlink.links().await? {
            if link.name.starts_with(&prefix) && link.alias.is_none() {
                netlink.remove(&link.name).await?;
            }
        }
        Ok(())
    }

    #[expect(clippy::await_holding_lock, reason = "this thread does nothing else until it is done")]
    fn clean_up(&self) -> Result<(), NetworkError> {
        block_on(async {
            let mut state = self.state();
            self.remove_nameless().await?;
            if !Installed::connected(&self.options).await?.is_empty() {
                state.empty_since = None;
                return Ok(());
            }
            remove_everything(&self.options).await?;
            state.installed = None;
            state.closed = false;
            state.empty_since = None;
            Ok(())
        })
    }
}

/// Everything that is not a sandbox's.
pub(crate) async fn remove_everything(options: &Options) -> Result<(), NetworkError> {
    if command::find("nft").is_none() {
        return Ok(());
    }
    let installation = options.installation;
    firewall::remove(&Passage::of_links(installation)).await?;
    if let Some(listing) = rules::Listing::of(installation).await? {
        // Off before the guard goes.
        listing.guarded().switch_off();
        rules::remove(installation).await?;
    }
    Ok(())
}

impl State {
    /// Makes sure that the rules are in place and as they were made.
    async fn ensure_installed(&mut self, options: &Options) -> Result<(), NetworkError> {
        match &self.installed {
            Some(installed) if installed.is_untouched() && !self.closed => Ok(()),
            Some(_) => self.repair(options).await.map(drop),
            None => self.install(options).await,
        }
    }

    pub(crate) fn pool_and_mtu(&self) -> Result<(crate::pool::Pool, u32), NetworkError> {
        let missing = || NetworkError::Unenforceable("the rules are not in place".to_owned());
        self.installed.as_ref().map(|installed| (installed.rules.pool, installed.mtu)).ok_or_else(missing)
    }
}

/// Settings of the sandbox's end, while it is down: no address but those it is given.
fn prepare_guest(ipv6: bool) -> Result<(), NetworkError> {
    if ipv6 {
        for (name, value) in [("accept_ra", "0"), ("addr_gen_mode", "1")] {
            forwarding::write("ipv6", GUEST_LINK, name, value)
                .map_err(NetworkError::system("sandbox's link settings"))?;
        }
    }
    Ok(())
}

fn in_namespace<T: Send>(
    namespace: &Namespace,
    work: impl FnOnce() -> Result<T, NetworkError> + Send,
) -> Result<T, NetworkError> {
    namespace.run(work).map_err(NetworkError::system("network namespace"))?
}

impl Attachment {
    /// Its addresses.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        std::iter::once(IpAddr::V4(self.v4)).chain(self.v6.map(IpAddr::V6))
    }
}
