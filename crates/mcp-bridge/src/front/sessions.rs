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
        let leaves = in_the_way(&lock(&self.0), principal, options)?;
        if let Some(leaves) = leaves {
            self.end(&leaves);
        }
        Ok(())
    }

    /// Lets a session in. Room that was made for it may be taken by now, so it is looked for again.
    pub(super) fn insert(&self, session: Arc<ClientSession>, options: &FrontOptions) -> Result<(), Refusal> {
        let mut all = lock(&self.0);
        let leaves = match in_the_way(&all, &session.principal, options) {
            Ok(leaves) => leaves,
            Err(refusal) => {
                drop(all);
                session.end();
                return Err(refusal);
            }
        };
        if let Some(leaves) = &leaves {
            all.remove(&leaves.id);
        }
        all.insert(session.id.clone(), session);
        drop(all);
        if let Some(leaves) = leaves {
            leaves.end();
        }
        Ok(())
    }

    /// Ends the principal's session that was idle for the longest time, or else anybody's that was idle long
    /// enough; whether there was one.
    pub(super) fn end_idlest(&self, principal: &Principal, options: &FrontOptions) -> bool {
        let leaves = {
            let all = lock(&self.0);
            let own = all.values().filter(|session| session.principal == *principal);
            idlest(own, Duration::ZERO).or_else(|| idlest(all.values(), options.min_idle_to_evict))
        };
        leaves.inspect(|session| self.end(session)).is_some()
    }

    pub(super) fn end(&self, session: &ClientSession) {
        lock(&self.0).remove(&session.id);
        session.end();
    }

    /// Ends what is expired, and forgets what was kept long enough.
    pub(super) fn sweep(&self) {
        self.end_where(ClientSession::is_expired);
        let all: Vec<_> = lock(&self.0).values().cloned().collect();
        all.iter().for_each(|session| session.forget_old());
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

/// The session that has to leave so that there is room for one more.
fn in_the_way(
    all: &HashMap<String, Arc<ClientSession>>,
    principal: &Principal,
    options: &FrontOptions,
) -> Result<Option<Arc<ClientSession>>, Refusal> {
    let own = || all.values().filter(|session| session.principal == *principal);
    if own().count() >= options.max_sessions_per_principal {
        return idlest(own(), Duration::ZERO).ok_or_else(|| Refusal::too_many("sessions")).map(Some);
    }
    if all.len() >= options.max_sessions {
        return idlest(all.values(), options.min_idle_to_evict).ok_or_else(Refusal::no_room).map(Some);
    }
    Ok(None)
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
