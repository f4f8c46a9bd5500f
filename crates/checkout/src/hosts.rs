//! Which hosts may be spoken to.

use crate::origin::Origin;
use crate::url::RepositoryUrl;

/// The hosts that an administrator allows, GitHub first.
#[derive(Debug, Clone)]
pub struct Hosts {
    github: Origin,
    /// Somebody has said where GitHub is, and so that its address is meant, whatever it is.
    github_is_named: bool,
    allowed: Vec<Origin>,
}

/// The host of a repository is neither GitHub nor allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin} is neither GitHub nor among the hosts that are allowed (CHECKOUT_ALLOWED_HOSTS)")]
pub struct HostNotAllowed {
    /// The host.
    pub origin: Origin,
}

/// What is known of a host that may be spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) is_github: bool,
    /// Exactly this scheme, host and port is configured: it may be at a private address.
    pub(crate) is_named: bool,
}

impl Hosts {
    /// GitHub, where it was said to be or on the internet, and others.
    pub fn new(github: Option<Origin>, allowed: Vec<Origin>) -> Self {
        let public = Origin { is_tls: true, host: "github.com".to_owned(), port: 443 };
        Self { github_is_named: github.is_some(), github: github.unwrap_or(public), allowed }
    }

    /// Where people look at GitHub.
    pub fn github(&self) -> &Origin {
        &self.github
    }

    /// Refuses what is at no host that may be spoken to.
    pub fn check(&self, url: &RepositoryUrl) -> Result<(), HostNotAllowed> {
        self.standing(url.origin()).map(drop)
    }

    pub(crate) fn standing(&self, origin: &Origin) -> Result<Standing, HostNotAllowed> {
        let is_allowed = self.allowed.contains(origin);
        if *origin == self.github {
            return Ok(Standing { is_github: true, is_named: self.github_is_named || is_allowed });
        }
        match is_allowed {
            true => Ok(Standing { is_github: false, is_named: true }),
            false => Err(HostNotAllowed { origin: origin.clone() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Origin {
        text.parse().unwrap()
    }

    #[test]
    fn github_and_what_is_allowed_exactly() {
        let hosts = Hosts::new(None, vec![origin("http://git.corp:3000")]);
        let standing = |text: &str| hosts.standing(&origin(text)).ok().map(|s| (s.is_github, s.is_named));
        assert_eq!(standing("https://github.com"), Some((true, false)));
        assert_eq!(standing("http://git.corp:3000"), Some((false, true)));
        for other in [
            "http://github.com",
            "https://github.com:8443",
            "https://git.corp:3000",
            "http://git.corp",
            "https://gitlab.com",
            "https://evil.github.com",
            "https://github.com.evil.example",
        ] {
            assert_eq!(standing(other), None, "{other}");
        }
    }

    #[test]
    fn an_enterprise_server_takes_githubs_place() {
        let hosts = Hosts::new(Some(origin("https://ghe.corp")), Vec::new());
        assert!(hosts.standing(&origin("https://ghe.corp")).is_ok_and(|s| s.is_github && s.is_named));
        assert!(hosts.standing(&origin("https://github.com")).is_err());
    }
}
