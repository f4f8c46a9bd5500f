//! Between the eras: what is added to a message so that the other era understands it. What the
//! sender wrote stays as it is.

use crate::era::{CAPABILITIES_KEY, CLIENT_KEY, Era, LEVEL_KEY, MODERN, VERSION_KEY};
use crate::json::{
    Entry, Kind, Malformed, Message, Outcome, RawJson, Splice, pick, quoted, set_meta, span_of,
};
use crate::options::Mode;
use crate::session::{Session, lock};

/// How the bridge introduces itself.
pub(crate) const OWN_INFO: &str =
    concat!(r#"{"name":"emergent","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// Methods whose results say in the newer era how long they may be kept.
const CACHEABLE: [&str; 5] =
    ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"];

/// Methods that the newer era does not have.
pub(crate) const ABOLISHED: [&str; 5] =
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// The object `_meta` of a request of the bridge's own in the newer era.
pub(crate) fn modern_meta(mode: &Mode) -> String {
    let (capabilities, info) = match mode {
        Mode::Shared => ("{}", OWN_INFO),
        Mode::Dedicated(client) => (client.capabilities.as_str(), client.info.as_str()),
    };
    format!(r#"{{"{VERSION_KEY}":"{MODERN}","{CAPABILITIES_KEY}":{capabilities},"{CLIENT_KEY}":{info}}}"#)
}

/// A request of the older era for a server of the newer one: it says each time who asks.
pub(crate) fn for_modern_server(message: &Message, session: Option<&Session>) -> Result<Message, Malformed> {
    let introduction = session.and_then(Session::introduction);
    let (capabilities, info) = match introduction {
        Some(introduction) => (introduction.capabilities, introduction.info),
        None => ("{}".to_owned(), OWN_INFO.to_owned()),
    };
    let entry = |key, value| Entry { key, value, overwrite: false };
    let mut entries = vec![
        entry(VERSION_KEY, quoted(MODERN)),
        entry(CAPABILITIES_KEY, capabilities),
        entry(CLIENT_KEY, info),
    ];
    if let Some(level) = session.and_then(|session| lock(&session.level).clone()) {
        entries.push(entry(LEVEL_KEY, quoted(&level)));
    }
    let mut splice = Splice::new(message.text.as_str());
    set_meta(&mut splice, message, &entries)?;
    Message::read(splice.finish())
}

/// An answer of a legacy server for a client of the newer era: complete, and not to be kept.
pub(crate) fn for_modern_client(answer: RawJson, method: &str) -> RawJson {
    let Ok(message) = Message::read(answer.clone()) else { return answer };
    let result = match &message.kind {
        Kind::Response { outcome: Outcome::Result(result), .. } => message.at(result),
        Kind::Response { outcome: Outcome::Error(error), .. } if method == "resources/read" => {
            return not_found(&message, message.at(error)).unwrap_or(answer);
        }
        _ => return answer,
    };
    let Ok([kind, ttl, scope]) = pick(result, ["resultType", "ttlMs", "cacheScope"]) else { return answer };
    let mut members = Vec::new();
    if kind.is_none() {
        members.push(r#""resultType":"complete""#);
    }
    if CACHEABLE.contains(&method) {
        if ttl.is_none() {
            members.push(r#""ttlMs":0"#);
        }
        if scope.is_none() {
            members.push(r#""cacheScope":"private""#);
        }
    }
    if members.is_empty() {
        return answer;
    }
    let comma = if result[1..].trim_start().starts_with('}') { "" } else { "," };
    let whole = message.text.as_str();
    let mut splice = Splice::new(whole);
    splice.insert(span_of(whole, result).start + 1, format!("{}{comma}", members.join(",")));
    splice.finish()
}

/// A resource that is not there has another code in the newer era.
fn not_found(message: &Message, error: &str) -> Option<RawJson> {
    let [code] = pick(error, ["code"]).ok()?;
    let code = code.filter(|code| *code == "-32002")?;
    Some(message.with([(span_of(message.text.as_str(), code), "-32602".to_owned())]))
}

/// Whether a notification of a client means anything to the server. Whatever is no notification by its name is
/// not one because it has no id: a server might do it all the same.
pub(crate) fn is_for_server(method: &str, era: Era, mode: &Mode) -> bool {
    match (method, era, mode) {
        // The handshake is the bridge's, and cancelling has its own way.
        ("notifications/initialized" | "notifications/cancelled", _, _) => false,
        (_, Era::Modern, _) => false,
        // Answers to questions that a shared server does not get to ask.
        ("notifications/roots/list_changed" | "notifications/progress", _, Mode::Shared) => false,
        (method, _, _) => method.starts_with("notifications/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_completed_at_their_front() {
        let check = |method: &str, result: &str, expect: &str| {
            let wrap = |result: &str| format!(r#"{{"id":1,"result":{result}}}"#);
            let done = for_modern_client(RawJson::known(wrap(result)), method);
            assert_eq!(done.as_str(), wrap(expect));
        };
        check("tools/call", r#"{ "x":1}"#, r#"{"resultType":"complete", "x":1}"#);
        check("tools/call", "{}", r#"{"resultType":"complete"}"#);
        check("tools/list", "{}", r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#);
        check("tools/call", r#"{"resultType":"input_required"}"#, r#"{"resultType":"input_required"}"#);
        check("tools/call", "null", "null");
        let absent = |code: &str| format!(r#"{{"id":1,"error":{{"message":"-32002","code":{code} }}}}"#);
        let read = for_modern_client(RawJson::known(absent("-32002")), "resources/read");
        assert_eq!(read.as_str(), absent("-32602"));
        let called = for_modern_client(RawJson::known(absent("-32002")), "tools/call");
        assert_eq!(called.as_str(), absent("-32002"));
    }
}
