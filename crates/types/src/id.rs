//! Identifiers. Every outside resource (folder, cgroup, container, link) is named after
//! one of these, so that what is found on a host can be traced back to a row.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Text that is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid {kind} id: expected a UUID")]
pub struct ParseIdError {
    kind: &'static str,
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A new id. Version 7, so that ids sort by their time of creation.
            pub fn generate() -> Self {
                Self(Uuid::now_v7())
            }

            /// The id as a UUID.
            pub fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                // Only the hyphenated form: an id has one spelling, so that it can be a
                // folder name on both sides of a comparison.
                match Uuid::try_parse(text) {
                    Ok(id) if id.hyphenated().to_string() == text => Ok(Self(id)),
                    _ => Err(ParseIdError { kind: $kind }),
                }
            }
        }
    };
}

id_type! {
    /// Names one workspace, in the database and on every host.
    WorkspaceId, "workspace"
}

id_type! {
    /// Names one installation (one database). Resources that carry it are ours; all others
    /// are never touched.
    InstallationId, "installation"
}

id_type! {
    /// Names one snapshot of a workspace's disk.
    SnapshotId, "snapshot"
}

impl WorkspaceId {
    /// The name a sandbox sees itself under: twelve hexadecimal digits from the random end of the
    /// id, since the front of a version 7 UUID is a clock.
    pub fn hostname(&self) -> String {
        let hex = self.0.simple().to_string();
        hex[hex.len() - 12..].to_owned()
    }
}

impl InstallationId {
    /// Eight hexadecimal digits for names with little room (links, cgroups). Taken from the
    /// random end of the UUID: the front of a version 7 UUID is a clock.
    pub fn short(&self) -> String {
        let hex = self.0.simple().to_string();
        hex[hex.len() - 8..].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling() {
        let id = WorkspaceId::generate();
        assert_eq!(id.to_string().parse::<WorkspaceId>(), Ok(id));
        for bad in [
            id.to_string().to_uppercase(),
            id.as_uuid().simple().to_string(),
            format!("{{{id}}}"),
            String::new(),
            "../etc".to_owned(),
        ] {
            assert!(bad.parse::<WorkspaceId>().is_err(), "{bad:?} must not parse");
        }
    }

    #[test]
    fn ids_sort_by_creation() {
        let ids: Vec<_> = (0..100).map(|_| WorkspaceId::generate()).collect();
        let mut sorted = ids.clone();
        sorted.sort();
        assert_eq!(ids, sorted);
    }
}
