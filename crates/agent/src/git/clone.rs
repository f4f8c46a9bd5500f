//! Cloning.
//!
//! Nothing of what is cloned is run: no hooks, no templates, no submodules. What git would need to
//! know to find its way without us is in the clone's own configuration, and no credential is, because
//! there is none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use emergent_protocol::v1;
use rustix::io::Errno;
use tokio::sync::OwnedMutexGuard;

use crate::error::CallError;

use super::error::GitError;
use super::names;
use super::program::{Call, Program, is_id};
use super::remote::{self, Brokered, Remotes};

/// The name of the remote in a clone.
const ORIGIN: &str = "origin";

/// How long after something was removed it is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How long removing may take, before somebody else is to wait no longer.
const REMOVING: Duration = Duration::from_secs(8);

/// All branches, whatever was cloned first: what is fetched later may be any of them.
const ALL_BRANCHES: &str = "+refs/heads/*:refs/remotes/origin/*";

/// The clone action.
pub(super) async fn clone(
    program: &Program<'_>,
    remotes: &Remotes,
    request: v1::GitCloneRequest,
    limit: Duration,
) -> Result<v1::GitCloneResponse, CallError> {
    let repository = remotes.find(&request.url)?;
    let reference = request.r#ref.as_str();
    if !reference.is_empty() && !is_id(reference) {
        names::check_branch("branch", reference)?;
    }
    let folder = program.folder().to_owned();
    let turn = program.shared().git.turn_to_clone().await;
    let was_there = prepare(&folder, request.clean).await?;
    let made = Made(Some(Leftovers { folder, was_there, _turn: turn }));
    let cloned = match tokio::time::timeout(limit, fill(program, remotes, repository, &request)).await {
        Ok(cloned) => cloned,
        Err(_) => Err(GitError::too_slow(limit).into()),
    };
    made.end(cloned.is_ok()).await;
    cloned
}

/// What a clone has made so far. Unless it has ended well it is removed, also where nobody waits for it any more:
/// whoever tries again finds what was there before, which was nothing.
struct Made(Option<Leftovers>);

struct Leftovers {
    folder: PathBuf,
    was_there: bool,
    _turn: OwnedMutexGuard<()>,
}

