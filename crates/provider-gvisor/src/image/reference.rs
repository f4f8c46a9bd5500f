//! The name of an image, checked before any of it reaches Docker: it becomes part of a path of
//! Docker's interface.

use std::fmt;
use std::str::FromStr;

/// The longest name; Docker's own limit.
const MAX_LENGTH: usize = 255;

/// `[registry/]name[:tag][@digest]`, or the hash of an image's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageReference {
    name: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// Text that names no image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of an image; expected [registry/]name[:tag][@sha256:digest]")]
pub(crate) struct NotAnImage(String);

impl ImageReference {
    /// What to pull: the name with its registry.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Which of them: a digest where there is one, else the tag.
    pub(crate) fn version(&self) -> &str {
        self.digest.as_deref().or(self.tag.as_deref()).unwrap_or("latest")
    }

    /// The registry it comes from, as Docker's configuration spells it.
    pub(crate) fn registry(&self) -> &str {
        match self.name.split_once('/') {
            Some((host, _)) if is_registry(host) => host,
            _ => "https://index.docker.io/v1/",
        }
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

impl FromStr for ImageReference {
    type Err = NotAnImage;

    fn from_str(text: &str) -> Result<Self, NotAnImage> {
        let refuse = || NotAnImage(text.chars().take(80).collect());
        if text.len() > MAX_LENGTH {
            return Err(refuse());
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) if is_digest(digest) => (rest, Some(digest.to_owned())),
            Some(_) => return Err(refuse()),
            None => (text, None),
        };
        // A colon behind the last slash begins the tag; one before it a registry's port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) || !is_name(name) {
            return Err(refuse());
        }
        Ok(Self { name: name.to_owned(), tag: tag.map(str::to_owned), digest })
    }
}

fn is_name(name: &str) -> bool {
    let (host, path) = match name.split_once('/') {
        Some((host, path)) if is_registry(host) => (Some(host), path),
        _ => (None, name),
    };
    host.is_none_or(is_host) && !path.is_empty() && path.split('/').all(is_component)
}

/// Docker's rule: what has a dot or a port, or is the host itself, is not part of a name.
fn is_registry(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost"
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host, None),
    };
    let label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.split('.').all(label)
        && port.is_none_or(|port| {
            !port.is_empty() && port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit())
        })
}

/// Lower case letters and digits, with separators between them.
fn is_component(component: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let edges = bytes.first().is_some_and(|b| plain(*b)) && bytes.last().is_some_and(|b| plain(*b));
    let inner = bytes.iter().all(|byte| plain(*byte) || b"._-".contains(byte));
    edges && inner && !component.contains("..") && !component.contains("___")
}

fn is_tag(tag: &str) -> bool {
    tag.len() <= 128
        && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && tag.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_digest(digest: &str) -> bool {
    digest.strip_prefix("sha256:").is_some_and(|hash| {
        hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images() {
        let digest = format!("sha256:{}", "0f".repeat(32));
        let check = |text: &str, name: &str, version: &str, registry: &str| {
            let reference: ImageReference = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(
                (reference.name(), reference.version(), reference.registry()),
                (name, version, registry)
            );
            assert_eq!(reference.to_string(), text);
        };
        let hub = "https://index.docker.io/v1/";
        check("debian", "debian", "latest", hub);
        check("debian:bookworm-slim", "debian", "bookworm-slim", hub);
        check("emergent/workspace:latest", "emergent/workspace", "latest", hub);
        check("localhost/a", "localhost/a", "latest", "localhost");
        check("ghcr.io/a/b_c/d--e:V1.2_x", "ghcr.io/a/b_c/d--e", "V1.2_x", "ghcr.io");
        check("127.0.0.1:5000/a:1", "127.0.0.1:5000/a", "1", "127.0.0.1:5000");
        check(&format!("a@{digest}"), "a", &digest, hub);
        check(&format!("r.example:443/a:t@{digest}"), "r.example:443/a", &digest, "r.example:443");
    }

    #[test]
    fn what_is_not_a_name() {
        let long = "a".repeat(300);
        for text in [
            "",
            " ",
            "a b",
            "A",
            "../containers/json",
            "a/../b",
            "a//b",
            "/a",
            "a/",
            "-a",
            "a:",
            "a:-",
            "a:t:u",
            "a?x=1",
            "a#b",
            "a%2fb",
            "a\nb",
            "a\0",
            "a@sha256:12",
            "a@md5:00",
            "http://a/b",
            "a:$(id)",
            "é",
            "a.b:99999999/c",
            "a.-b/c",
            "a___b",
            &long,
        ] {
            assert!(text.parse::<ImageReference>().is_err(), "{text:?} is taken for an image");
        }
    }

    proptest::proptest! {
        /// Whatever is taken cannot leave its place in a path or a query.
        #[test]
        fn what_is_taken_is_plain(text in ".{0,64}") {
            if let Ok(reference) = text.parse::<ImageReference>() {
                let shown = reference.to_string();
                proptest::prop_assert!(shown.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/:@".contains(&b)));
                proptest::prop_assert!(!shown.contains("..") && !shown.starts_with('/') && !shown.contains("//"));
            }
        }
    }
}
