//! Who may call what: one table.
//!
//! Every route has a row. The wall in front of the endpoints looks the route up here and lets
//! nothing pass that has none, so a new endpoint without a row cannot be served, and a test
//! that walks the router's own description says so.

mod table;

use axum::http::Method;
use emergent_store::TokenKind;

pub(crate) use table::TABLE;

/// What it takes to call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing.
    Public,
    /// A token that may read this: every kind but `session`. Lists show a `user` its own things.
    Read,
    /// A token that may look after the installation: `admin` and `read_only`.
    Watch,
    /// A token that may change how the installation works: `admin`.
    Administer,
    /// A token that may make things of its own: `admin`, `user`, `e2b`.
    Make,
    /// A look at the workspace that the path names: whoever may see it, its session included.
    ReadWorkspace,
    /// A change of the workspace that the path names: `admin`, and whoever it belongs to.
    ManageWorkspace,
    /// A tool call in the workspace that the path names: `admin`, whoever it belongs to, and its
    /// session if the tool is on its list.
    Tool {
        /// The tool's name in the audit log and in metrics.
        name: &'static str,
        /// The name that must be on a session's list. Most often the same.
        needs: &'static str,
    },
    /// Tools of the workspace that the path names, by another way: whoever may see it. Which of them may be listed
    /// and called, each tool's own row says.
    Tools,
    /// A look at hosted MCP servers: every kind. Lists show those that the token may use, and a path names one
    /// of them: `admin` and `read_only` may see all, the others those that they were granted.
    ReadMcp,
    /// A call of the MCP server that the path names: `admin`, and whoever was granted it. Where it names none, of
    /// those that the token may use.
    CallMcp,
    /// A change of the MCP server that the path names: `admin`.
    ManageMcp,
}

impl Access {
    /// Whether a token of this kind can be enough at all.
    pub(crate) fn admits(self, kind: TokenKind) -> bool {
        use TokenKind::{Admin, E2b, ReadOnly, Session, User};
        match self {
            Self::Public => true,
            Self::Read => matches!(kind, Admin | User | E2b | ReadOnly),
            Self::Watch => matches!(kind, Admin | ReadOnly),
            Self::Administer | Self::ManageMcp => kind == Admin,
            Self::Make | Self::ManageWorkspace => matches!(kind, Admin | User | E2b),
            Self::ReadWorkspace | Self::Tools | Self::ReadMcp => true,
            Self::Tool { .. } | Self::CallMcp => matches!(kind, Admin | User | E2b | Session),
        }
    }

    /// Whether the path names a workspace that the caller must be allowed to use.
    pub(crate) fn is_about_a_workspace(self) -> bool {
        matches!(self, Self::ReadWorkspace | Self::ManageWorkspace | Self::Tools | Self::Tool { .. })
    }
}

/// One row of the table.
pub(crate) type Rule = (&'static str, &'static str, Access);

/// What the table says of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The route's row.
    Rule(Access),
    /// The path has rows, but none with this method.
    OtherMethods {
        /// Whether one of them is open to everybody.
        public: bool,
    },
    /// Nothing: it is not served.
    Nothing,
}

/// Looks a route up. `HEAD` is what `GET` is.
pub(crate) fn find(method: &Method, path: &str) -> Found {
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let mut found = Found::Nothing;
    for (row_method, row_path, access) in TABLE {
        if *row_path != path {
            continue;
        }
        if *row_method == method {
            return Found::Rule(*access);
        }
        let public = *access == Access::Public || found == Found::OtherMethods { public: true };
        found = Found::OtherMethods { public };
    }
    found
}

/// The methods of a path, for the header `Allow`.
pub(crate) fn methods(path: &str) -> String {
    let mut methods: Vec<&str> = Vec::new();
    for (method, row_path, _) in TABLE {
        if *row_path == path {
            methods.push(method);
            if *method == "GET" {
                methods.push("HEAD");
            }
        }
    }
    methods.join(",")
}

/// Every name that can be on a session's list of tools; some more than once.
pub(crate) fn tool_names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().filter_map(|(_, _, access)| match access {
        Access::Tool { needs, .. } => Some(*needs),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups() {
        assert_eq!(find(&Method::GET, "/healthz"), Found::Rule(Access::Public));
        assert_eq!(find(&Method::HEAD, "/healthz"), Found::Rule(Access::Public));
        assert_eq!(find(&Method::DELETE, "/healthz"), Found::OtherMethods { public: true });
        assert_eq!(find(&Method::PATCH, "/api/v1/agent/workspaces"), Found::OtherMethods { public: false });
        assert_eq!(find(&Method::GET, "/nothing"), Found::Nothing);
        assert_eq!(methods("/healthz"), "GET,HEAD");
    }

    #[test]
    fn no_route_has_two_rows() {
        let mut seen = std::collections::HashSet::new();
        for (method, path, _) in TABLE {
            assert!(seen.insert((method, path)), "{method} {path} is there twice");
        }
    }
}
