//! The two eras of the protocol, and what is known of a server after the handshake.

use crate::json::{Malformed, Message, RawJson, Splice, pick, quoted, span_of, text_of};

/// The version without a handshake.
pub(crate) const MODERN: &str = "2026-07-28";
/// The versions with `initialize`, oldest first.
pub(crate) const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The one that is asked for, and offered to who asks for something unknown.
pub(crate) const NEWEST_LEGACY: &str = LEGACY[3];
/// The only one in which a client may send batches.
pub(crate) const BATCHING: &str = LEGACY[1];

pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
/// Codes that only servers of the newer era give.
pub(crate) const MODERN_CODES: [i64; 3] = [-32020, -32021, UNSUPPORTED_VERSION];

pub(crate) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
pub(crate) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// Before or after the handshake was abolished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2024-11-05 to 2025-11-25: `initialize`, then a session.
    Legacy,
    /// 2026-07-28: each request stands alone.
    Modern,
}

/// What a server said of itself in the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The era it is spoken to in.
    pub era: Era,
    /// The version that was agreed on.
    pub version: String,
    /// The result of its `initialize` or `server/discover`, as sent.
    pub result: RawJson,
    pub(crate) offers: Offers,
}

/// What a server can tell about on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Offers {
    pub(crate) tools_changed: bool,
    pub(crate) prompts_changed: bool,
    pub(crate) resources_changed: bool,
    pub(crate) subscribe: bool,
}

impl Server {
    /// Reads the result of a handshake; `None` if it is none.
    pub(crate) fn read(era: Era, result: &str) -> Option<Self> {
        let [version, versions, capabilities] =
            pick(result, ["protocolVersion", "supportedVersions", "capabilities"]).ok()?;
        let version = match era {
            Era::Legacy => text_of(version?)?,
            Era::Modern => {
                let versions: Vec<String> = serde_json::from_str(versions?).ok()?;
                versions.into_iter().find(|version| version == MODERN)?
            }
        };
        let offers = Offers::read(capabilities.unwrap_or("{}"));
        Some(Self { era, version, result: RawJson::known(result.to_owned()), offers })
    }

    /// The result that answers a client's `initialize`.
    pub(crate) fn initialize_result(&self, version: &str) -> Result<String, Malformed> {
        let own = self.result.as_str();
        let [agreed, capabilities, info, instructions, meta] =
            pick(own, ["protocolVersion", "capabilities", "serverInfo", "instructions", "_meta"])?;
        if let (Era::Legacy, Some(agreed)) = (self.era, agreed) {
            let mut splice = Splice::new(own);
            splice.replace(span_of(own, agreed), quoted(version));
            return Ok(splice.finish().as_str().to_owned());
        }
        let info = match info {
            Some(info) => Some(info),
            None => meta.and_then(|meta| pick(meta, [SERVER_KEY]).ok()?[0]),
        };
        Ok(format!(
            r#"{{"protocolVersion":{},"capabilities":{},"serverInfo":{}{}}}"#,
            quoted(version),
            capabilities.unwrap_or("{}"),
            info.unwrap_or(r#"{"name":"unnamed","version":"0"}"#),
            member("instructions", instructions),
        ))
    }

    /// The result that answers a client's `server/discover`.
    pub(crate) fn discover_result(&self) -> Result<String, Malformed> {
        let own = self.result.as_str();
        if self.era == Era::Modern {
            return Ok(own.to_owned());
        }
        let [capabilities, info, instructions] = pick(own, ["capabilities", "serverInfo", "instructions"])?;
        Ok(format!(
            r#"{{"resultType":"complete","supportedVersions":["{MODERN}"],"capabilities":{}{}{},"ttlMs":0,"cacheScope":"private"{}}}"#,
            capabilities.unwrap_or("{}"),
            member("serverInfo", info),
            member("instructions", instructions),
            info.map(|info| format!(r#","_meta":{{"{SERVER_KEY}":{info}}}"#)).unwrap_or_default(),
        ))
    }
}

impl Offers {
    fn read(capabilities: &str) -> Self {
        let [tools, prompts, resources] =
            pick(capabilities, ["tools", "prompts", "resources"]).unwrap_or_default();
        let says = |object: Option<&str>, name: &str| {
            object.and_then(|object| pick(object, [name]).ok()?[0]).is_some_and(|value| value == "true")
        };
        Self {
            tools_changed: says(tools, "listChanged"),
            prompts_changed: says(prompts, "listChanged"),
            resources_changed: says(resources, "listChanged"),
            subscribe: says(resources, "subscribe"),
        }
    }
}

fn member(name: &str, value: Option<&str>) -> String {
    value.map(|value| format!(r#","{name}":{value}"#)).unwrap_or_default()
}

/// The version a legacy client is served in: its own if it is one of ours.
pub(crate) fn negotiate(asked: &str) -> &'static str {
    LEGACY.into_iter().find(|version| *version == asked).unwrap_or(NEWEST_LEGACY)
}

/// The version that a request of the newer era names; `None` for a request of the older one.
pub(crate) fn named_version(message: &Message) -> Result<Option<String>, Malformed> {
    let span = crate::json::meta_member(message, VERSION_KEY)?;
    Ok(span.and_then(|span| text_of(message.at(&span))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_echoed_or_the_newest_is_offered() {
        for version in LEGACY {
            assert_eq!(negotiate(version), version);
        }
        for unknown in ["2030-01-01", MODERN, ""] {
            assert_eq!(negotiate(unknown), NEWEST_LEGACY);
        }
    }

    #[test]
    fn only_the_version_of_a_stored_result_changes() {
        let sent = r#"{ "protocolVersion" : "2025-11-25","capabilities":{"x":1,"x":2},"serverInfo":{"name":"s"}, "more":1e3}"#;
        let server = Server::read(Era::Legacy, sent).unwrap();
        assert_eq!(server.initialize_result("2024-11-05").unwrap(), sent.replace("2025-11-25", "2024-11-05"));
        let discovered = server.discover_result().unwrap();
        assert!(RawJson::parse(discovered.as_str()).is_ok());
        assert!(discovered.contains(r#""capabilities":{"x":1,"x":2}"#), "{discovered}");
    }
}
