//! The handshake with a server, once per process.
//!
//! ```text
//!   server/discover ──result──────────────────────────────► modern
//!        │ error, or nothing in time      ▲ a late result
//!        ▼                                │
//!   initialize ──────────────────result───┴──► initialized ► legacy
//! ```
//!
//! A server that starts slowly answers the discovery after it was given up. Servers of both eras
//! take the first message they read for the era, so the late answer still decides.

use tokio::time::{Instant, timeout_at};

use crate::era::{Era, LEGACY, MODERN, MODERN_CODES, NEWEST_LEGACY, Server, UNSUPPORTED_VERSION};
use crate::error::{EndReason, HandshakeError};
use crate::hub::after;
use crate::json::{IdKey, Kind, Message, Outcome, RawJson, pick, quoted};
use crate::link::{Heard, Link};
use crate::options::{EraChoice, Mode, Options};
use crate::translate::{OWN_INFO, modern_meta};

/// What is still awaited.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// The answer to the discovery with this id.
    Probing(u64),
    /// The answer to `initialize`; beside it perhaps a late one to a discovery that was given up.
    Initializing { id: u64, probe: Option<u64> },
}

/// Makes the server's acquaintance. `ids` is where the ids of the process come from.
pub(crate) async fn shake(
    link: &mut Link,
    options: &Options,
    mut ids: impl FnMut() -> u64,
) -> Result<Server, EndReason> {
    let start = Instant::now();
    let give_up = after(start, options.handshake_timeout);
    let mut stage = match options.era {
        EraChoice::Probe => {
            let id = ids();
            link.say(request(id, "server/discover", &format!(r#""_meta":{}"#, modern_meta(&options.mode))));
            Stage::Probing(id)
        }
        EraChoice::Legacy => initialize(link, options, ids(), None),
    };
    let mut pongs = 0;
    // What `initialize` was refused with while the discovery was still open.
    let mut refused = None;
    loop {
        let until = match stage {
            Stage::Probing(_) => give_up.min(after(start, options.probe_timeout)),
            Stage::Initializing { .. } => give_up,
        };
        let heard = match (timeout_at(until, link.next()).await, stage) {
            (Ok(heard), _) => heard,
            (Err(_), Stage::Probing(probe)) if until < give_up => {
                stage = initialize(link, options, ids(), Some(probe));
                continue;
            }
            (Err(_), _) => return Err(HandshakeError::TimedOut(options.handshake_timeout).into()),
        };
        let message = match heard {
            Heard::Message(message) => message,
            Heard::TooLong(_) => continue,
            Heard::End(reason) => return Err(reason),
        };
        let Kind::Response { id, outcome } = &message.kind else {
            // Some servers ping before they answer. A few answers are enough for any handshake.
            if pongs < 16
                && let Some(reply) = reply_locally(&message)
            {
                pongs += 1;
                link.say(reply);
            }
            continue;
        };
        let id = IdKey::of(message.at(id)).and_then(|key| key.as_own());
        match (stage, outcome) {
            (Stage::Probing(probe), _) if id != Some(probe) => {}
            (Stage::Probing(_), Outcome::Result(result)) => {
                match Server::read(Era::Modern, message.at(result)) {
                    Some(server) => return Ok(server),
                    // A result that is no discovery, or one without our version.
                    None => stage = initialize(link, options, ids(), None),
                }
            }
            (Stage::Probing(_), Outcome::Error(error)) => {
                refused_for_good(message.at(error))?;
                stage = initialize(link, options, ids(), None);
            }
            (Stage::Initializing { id: sent, .. }, Outcome::Result(result)) if id == Some(sent) => {
                let server = Server::read(Era::Legacy, message.at(result))
                    .ok_or(HandshakeError::Unusable("initialize"))?;
                if !LEGACY.contains(&server.version.as_str()) {
                    return Err(HandshakeError::NoCommonVersion(server.version).into());
                }
                link.say(RawJson::known(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into()));
                return Ok(server);
            }
            (Stage::Initializing { id: sent, probe }, Outcome::Error(error)) if id == Some(sent) => {
                let refusal = HandshakeError::Refused(message.at(error).to_owned());
                if probe.is_none() {
                    return Err(refusal.into());
                }
                refused = Some(refusal);
            }
            (Stage::Initializing { probe: Some(probe), id: sent }, outcome) if id == Some(probe) => {
                if let Outcome::Result(result) = outcome
                    && let Some(server) = Server::read(Era::Modern, message.at(result))
                {
                    return Ok(server);
                }
                if let Some(refusal) = refused {
                    return Err(refusal.into());
                }
                stage = Stage::Initializing { id: sent, probe: None };
            }
            (Stage::Initializing { .. }, _) => {}
        }
    }
}

fn initialize(link: &mut Link, options: &Options, id: u64, probe: Option<u64>) -> Stage {
    let (capabilities, info) = match &options.mode {
        // Declaring nothing is what keeps servers from asking what nobody could answer.
        Mode::Shared => ("{}", OWN_INFO),
        Mode::Dedicated(client) => (client.capabilities.as_str(), client.info.as_str()),
    };
    let params =
        format!(r#""protocolVersion":"{NEWEST_LEGACY}","capabilities":{capabilities},"clientInfo":{info}"#);
    link.say(request(id, "initialize", &params));
    Stage::Initializing { id, probe }
}

/// A request of the bridge's own, with these members as its params.
pub(crate) fn request(id: u64, method: &str, params: &str) -> RawJson {
    let method = quoted(method);
    RawJson::known(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{{{params}}}}}"#))
}

/// An error to the discovery means the older era, unless only the newer one has it.
fn refused_for_good(error: &str) -> Result<(), HandshakeError> {
    let [code, data] = pick(error, ["code", "data"]).unwrap_or_default();
    let code = code.and_then(|code| code.parse::<i64>().ok());
    if !code.is_some_and(|code| MODERN_CODES.contains(&code)) {
        return Ok(());
    }
    if code != Some(UNSUPPORTED_VERSION) {
        return Err(HandshakeError::Refused(error.to_owned()));
    }
    let supported = data.and_then(|data| pick(data, ["supported"]).ok()?[0]).unwrap_or("[]");
    let versions: Vec<String> = serde_json::from_str(supported).unwrap_or_default();
    if versions.iter().any(|version| LEGACY.contains(&version.as_str())) {
        return Ok(());
    }
    Err(HandshakeError::NoCommonVersion(if versions.is_empty() {
        format!("not {MODERN}")
    } else {
        versions.join(", ")
    }))
}

/// The reply to a request of the server's that no client is asked about: a ping is answered,
/// everything else is unknown. `None` if it is no request.
pub(crate) fn reply_locally(message: &Message) -> Option<RawJson> {
    let Kind::Request { id, method, .. } = &message.kind else { return None };
    let id = message.at(id);
    Some(if method == "ping" { local_result(id, "{}") } else { local_error(id, -32601, "Method not found") })
}

/// An answer with a result.
pub(crate) fn local_result(id: &str, result: &str) -> RawJson {
    RawJson::known(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

/// An answer with an error.
pub(crate) fn local_error(id: &str, code: i64, text: &str) -> RawJson {
    let text = quoted(text);
    RawJson::known(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{text}}}}}"#))
}
