//! Headers that repeat arguments of a tool: `Mcp-Param-…` for what its schema marks with
//! `x-mcp-header`. Who routes by such a header relies on the body saying the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::HeaderMap;
use serde_json::Value;
use tokio::time::Instant;

use super::Inner;
use super::connector::Principal;
use super::error::Refusal;
use super::marked::{Marked, marked_by};
use super::modern::decoded;
use super::peer::Source;
use crate::handshake::request;
use crate::json::{IdKey, Message, RawJson, quoted, text_of};
use crate::session::lock;

/// How long a list of tools is relied on if nothing contradicts it.
const FRESH: Duration = Duration::from_secs(300);
/// How soon it is asked for again if something does.
const RECENT: Duration = Duration::from_secs(1);
/// How long a call waits for it.
const PATIENCE: Duration = Duration::from_secs(5);
const MOST_PAGES: usize = 64;
const MOST_LISTS: usize = 256;

/// What is known of the tools of a server; of several as one, by who asks.
#[derive(Debug, Default)]
pub(super) struct Schemas(Mutex<HashMap<Option<Principal>, Known>>);

#[derive(Debug, Clone)]
struct Known {
    at: Instant,
    tools: Arc<HashMap<String, Vec<Marked>>>,
}

/// Checks the headers of a call against its arguments.
pub(super) async fn check(
    inner: &Inner,
    principal: &Principal,
    message: &Message,
    headers: &HeaderMap,
) -> Result<(), Refusal> {
    let Some(tool) = message.param("name").and_then(text_of) else { return Ok(()) };
    let arguments: Value =
        message.param("arguments").and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default();
    let compare = |known: &Known| match known.tools.get(&tool) {
        Some(marked) => compare(marked, &arguments, headers),
        None => Ok(()),
    };
    let key = matches!(inner.source, Source::Many(_)).then(|| principal.clone());
    let known = lock(&inner.schemas.0).get(&key).filter(|known| known.at.elapsed() < FRESH).cloned();
    if let Some(known) = known {
        let seen = compare(&known);
        let settled = seen.is_ok() && known.tools.contains_key(&tool);
        if settled || known.at.elapsed() < RECENT {
            return seen;
        }
    }
    // A server that does not say in time what it offers is not the caller's fault.
    let Some(tools) = list(inner, principal).await else { return Ok(()) };
    let known = Known { at: Instant::now(), tools: Arc::new(tools) };
    let result = compare(&known);
    let mut all = lock(&inner.schemas.0);
    if all.len() >= MOST_LISTS {
        all.clear();
    }
    all.insert(key, known);
    result
}

async fn list(inner: &Inner, principal: &Principal) -> Option<HashMap<String, Vec<Marked>>> {
    let peer = Source::request(inner, principal).await.ok()?;
    let (mut tools, mut cursor) = (HashMap::new(), None);
    for _ in 0..MOST_PAGES {
        let params = cursor.map(|cursor: String| format!(r#""cursor":{}"#, quoted(&cursor)));
        let page = request(1, "tools/list", &params.unwrap_or_default());
        let asked = async { peer.begin(page, Some(PATIENCE), |_| ()).await?.answer.await };
        let answer: RawJson = asked.await.ok()?;
        let answer: Value = serde_json::from_str(answer.as_str()).ok()?;
        for tool in answer["result"]["tools"].as_array()? {
            if let Some(name) = tool["name"].as_str() {
                tools.insert(name.to_owned(), marked_by(&tool["inputSchema"]));
            }
        }
        cursor = answer["result"]["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    Some(tools)
}

fn compare(marked: &[Marked], arguments: &Value, headers: &HeaderMap) -> Result<(), Refusal> {
    for Marked { path, header } in marked {
        let argument = path.iter().try_fold(arguments, |value, name| value.get(name));
        let says = decoded(headers, header.as_str())?;
        let same = match (argument.filter(|argument| !argument.is_null()), &says) {
            (None, None) => true,
            (Some(Value::String(text)), Some(says)) => text == says,
            (Some(Value::Bool(truth)), Some(says)) => truth.to_string() == *says,
            // `42.0` is 42.
            (Some(Value::Number(number)), Some(says)) => {
                let says = IdKey::of(says).filter(|says| !matches!(says, IdKey::Text(_)));
                says.is_some() && says == IdKey::of(&number.to_string())
            }
            _ => false,
        };
        if !same {
            let path = path.join(".");
            return Err(Refusal::header(match says {
                Some(_) => format!("the header {header} does not say what the argument {path:?} says"),
                None => format!("the header {header} of the argument {path:?} is missing"),
            }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_and_headers_say_the_same() {
        let schema = json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "list": {"type": "array", "items": {"properties": {"x": {"x-mcp-header": "X"}}}},
        }});
        let marked = marked_by(&schema);
        assert_eq!(marked.len(), 2);
        let check = |arguments: Value, headers: &[(&'static str, &'static str)]| {
            let headers = headers.iter();
            let headers: HeaderMap = headers
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            compare(&marked, &arguments, &headers).is_ok()
        };
        assert!(check(json!({}), &[]));
        assert!(check(json!({"region": null}), &[]));
        assert!(check(json!({"region": "us"}), &[("mcp-param-region", "us")]));
        assert!(check(json!({"region": "us"}), &[("mcp-param-region", "=?base64?dXM=?=")]));
        assert!(check(json!({"deep": {"n": 42}}), &[("mcp-param-n", "42.0")]));
        assert!(!check(json!({"region": "us"}), &[]));
        assert!(!check(json!({"region": "us"}), &[("mcp-param-region", "eu")]));
        assert!(!check(json!({}), &[("mcp-param-region", "us")]));
        assert!(!check(json!({"deep": {"n": 42}}), &[("mcp-param-n", "x")]));
        assert!(!check(json!({"region": "us"}), &[("mcp-param-region", "=?base64?%%?=")]));
    }
}
