//! Pushing one branch.

use emergent_protocol::v1;

use crate::error::CallError;

use super::error::{GitError, scrubbed};
use super::program::{Call, Program, is_id};
use super::remote::{self, Remotes};
use super::{branch, names};

/// The longest reason.
const MAX_REASON: usize = 1000;

/// The push action.
pub(super) async fn push(
    program: &Program<'_>,
    remotes: &Remotes,
    request: v1::GitPushRequest,
) -> Result<v1::GitPushResponse, CallError> {
    let name = match request.branch.as_str() {
        "" => program
            .current_branch()
            .await?
            .ok_or_else(|| GitError::failed("no branch is checked out; name the one to push"))?,
        name => name.to_owned(),
    };
    names::check_branch("branch", &name)?;
    if !branch::exists(program, &name).await? {
        return Err(GitError::RefNotFound { name }.into());
    }
    let remote = remotes.of_branch(program, Some(&name)).await?;
    let follows =
        program.line(Call::read(&["config", "--get"]).and([format!("branch.{name}.merge")])).await?;
    // Whole ids, so that the answer has them.
    let mut call = Call::write(&["-c", "core.abbrev=no", "push", "--porcelain", "--no-verify"]);
    if request.force_with_lease {
        call = call.and([format!("--force-with-lease=refs/heads/{name}")]);
    }
    if follows.is_none() {
        call = call.and(["--set-upstream"]);
    }
    let call = call.and(["--", remote.as_str()]).and([format!("refs/heads/{name}:refs/heads/{name}")]);
    let pushed = program.run(remotes.call(call)).await?;
    let told = String::from_utf8_lossy(&pushed.stdout);
    let Some(line) = told.lines().find_map(Line::read) else {
        return Err(remote::failure(program, &pushed, ""));
    };
    if line.flag == '!' {
        let rejected_reason = reason(&line.summary, &String::from_utf8_lossy(&pushed.stderr));
        return Ok(v1::GitPushResponse { pushed: Vec::new(), rejected_reason });
    }
    if pushed.status.code != 0 {
        return Err(remote::failure(program, &pushed, ""));
    }
    let to = program.commit_id(&format!("refs/heads/{name}")).await?.unwrap_or_default();
    let pushed = match line.flag {
        '=' => Vec::new(),
        _ => vec![v1::GitRefUpdate { r#ref: format!("refs/heads/{name}"), from: line.from(), to }],
    };
    Ok(v1::GitPushResponse { pushed, rejected_reason: String::new() })
}

/// One line of what git tells: `flag TAB from:to TAB summary`.
struct Line {
    flag: char,
    summary: String,
}

impl Line {
    fn read(line: &str) -> Option<Self> {
        let mut parts = line.splitn(3, '\t');
        let flag = parts.next()?;
        let (_refs, summary) = (parts.next()?, parts.next()?);
        let mut letters = flag.chars();
        match (letters.next(), letters.next()) {
            (Some(flag), None) => Some(Self { flag, summary: summary.to_owned() }),
            _ => None,
        }
    }

    /// What the other side had; empty where it had nothing.
    fn from(&self) -> String {
        let first = self.summary.split("..").next().unwrap_or_default();
        if is_id(first) { first.to_owned() } else { String::new() }
    }
}

/// Why the other side did not take it, for people.
fn reason(summary: &str, stderr: &str) -> String {
    let words = summary.split_once(" (").map_or(summary, |(_, words)| words.trim_end_matches(')'));
    let explained = match words {
        "fetch first" | "non-fast-forward" => {
            format!("the remote has commits that are not here; pull first ({words})")
        }
        "stale info" => "the remote has changed since it was last fetched (stale info)".to_owned(),
        words => words.to_owned(),
    };
    let said: Vec<&str> = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("remote: "))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let whole = if said.is_empty() { explained } else { format!("{explained}: {}", said.join(" ")) };
    let whole = scrubbed(&whole);
    whole.get(..whole.floor_char_boundary(MAX_REASON)).unwrap_or(&whole).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_tells_is_read() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let line = Line::read(&format!(" \trefs/heads/a:refs/heads/a\t{id}..{id}")).unwrap();
        assert_eq!((line.flag, line.from().as_str()), (' ', id));
        let new = Line::read("*\trefs/heads/a:refs/heads/a\t[new branch]").unwrap();
        assert_eq!((new.flag, new.from().as_str()), ('*', ""));
        for other in ["To http://127.0.0.1:9418/0", "Done", "", "x\ty"] {
            assert!(Line::read(other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_refusal_is_explained() {
        let told = reason("[rejected] (fetch first)", "error: failed to push\n");
        assert_eq!(told, "the remote has commits that are not here; pull first (fetch first)");
        let told =
            reason("[remote rejected] (pre-receive hook declined)", "remote: no secrets, please\nremote: \n");
        assert_eq!(told, "pre-receive hook declined: no secrets, please");
    }
}
