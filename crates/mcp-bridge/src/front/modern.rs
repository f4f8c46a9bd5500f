//! The newer era: requests that stand alone, and headers that say what the body says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use http::{HeaderMap, Response, StatusCode};

use super::Inner;
use super::body::FrontBody;
use super::connector::Principal;
use super::error::Refusal;
use super::exchange::Exchange;
use super::observe::Watched;
use super::peer::Source;
use super::{gate, params, reply};
use crate::era::{CAPABILITIES_KEY, MODERN, named_version};
use crate::json::{Kind, Malformed, Message, RawJson, meta_member, text_of};
use crate::session::lock;

/// Takes one message.
pub(super) async fn post(
    inner: &Arc<Inner>,
    principal: Principal,
    headers: &HeaderMap,
    text: RawJson,
) -> Result<Response<FrontBody>, Refusal> {
    let about = |refusal: Refusal| refusal.about(&text);
    let message =
        Message::read_strictly(text.clone()).map_err(|malformed| about(Refusal::malformed(malformed)))?;
    let method = match &message.kind {
        Kind::Request { method, .. } => method.clone(),
        // There is none that means anything here: a closed stream cancels.
        Kind::Notification { .. } => return Ok(reply::empty(StatusCode::ACCEPTED)),
        Kind::Response { .. } => {
            let malformed = Malformed::Shape("a client of this version sends no responses");
            return Err(about(Refusal::malformed(malformed)));
        }
    };
    check(&message, &method, headers).map_err(about)?;
    let place = inner.open.enter(&principal, inner.options.max_open);
    let place = place.ok_or_else(|| about(Refusal::too_many("open requests")))?;
    if method == "tools/call" {
        params::check(inner, &principal, &message, headers).await.map_err(about)?;
    }
    let peer = Source::request(inner, &principal).await.map_err(about)?;
    let watched = Watched::new(inner.options.observer.as_ref(), &principal, &message, headers);
    let exchange = Exchange::new(inner, watched, peer, message, place);
    if method == "subscriptions/listen" {
        return Ok(exchange.stream(&inner.options));
    }
    Ok(exchange.response(&inner.options).await)
}

/// Checks what a request says about itself, in its body and in its headers.
fn check(message: &Message, method: &str, headers: &HeaderMap) -> Result<(), Refusal> {
    let named = named_version(message).map_err(Refusal::malformed)?;
    let named = named.ok_or_else(|| Refusal::params("_meta names no protocol version"))?;
    match gate::version(headers)? {
        None => return Err(Refusal::header("the header MCP-Protocol-Version is missing")),
        Some(version) if version != named => {
            return Err(Refusal::header(format!(
                "the header MCP-Protocol-Version says {version:?} and the body {named:?}"
            )));
        }
        Some(_) => {}
    }
    if named != MODERN {
        return Err(Refusal::version(&named));
    }
    let capabilities = meta_member(message, CAPABILITIES_KEY).map_err(Refusal::malformed)?;
    if !capabilities.is_some_and(|capabilities| message.at(&capabilities).starts_with('{')) {
        return Err(Refusal::params("_meta names no client capabilities"));
    }
    let says = plain(headers, "mcp-method")?;
    let says = says.ok_or_else(|| Refusal::header("the header Mcp-Method is missing"))?;
    if says != method {
        return Err(Refusal::header(format!("the header Mcp-Method says {says:?} and the body {method:?}")));
    }
    let named_by = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return Ok(()),
    };
    let name = message.param(named_by).and_then(text_of);
    match (decoded(headers, "mcp-name")?, name) {
        (Some(says), Some(name)) if says == name => Ok(()),
        (Some(says), name) => Err(Refusal::header(format!(
            "the header Mcp-Name says {says:?} and the body {:?}",
            name.unwrap_or_default()
        ))),
        (None, Some(_)) => Err(Refusal::header("the header Mcp-Name is missing")),
        // A name that cannot be read here might be read by the server.
        (None, None) => Err(Refusal::params(format!("params.{named_by} is not a string"))),
    }
}

/// A header as it is.
fn plain<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let unreadable = || Refusal::header(format!("the header {name} is not readable"));
    if values.next().is_some() {
        return Err(Refusal::header(format!("the header {name} is there twice")));
    }
    value.to_str().map(|value| Some(value.trim())).map_err(|_| unreadable())
}

/// A header whose value may be written in Base64, because not every text fits in a header.
pub(super) fn decoded(headers: &HeaderMap, name: &str) -> Result<Option<String>, Refusal> {
    let Some(value) = plain(headers, name)? else { return Ok(None) };
    let Some(encoded) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Ok(Some(value.to_owned()));
    };
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).ok();
    match bytes.and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(text) => Ok(Some(text)),
        None => Err(Refusal::header(format!("the header {name} is not Base64 of a text"))),
    }
}

/// How many requests each principal has open.
#[derive(Debug, Clone, Default)]
pub(super) struct Open(Arc<Mutex<HashMap<Principal, usize>>>);

/// The place of an open request.
pub(super) struct Place {
    open: Open,
    principal: Principal,
}

impl Open {
    fn enter(&self, principal: &Principal, most: usize) -> Option<Place> {
        let mut all = lock(&self.0);
        let open = all.entry(principal.clone()).or_default();
        if *open >= most {
            return None;
        }
        *open += 1;
        Some(Place { open: self.clone(), principal: principal.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = lock(&self.open.0);
        if let Some(open) = all.get_mut(&self.principal) {
            *open -= 1;
            if *open == 0 {
                all.remove(&self.principal);
            }
        }
    }
}
