//! From the parts of a request to values, with an error that names the part.

mod accept;
mod feature;
mod headers;
mod ids;
mod json_body;
mod mcp;
mod object;
pub(crate) mod page;
mod query;
mod strings;
mod tool;

pub(crate) use accept::Accepted;
pub(crate) use feature::Workspaces;
pub(crate) use headers::IdempotencyHeader;
pub(crate) use ids::{PortPath, ProcessPath, SnapshotPath, TokenPath, WorkspacePath};
pub(crate) use json_body::{
    FingerprintedBody, JsonBody, OptionalFingerprintedBody, OptionalJsonBody, read as read_body,
};
pub(crate) use mcp::{Granted, McpServers};
pub(crate) use object::Object;
pub(crate) use query::Query;
#[cfg(test)]
pub(crate) use query::from_query;
pub(crate) use strings::Strings;
pub(crate) use tool::{CallRecord, OpenCall, Tool};

use serde::de::DeserializeOwned;

use crate::errors::ApiError;

/// What an error is about when it is about no field in particular.
const WHOLE: &str = "body";

/// A deserialization error, with the path to the field it is about.
fn invalid<E: std::fmt::Display>(error: serde_path_to_error::Error<E>, whole: &str) -> ApiError {
    let path = error.path().to_string();
    let message = error.into_inner().to_string();
    let parent = if path == "." || path == "?" { "" } else { path.as_str() };
    // Found out only before or after the field itself is read, so the path ends one step short.
    let beside = ["duplicate field `", "missing field `"]
        .iter()
        .find_map(|begin| message.strip_prefix(begin))
        .and_then(|rest| rest.split('`').next());
    let field = match (parent, beside) {
        ("", None) => whole.to_owned(),
        ("", Some(name)) => name.to_owned(),
        (parent, None) => parent.to_owned(),
        (parent, Some(name)) => format!("{parent}.{name}"),
    };
    ApiError::invalid(field, message)
}

/// Reads a JSON object of a known shape.
fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let Object(value) = serde_path_to_error::deserialize(&mut json).map_err(|error| invalid(error, WHOLE))?;
    json.end().map_err(|error| ApiError::invalid(WHOLE, error.to_string()))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;
    use crate::errors::ErrorCode;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[serde(alias = "path")]
        _file_path: Option<String>,
        _limits: Option<Object<Limits>>,
        _env: Option<BTreeMap<String, String>>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Limits {
        _cpu: Option<u32>,
    }

    fn check(json: &str, expect_field: Option<&str>) {
        let error = from_json::<Sample>(json.as_bytes()).err();
        assert_eq!(error.as_ref().and_then(ApiError::field), expect_field, "{json}: {error:?}");
        assert!(error.is_none_or(|error| error.code() == ErrorCode::InvalidRequest));
    }

    #[test]
    fn errors_name_the_field() {
        check(r#"{}"#, None);
        check(r#"{"path": "a", "_limits": null}"#, None);
        check(r#"{"_file_path": 5}"#, Some("_file_path"));
        check(r#"{"path": 5}"#, Some("path"));
        check(r#"{"_file_path": "a", "path": "b"}"#, Some("_file_path"));
        check(r#"{"_limits": {"_cpu": 1, "_cpu": 2}}"#, Some("_limits._cpu"));
        check(r#"{"_limits": [1]}"#, Some("_limits"));
        check(r#"{"_limits": {"_cpu": "x"}}"#, Some("_limits._cpu"));
        check(r#"{"_limits": {"gpu": 1}}"#, Some("_limits.gpu"));
        check(r#"{"_env": {"A": 1}}"#, Some("_env.A"));
        check(r#"{"unknown": 1}"#, Some("unknown"));
        for not_json in ["", "{", "[]", "[null, null, null]", "5", "null", "\"x\"", "{} {}", "{]", "\u{0}"] {
            check(not_json, Some("body"));
        }
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Whole {
        #[serde(rename = "size")]
        _size: u32,
        #[serde(rename = "inner")]
        _inner: Option<Object<Inner>>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[serde(rename = "name")]
        _name: String,
    }

    #[test]
    fn a_field_that_is_missing_is_named() {
        for (json, field) in [
            (r#"{}"#, "size"),
            (r#"{"inner": null}"#, "size"),
            (r#"{"size": null}"#, "size"),
            (r#"{"size": 1, "inner": {}}"#, "inner.name"),
            (r#"{"size": 1, "inner": []}"#, "inner"),
            (r#"[]"#, "body"),
        ] {
            let error = from_json::<Whole>(json.as_bytes()).err();
            assert_eq!(error.as_ref().and_then(ApiError::field), Some(field), "{json}: {error:?}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = format!("{}{}", r#"{"_limits":"#, "[".repeat(100_000));
        assert!(from_json::<serde_json::Value>(deep.as_bytes()).is_err());
    }
}
