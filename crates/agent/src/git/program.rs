//! Running the sandbox's git.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use emergent_protocol::v1;
use rustix::io::Errno;

use crate::agent::Shared;
use crate::error::CallError;
use crate::exec::{Collected, Extras, Plan, Step, collect};

use super::error::{GitError, complaint};
use super::{names, space};

/// Settings that win over every configuration file. An empty monitor is none in every version;
/// `false` would be a program of that name for git before 2.36.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=",
    "core.untrackedCache=false",
    "core.quotePath=false",
    "core.pager=cat",
    "core.editor=true",
    "color.ui=false",
    "commit.gpgSign=false",
    "log.showSignature=false",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "protocol.allow=never",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "status.submoduleSummary=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
    "advice.addEmbeddedRepo=false",
    "safe.directory=*",
];

/// The same, by environment.
const VARIABLES: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("LANGUAGE", ""),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "true"),
    // Wins over what a repository says about single protocols: no missing object of a partial
    // clone is fetched on the way.
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_NO_LAZY_FETCH", "1"),
];

/// What of the sandbox's own variables git must not see: another repository, programs to run,
/// files to trace into. Who commits may be told by them.
fn is_hidden(name: &str) -> bool {
    name.starts_with("GIT_") && !name.starts_with("GIT_AUTHOR_") && !name.starts_with("GIT_COMMITTER_")
}

/// Whether git may write what it found out on the way, the refreshed index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// git in one folder, as one account.
pub(super) struct Program<'a> {
    shared: &'a Arc<Shared>,
    /// As the request names it; empty is the workspace.
    workdir: String,
    folder: PathBuf,
    user: String,
    /// The field of the request that names files.
    files_field: &'static str,
}

/// One thing to ask of it.
pub(super) struct Call {
    arguments: Vec<String>,
    access: Access,
    limit: usize,
    extras: Extras,
    settings: Vec<String>,
    variables: &'static [(&'static str, &'static str)],
}

impl Call {
    /// The most that is read of an answer.
    pub(super) const LIMIT: usize = 2 << 20;

    pub(super) fn new(access: Access, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        Self {
            arguments,
            access,
            limit: Self::LIMIT,
            extras: Extras::default(),
            settings: Vec::new(),
            variables: &[],
        }
    }

    pub(super) fn read(arguments: &[&str]) -> Self {
        Self::new(Access::Read, arguments)
    }

    pub(super) fn write(arguments: &[&str]) -> Self {
        Self::new(Access::Write, arguments)
    }

    pub(super) fn and(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// What it reads from standard input.
    pub(super) fn input(mut self, input: Vec<u8>) -> Self {
        self.extras.input = Some(input);
        self
    }

    /// What it finds at [`Extras::FILE`].
    pub(super) fn file(mut self, content: Vec<u8>) -> Self {
        self.extras.file = Some(content);
        self
    }

    /// Settings and variables that win over those of every call.
    pub(super) fn with(
        mut self,
        settings: Vec<String>,
        variables: &'static [(&'static str, &'static str)],
    ) -> Self {
        (self.settings, self.variables) = (settings, variables);
        self
    }

    /// How much is read before it is ended.
    pub(super) fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }
}

