//! Committing.
//!
//! Of named files exactly what is in the working tree now is committed, and nothing else: what
//! else is staged stays staged. git does that by itself (`commit --only`) but for files it does
//! not know yet, so those are made known first, and forgotten again when nothing comes of it.
//!
//! A merge is committed whole or not at all. When one is under way, the named files are committed
//! with everything that is staged, as `commit --include` does it; which of them are resolved
//! conflicts, [`conflicts`] finds out.

use std::collections::HashSet;
use std::path::PathBuf;

use emergent_protocol::v1;

use crate::error::CallError;
use crate::exec::{Collected, Extras};

use super::error::GitError;
use super::porcelain::{self, Entry, records, text};
use super::program::{Call, Program};
use super::status::{self, Untracked};
use super::{conflicts, names};

/// Who commits when neither the configuration nor the environment says it.
const DEFAULT_NAME: &str = "Emergent Agent";
const DEFAULT_EMAIL: &str = "agent@emergent.local";

/// The longest message.
const MAX_MESSAGE: usize = 1 << 20;

/// The commit action.
pub(super) async fn commit(
    program: &Program<'_>,
    request: v1::GitCommitRequest,
) -> Result<v1::GitCommitResponse, CallError> {
    check(&request)?;
    let specs = names::pathspecs("files", &request.files)?;
    let (before, _) = status::ask(program, Untracked::No).await?;
    conflicts::refuse_unresolved(program, &before, &specs).await?;
    let identity = missing_identity(program, &request.author_name, &request.author_email).await?;
    if request.all {
        program.ask(Call::write(&["add", "--all"])).await?;
        finish(program.run(commit_call(identity, request.message)).await?, program)?;
    } else {
        let new = make_known(program, &specs).await?;
        let renamed = sources_of_renames(program, &request.files, &before).await?;
        let committed = commit_named(program, &specs, renamed, identity, request.message).await;
        if let Err(error) = committed {
            if !new.is_empty() {
                // On a full disk this may fail too; why the commit did not come about is the answer.
                let _ = forget(program, new).await;
            }
            return Err(error);
        }
    }
    describe(program, before).await
}

fn check(request: &v1::GitCommitRequest) -> Result<(), GitError> {
    if request.message.trim().is_empty() {
        return Err(GitError::invalid("message", "the message is empty"));
    }
    if request.message.contains('\0') || request.message.len() > MAX_MESSAGE {
        return Err(GitError::invalid("message", "the message is too long or has a NUL byte"));
    }
    match (request.files.is_empty(), request.all) {
        (true, false) => Err(GitError::invalid("files", "name the files to commit, or say all: true")),
        (false, true) => Err(GitError::invalid("files", "either files are named, or all: true is said")),
        _ => Ok(()),
    }
}

/// Commits these files and nothing else, or a merge with these files.
async fn commit_named(
    program: &Program<'_>,
    specs: &[String],
    renamed: Vec<Vec<u8>>,
    identity: Vec<String>,
    message: String,
) -> Result<(), CallError> {
    let named: Vec<Vec<u8>> = specs.iter().map(|spec| spec.clone().into_bytes()).collect();
    let call = |how: &str, paths: &[Vec<u8>]| {
        commit_call(identity.clone(), message.clone())
            .and([how, "--pathspec-from-file=-", "--pathspec-file-nul"])
            .input(terminated(paths))
    };
    let collected = program.run(call("--only", &[named.as_slice(), &renamed].concat())).await?;
    let is_merge = String::from_utf8_lossy(&collected.stderr).contains("cannot do a partial commit");
    if collected.status.code == 0 || !is_merge {
        return finish(collected, program);
    }
    // Not every version tells by itself what it does not find.
    let words = ["ls-files", "--error-unmatch", "--with-tree=HEAD", "-z", "--"];
    let known = program.run(Call::read(&words).and(specs.iter().cloned())).await?;
    if let Some(path) = unmatched(&String::from_utf8_lossy(&known.stderr)) {
        return Err(CallError::NotFound { path: PathBuf::from(path), suggestions: Vec::new() });
    }
    finish(program.run(call("--include", &named)).await?, program)
}

/// The settings that are missing for git to know who commits.
pub(super) async fn missing_identity(
    program: &Program<'_>,
    name: &str,
    email: &str,
) -> Result<Vec<String>, CallError> {
    let words = ["config", "--null", "--get-regexp", r"^user\.(name|email)$"];
    // Says no when there is none.
    let collected = program.run(Call::read(&words)).await?;
    let is_set = |key: &str| {
        let values = records(&collected.stdout).filter_map(|record| {
            let record = text(record);
            let (found, value) = record.split_once('\n')?;
            (found == key).then_some(!value.is_empty())
        });
        values.last().unwrap_or(false)
    };
    let or =
        |given: &str, default: &str| if given.is_empty() { default.to_owned() } else { given.to_owned() };
    let name = (!is_set("user.name")).then(|| format!("user.name={}", or(name, DEFAULT_NAME)));
    let email = (!is_set("user.email")).then(|| format!("user.email={}", or(email, DEFAULT_EMAIL)));
    Ok(name.into_iter().chain(email).collect())
}

fn commit_call(identity: Vec<String>, message: String) -> Call {
    let words = [
        "commit",
        "--quiet",
        "--no-verify",
        "--no-gpg-sign",
        "--no-status",
        "--untracked-files=no",
        "--cleanup=whitespace",
        "--file",
        Extras::FILE,
    ];
    Call::write(&[])
        .and(identity.into_iter().flat_map(|setting| ["-c".to_owned(), setting]))
        .and(words)
        .file(message.into_bytes())
}

