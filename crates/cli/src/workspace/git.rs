//! `emergent workspace git`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use emergent_client::{
    Client, GitBranches, GitBrought, GitChange, GitCheckedOut, GitCloneRequest, GitCommit, GitCommitRequest,
    GitDiffRequest, GitLogRequest, GitPlace, GitPushed, GitRefUpdate, GitStatus,
};
use emergent_types::WorkspaceId;

use super::view::minute;
use crate::exit::Failure;
use crate::output::{Output, shown};

#[derive(Debug, Args)]
pub(crate) struct Git {
    /// Where
    id: WorkspaceId,
    /// A folder in the repository; /workspace where not said
    #[arg(long)]
    path: Option<String>,
    /// The account to run git as
    #[arg(long)]
    user: Option<String>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// What differs
    Status,
    /// How it differs
    Diff {
        /// What is staged instead of what is not
        #[arg(long)]
        staged: bool,
        /// The branch, tag or commit to compare with
        #[arg(long)]
        base: Option<String>,
        /// Only these
        paths: Vec<String>,
    },
    /// What was committed, newest first
    Log {
        /// How many at most
        #[arg(long)]
        limit: Option<u32>,
        /// Where to begin; HEAD where not said
        #[arg(value_name = "REF")]
        reference: Option<String>,
    },
    /// Commit these files and nothing else, or everything with --all
    Commit {
        /// The message
        #[arg(short, long, allow_hyphen_values = true)]
        message: String,
        /// Everything that differs
        #[arg(short, long, conflicts_with = "files")]
        all: bool,
        /// The files
        #[arg(required_unless_present = "all")]
        files: Vec<String>,
    },
    /// List branches, or make or delete one
    Branch {
        /// The branch to make
        name: Option<String>,
        /// Delete it instead
        #[arg(short, long, requires = "name")]
        delete: bool,
    },
    /// Clone a repository, to --path or a folder of its name
    Clone {
        /// Which
        #[arg(value_name = "URL")]
        repository_url: String,
        /// Its branch, tag or commit
        #[arg(long)]
        branch: Option<String>,
        /// How many commits of its history; 0 is all [default: 1]
        #[arg(long, value_name = "COMMITS")]
        depth: Option<u32>,
    },
    /// Bring what the remote has
    Fetch {
        /// One branch; all where not said
        branch: Option<String>,
        /// How many commits of the history; 0 is all
        #[arg(long, value_name = "COMMITS")]
        depth: Option<u32>,
    },
    /// Bring what the remote has, and move the branch that is checked out
    Pull {
        /// The remote's branch; the one that is followed where not said
        branch: Option<String>,
    },
    /// Give a branch to the remote
    Push {
        /// Which; the one that is checked out where not said
        branch: Option<String>,
        /// Also where the remote's history is lost, as long as it is as it was last seen
        #[arg(long)]
        force_with_lease: bool,
    },
    /// Switch to a branch, tag or commit
    Checkout {
        /// Which
        #[arg(value_name = "REF")]
        reference: String,
        /// Make it a new branch
        #[arg(short = 'b', long)]
        create: bool,
    },
}

