//! Addresses of repositories.

use std::fmt;
use std::str::FromStr;

use crate::origin::{Origin, ParseOriginError};

/// The longest address.
const MAX_LENGTH: usize = 1024;

/// The most parts of a path: groups within groups.
const MAX_PARTS: usize = 20;

/// The address of a repository. It was taken apart once, strictly, and is only ever put together again from its
/// parts: nobody else gets to read something different into it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RepositoryUrl {
    origin: Origin,
    /// Without the slash before it.
    path: String,
}

/// This is no address of a repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseUrlError {
    /// Its host makes no sense.
    #[error(transparent)]
    Origin(#[from] ParseOriginError),
    /// Its path is missing, or has something in it that no repository's has.
    #[error("its path makes no sense: letters, digits, '.', '_', '-', '+' and '~' between slashes")]
    Path,
    /// It is too long.
    #[error("it is longer than {MAX_LENGTH} characters")]
    TooLong,
}

impl RepositoryUrl {
    /// The host.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The path on the host, without the slash before it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Where the broker has it.
    pub(crate) fn broker_path(&self) -> String {
        format!("{}/{}/{}", self.origin.scheme(), self.origin.authority(), self.path)
    }

    /// Whose it is and what it is called, where the path says just that.
    pub fn owner_and_name(&self) -> Option<(&str, &str)> {
        let (owner, name) = self.path.split_once('/')?;
        let name = name.strip_suffix(".git").unwrap_or(name);
        (!name.is_empty() && !name.contains('/')).then_some((owner, name))
    }
}

impl FromStr for RepositoryUrl {
    type Err = ParseUrlError;

    fn from_str(text: &str) -> Result<Self, ParseUrlError> {
        if text.len() > MAX_LENGTH {
            return Err(ParseUrlError::TooLong);
        }
        let (origin, path) = Origin::split(text)?;
        let path = path.strip_prefix('/').ok_or(ParseUrlError::Path)?;
        let path = path.strip_suffix('/').unwrap_or(path);
        let is_part = |part: &str| {
            !part.is_empty()
                && part != "."
                && part != ".."
                && !part.starts_with('-')
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-+~".contains(&byte))
        };
        if path.split('/').count() > MAX_PARTS || !path.split('/').all(is_part) {
            return Err(ParseUrlError::Path);
        }
        Ok(Self { origin, path: path.to_owned() })
    }
}

impl fmt::Display for RepositoryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.origin, self.path)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_read_in_one_way() {
        let check = |text: &str, expect: &str| {
            let url: RepositoryUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), expect);
            assert_eq!(url.to_string().parse::<RepositoryUrl>().unwrap(), url);
        };
        check("https://GitHub.com/Org/Repo", "https://github.com/Org/Repo");
        check("https://github.com:443/org/repo.git/", "https://github.com/org/repo.git");
        check("http://127.0.0.1:3000/~me/a+b", "http://127.0.0.1:3000/~me/a+b");
        check("https://gitlab.example/a/b/c/d.git", "https://gitlab.example/a/b/c/d.git");
    }

    #[test]
    fn attacks_are_refused() {
        for odd in [
            "",
            "-",
            "--upload-pack=touch x",
            "ext::sh -c touch% x",
            "file:///etc",
            "/etc",
            "../x",
            "ssh://-oProxyCommand=touch/x",
            "git@github.com:org/repo",
            "git://github.com/org/repo",
            "https:///github.com/org/repo",
            "https://github.com",
            "https://github.com/",
            "https://github.com//x",
            "https://github.com/a//b",
            "https://github.com/a/../b",
            "https://github.com/./b",
            "https://github.com/a/b?x=y",
            "https://github.com/a/b#c",
            "https://github.com/a/b%2f..",
            "https://token@github.com/a/b",
            "https://github.com/a/b\n",
            "https://github.com/a/b\r\nHost: x",
            "https://github.com/a/$(touch x)",
            "https://github.com/a/`x`",
            "https://github.com/a/b;c",
            "https://github.com/-a/b",
            "https://github.com/a\\b",
            "https://github.com/a\u{3000}b",
            "https://github.com/a b",
            "https://github.com/a\0b",
            "https://github.com@evil.example/a/b",
            "https://github.com\\@evil.example/a/b",
            "https://github.com:443@evil.example/a",
            "http:/x/y",
            "https://gıthub.com/a/b",
            "javascript://github.com/a/b",
            "https://github.com/a/b=c",
        ] {
            assert!(odd.parse::<RepositoryUrl>().is_err(), "{odd:?}");
        }
        assert!(format!("https://github.com/{}", "a".repeat(2000)).parse::<RepositoryUrl>().is_err());
    }

    #[test]
    fn whose_it_is() {
        let of = |text: &str| {
            let url: RepositoryUrl = text.parse().unwrap();
            url.owner_and_name().map(|(owner, name)| (owner.to_owned(), name.to_owned()))
        };
        assert_eq!(of("https://github.com/org/repo.git"), Some(("org".to_owned(), "repo".to_owned())));
        assert_eq!(of("https://github.com/org/a/b"), None);
        assert_eq!(of("https://github.com/org"), None);
    }

    proptest! {
        #[test]
        fn whatever_is_read_means_itself(text in "\\PC{0,40}|https?://[a-z.:0-9@\\[\\]-]{1,20}/[\\PC]{0,20}") {
            if let Ok(url) = text.parse::<RepositoryUrl>() {
                prop_assert_eq!(url.to_string().parse::<RepositoryUrl>(), Ok(url.clone()));
                prop_assert!(url.to_string().bytes().all(|byte| byte.is_ascii_graphic()));
                prop_assert!(!url.to_string().contains(['@', '=', '?', '#', '%', '\\']));
            }
        }
    }
}