/// A file that was renamed in the index is one change with two paths: naming the new one names
/// the old one too.
async fn sources_of_renames(
    program: &Program<'_>,
    files: &[String],
    before: &porcelain::Status,
) -> Result<Vec<Vec<u8>>, CallError> {
    let renamed = before.entries.iter().filter_map(|entry| match entry {
        Entry::Changed { path, staged: Some(change), .. } if change.kind == "renamed" => {
            change.old_path.as_ref().map(|old_path| (path, old_path))
        }
        _ => None,
    });
    let renamed: Vec<(&Vec<u8>, &Vec<u8>)> = renamed.collect();
    if renamed.is_empty() {
        return Ok(Vec::new());
    }
    let prefix = program.line(Call::read(&["rev-parse", "--show-prefix"])).await?.unwrap_or_default();
    let named: HashSet<Vec<u8>> =
        files.iter().filter_map(|file| names::from_root(&prefix, file)).map(String::into_bytes).collect();
    let sources = renamed.into_iter().filter(|(path, _)| named.contains(*path));
    Ok(sources.map(|(_, old_path)| [names::FROM_ROOT.as_bytes(), old_path].concat()).collect())
}

/// Makes new files known without their content, and answers which those are.
async fn make_known(program: &Program<'_>, specs: &[String]) -> Result<Vec<u8>, CallError> {
    // Not every version lets this read its paths from a file, so they are arguments; their bytes
    // are bounded.
    let words = ["ls-files", "--others", "--exclude-standard", "--full-name", "-z", "--"];
    let listed = program.ask(Call::read(&words).and(specs.iter().cloned())).await?;
    if listed.cut {
        return Err(GitError::failed("too many new files to name; commit them with all: true").into());
    }
    if listed.stdout.is_empty() {
        return Ok(Vec::new());
    }
    let literal: Vec<Vec<u8>> =
        records(&listed.stdout).map(|path| [names::FROM_ROOT.as_bytes(), path].concat()).collect();
    let words = ["add", "--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul"];
    program.ask(Call::write(&words).input(terminated(&literal))).await?;
    Ok(listed.stdout)
}

async fn forget(program: &Program<'_>, new: Vec<u8>) -> Result<(), CallError> {
    // Its paths start where it runs, and these start at the root.
    let root = program.line(Call::read(&["rev-parse", "--show-cdup"])).await?.unwrap_or_default();
    let words = ["update-index", "--force-remove", "-z", "--stdin"];
    let root = if root.is_empty() { ".".to_owned() } else { root };
    program.ask(Call::write(&["-C"]).and([root]).and(words).input(new)).await?;
    Ok(())
}

fn terminated(records: &[Vec<u8>]) -> Vec<u8> {
    records.iter().flat_map(|record| record.iter().copied().chain([0])).collect()
}

fn finish(collected: Collected, program: &Program<'_>) -> Result<(), CallError> {
    let stderr = String::from_utf8_lossy(&collected.stderr);
    match collected.status.code {
        0 => Ok(()),
        // It tells what else differs on standard output, which may be much.
        _ if collected.cut => Err(GitError::NothingToCommit.into()),
        1 if stderr.trim().is_empty() => Err(GitError::NothingToCommit.into()),
        _ => Err(match unmatched(&stderr) {
            Some(path) => CallError::NotFound { path: PathBuf::from(path), suggestions: Vec::new() },
            None => program.failure(&collected),
        }),
    }
}

/// The path that is nowhere, or ignored.
fn unmatched(stderr: &str) -> Option<String> {
    let (_, rest) = stderr.split_once("error: pathspec '")?;
    let (spec, _) = rest.split_once("' did not match any file")?;
    let path = [names::FROM_ROOT, names::LITERAL].iter().find_map(|magic| spec.strip_prefix(magic));
    Some(path.unwrap_or(spec).to_owned())
}

async fn describe(
    program: &Program<'_>,
    before: porcelain::Status,
) -> Result<v1::GitCommitResponse, CallError> {
    let commit = program.commit_id("HEAD").await?;
    let commit = commit.ok_or_else(|| GitError::failed("the commit is not there"))?;
    let words = ["diff-tree", "-r", "-z", "--name-only", "--no-commit-id", "--no-renames", "--no-ext-diff"];
    let call = match before.commit {
        Some(before) => Call::read(&words).and([before, commit.clone()]),
        None => Call::read(&words).and(["--root", commit.as_str()]),
    };
    let changed = program.ask(call.limit(64 << 20)).await?;
    let files_changed = memchr::memchr_iter(0, &changed.stdout).count() as u64;
    Ok(v1::GitCommitResponse { commit, files_changed, branch: before.branch.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_has_a_message_and_files() {
        let request = |message: &str, files: &[&str], all| v1::GitCommitRequest {
            message: message.to_owned(),
            files: files.iter().map(|file| (*file).to_owned()).collect(),
            all,
            ..Default::default()
        };
        let field = |request| check(&request).err().map(|error| error.field());
        assert_eq!(field(request("m", &["a"], false)), None);
        assert_eq!(field(request("m", &[], true)), None);
        assert_eq!(field(request(" \n", &["a"], false)), Some("message"));
        assert_eq!(field(request("a\0", &["a"], false)), Some("message"));
        assert_eq!(field(request("m", &[], false)), Some("files"));
        assert_eq!(field(request("m", &["a"], true)), Some("files"));
    }

    #[test]
    fn the_path_that_is_not_there() {
        let stderr = "error: pathspec ':(top,literal)it's' did not match any file(s) known to git\n";
        assert_eq!(unmatched(stderr).as_deref(), Some("it's"));
        assert_eq!(unmatched("fatal: x"), None);
    }
}
