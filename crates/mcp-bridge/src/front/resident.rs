//! Processes of dedicated servers for whoever has no session with them: one for each principal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::connector::{Connector, OpenError, Opened, Opening, Principal, Sharing};
use super::peer::Held;
use crate::Handle;
use crate::session::lock;

#[derive(Debug, Default)]
pub(super) struct Residents(Mutex<HashMap<(Principal, String), Arc<Resident>>>);

/// A process that whoever asks in the name of a principal uses.
#[derive(Debug)]
pub(super) struct Resident {
    opened: OnceCell<Opened>,
    used: Mutex<Instant>,
}

impl Residents {
    /// A way to a server without a session: to the one process that all share, or to the principal's.
    pub(super) async fn open(
        &self,
        principal: &Principal,
        server: &str,
        connector: &dyn Connector,
    ) -> Result<(Handle, Held), OpenError> {
        if connector.sharing() == Sharing::Dedicated {
            let (resident, handle) = self.of(principal, server, connector).await?;
            return Ok((handle, Held::Resident(resident)));
        }
        let opening = Opening { principal: principal.clone(), declaration: None };
        let Opened { handle, guard } = connector.open(opening).await?;
        Ok((handle, Held::Session(guard)))
    }

    /// The process that a principal has of a server, started if there is none. Who comes while it
    /// starts waits for it.
    async fn of(
        &self,
        principal: &Principal,
        server: &str,
        connector: &dyn Connector,
    ) -> Result<(Arc<Resident>, Handle), OpenError> {
        let resident = {
            let mut all = lock(&self.0);
            all.retain(|_, resident| !resident.opened.get().is_some_and(|opened| opened.handle.is_over()));
            let resident = all.entry((principal.clone(), server.to_owned())).or_insert_with(|| {
                Arc::new(Resident { opened: OnceCell::new(), used: Mutex::new(Instant::now()) })
            });
            *lock(&resident.used) = Instant::now();
            resident.clone()
        };
        let opening = || connector.open(Opening { principal: principal.clone(), declaration: None });
        let handle = resident.opened.get_or_try_init(opening).await?.handle.clone();
        Ok((resident, handle))
    }

    /// Ends the processes that nobody used for so long; whether there were any.
    pub(super) fn sweep(&self, idle: Duration) -> bool {
        let mut all = lock(&self.0);
        let before = all.len();
        all.retain(|_, resident| {
            // Whoever uses it holds it too.
            Arc::strong_count(resident) > 1 || lock(&resident.used).elapsed() < idle
        });
        all.len() < before
    }

    pub(super) fn end_all(&self) {
        lock(&self.0).clear();
    }

    pub(super) fn end_of(&self, principal: &Principal) {
        lock(&self.0).retain(|(of, _), _| of != principal);
    }
}
