use std::collections::BTreeMap;

use crate::session::ClientId;

/// Log levels, most verbose first.
const NAMES: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// How verbose a server's log is. The smaller, the more verbose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Level(usize);

impl Level {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        NAMES.iter().position(|known| *known == name).map(Self)
    }

    pub(crate) fn name(self) -> &'static str {
        NAMES[self.0]
    }
}

/// Who wants which level, and which one the process has.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    wanted: BTreeMap<ClientId, Level>,
    applied: Option<Level>,
}

impl Levels {
    pub(crate) fn want(&mut self, client: ClientId, level: Level) {
        self.wanted.insert(client, level);
    }

    pub(crate) fn forget(&mut self, client: ClientId) {
        self.wanted.remove(&client);
    }

    /// The level to set now, if it is not set yet: the most verbose that anybody wants.
    pub(crate) fn due(&mut self) -> Option<Level> {
        let most = self.wanted.values().min().copied()?;
        (self.applied.replace(most) != Some(most)).then_some(most)
    }

    /// A new process knows nothing.
    pub(crate) fn reset(&mut self) {
        self.applied = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_verbose_wins_and_leaves_with_its_client() {
        let level = |name| Level::parse(name).unwrap();
        let mut levels = Levels::default();
        assert_eq!(levels.due(), None);
        levels.want(ClientId(1), level("warning"));
        assert_eq!(levels.due(), Some(level("warning")));
        levels.want(ClientId(2), level("debug"));
        assert_eq!(levels.due(), Some(level("debug")));
        levels.want(ClientId(3), level("error"));
        assert_eq!(levels.due(), None);
        levels.forget(ClientId(2));
        assert_eq!(levels.due(), Some(level("warning")));
        levels.reset();
        assert_eq!(levels.due(), Some(level("warning")));
    }
}
