//! Who wants to hear of what, as data. It outlives processes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::calls::Waiter;
use crate::command::Filter;
use crate::session::{CallNumber, ClientId, Session};

/// Who is subscribed to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    /// A client of the older era.
    Client(ClientId),
    /// A listen request.
    Listen(CallNumber),
}

/// An open listen request.
#[derive(Debug)]
pub(crate) struct Listen {
    pub(crate) session: Arc<Session>,
    pub(crate) filter: Filter,
    pub(crate) waiter: Waiter,
}

/// Why somebody counts as subscribed. A client may ask twice at once; what fails takes nothing
/// from what succeeds.
#[derive(Debug, Default)]
struct Claim {
    /// Requests that are not answered yet.
    open: usize,
    granted: bool,
}

#[derive(Debug, Default)]
struct Watch {
    holders: BTreeMap<Holder, Claim>,
    /// Whether this process has been told.
    applied: bool,
}

/// All subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Interest {
    uris: BTreeMap<String, Watch>,
    listens: BTreeMap<CallNumber, Listen>,
}

impl Interest {
    /// Counts a holder in. Says whether the server knows of the resource already.
    pub(crate) fn hold(&mut self, uri: &str, holder: Holder) -> bool {
        let watch = self.uris.entry(uri.to_owned()).or_default();
        let claim = watch.holders.entry(holder).or_default();
        if watch.applied {
            claim.granted = true;
        } else {
            claim.open += 1;
        }
        watch.applied
    }

    /// Notes that a holder's request succeeded.
    pub(crate) fn grant(&mut self, uri: &str, holder: Holder) {
        if let Some(claim) = self.uris.get_mut(uri).and_then(|watch| watch.holders.get_mut(&holder)) {
            claim.open = claim.open.saturating_sub(1);
            claim.granted = true;
        }
    }

    /// Takes one request of a holder's back, and counts it out if that was all it had. Says whether
    /// the server is to be told that nobody is left.
    pub(crate) fn retract(&mut self, uri: &str, holder: Holder) -> bool {
        let claim = self.uris.get_mut(uri).and_then(|watch| watch.holders.get_mut(&holder));
        let Some(claim) = claim else { return false };
        claim.open = claim.open.saturating_sub(1);
        if claim.granted || claim.open > 0 {
            return false;
        }
        self.release(uri, holder)
    }

    /// Notes that the server knows. Says whether anybody still cares.
    pub(crate) fn applied(&mut self, uri: &str) -> bool {
        match self.uris.get_mut(uri) {
            Some(watch) => {
                watch.applied = true;
                true
            }
            None => false,
        }
    }

    /// Counts a holder out. Says whether the server is to be told that nobody is left.
    pub(crate) fn release(&mut self, uri: &str, holder: Holder) -> bool {
        let Some(watch) = self.uris.get_mut(uri) else { return false };
        watch.holders.remove(&holder);
        if !watch.holders.is_empty() {
            return false;
        }
        self.uris.remove(uri).is_some_and(|watch| watch.applied)
    }

    /// Counts a holder out everywhere: the resources that nobody is left for.
    pub(crate) fn release_all(&mut self, holder: Holder) -> Vec<String> {
        let held: Vec<String> = self
            .uris
            .iter()
            .filter(|(_, watch)| watch.holders.contains_key(&holder))
            .map(|(uri, _)| uri.clone())
            .collect();
        held.into_iter().filter(|uri| self.release(uri, holder)).collect()
    }

    pub(crate) fn listen(&mut self, number: CallNumber, listen: Listen) {
        self.listens.insert(number, listen);
    }

    pub(crate) fn unlisten(&mut self, number: CallNumber) -> Option<Listen> {
        self.listens.remove(&number)
    }

    pub(crate) fn listens(&self) -> impl Iterator<Item = (CallNumber, &Listen)> {
        self.listens.iter().map(|(number, listen)| (*number, listen))
    }

    pub(crate) fn listen_of(&self, number: CallNumber) -> Option<&Listen> {
        self.listens.get(&number)
    }

    pub(crate) fn listens_of(&self, client: ClientId) -> Vec<CallNumber> {
        self.listens().filter(|(_, listen)| listen.session.id == client).map(|(number, _)| number).collect()
    }

    /// How many subscriptions a client has, by either way.
    pub(crate) fn count(&self, client: ClientId) -> usize {
        let own =
            self.uris.values().filter(|watch| watch.holders.contains_key(&Holder::Client(client))).count();
        let listened = self.listens().filter(|(_, listen)| listen.session.id == client);
        own + listened.map(|(_, listen)| 1 + listen.filter.resource_subscriptions.len()).sum::<usize>()
    }

    pub(crate) fn uris(&self) -> impl Iterator<Item = &str> {
        self.uris.keys().map(String::as_str)
    }

    /// Who hears of a change of this resource: also who is subscribed to what it is a part of,
    /// since a server may name the part.
    pub(crate) fn holders(&self, changed: &str) -> BTreeSet<Holder> {
        let covers = |uri: &str| match changed.strip_prefix(uri) {
            Some(rest) => rest.is_empty() || uri.ends_with('/') || rest.starts_with(['/', '#', '?']),
            None => false,
        };
        let of = self.uris.iter().filter(|(uri, _)| covers(uri));
        of.flat_map(|(_, watch)| watch.holders.keys().copied()).collect()
    }

    /// A new process knows nothing.
    pub(crate) fn reset(&mut self) {
        for watch in self.uris.values_mut() {
            watch.applied = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn client(id: u64) -> Holder {
        Holder::Client(ClientId(id))
    }

    #[test]
    fn the_server_is_told_of_the_first_and_the_last() {
        let mut interest = Interest::default();
        assert!(!interest.hold("a", client(1)));
        interest.applied("a");
        assert!(interest.hold("a", client(2)));
        assert!(!interest.release("a", client(1)));
        assert!(!interest.release("a", client(1)), "twice");
        assert!(interest.release("a", client(2)));
        assert!(!interest.release("a", client(2)), "nobody");
    }

    #[test]
    fn parts_are_heard_of_and_neighbours_are_not() {
        let mut interest = Interest::default();
        interest.hold("file:///a", client(1));
        for (uri, heard) in
            [("file:///a", true), ("file:///a/b", true), ("file:///ab", false), ("file:///", false)]
        {
            assert_eq!(!interest.holders(uri).is_empty(), heard, "{uri}");
        }
    }

    proptest! {
        /// Whoever comes and goes, the server knows exactly of what somebody holds.
        #[test]
        fn the_server_knows_what_is_held(steps in proptest::collection::vec((0u64..4, 0usize..3, any::<bool>()), 0..60)) {
            let names = ["x", "y", "z"];
            let (mut interest, mut server, mut model) = (Interest::default(), BTreeSet::new(), BTreeSet::new());
            for (id, name, hold) in steps {
                let uri = names[name];
                if hold {
                    model.insert((uri, id));
                    if !interest.hold(uri, client(id)) {
                        server.insert(uri);
                        interest.applied(uri);
                    }
                } else {
                    model.remove(&(uri, id));
                    if interest.release(uri, client(id)) {
                        server.remove(uri);
                    }
                }
                let held: BTreeSet<&str> = model.iter().map(|(uri, _)| *uri).collect();
                prop_assert_eq!(&server, &held);
            }
        }
    }
}