impl Git {
    pub(super) async fn run(self, client: &Client, output: Output) -> Result<ExitCode, Failure> {
        let id = self.id;
        let place = GitPlace { path: self.path.as_deref(), user: self.user.as_deref() };
        match self.action {
            Action::Status => {
                let found = client.git_status(id, place).await?;
                output.result(&found, status);
                if found.truncated {
                    output.hint("there is more that differs than is shown");
                }
            }
            Action::Diff { staged, base, paths } => {
                let request = GitDiffRequest { staged, paths, base };
                let diff = client.git_diff(id, place, &request).await?;
                output.list(&diff, "nothing differs", |diff| output.contents(&diff.diff));
                if diff.truncated {
                    output.hint("the diff was cut; name paths to see the rest");
                }
            }
            Action::Log { limit, reference } => {
                let log = client.git_log(id, place, &GitLogRequest { limit, reference }).await?;
                output.list(&log, "there are no commits yet", |log| log.commits.iter().map(commit).collect());
                if log.truncated {
                    output.hint("there are more; --limit shows more of them");
                }
            }
            Action::Commit { message, all, files } => {
                let request = GitCommitRequest { message, files, all };
                let made = client.git_commit(id, place, &request).await?;
                output.result(&made, |made| format!("{} ({} files)", made.commit, made.files_changed));
            }
            Action::Branch { name, delete } => {
                let list = match (name, delete) {
                    (None, _) => client.git_branches(id, place).await?,
                    (Some(name), false) => client.git_create_branch(id, place, &name).await?,
                    (Some(name), true) => client.git_delete_branch(id, place, &name).await?,
                };
                // Before the first commit there is none, not even the one that is checked out.
                output.list(&list, "there are no branches yet", branches);
                if list.truncated {
                    output.hint("there are more branches than are shown");
                }
            }
            Action::Clone { repository_url, branch, depth } => {
                let request = GitCloneRequest { repository_url, branch, depth };
                let cloned = client.git_clone(id, place, &request).await?;
                output.result(&cloned, |cloned| shown(&cloned.path).to_string());
            }
            Action::Fetch { branch, depth } => {
                let brought = client.git_fetch(id, place, branch.as_deref(), depth).await?;
                output.result(&brought, moved);
            }
            Action::Pull { branch } => {
                output.result(&client.git_pull(id, place, branch.as_deref()).await?, moved);
            }
            Action::Push { branch, force_with_lease } => {
                let pushed = client.git_push(id, place, branch.as_deref(), force_with_lease).await?;
                output.result(&pushed, what_was_pushed);
                if pushed.rejected_reason.is_some() {
                    return Ok(ExitCode::FAILURE);
                }
            }
            Action::Checkout { reference, create } => {
                output.result(&client.git_checkout(id, place, &reference, create).await?, checked_out);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn status(status: &GitStatus) -> String {
    let branch = shown(status.branch.as_deref().unwrap_or("(no branch)"));
    let mut lines = vec![match &status.upstream {
        Some(upstream) => {
            format!("## {branch}...{} +{} -{}", shown(upstream), status.ahead, status.behind)
        }
        None => format!("## {branch}"),
    }];
    let change = |place: &str, change: &GitChange| match &change.old_path {
        Some(old) => {
            format!("{place} {}: {} -> {}", change.change, shown(old), shown(&change.path))
        }
        None => format!("{place} {}: {}", change.change, shown(&change.path)),
    };
    lines.extend(status.staged.iter().map(|staged| change("staged  ", staged)));
    lines.extend(status.unstaged.iter().map(|unstaged| change("unstaged", unstaged)));
    lines.extend(status.conflicts.iter().map(|path| format!("conflict: {}", shown(path))));
    lines.extend(status.untracked.iter().map(|path| format!("untracked: {}", shown(path))));
    lines.join("\n")
}

fn commit(commit: &GitCommit) -> String {
    let short = commit.commit.get(..12).unwrap_or(&commit.commit);
    format!("{short} {} {}: {}", minute(commit.date), shown(&commit.author.name), shown(&commit.subject))
}

fn branches(list: &GitBranches) -> Vec<String> {
    let mark = |name: &String| if list.current.as_ref() == Some(name) { "*" } else { " " };
    list.branches.iter().map(|name| format!("{} {}", mark(name), shown(name))).collect()
}

fn moved(brought: &GitBrought) -> String {
    match (brought.from.as_deref(), brought.to.as_deref()) {
        (from, to) if from == to => "nothing new".to_owned(),
        (from, to) => format!("{} -> {}", from.unwrap_or("nothing"), to.unwrap_or("nothing")),
    }
}

fn what_was_pushed(pushed: &GitPushed) -> String {
    if let Some(reason) = &pushed.rejected_reason {
        return format!("rejected: {}", shown(reason));
    }
    let line = |update: &GitRefUpdate| {
        let from = update.from.as_deref().unwrap_or("new");
        format!("{} {from} -> {}", shown(&update.reference), update.to.as_deref().unwrap_or("nothing"))
    };
    match pushed.pushed.is_empty() {
        true => "the remote has it already".to_owned(),
        false => pushed.pushed.iter().map(line).collect::<Vec<_>>().join("\n"),
    }
}

fn checked_out(now: &GitCheckedOut) -> String {
    let commit = now.commit.as_deref().unwrap_or("no commit yet");
    match &now.branch {
        Some(branch) => format!("{} ({commit})", shown(branch)),
        None => commit.to_owned(),
    }
}
