//! What was committed.

use emergent_protocol::v1;

use crate::error::CallError;

use super::error::GitError;
use super::names;
use super::porcelain::{records, text};
use super::program::{Call, Program, is_id};

/// How many commits are told of when no number is named, and at most.
const DEFAULT_LIMIT: u32 = 20;
const MAX_LIMIT: u32 = 1000;

/// The most of one commit's message.
const MAX_MESSAGE: usize = 16 << 10;

/// The most of a name or an address.
const MAX_PERSON: usize = 1 << 10;

/// The most of all of them together, as bytes and as text.
const MAX_BYTES: usize = 2 << 20;
const MAX_TEXT: usize = 3 << 20;

/// One record a commit, of this many fields. A commit cannot hold a NUL.
const FORMAT: &str = "--format=tformat:%H%x00%P%x00%an%x00%ae%x00%at%x00%s%x00%b";
const FIELDS: usize = 7;

/// The log action.
pub(super) async fn log(
    program: &Program<'_>,
    request: v1::GitLogRequest,
) -> Result<v1::GitLogResponse, CallError> {
    let limit = match request.limit {
        0 => DEFAULT_LIMIT,
        limit if limit <= MAX_LIMIT => limit,
        _ => return Err(GitError::invalid("limit", format!("limit may be at most {MAX_LIMIT}")).into()),
    };
    let start = match request.r#ref.as_str() {
        "" => program.commit_id("HEAD").await?,
        name => {
            names::check_revision("ref", name)?;
            let id = program.commit_id(name).await?;
            Some(id.ok_or_else(|| GitError::RefNotFound { name: name.to_owned() })?)
        }
    };
    // Before the first commit there is nothing to tell.
    let Some(start) = start else { return Ok(v1::GitLogResponse::default()) };
    let words = ["log", "-z", "--no-patch", "--no-color", "--no-show-signature", "--no-notes", FORMAT];
    // One more, to know whether there are more.
    let call = Call::read(&words).and([format!("--max-count={}", limit + 1), start, "--".to_owned()]);
    let collected = program.ask(call.limit(MAX_BYTES)).await?;
    let mut commits = commits(&collected.stdout);
    let truncated = collected.cut || commits.len() > limit as usize;
    commits.truncate(limit as usize);
    let mut room = MAX_TEXT;
    let fits = |commit: &v1::GitCommit| {
        let size = size(commit);
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    };
    let total = commits.len();
    let commits: Vec<_> = commits.into_iter().take_while(fits).collect();
    Ok(v1::GitLogResponse { truncated: truncated || commits.len() < total, commits })
}

/// About what a commit takes in the answer.
fn size(commit: &v1::GitCommit) -> usize {
    let texts = [&commit.author_name, &commit.author_email, &commit.subject, &commit.body];
    texts.into_iter().chain(&commit.parents).map(|text| text.len() + 4).sum::<usize>() + 100
}

/// Reads records of [`FORMAT`]. One that was cut is left out.
fn commits(output: &[u8]) -> Vec<v1::GitCommit> {
    let fields: Vec<&[u8]> = records(output).collect();
    fields.chunks_exact(FIELDS).filter_map(commit).collect()
}

fn commit(fields: &[&[u8]]) -> Option<v1::GitCommit> {
    let [commit, parents, author_name, author_email, author_unix, subject, body] = fields else {
        return None;
    };
    let commit = Some(text(commit)).filter(|id| is_id(id))?;
    let parents =
        text(parents).split_ascii_whitespace().filter(|id| is_id(id)).take(100).map(str::to_owned).collect();
    Some(v1::GitCommit {
        commit,
        parents,
        author_name: bounded(author_name, MAX_PERSON),
        author_email: bounded(author_email, MAX_PERSON),
        author_unix: text(author_unix).parse().unwrap_or(0),
        subject: bounded(subject, MAX_MESSAGE),
        body: bounded(body, MAX_MESSAGE).trim_end().to_owned(),
    })
}

fn bounded(bytes: &[u8], limit: usize) -> String {
    match bytes.get(..limit) {
        Some(head) if bytes.len() > limit => text(head) + " …",
        _ => text(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn records_of_commits() {
        let one = format!("{ID}\0{ID} {ID}\0A\nB\0a@b\x001700000000\0subject\0body\nmore\n\0");
        let cut = format!("{one}{ID}\0\0A");
        for output in [one.as_bytes(), cut.as_bytes()] {
            let seen = commits(output);
            assert_eq!(seen.len(), 1);
            assert_eq!((seen[0].commit.as_str(), seen[0].parents.len()), (ID, 2));
            assert_eq!((seen[0].author_name.as_str(), seen[0].author_unix), ("A\nB", 1_700_000_000));
            assert_eq!((seen[0].subject.as_str(), seen[0].body.as_str()), ("subject", "body\nmore"));
        }
        assert!(commits(b"").is_empty());
    }

    #[test]
    fn long_messages_are_cut() {
        let output = format!("{ID}\0\0\0\0\0s\0{}\0", "x".repeat(MAX_MESSAGE + 1));
        assert_eq!(commits(output.as_bytes())[0].body.len(), MAX_MESSAGE + " …".len());
    }
}
