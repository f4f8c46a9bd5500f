//! What can be asked for when a token is made.

use std::time::Duration;

use emergent_store::{SessionScope, TokenKind};
use emergent_types::WorkspaceId;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use utoipa::ToSchema;

use crate::access;
use crate::errors::ApiError;

/// The longest name, in characters.
const MAX_NAME: usize = 128;

/// The longest life: ten years.
const MAX_LIFE_SECONDS: u64 = 10 * 365 * 24 * 60 * 60;

/// The most servers that a token is granted.
const MAX_SERVERS: usize = 200;

/// A token that is asked for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateToken {
    /// For people: 1 to 128 characters.
    #[schema(value_type = String, required = true, example = "build agents")]
    name: Option<String>,
    /// `admin` (everything), `user` (makes workspaces, sees and uses its own), `read_only`,
    /// `session` (the tools of one workspace) or `e2b` (a `user` in the form of the E2B SDKs).
    #[schema(value_type = String, required = true, example = "user")]
    kind: Option<String>,
    /// How long it is valid; for ever where neither this nor `expires_at` is given.
    #[schema(minimum = 1, maximum = 315_360_000)]
    expires_in_seconds: Option<u64>,
    /// From when on it is refused (RFC 3339).
    #[schema(value_type = Option<String>)]
    expires_at: Option<String>,
    /// For a `session`: its workspace.
    workspace_id: Option<WorkspaceId>,
    /// For a `session`: the tools it may use; all where not said.
    tools: Option<Vec<String>>,
    /// For a `user`, an `e2b` or a `session`: the hosted MCP servers it may use, by name; none where not said.
    mcp_servers: Option<Vec<String>>,
}

/// A token that is asked for, whole and valid.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NewToken {
    pub(super) name: String,
    pub(super) kind: TokenKind,
    pub(super) expires_at: Option<OffsetDateTime>,
    pub(super) session: Option<SessionScope>,
    pub(super) mcp_servers: Option<Vec<String>>,
}

impl CreateToken {
    pub(super) fn parse(self, now: OffsetDateTime) -> Result<NewToken, ApiError> {
        let name = self.name.ok_or_else(|| ApiError::invalid("name", "is missing"))?;
        let name = name.trim().to_owned();
        if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
            return Err(ApiError::invalid(
                "name",
                format!("must have 1 to {MAX_NAME} characters and no control characters"),
            ));
        }
        let kind = self.kind.ok_or_else(|| ApiError::invalid("kind", "is missing"))?;
        let kind: TokenKind = kind.parse().map_err(|error| {
            ApiError::invalid("kind", format!("{error}: expected admin, user, read_only, session or e2b"))
        })?;
        let expires_at = match (self.expires_in_seconds, self.expires_at) {
            (None, None) => None,
            (Some(seconds), None) => Some(after(now, seconds)?),
            (None, Some(text)) => Some(at(now, &text)?),
            (Some(_), Some(_)) => {
                return Err(ApiError::invalid("expires_at", "either this or expires_in_seconds, not both"));
            }
        };
        let session = match (kind, self.workspace_id, self.tools) {
            (TokenKind::Session, Some(workspace_id), tools) => {
                Some(SessionScope { workspace_id, tools: tools.map(known_tools).transpose()? })
            }
            (TokenKind::Session, None, _) => {
                return Err(ApiError::invalid("workspace_id", "a session needs its workspace"));
            }
            (_, Some(_), _) => {
                return Err(ApiError::invalid("workspace_id", "only a session has one workspace"));
            }
            (_, None, Some(_)) => {
                return Err(ApiError::invalid("tools", "only a session has a list of tools"));
            }
            (_, None, None) => None,
        };
        let mcp_servers = match (kind, self.mcp_servers) {
            (TokenKind::Admin | TokenKind::ReadOnly, Some(_)) => {
                return Err(ApiError::invalid(
                    "mcp_servers",
                    format!("a token of kind {kind} sees all of them"),
                ));
            }
            (_, servers) => servers.map(server_names).transpose()?,
        };
        Ok(NewToken { name, kind, expires_at, session, mcp_servers })
    }
}

fn after(now: OffsetDateTime, seconds: u64) -> Result<OffsetDateTime, ApiError> {
    if !(1..=MAX_LIFE_SECONDS).contains(&seconds) {
        return Err(ApiError::invalid(
            "expires_in_seconds",
            format!("must be between 1 and {MAX_LIFE_SECONDS}, not {seconds}"),
        ));
    }
    Ok(now + Duration::from_secs(seconds))
}

