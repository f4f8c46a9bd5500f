//! The edit tool: one string of a file becomes another.
//!
//! ```text
//!  content ── apply ── each change ──► output ── unchanged ranges, new text ──► replacement
//!  (blocks)   (search)                   └── diff: the lines around the changes
//! ```
//!
//! The file is replaced in one piece, while no other edit or write of it is let in between. A
//! small file is read at once. Of a large one only blocks are in memory, so that a file of any
//! size can be edited.
//!
//! An edit is not synced to the disk, a write is. The new content is complete in the page
//! cache before the rename, so the end of the agent, of its sandbox or of the server loses
//! nothing. After a power cut a file system that orders data before a rename over an existing
//! file (ext4 with its default `auto_da_alloc`, btrfs) has the old or the new content, never a
//! torn one. Waiting for the disk would make an edit many times slower.

mod apply;
mod closest;
mod content;
mod diff;
mod fuzzy;
mod line_ends;
mod output;
#[cfg(test)]
mod tests;
mod whole;
mod window;

pub use apply::{Change, Edit, Refusal, Rule};
pub use closest::Closest;
pub use diff::{DIFF_BYTES, Diff};
pub use whole::{Applied, apply, diff};

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use emergent_protocol::v1;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::agent::Shared;
use crate::error::CallError;
use crate::files::{self, CancelOnDrop, NewFile, Replacement, Turn};

use apply::Stopped;
use content::{Content, LargeFile};
use output::Output;

/// A file up to this size is read at once; of a larger one, blocks are.
const MAX_HELD_BYTES: u64 = 4 << 20;

/// Permission bits of a new file.
const NEW_FILE_MODE: u32 = 0o644;

/// Replaces a string in a file, or creates the file when the old string is empty.
pub(crate) async fn edit(
    shared: &Arc<Shared>,
    request: v1::EditRequest,
) -> Result<v1::EditResponse, CallError> {
    let path = files::resolve(&shared.config.workspace, &request.path)?;
    if request.old_string == request.new_string {
        return Err(CallError::field("new_string", "old_string and new_string are equal"));
    }
    if request.replace_all && request.mode() == v1::EditMode::Fuzzy {
        let reason = "every place can be replaced only where it matches exactly: leave out `mode`, or \
                      `replace_all`";
        return Err(CallError::field("replace_all", reason));
    }
    if request.old_string.is_empty() {
        return create(path, request.new_string).await;
    }
    let target = files::follow_links(&path)?;
    // A large file takes a while; once nobody waits for the answer, nothing is changed.
    let cancelled = CancelOnDrop::default();
    let is_cancelled = cancelled.flag.clone();
    let turn = Turn::of_path(&target).await.map_err(files::with_near_names)?;
    let is_large = rustix::fs::stat(&target).is_ok_and(|stat| size_of(&stat) > MAX_HELD_BYTES);
    let replace = move || replace(&path, target, &request, &turn, is_cancelled);
    if is_large { files::long_blocking(replace).await } else { files::blocking(replace).await }
}

fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

async fn create(path: PathBuf, content: String) -> Result<v1::EditResponse, CallError> {
    let text: Arc<[u8]> = content.into_bytes().into();
    let (new_path, content) = (path.clone(), text.clone());
    let put = move |replacement: Replacement, turn| {
        replacement.commit_new(turn)?;
        let diff = diff(b"", &[Change { range: 0..0, text }]);
        Ok(response(&path, diff, 1, Rule::Exact, true))
    };
    files::in_turn(move || new_file(&new_path, &content), put).await
}

fn new_file(path: &Path, content: &[u8]) -> Result<Replacement, CallError> {
    match rustix::fs::lstat(path) {
        Ok(_) => return Err(is_there(path)),
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(CallError::file(path)(errno)),
    }
    let new = NewFile { mode: NEW_FILE_MODE, owner: None, size_hint: content.len() as u64 };
    let mut replacement = Replacement::begin(path, &new)?;
    replacement.append(content)?;
    Ok(replacement)
}

