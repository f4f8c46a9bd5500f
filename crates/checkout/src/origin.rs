//! A host that is spoken to: scheme, name and port.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The longest name of a host.
const MAX_HOST: usize = 253;

/// Scheme, name and port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    pub(crate) is_tls: bool,
    /// In small letters; an IPv6 address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// This does not name a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseOriginError {
    /// Neither https nor http.
    #[error("it must begin with https://")]
    Scheme,
    /// A user's name or a password.
    #[error("it must not hold a user's name or a password")]
    UserInfo,
    /// No host, or none that exists.
    #[error("its host makes no sense")]
    Host,
    /// A port that does not exist.
    #[error("its port makes no sense")]
    Port,
    /// There is more.
    #[error("it must be scheme://host or scheme://host:port, and nothing more")]
    More,
}

impl Origin {
    /// Reads `scheme://host:port` from the front of a text; the rest begins with a slash or is empty.
    pub(crate) fn split(text: &str) -> Result<(Self, &str), ParseOriginError> {
        let (scheme, rest) = text.split_once("://").ok_or(ParseOriginError::Scheme)?;
        let is_tls = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(ParseOriginError::Scheme),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(ParseOriginError::UserInfo);
        }
        let (host, port) = split_port(authority)?;
        let port = port.unwrap_or(if is_tls { 443 } else { 80 });
        Ok((Self { is_tls, host: checked_host(host)?, port }, path))
    }

    /// Whether it is spoken to over TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The host's name, or its address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host and, where it is not the scheme's own, the port: as in a `Host` header.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let own = if self.is_tls { 443 } else { 80 };
        if self.port == own { host } else { format!("{host}:{}", self.port) }
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), ParseOriginError> {
    let (host, port) = if authority.starts_with('[') {
        let end = authority.find(']').ok_or(ParseOriginError::Host)?;
        let (host, rest) = authority.split_at(end + 1);
        (host, rest.strip_prefix(':').or(if rest.is_empty() { None } else { Some("") }))
    } else {
        match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    let Some(port) = port else { return Ok((host, None)) };
    // One way to write a number: no signs, no zeros before it.
    let number: u16 = port.parse().map_err(|_| ParseOriginError::Port)?;
    if number == 0 || number.to_string() != port {
        return Err(ParseOriginError::Port);
    }
    Ok((host, Some(number)))
}

fn checked_host(host: &str) -> Result<String, ParseOriginError> {
    let host = host.to_ascii_lowercase();
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']').ok_or(ParseOriginError::Host)?;
        let address: Ipv6Addr = inner.parse().map_err(|_| ParseOriginError::Host)?;
        return Ok(address.to_string());
    }
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if host.len() > MAX_HOST || !host.split('.').all(is_label) {
        return Err(ParseOriginError::Host);
    }
    // What a resolver could take for an address must be one, written as one.
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    if is_number && host.parse::<Ipv4Addr>().is_err() {
        return Err(ParseOriginError::Host);
    }
    Ok(host)
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.authority())
    }
}

impl FromStr for Origin {
    type Err = ParseOriginError;

    fn from_str(text: &str) -> Result<Self, ParseOriginError> {
        let (origin, path) = Self::split(text.trim())?;
        if path.is_empty() || path == "/" { Ok(origin) } else { Err(ParseOriginError::More) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_in_one_way() {
        let check =
            |text: &str, expect: &str| assert_eq!(text.parse::<Origin>().unwrap().to_string(), expect);
        check("https://GitHub.com", "https://github.com");
        check("https://github.com:443/", "https://github.com");
        check("http://127.0.0.1:8080", "http://127.0.0.1:8080");
        check("HTTP://git.corp:80", "http://git.corp");
        check("https://[2001:DB8::1]:8443", "https://[2001:db8::1]:8443");
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for odd in [
            "github.com",
            "ssh://git@github.com",
            "file:///etc",
            "https://",
            "https:///x",
            "https://a@b",
            "https://user:pass@github.com",
            "https://github.com:0",
            "https://github.com:99999",
            "https://github.com:+443",
            "https://github.com:0443",
            "https://github.com:",
            "https://-x.com",
            "https://a..b",
            "https://a.",
            "https://.a",
            "https://a b",
            "https://a%2eb",
            "https://2130706433",
            "https://127.1",
            "https://0x7f.0.0.1",
            "https://0x7f000001",
            "https://0177.0.0.1",
            "https://[::1",
            "https://[::1]x",
            "https://[x]",
            "https://ä.de",
            "https://a\\b",
            "https://a/b",
            "https://a?b",
            "ext::sh -c x",
            "https://a#b",
        ] {
            assert!(odd.parse::<Origin>().is_err(), "{odd}");
        }
    }
}
