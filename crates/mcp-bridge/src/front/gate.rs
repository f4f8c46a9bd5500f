//! What is looked at before anything of a body.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName};

use super::error::Refusal;
use super::options::FrontOptions;

pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Where a request comes from and whom it is meant for. A page of somebody else's that a browser
/// shows names itself in `Origin`, and a name that was bent to this address is in `Host`.
pub(super) fn source(headers: &HeaderMap, options: &FrontOptions) -> Result<(), Refusal> {
    if let (Some(hosts), Some(host)) = (&options.hosts, headers.get(HOST)) {
        let host = host.to_str().unwrap_or_default();
        // An address of the newer kind has colons of its own, in brackets.
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        if !hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(name)) {
            return Err(Refusal::forbidden("host"));
        }
    }
    if let (Some(origins), Some(origin)) = (&options.origins, headers.get(ORIGIN)) {
        let origin = origin.to_str().unwrap_or_default();
        if !origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)) {
            return Err(Refusal::forbidden("origin"));
        }
    }
    Ok(())
}

/// What every POST must be.
pub(super) fn post(headers: &HeaderMap, body: &Bytes, options: &FrontOptions) -> Result<(), Refusal> {
    if !accepts(headers, "application", "json") || !accepts(headers, "text", "event-stream") {
        return Err(Refusal::not_acceptable("application/json and text/event-stream"));
    }
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !essence(media).eq_ignore_ascii_case("application/json") {
        return Err(Refusal::media_type());
    }
    if body.len() > options.max_body_bytes {
        return Err(Refusal::too_large(options.max_body_bytes));
    }
    Ok(())
}

/// What every GET must be.
pub(super) fn get(headers: &HeaderMap) -> Result<(), Refusal> {
    if accepts(headers, "text", "event-stream") {
        return Ok(());
    }
    Err(Refusal::not_acceptable("text/event-stream"))
}

/// The protocol version that the headers name.
pub(super) fn version(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let Some(value) = headers.get(VERSION) else { return Ok(None) };
    match value.to_str() {
        Ok(version) => Ok(Some(version.trim())),
        Err(_) => Err(Refusal::header("the header MCP-Protocol-Version is not readable")),
    }
}

/// Whether a client takes this type of media. One that says nothing takes nothing: the protocol
/// wants it to say so.
fn accepts(headers: &HeaderMap, kind: &str, name: &str) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let (range_kind, range_name) = essence(range).split_once('/').unwrap_or_default();
        let fits = |range: &str, wanted: &str| range == "*" || range.eq_ignore_ascii_case(wanted);
        fits(range_kind, kind) && fits(range_name, name)
    })
}

/// A media type without its parameters.
fn essence(media: &str) -> &str {
    media.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn ranges_of_media() {
        let check = |accept: &'static str, json, events| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(accepts(&headers, "application", "json"), json, "{accept}");
            assert_eq!(accepts(&headers, "text", "event-stream"), events, "{accept}");
        };
        check("application/json, text/event-stream", true, true);
        check("Application/JSON;q=0.9,text/*", true, true);
        check("*/*", true, true);
        check("application/json", true, false);
        check("text/html", false, false);
        check("", false, false);
    }

    #[test]
    fn hosts_and_origins() {
        let options = FrontOptions {
            hosts: Some(vec!["localhost".into(), "[::1]".into()]),
            origins: Some(vec!["http://localhost:3000".into()]),
            ..FrontOptions::default()
        };
        let check = |name: HeaderName, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            source(&headers, &options).is_ok()
        };
        assert!(check(HOST, "LocalHost:8080") && check(HOST, "[::1]:1") && check(HOST, "[::1]"));
        assert!(!check(HOST, "evil.example") && !check(HOST, "localhost.evil.example:80"));
        assert!(check(ORIGIN, "http://localhost:3000") && !check(ORIGIN, "http://evil.example"));
    }
}
