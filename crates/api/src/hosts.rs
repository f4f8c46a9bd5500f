//! Whom a request may be addressed to, and from which web page it may come.
//!
//! A web page can make a browser send requests to any address, and can give its own name any
//! address (DNS rebinding). Both are seen here: the `Host` of such a request is the page's
//! name, and its `Origin` is the page.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::errors::{ApiError, ErrorCode};
use crate::state::ApiState;

/// What browsers say about where a request comes from.
const FETCH_SITE: header::HeaderName = header::HeaderName::from_static("sec-fetch-site");

/// Text that does not name a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a host: expected a name or an address, with a port where only that one is meant")]
pub struct ParseHostError {
    given: String,
}

/// A host by name or address, with or without a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AllowedHost {
    /// Lower case; an IPv6 address without its brackets.
    name: String,
    port: Option<u16>,
}

impl AllowedHost {
    /// Any port of this address.
    fn address(address: IpAddr) -> Self {
        Self { name: address.to_string(), port: None }
    }

    /// Whether a request to `asked` is one to this host. Where this names no port, all are
    /// meant: tunnels and port mappings change them.
    fn covers(&self, asked: &Self) -> bool {
        self.name == asked.name && (self.port.is_none() || self.port == asked.port)
    }
}

impl FromStr for AllowedHost {
    type Err = ParseHostError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseHostError { given: text.chars().take(64).collect() };
        let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, "")) => (address, None),
            Some((address, rest)) => (address, Some(rest.strip_prefix(':').ok_or_else(refused)?)),
            None => match text.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            },
        };
        let is_address = text.starts_with('[');
        let known =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte) || is_address && byte == b':';
        if name.is_empty() || !name.bytes().all(known) {
            return Err(refused());
        }
        let port = port.map(|port| port.parse().map_err(|_| refused())).transpose()?;
        // A name with the root's dot is the same name.
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let name = match name.parse::<IpAddr>() {
            Ok(address) => address.to_string(),
            Err(_) => name,
        };
        Ok(Self { name, port })
    }
}

/// Every host this server answers to.
#[derive(Debug)]
pub(crate) struct HostList {
    hosts: Vec<AllowedHost>,
}

impl HostList {
    /// The address it listens on, loopback, and what the administrator adds.
    pub(crate) fn new(listening: SocketAddr, mut hosts: Vec<AllowedHost>) -> Self {
        hosts.push(AllowedHost { name: "localhost".to_owned(), port: None });
        hosts.push(AllowedHost::address([127, 0, 0, 1].into()));
        hosts.push(AllowedHost::address(std::net::Ipv6Addr::LOCALHOST.into()));
        if !listening.ip().is_unspecified() {
            hosts.push(AllowedHost::address(listening.ip()));
        }
        Self { hosts }
    }

    fn allows(&self, host: &str) -> bool {
        host.parse().is_ok_and(|asked| self.hosts.iter().any(|host| host.covers(&asked)))
    }

    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        let named = single(headers, header::HOST);
        let host = uri.authority().map(Authority::as_str).or(named);
        // A request that names two hosts is for this server only if both are.
        let allowed = |host: Option<&str>| host.is_some_and(|host| self.allows(host));
        let second = headers.contains_key(header::HOST).then_some(named);
        if !allowed(host) || !second.is_none_or(allowed) {
            return Err(ApiError::new(
                ErrorCode::ForbiddenHost,
                format!(
                    "this server does not answer to the host {:?}; EMERGENT_ALLOWED_HOSTS adds names",
                    shown(host.unwrap_or_default()),
                ),
            ));
        }
        if !headers.contains_key(header::ORIGIN) {
            return from_no_page_of_strangers(headers);
        }
        let origin = single(headers, header::ORIGIN).unwrap_or_default();
        let page = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if !page.is_some_and(|page| self.allows(page)) {
            return Err(ApiError::new(
                ErrorCode::ForbiddenOrigin,
                format!("requests from web pages of {:?} are not allowed", shown(origin)),
            ));
        }
        Ok(())
    }
}