impl<'a> Program<'a> {
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        path: String,
        user: String,
        files_field: &'static str,
    ) -> Self {
        let folder = match path.as_str() {
            "" => shared.config.workspace.clone(),
            path => shared.config.workspace.join(path),
        };
        Self { shared, workdir: path, folder, user, files_field }
    }

    /// Runs git, whatever comes of it.
    pub(super) async fn run(&self, call: Call) -> Result<Collected, CallError> {
        let mut words = vec!["git".to_owned(), "--no-pager".to_owned()];
        if call.access == Access::Read {
            words.push("--no-optional-locks".to_owned());
        }
        words.extend(SETTINGS.iter().flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]));
        words.extend(call.settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]));
        words.extend(call.arguments);
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let command = v1::Command {
            program: Some(v1::command::Program::Argv(v1::Argv { words })),
            workdir: self.workdir.clone(),
            environment: VARIABLES.iter().chain(call.variables).map(own).collect::<HashMap<_, _>>(),
            user: self.user.clone(),
        };
        let extras = Extras { hidden: Some(is_hidden), ..call.extras };
        let plan = Plan::with(self.shared, Some(command), extras)?;
        collect(self.shared, plan, call.limit).await.map_err(|error| match error {
            CallError::Launch { step: Step::Execute, errno: Errno::NOENT | Errno::NOTDIR, .. } => {
                GitError::Missing.into()
            }
            CallError::Launch { step: Step::EnterFolder, errno, .. } => CallError::file(&self.folder)(errno),
            other => other,
        })
    }

    /// Runs git and expects it to succeed. An answer that was cut is one.
    pub(super) async fn ask(&self, call: Call) -> Result<Collected, CallError> {
        let collected = self.run(call).await?;
        if collected.status.code == 0 || collected.cut {
            Ok(collected)
        } else {
            Err(self.failure(&collected))
        }
    }

    /// Runs git for one line; `None` when it says no quietly.
    pub(super) async fn line(&self, call: Call) -> Result<Option<String>, CallError> {
        let collected = self.run(call).await?;
        match collected.status.code {
            0 => Ok(Some(String::from_utf8_lossy(&collected.stdout).trim_end_matches('\n').to_owned())),
            // What `--quiet` makes of "no such thing".
            1 if collected.stderr.is_empty() => Ok(None),
            _ => Err(self.failure(&collected)),
        }
    }

    /// The id of the commit that this names.
    pub(super) async fn commit_id(&self, revision: &str) -> Result<Option<String>, CallError> {
        let words = ["rev-parse", "--verify", "--quiet", "--end-of-options"];
        let collected = self.run(Call::read(&words).and([format!("{revision}^{{commit}}")])).await?;
        let id = String::from_utf8_lossy(&collected.stdout).trim_end().to_owned();
        match collected.status.code {
            0 if is_id(&id) => Ok(Some(id)),
            _ if is_no_repository(&collected.stderr) => Err(self.failure(&collected)),
            // A tree or blob, an ambiguous id or a broken object is told about in words.
            _ => Ok(None),
        }
    }

    /// Where it runs.
    pub(super) fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    pub(super) fn user(&self) -> &str {
        &self.user
    }

    pub(super) fn shared(&self) -> &'a Arc<Shared> {
        self.shared
    }

    /// The branch that is checked out, even before its first commit.
    pub(super) async fn current_branch(&self) -> Result<Option<String>, CallError> {
        let head = self.line(Call::read(&["symbolic-ref", "--quiet", "HEAD"])).await?;
        Ok(head.and_then(|name| name.strip_prefix("refs/heads/").map(str::to_owned)))
    }

    /// What a run that failed means.
    pub(super) fn failure(&self, collected: &Collected) -> CallError {
        if is_no_repository(&collected.stderr) {
            let folder = self.folder.to_string_lossy().into_owned();
            return GitError::NotARepository { folder }.into();
        }
        if collected.status.signal != 0 {
            return GitError::failed(format!("git was killed by signal {}", collected.status.signal)).into();
        }
        let said = String::from_utf8_lossy(&collected.stderr);
        if let Some(path) = outside(&said) {
            return GitError::outside(self.files_field, path).into();
        }
        let message = complaint(&collected.stderr);
        if space::is_missing(&said, &self.folder) {
            return GitError::no_space(message, space::unwritten(&said)).into();
        }
        GitError::failed_on(message, space::unwritten(&said)).into()
    }
}

fn is_no_repository(stderr: &[u8]) -> bool {
    String::from_utf8_lossy(stderr).lines().any(|line| line.starts_with("fatal: not a git repository"))
}

/// The path that leads out of the repository.
fn outside(stderr: &str) -> Option<&str> {
    let (_, rest) = stderr.split_once(names::LITERAL)?;
    let (named, rest) = rest.split_once(": '")?;
    rest.strip_prefix(named)?.starts_with("' is outside repository").then_some(named)
}

/// Whether this is an object's id, by SHA-1 or SHA-256.
pub(super) fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_commits_is_told_by_the_environment() {
        for hidden in ["GIT_DIR", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_COUNT", "GIT_TRACE", "GIT_SSH_COMMAND"] {
            assert!(is_hidden(hidden), "{hidden}");
        }
        for seen in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_DATE", "HOME", "PATH", "XDG_CONFIG_HOME"] {
            assert!(!is_hidden(seen), "{seen}");
        }
    }

    #[test]
    fn a_path_that_leads_out() {
        let stderr = "fatal: :(literal)../x: '../x' is outside repository at '/workspace'\n";
        assert_eq!(outside(stderr), Some("../x"));
        assert_eq!(outside("fatal: :(literal)x: 'y' is outside repository"), None);
        assert_eq!(outside("fatal: not a git repository"), None);
    }
}