/// Why nothing can be created here; a link that leads nowhere is there too.
fn is_there(path: &Path) -> CallError {
    match rustix::fs::stat(path) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_dir() => CallError::file(path)(Errno::ISDIR),
        _ => CallError::AlreadyExists { path: path.to_owned() },
    }
}

fn replace(
    path: &Path,
    target: PathBuf,
    request: &v1::EditRequest,
    turn: &Turn,
    cancelled: Arc<AtomicBool>,
) -> Result<v1::EditResponse, CallError> {
    let edit = Edit {
        old: &request.old_string,
        new: &request.new_string,
        replace_all: request.replace_all,
        fuzzy: request.mode() == v1::EditMode::Fuzzy,
    };
    // It may have waited long for the edit before it.
    if cancelled.load(Ordering::Relaxed) {
        return Err(CallError::File { path: target, errno: Errno::CANCELED });
    }
    let (file, stat) = files::open_regular(&target).map_err(files::with_near_names)?;
    let mut held = Vec::new();
    if size_of(&stat) <= MAX_HELD_BYTES && read(&target, &file, &mut held)? {
        return replace_in(path, &target, &mut held.as_slice(), edit, turn, |_| Ok(()));
    }
    drop(held);
    let mut content = LargeFile::new(file, target.clone(), cancelled)?;
    replace_in(path, &target, &mut content, edit, turn, LargeFile::check_unchanged)
}

fn replace_in<C: Content>(
    path: &Path,
    target: &Path,
    content: &mut C,
    edit: Edit<'_>,
    turn: &Turn,
    check: impl FnOnce(&C) -> Result<(), CallError>,
) -> Result<v1::EditResponse, CallError> {
    let mut output = Output::new(target, edit);
    let rule = apply::apply(content, edit, &mut output).map_err(|stopped| match stopped {
        Stopped::Refused(refusal) => refused(path, refusal),
        Stopped::Failed(error) => error,
    })?;
    let written = output.finish(content)?;
    check(content)?;
    written.replacement.commit_unsynced(turn)?;
    Ok(response(path, written.diff, written.replacements, rule, false))
}

/// Reads all of a small file; `false` when it turns out to be a large one.
fn read(path: &Path, file: &OwnedFd, content: &mut Vec<u8>) -> Result<bool, CallError> {
    const STEP: usize = 64 << 10;
    loop {
        let filled = content.len();
        content.resize(filled + STEP, 0);
        let read = files::read_full(file, content.get_mut(filled..).unwrap_or_default(), path)?;
        content.truncate(filled + read);
        if read < STEP {
            return Ok(true);
        }
        if content.len() as u64 > MAX_HELD_BYTES {
            return Ok(false);
        }
    }
}

fn refused(path: &Path, refusal: Refusal) -> CallError {
    let path = path.to_owned();
    match refusal {
        Refusal::NoMatch { closest } => CallError::NoMatch { path, closest },
        Refusal::MultipleMatches { lines } => CallError::MultipleMatches { path, lines },
    }
}

fn response(path: &Path, diff: Diff, replacements: u64, rule: Rule, created: bool) -> v1::EditResponse {
    // A name with a line end in it would look like a line of the diff.
    let name: String = files::plain(path)
        .to_string_lossy()
        .chars()
        .map(|character| if character.is_control() { '\u{fffd}' } else { character })
        .collect();
    let old_name = if created { "/dev/null" } else { &name };
    v1::EditResponse {
        lines_changed: diff.lines_changed,
        replacements,
        diff: format!("--- {old_name}\n+++ {name}\n{}", diff.text),
        diff_truncated: diff.truncated,
        rule: match rule {
            Rule::Exact => v1::MatchRule::Exact,
            Rule::TrailingBlanks => v1::MatchRule::TrailingBlanks,
            Rule::Indentation => v1::MatchRule::Indentation,
        }
        .into(),
        created,
    }
}
