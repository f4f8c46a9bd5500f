//! All sessions of a front.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::connector::Principal;
use super::error::Refusal;
use super::options::FrontOptions;
use super::session::ClientSession;
use crate::session::lock;

#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<String, Arc<ClientSession>>>);

impl Sessions {
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }

    /// The session of this id. One that is somebody else's does not exist.
    pub(super) fn get(&self, id: &str, principal: &Principal) -> Result<Arc<ClientSession>, Refusal> {
        let session = lock(&self.0).get(id).filter(|session| session.principal == *principal).cloned();
        let session = session.ok_or_else(Refusal::no_such_session)?;
        if session.is_expired() {
            self.end(&session);
            return Err(Refusal::no_such_session());
        }
        Ok(session)
    }

    /// Makes room for one more session of a principal's: most clients never say that they leave.
    pub(super) fn make_room(&self, principal: &Principal, options: &FrontOptions) -> Result<(), Refusal> {
        let mut all = lock(&self.0);
        let own = all.values().filter(|session| session.principal == *principal).count();
        let leaves = if own >= options.max_sessions_per_principal {
            let own = all.values().filter(|session| session.principal == *principal);
            Some(idlest(own, Duration::ZERO).ok_or_else(|| Refusal::too_many("sessions"))?)
        } else if all.len() >= options.max_sessions {
            Some(idlest(all.values(), options.min_idle_to_evict).ok_or_else(Refusal::no_room)?)
        } else {
            None
        };
        if let Some(leaves) = leaves {
            all.remove(&leaves.id);
            drop(all);
            leaves.end();
        }
        Ok(())
    }

    pub(super) fn insert(&self, session: Arc<ClientSession>) {
        lock(&self.0).insert(session.id.clone(), session);
    }

    pub(super) fn end(&self, session: &ClientSession) {
        lock(&self.0).remove(&session.id);
        session.end();
    }

    /// Ends what is expired.
    pub(super) fn sweep(&self) {
        self.end_where(ClientSession::is_expired);
    }

    pub(super) fn end_of(&self, principal: &Principal) {
        self.end_where(|session| session.principal == *principal);
    }

    pub(super) fn end_all(&self) {
        self.end_where(|_| true);
    }

    fn end_where(&self, over: impl Fn(&ClientSession) -> bool) {
        let ended: Vec<_> = lock(&self.0).extract_if(|_, session| over(session)).collect();
        for (_, session) in ended {
            session.end();
        }
    }
}

/// The session that was idle for the longest time, at least for so long.
fn idlest<'a>(
    sessions: impl Iterator<Item = &'a Arc<ClientSession>>,
    least: Duration,
) -> Option<Arc<ClientSession>> {
    let idle = sessions.filter_map(|session| Some((session.idle()?, session)));
    let idlest = idle.filter(|(idle, _)| *idle >= least).max_by_key(|(idle, _)| *idle);
    idlest.map(|(_, session)| session.clone())
}
