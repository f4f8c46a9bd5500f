//! What becomes of connected sandboxes when their rules cannot be kept in place, or nobody can tell
//! whether they are: their links go down, and come up again once the rules are back.

use crate::error::NetworkError;
use crate::forwarding::has_ipv6;
use crate::installed::Installed;
use crate::names::{link_prefix, number_of, workspace_of};
use crate::netlink::{Link, Netlink};
use crate::network::{Repair, State, remove_everything};
use crate::options::Options;

impl State {
    /// Puts everything in place for the first time, also around sandboxes of an earlier server.
    pub(crate) async fn install(&mut self, options: &Options) -> Result<(), NetworkError> {
        match self.deny(options).await {
            Ok(installed) => self.installed = Some(installed),
            Err(error) => {
                self.close(options).await;
                return Err(error);
            }
        }
        // An earlier server may have taken links down.
        self.closed = true;
        self.repair(options).await.map(drop)
    }

    async fn deny(&mut self, options: &Options) -> Result<Installed, NetworkError> {
        self.numbers = Installed::connected(options).await?;
        Installed::deny(options).await
    }

    /// Looks at what is in place; where nobody is connected and nothing was put there, removes what an
    /// earlier server left.
    pub(crate) async fn look_after(&mut self, options: &Options) -> Result<Repair, NetworkError> {
        if self.installed.is_some() {
            return self.repair(options).await;
        }
        match Installed::connected(options).await {
            Ok(connected) if connected.is_empty() => {
                remove_everything(options).await?;
                self.closed = false;
                Ok(Repair::default())
            }
            Ok(_) => self.install(options).await.map(|()| Repair::default()),
            Err(error) => {
                self.close(options).await;
                Err(error)
            }
        }
    }

    /// Puts right what somebody else has changed. Whatever goes wrong: where the rules are not
    /// certain to be in place, no link is up.
    pub(crate) async fn repair(&mut self, options: &Options) -> Result<Repair, NetworkError> {
        let Some(installed) = &mut self.installed else { return Ok(Repair::default()) };
        let repaired = installed.repair(options).await;
        if repaired.is_ok() || installed.denies(options).await {
            self.open(options).await?;
        } else {
            self.close(options).await;
        }
        repaired
    }

    /// Refuses to connect anybody while all links are down.
    pub(crate) fn check_open(&self) -> Result<(), NetworkError> {
        if self.closed {
            let reason = "the network rules of the sandboxes cannot be kept in place";
            return Err(NetworkError::Unenforceable(reason.to_owned()));
        }
        Ok(())
    }

    /// Takes every link down. Tried again at the next look if it cannot be done.
    pub(crate) async fn close(&mut self, options: &Options) {
        self.closed = true;
        // One whose number is not known stays down, but none stays up for that.
        if let Err(error) = Installed::note_numbers(options).await {
            tracing::debug!("the addresses of sandboxes could not be noted: {error}");
        }
        let prefix = link_prefix(options.installation);
        disconnect("sandboxes", |link| link.name.starts_with(&prefix)).await;
    }

    /// Brings links up that were taken down, with the addresses they had. The rules must be in place.
    async fn open(&mut self, options: &Options) -> Result<(), NetworkError> {
        if !self.closed {
            return Ok(());
        }
        let (pool, _) = self.pool_and_mtu()?;
        let (netlink, ipv6) = (Netlink::open()?, has_ipv6());
        let prefix = link_prefix(options.installation);
        let is_ours = |link: &Link| link.name.starts_with(&prefix);
        let mut failed = None;
        for link in netlink.links().await?.into_iter().filter(|link| is_ours(link) && !link.is_up) {
            let alias = link.alias.as_deref().unwrap_or_default();
            let known = || self.numbers.get(&workspace_of(alias, options.installation)?).copied();
            // Without a number its maker was interrupted, and it is removed some time.
            let Some(number) = number_of(alias, options.installation).or_else(known).filter(|n| *n > 1)
            else {
                continue;
            };
            match netlink.configure_host(link.index, pool.gateway(), pool.pair(number), ipv6).await {
                Ok(()) => tracing::info!(link = link.name, "{} is connected again", link.name),
                // One that does not come up keeps no other down.
                Err(error) => failed = Some(error),
            }
        }
        self.closed = failed.is_some();
        failed.map_or(Ok(()), Err)
    }
}

/// Takes links down whose rules are not certain to be in place. Said once: those that are down already
/// do not count.
pub(crate) async fn disconnect(who: &str, is_one: impl Fn(&Link) -> bool) {
    match take_down(is_one).await {
        Ok(0) => {}
        Ok(count) => tracing::error!(
            count,
            security = true,
            "the network rules of {who} are not certain to be in place: {count} links are down until they are"
        ),
        Err(error) => tracing::error!(
            security = true,
            "{who} whose network rules are not in place could not be disconnected: {error}"
        ),
    }
}

/// How many were up.
async fn take_down(is_one: impl Fn(&Link) -> bool) -> Result<usize, NetworkError> {
    let netlink = Netlink::open()?;
    let (mut count, mut failed) = (0, None);
    // One that does not go down keeps no other up.
    for link in netlink.links().await?.iter().filter(|link| is_one(link) && link.is_up) {
        match netlink.down(link.index).await {
            Ok(()) => count += 1,
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(count), Err)
}