impl Made {
    async fn end(mut self, well: bool) {
        if let Some(leftovers) = self.0.take().filter(|_| !well) {
            leftovers.remove().await;
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let (Some(leftovers), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(leftovers.remove());
        }
    }
}

impl Leftovers {
    /// A git that is being ended may still write: there must be nothing twice in a row.
    async fn remove(self) {
        let (folder, was_there) = (self.folder.clone(), self.was_there);
        let removing = async {
            let mut clean = 0;
            while clean < 2 {
                let path = folder.clone();
                let removed = tokio::task::spawn_blocking(move || undo(&path, was_there)).await;
                clean = if matches!(removed, Ok(Ok(false))) { clean + 1 } else { 0 };
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let _ = tokio::time::timeout(REMOVING, removing).await;
    }
}

async fn fill(
    program: &Program<'_>,
    remotes: &Remotes,
    repository: &Brokered,
    request: &v1::GitCloneRequest,
) -> Result<v1::GitCloneResponse, CallError> {
    let folder = program.folder().to_string_lossy().into_owned();
    let inside = Program::new(program.shared(), folder.clone(), program.user().to_owned(), "path");
    let outside = Program::new(program.shared(), "/".to_owned(), program.user().to_owned(), "path");
    match is_id(&request.r#ref) {
        true => by_id(&inside, &outside, remotes, repository, request).await?,
        false => by_name(&inside, &outside, remotes, repository, request).await?,
    }
    for (key, value) in [("user.name", &request.author_name), ("user.email", &request.author_email)] {
        if !value.is_empty() {
            inside.ask(Call::write(&["config", key]).and([value.as_str()])).await?;
        }
    }
    let branch = inside.current_branch().await?.unwrap_or_default();
    let commit = inside.commit_id("HEAD").await?.unwrap_or_default();
    Ok(v1::GitCloneResponse { commit, branch, path: folder })
}

/// A branch, a tag, or whatever the remote's HEAD is.
async fn by_name(
    inside: &Program<'_>,
    outside: &Program<'_>,
    remotes: &Remotes,
    repository: &Brokered,
    request: &v1::GitCloneRequest,
) -> Result<(), CallError> {
    let mut call =
        Call::write(&["clone", "--quiet", "--template=", "--no-recurse-submodules", "--origin", ORIGIN]);
    if request.depth > 0 {
        call = call.and([format!("--depth={}", request.depth)]).and(["--single-branch"]);
    }
    if !request.r#ref.is_empty() {
        call = call.and([format!("--branch={}", request.r#ref)]);
    }
    for setting in repository.kept_settings() {
        call = call.and(["--config".to_owned(), setting]);
    }
    let folder = inside.folder().to_string_lossy().into_owned();
    let call = call.and(["--", request.url.as_str(), folder.as_str()]);
    let cloned = outside.run(remotes.call(call)).await?;
    if cloned.status.code != 0 {
        return Err(remote::failure(outside, &cloned, &request.r#ref));
    }
    let words = ["config", "--replace-all", "remote.origin.fetch", ALL_BRANCHES];
    inside.ask(Call::write(&words)).await?;
    Ok(())
}

/// One commit, which need not be the end of any branch.
async fn by_id(
    inside: &Program<'_>,
    outside: &Program<'_>,
    remotes: &Remotes,
    repository: &Brokered,
    request: &v1::GitCloneRequest,
) -> Result<(), CallError> {
    let folder = inside.folder().to_string_lossy().into_owned();
    outside.ask(Call::write(&["init", "--quiet", "--template=", "--"]).and([folder])).await?;
    for setting in repository.kept_settings() {
        let (key, value) = setting.split_once('=').unwrap_or((&setting, ""));
        inside.ask(Call::write(&["config", key, value])).await?;
    }
    inside.ask(Call::write(&["remote", "add", "--", ORIGIN, &request.url])).await?;
    let mut call = Call::write(&["fetch", "--quiet", "--no-recurse-submodules"]);
    if request.depth > 0 {
        call = call.and([format!("--depth={}", request.depth)]);
    }
    let call = call.and(["--", ORIGIN, request.r#ref.as_str()]);
    let fetched = inside.run(remotes.call(call)).await?;
    if fetched.status.code != 0 {
        return Err(remote::failure(inside, &fetched, &request.r#ref));
    }
    if inside.commit_id(&request.r#ref).await?.is_none() {
        return Err(GitError::RefNotFound { name: request.r#ref.clone() }.into());
    }
    let words = ["checkout", "--quiet", "--no-guess", "--detach", &request.r#ref, "--"];
    let checked_out = remotes.call(Call::write(&words));
    inside.ask(checked_out).await?;
    Ok(())
}

/// Makes sure that there is nothing where the clone goes. Answers whether the folder was there.
async fn prepare(folder: &Path, clean: bool) -> Result<bool, CallError> {
    let path = folder.to_owned();
    let prepared = tokio::task::spawn_blocking(move || prepare_now(&path, clean)).await;
    let prepared = prepared.unwrap_or_else(|panic| Err(io::Error::other(panic.to_string())));
    prepared.map_err(|error| match error.kind() {
        io::ErrorKind::DirectoryNotEmpty => CallError::AlreadyExists { path: folder.to_owned() },
        _ => CallError::file(folder)(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    })
}

fn prepare_now(folder: &Path, clean: bool) -> io::Result<bool> {
    match fs::symlink_metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
        Ok(found) if !found.is_dir() => Err(io::Error::from(io::ErrorKind::NotADirectory)),
        Ok(_) if clean => empty(folder).map(|()| true),
        Ok(_) if fs::read_dir(folder)?.next().is_none() => Ok(true),
        Ok(_) => Err(io::Error::from(io::ErrorKind::DirectoryNotEmpty)),
    }
}

/// Returns whether there was something to remove.
fn undo(folder: &Path, was_there: bool) -> io::Result<bool> {
    let had_something = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?.next().is_some(),
    };
    match was_there {
        true => empty(folder)?,
        false => fs::remove_dir_all(folder)?,
    }
    Ok(had_something || !was_there)
}

/// Removes everything in a folder. Links are removed and not followed.
fn empty(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_is_emptied_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let (folder, elsewhere) = (root.path().join("a"), root.path().join("b"));
        fs::create_dir_all(folder.join("c/d")).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("precious"), "").unwrap();
        fs::write(folder.join("c/d/file"), "").unwrap();
        symlink(&elsewhere, folder.join("link")).unwrap();
        assert!(prepare_now(&folder, false).is_err(), "what is there stays");
        assert!(folder.join("c/d/file").exists());
        assert!(prepare_now(&folder, true).unwrap());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        assert!(elsewhere.join("precious").exists());
        assert!(prepare_now(&folder, false).unwrap());
        assert!(!prepare_now(&root.path().join("none"), false).unwrap());
        symlink(&elsewhere, root.path().join("link")).unwrap();
        assert!(prepare_now(&root.path().join("link"), true).is_err());
    }
}