fn at(now: OffsetDateTime, text: &str) -> Result<OffsetDateTime, ApiError> {
    let end = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| {
        ApiError::invalid("expires_at", "not a time: expected one such as 2027-01-31T12:00:00Z")
    })?;
    if end <= now || end - now > Duration::from_secs(MAX_LIFE_SECONDS) {
        return Err(ApiError::invalid("expires_at", "must be in the future, ten years at most"));
    }
    // To the millisecond, as it is kept.
    Ok(end.replace_millisecond(end.millisecond()).unwrap_or(end).to_offset(time::UtcOffset::UTC))
}

/// Servers may be granted before they are registered.
fn server_names(mut names: Vec<String>) -> Result<Vec<String>, ApiError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    for (index, name) in names.iter().enumerate() {
        if !(1..=63).contains(&name.len()) || !name.bytes().all(plain) {
            return Err(ApiError::invalid(
                format!("mcp_servers[{index}]"),
                "is not the name of an MCP server",
            ));
        }
    }
    if names.len() > MAX_SERVERS {
        return Err(ApiError::invalid("mcp_servers", format!("can have {MAX_SERVERS} names at most")));
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

fn known_tools(mut tools: Vec<String>) -> Result<Vec<String>, ApiError> {
    for (index, tool) in tools.iter().enumerate() {
        if !access::tool_names().any(|known| known == tool) {
            let mut names: Vec<&str> = access::tool_names().collect();
            names.sort_unstable();
            names.dedup();
            return Err(ApiError::invalid(
                format!("tools[{index}]"),
                format!("not a tool: expected one of {}", names.join(", ")),
            ));
        }
    }
    tools.sort_unstable();
    tools.dedup();
    Ok(tools)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(body: &Value) -> Result<NewToken, ApiError> {
        serde_json::from_value::<CreateToken>(body.clone()).unwrap().parse(emergent_store::now())
    }

    #[test]
    fn what_is_taken() {
        let token = parse(&json!({"name": " a ", "kind": "user"})).unwrap();
        assert_eq!((token.name.as_str(), token.kind, token.expires_at), ("a", TokenKind::User, None));
        let id = WorkspaceId::generate();
        let token = parse(&json!({
            "name": "a", "kind": "session", "workspace_id": id, "tools": ["read", "bash", "read"],
            "expires_in_seconds": 60,
        }))
        .unwrap();
        assert_eq!(
            token.session,
            Some(SessionScope { workspace_id: id, tools: Some(vec!["bash".to_owned(), "read".to_owned()]) })
        );
        assert!(token.expires_at.is_some());
        assert!(parse(&json!({"name": "a", "kind": "e2b", "expires_at": "2099-01-01T00:00:00Z"})).is_err());
    }

    #[test]
    fn what_is_refused() {
        let id = WorkspaceId::generate();
        for (body, field) in [
            (json!({"kind": "user"}), "name"),
            (json!({"name": "", "kind": "user"}), "name"),
            (json!({"name": "a\nb", "kind": "user"}), "name"),
            (json!({"name": "x".repeat(MAX_NAME + 1), "kind": "user"}), "name"),
            (json!({"name": "a"}), "kind"),
            (json!({"name": "a", "kind": "root"}), "kind"),
            (json!({"name": "a", "kind": "user", "expires_in_seconds": 0}), "expires_in_seconds"),
            (json!({"name": "a", "kind": "user", "expires_at": "yesterday"}), "expires_at"),
            (json!({"name": "a", "kind": "user", "expires_at": "2020-01-01T00:00:00Z"}), "expires_at"),
            (
                json!({"name": "a", "kind": "user", "expires_at": "2027-01-01T00:00:00Z", "expires_in_seconds": 1}),
                "expires_at",
            ),
            (json!({"name": "a", "kind": "session"}), "workspace_id"),
            (json!({"name": "a", "kind": "user", "workspace_id": id}), "workspace_id"),
            (json!({"name": "a", "kind": "user", "tools": []}), "tools"),
            (json!({"name": "a", "kind": "session", "workspace_id": id, "tools": ["magic"]}), "tools[0]"),
        ] {
            assert_eq!(parse(&body).unwrap_err().field(), Some(field), "{body}");
        }
    }
}
