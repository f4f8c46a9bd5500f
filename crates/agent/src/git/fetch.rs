//! Fetching.

use std::collections::BTreeMap;

use emergent_protocol::v1;

use crate::error::CallError;

use super::names;
use super::program::{Call, Program};
use super::remote::{self, Remotes};

/// The most branches that are told about.
const MAX_UPDATES: usize = 5000;

/// A remote's branch, as it is known here.
pub(super) struct Tracked {
    pub(super) remote: String,
    pub(super) branch: String,
}

impl Tracked {
    pub(super) fn reference(&self) -> String {
        format!("refs/remotes/{}/{}", self.remote, self.branch)
    }

    fn refspec(&self) -> String {
        format!("+refs/heads/{}:{}", self.branch, self.reference())
    }
}

/// The fetch action.
pub(super) async fn fetch(
    program: &Program<'_>,
    remotes: &Remotes,
    request: v1::GitFetchRequest,
) -> Result<v1::GitFetchResponse, CallError> {
    let current = program.current_branch().await?;
    let remote = remotes.of_branch(program, current.as_deref()).await?;
    let named = (!request.branch.is_empty()).then_some(request.branch.as_str());
    if let Some(branch) = named {
        names::check_branch("branch", branch)?;
    }
    let shown = match named {
        Some(branch) => Some(Tracked { remote: remote.clone(), branch: branch.to_owned() }),
        None => followed(program, &remote, current.as_deref()).await?,
    };
    let before = known(program, &remote).await?;
    let refspec = shown.as_ref().filter(|_| named.is_some()).map(Tracked::refspec);
    bring(program, remotes, &remote, refspec, request.depth).await?;
    let after = known(program, &remote).await?;
    let id = |known: &BTreeMap<String, String>| {
        shown.as_ref().and_then(|shown| known.get(&shown.reference()).cloned()).unwrap_or_default()
    };
    let (from, to) = (id(&before), id(&after));
    let fast_forward = is_fast_forward(program, &from, &to).await?;
    let mut updated = updates(&before, &after);
    let truncated = updated.len() > MAX_UPDATES;
    updated.truncate(MAX_UPDATES);
    Ok(v1::GitFetchResponse { from, to, fast_forward, updated, truncated })
}

/// The remote's branch that the one which is checked out follows, or the one of the same name.
pub(super) async fn followed(
    program: &Program<'_>,
    remote: &str,
    current: Option<&str>,
) -> Result<Option<Tracked>, CallError> {
    let Some(current) = current else { return Ok(None) };
    let key = format!("branch.{current}.merge");
    let merged = program.line(Call::read(&["config", "--get"]).and([key])).await?;
    let merged = merged.as_deref().and_then(|name| name.strip_prefix("refs/heads/"));
    let branch = merged.unwrap_or(current).to_owned();
    names::check_branch("branch", &branch)?;
    Ok(Some(Tracked { remote: remote.to_owned(), branch }))
}

/// Fetches one branch, or what the remote is configured to be fetched of.
pub(super) async fn bring(
    program: &Program<'_>,
    remotes: &Remotes,
    remote: &str,
    refspec: Option<String>,
    depth: Option<u32>,
) -> Result<(), CallError> {
    let mut call = Call::write(&["fetch", "--quiet", "--no-recurse-submodules"]);
    match depth {
        None => {}
        Some(0) => {
            let shallow = program.line(Call::read(&["rev-parse", "--is-shallow-repository"])).await?;
            if shallow.as_deref() == Some("true") {
                call = call.and(["--unshallow"]);
            }
        }
        Some(depth) => call = call.and([format!("--depth={depth}")]),
    }
    let branch = refspec.as_deref().and_then(|spec| spec.strip_prefix("+refs/heads/")?.split(':').next());
    let branch = branch.unwrap_or_default().to_owned();
    let call = call.and(["--", remote]).and(refspec);
    let fetched = program.run(remotes.call(call)).await?;
    match fetched.status.code {
        0 => Ok(()),
        _ => Err(remote::failure(program, &fetched, &branch)),
    }
}

/// Whether nothing is lost on the way from one to the other.
pub(super) async fn is_fast_forward(program: &Program<'_>, from: &str, to: &str) -> Result<bool, CallError> {
    if from.is_empty() || from == to {
        return Ok(true);
    }
    if to.is_empty() {
        return Ok(false);
    }
    is_ancestor(program, from, to).await
}

pub(super) async fn is_ancestor(program: &Program<'_>, one: &str, of: &str) -> Result<bool, CallError> {
    let collected = program.run(Call::read(&["merge-base", "--is-ancestor", one, of])).await?;
    match collected.status.code {
        0 => Ok(true),
        1 => Ok(false),
        _ => Err(program.failure(&collected)),
    }
}

/// The remote's branches, as they are known here.
async fn known(program: &Program<'_>, remote: &str) -> Result<BTreeMap<String, String>, CallError> {
    let words = ["for-each-ref", "--format=%(objectname) %(refname)"];
    let listed = program.ask(Call::read(&words).and([format!("refs/remotes/{remote}/")])).await?;
    let listed = String::from_utf8_lossy(&listed.stdout);
    let entry = |line: &str| line.split_once(' ').map(|(id, name)| (name.to_owned(), id.to_owned()));
    Ok(listed.lines().filter_map(entry).filter(|(name, _)| !name.ends_with("/HEAD")).collect())
}

fn updates(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<v1::GitRefUpdate> {
    let changed = after.iter().filter(|(name, id)| before.get(*name) != Some(id)).map(|(name, id)| {
        let from = before.get(name).cloned().unwrap_or_default();
        v1::GitRefUpdate { r#ref: name.clone(), from, to: id.clone() }
    });
    let gone = before
        .iter()
        .filter(|(name, _)| !after.contains_key(*name))
        .map(|(name, id)| v1::GitRefUpdate { r#ref: name.clone(), from: id.clone(), to: String::new() });
    changed.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_told() {
        let refs =
            |list: &[(&str, &str)]| list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let told = updates(
            &refs(&[("a", "1"), ("b", "1"), ("c", "1")]),
            &refs(&[("a", "1"), ("b", "2"), ("d", "3")]),
        );
        let told: Vec<_> = told.iter().map(|u| (u.r#ref.as_str(), u.from.as_str(), u.to.as_str())).collect();
        assert_eq!(told, [("b", "1", "2"), ("d", "", "3"), ("c", "1", "")]);
    }
}
