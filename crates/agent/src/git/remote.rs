//! Remotes, and the only way to them.
//!
//! ```text
//!  git ── http://127.0.0.1:port/<path> ──► the agent's listener ──► a service of the control plane's
//! ```
//!
//! Remotes are configured under the addresses that people know; git is told on each call to go to the
//! service instead. Everything else is closed: no other protocol is allowed, and an address that is
//! none of the workspace's stays what it is and is refused. What a configuration says about proxies,
//! headers and helpers for credentials does not count: there are no credentials here.

use emergent_protocol::v1;

use crate::error::CallError;
use crate::exec::Collected;

use super::error::{GitError, complaint};
use super::program::{Call, Program};
use super::{names, space};

/// Settings of every call that talks to a remote.
const SETTINGS: &[&str] = &[
    "credential.helper=",
    "core.askPass=",
    "http.proxy=",
    "http.extraHeader=",
    "http.cookieFile=",
    "http.followRedirects=false",
    "core.gitProxy=",
    "core.alternateRefsCommand=",
    "push.recurseSubmodules=no",
    "push.gpgSign=false",
    "push.followTags=false",
    "fetch.prune=false",
    "fetch.writeCommitGraph=false",
    "merge.verifySignatures=false",
];

/// Variables of every call that talks to a remote.
const VARIABLES: &[(&str, &str)] = &[
    ("GIT_ALLOW_PROTOCOL", "http"),
    ("no_proxy", "127.0.0.1"),
    ("NO_PROXY", "127.0.0.1"),
    // Large files live at another address, which nobody has allowed.
    ("GIT_LFS_SKIP_SMUDGE", "1"),
];

/// The most repositories of a workspace.
const MAX_REPOSITORIES: usize = 256;

/// The workspace's repositories and where they are reached.
pub(super) struct Remotes {
    repositories: Vec<Brokered>,
}

pub(super) struct Brokered {
    url: String,
    /// On the loopback.
    address: String,
}

impl Remotes {
    pub(super) fn new(broker: Option<v1::GitBroker>) -> Result<Self, GitError> {
        let broker = broker.unwrap_or_default();
        let plain = |text: &str| {
            !text.is_empty()
                && text.len() <= 2048
                && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'=' | b'"' | b'\\'))
        };
        let port = u16::try_from(broker.port).unwrap_or_default();
        if broker.repositories.len() > MAX_REPOSITORIES {
            return Err(GitError::invalid("broker", "too many repositories"));
        }
        let brokered = |repository: v1::GitBrokered| {
            if !plain(&repository.url) || !plain(&repository.path) {
                return Err(GitError::invalid("broker", "an address of a repository makes no sense"));
            }
            let address = format!("http://127.0.0.1:{port}/{}", repository.path);
            Ok(Brokered { url: repository.url, address })
        };
        Ok(Self { repositories: broker.repositories.into_iter().map(brokered).collect::<Result<_, _>>()? })
    }

    /// The repository of this address.
    pub(super) fn find(&self, url: &str) -> Result<&Brokered, GitError> {
        let found = self.repositories.iter().find(|repository| repository.url == url);
        found.ok_or_else(|| GitError::failed(format!("{url} is none of the workspace's repositories")))
    }

    /// A call that may talk to the workspace's repositories.
    pub(super) fn call(&self, call: Call) -> Call {
        let settings = SETTINGS.iter().map(|setting| (*setting).to_owned());
        let repositories = self.repositories.iter().map(Brokered::setting);
        call.with(settings.chain(repositories).collect(), VARIABLES)
    }

    /// The remote that a branch follows, and if it follows none, `origin`. It must be one of the
    /// workspace's repositories.
    pub(super) async fn of_branch(
        &self,
        program: &Program<'_>,
        branch: Option<&str>,
    ) -> Result<String, CallError> {
        let mut remote = None;
        if let Some(branch) = branch {
            let key = format!("branch.{branch}.remote");
            remote = program.line(Call::read(&["config", "--get"]).and([key])).await?;
        }
        let remote =
            remote.filter(|name| !name.is_empty() && name != ".").unwrap_or_else(|| "origin".to_owned());
        names::check_branch("branch", &remote)?;
        let asked =
            self.call(Call::read(&["ls-remote", "--get-url", "--end-of-options"]).and([remote.as_str()]));
        let url = program.ask(asked).await?;
        let url = String::from_utf8_lossy(&url.stdout).trim_end().to_owned();
        if self.repositories.iter().any(|repository| repository.address == url) {
            return Ok(remote);
        }
        Err(if url == remote {
            GitError::failed(format!("the repository has no remote called {remote}"))
        } else {
            GitError::failed(format!("{remote} ({url}) is none of the workspace's repositories"))
        }
        .into())
    }
}

impl Brokered {
    /// What leads git there, as a setting.
    pub(super) fn setting(&self) -> String {
        format!("url.{}.insteadOf={}", self.address, self.url)
    }

    /// What the configuration of a clone needs so that git finds its way without us.
    pub(super) fn kept_settings(&self) -> [String; 2] {
        [self.setting(), format!("http.{}.proxy=", self.address)]
    }
}

/// What a run that talked to a remote means, where it failed.
pub(super) fn failure(program: &Program<'_>, collected: &Collected, reference: &str) -> CallError {
    let said = String::from_utf8_lossy(&collected.stderr);
    let is_missing = said.contains("couldn't find remote ref")
        || said.contains("not found in upstream")
        || said.contains("upload-pack: not our ref");
    if is_missing && !reference.is_empty() {
        return GitError::RefNotFound { name: reference.to_owned() }.into();
    }
    match remote_words(&said) {
        // A full disk is this side's, whatever the other says.
        Some(words) if !space::is_missing(&said, program.folder()) => GitError::failed(words).into(),
        _ => program.failure(collected),
    }
}

/// What the other side said to people, before git's own words.
pub(super) fn remote_words(stderr: &str) -> Option<String> {
    let said: Vec<&str> = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("remote: "))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    (!said.is_empty()).then(|| {
        let own = complaint(
            stderr
                .lines()
                .filter(|line| !line.starts_with("remote:"))
                .collect::<Vec<_>>()
                .join("\n")
                .as_bytes(),
        );
        format!("{} ({own})", said.join(" "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broker(url: &str, path: &str) -> Option<v1::GitBroker> {
        let repositories = vec![v1::GitBrokered { url: url.to_owned(), path: path.to_owned() }];
        Some(v1::GitBroker { port: 9418, repositories })
    }

    #[test]
    fn an_address_leads_to_the_service() {
        let remotes = Remotes::new(broker("https://git.example/a/b.git", "0")).unwrap();
        let found = remotes.find("https://git.example/a/b.git").unwrap();
        assert_eq!(found.setting(), "url.http://127.0.0.1:9418/0.insteadOf=https://git.example/a/b.git");
        assert!(remotes.find("https://git.example/a/c.git").is_err());
    }

    #[test]
    fn what_could_be_more_than_an_address_is_refused() {
        for odd in ["", "a b", "a=b", "a\nb", "a\"b", "\u{e4}"] {
            assert!(Remotes::new(broker(odd, "0")).is_err(), "{odd:?}");
            assert!(Remotes::new(broker("https://x/y", odd)).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn the_other_sides_words_come_first() {
        let stderr = "remote: No access.\nfatal: unable to access 'http://127.0.0.1:9418/0/': error: 403\n";
        let words = remote_words(stderr).unwrap();
        assert!(words.starts_with("No access. (unable to access"), "{words}");
        assert_eq!(remote_words("fatal: x"), None);
    }
}