/// Where a page loads something or leads somewhere there is no `Origin`, but browsers say
/// whether the page is a stranger's.
fn from_no_page_of_strangers(headers: &HeaderMap) -> Result<(), ApiError> {
    if !headers.contains_key(FETCH_SITE) {
        return Ok(());
    }
    match single(headers, FETCH_SITE) {
        Some("same-origin" | "same-site" | "none") => Ok(()),
        _ => Err(ApiError::new(
            ErrorCode::ForbiddenOrigin,
            "requests from web pages of other sites are not allowed",
        )),
    }
}

/// A header that is there exactly once and is text.
fn single(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok() }
}

fn shown(text: &str) -> String {
    text.chars().take(128).collect()
}

/// Lets pass only what is addressed to this server, and not by a stranger's web page.
pub(crate) async fn require_known_host(
    State(state): State<ApiState>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    state.hosts().check(request.uri(), request.headers())?;
    Ok(next.run(request).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> HostList {
        HostList::new(
            "10.1.2.3:8585".parse().unwrap(),
            vec!["Emergent.Example".parse().unwrap(), "tunnel.example:8443".parse().unwrap()],
        )
    }

    fn check(host: &str, origin: Option<&str>, expect: Option<ErrorCode>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        let found = list().check(&Uri::from_static("/x"), &headers).err().map(|error| error.code());
        assert_eq!(found, expect, "host {host:?}, origin {origin:?}");
    }

    #[test]
    fn hosts() {
        for host in [
            "localhost",
            "LOCALHOST:1",
            "localhost.",
            "127.0.0.1:8585",
            "[::1]",
            "[::1]:8585",
            "[0:0:0:0:0:0:0:1]:8585",
            "10.1.2.3",
            "emergent.example",
            "EMERGENT.example.:80",
            "tunnel.example:8443",
        ] {
            check(host, None, None);
        }
        for host in [
            "",
            "evil.example",
            "tunnel.example",
            "tunnel.example:443",
            "localhost.evil.example",
            "evil.example:localhost",
            "10.1.2.4",
            "user@localhost",
            "localhost:",
            "localhost:99999",
            "[::1",
            "::1",
            "[::1]8585",
        ] {
            check(host, None, Some(ErrorCode::ForbiddenHost));
        }
    }

    #[test]
    fn origins() {
        check("localhost", Some("http://localhost:8585"), None);
        check("localhost", Some("https://emergent.example"), None);
        for origin in
            ["null", "", "http://evil.example", "file://", "http://localhost.evil.example", "localhost"]
        {
            check("localhost", Some(origin), Some(ErrorCode::ForbiddenOrigin));
        }
    }

    #[test]
    fn pages_that_send_no_origin() {
        let check = |values: &[&str], expect: Option<ErrorCode>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "localhost".parse().unwrap());
            for value in values {
                headers.append(FETCH_SITE, value.parse().unwrap());
            }
            let found = list().check(&Uri::from_static("/x"), &headers).err().map(|error| error.code());
            assert_eq!(found, expect, "{values:?}");
        };
        check(&[], None);
        check(&["none"], None);
        check(&["same-origin"], None);
        check(&["cross-site"], Some(ErrorCode::ForbiddenOrigin));
        check(&["none", "none"], Some(ErrorCode::ForbiddenOrigin));
        check(&["whatever"], Some(ErrorCode::ForbiddenOrigin));
    }

    #[test]
    fn a_request_without_a_host_or_with_two_is_refused() {
        let mut headers = HeaderMap::new();
        assert!(list().check(&Uri::from_static("/x"), &headers).is_err());
        headers.append(header::HOST, "localhost".parse().unwrap());
        headers.append(header::HOST, "localhost".parse().unwrap());
        assert!(list().check(&Uri::from_static("/x"), &headers).is_err());
    }
}
