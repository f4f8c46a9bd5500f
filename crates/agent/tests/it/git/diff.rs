//! How it differs, and what was committed.

use emergent_protocol::{FailureCode, v1};
use v1::git_request::Action;

use super::Repository;

#[tokio::test]
async fn unstaged_staged_and_against_a_commit() {
    let mut repository = Repository::with_a_commit().await;
    repository
        .sh("echo 1b >> one; git add one; echo 1c >> one; printf 'a\\0b' > bin; git add bin; echo x >> two")
        .await;
    let paths = |diff: &v1::GitDiffResponse| {
        let files = diff.files.iter();
        files.map(|file| (file.path.clone(), file.added, file.deleted, file.binary)).collect::<Vec<_>>()
    };
    let unstaged = repository.diff(v1::GitDiffRequest::default()).await;
    assert_eq!(paths(&unstaged), [("one".to_owned(), 1, 0, false), ("two".to_owned(), 1, 0, false)]);
    assert!(unstaged.diff.contains("--- a/one\n+++ b/one\n") && unstaged.diff.contains("+1c\n"));
    let staged = repository.diff(v1::GitDiffRequest { staged: true, ..Default::default() }).await;
    assert_eq!(paths(&staged), [("bin".to_owned(), 0, 0, true), ("one".to_owned(), 1, 0, false)]);
    let only = v1::GitDiffRequest { paths: vec!["two".to_owned()], ..Default::default() };
    assert_eq!(paths(&repository.diff(only).await), [("two".to_owned(), 1, 0, false)]);
    let base =
        v1::GitDiffRequest { base: "HEAD".to_owned(), paths: vec!["one".to_owned()], ..Default::default() };
    assert_eq!(paths(&repository.diff(base).await), [("one".to_owned(), 2, 0, false)]);
    // A pattern is a name here.
    let pattern = v1::GitDiffRequest { paths: vec!["*".to_owned()], ..Default::default() };
    assert_eq!(repository.diff(pattern).await, v1::GitDiffResponse::default());
    for (base, code) in [("nowhere", FailureCode::RefNotFound), ("--output=x", FailureCode::InvalidRequest)] {
        let request = v1::GitDiffRequest { base: base.to_owned(), ..Default::default() };
        repository.refused(Action::Diff(request), code).await;
    }
}

#[tokio::test]
async fn a_long_diff_is_cut() {
    let mut repository = Repository::with_a_commit().await;
    repository.sh("seq 1000000 > one").await;
    let diff = repository.diff(v1::GitDiffRequest::default()).await;
    assert!(diff.truncated && diff.diff.len() <= 512 << 10 && diff.diff.ends_with('\n'));
    assert_eq!(diff.files[0].added, 999_999);
    // The repository is not left locked.
    repository.commit(super::files("long", &["one"])).await;
}

#[tokio::test]
async fn commits_newest_first() {
    let mut repository = Repository::fresh().await;
    assert_eq!(repository.log(0, "").await, v1::GitLogResponse::default());
    repository.sh("for i in $(seq 25); do git commit -q --allow-empty -m \"number $i\n\nbody\nof $i\"; done; git tag v1 HEAD~5").await;
    let log = repository.log(0, "").await;
    assert_eq!((log.commits.len(), log.truncated), (20, true));
    let newest = &log.commits[0];
    assert_eq!((newest.subject.as_str(), newest.body.as_str()), ("number 25", "body\nof 25"));
    assert_eq!((newest.author_name.as_str(), newest.author_email.as_str()), ("Test", "test@example.com"));
    assert_eq!(newest.parents, [log.commits[1].commit.clone()]);
    assert!(newest.author_unix > 1_600_000_000);
    let all = repository.log(25, "").await;
    assert_eq!((all.commits.len(), all.truncated), (25, false));
    assert_eq!(repository.log(1, "v1").await.commits[0].subject, "number 20");
    let log = |limit, name: &str| Action::Log(v1::GitLogRequest { limit, r#ref: name.to_owned() });
    repository.refused(log(1, "nowhere"), FailureCode::RefNotFound).await;
    assert_eq!(repository.refused(log(1, "--all"), FailureCode::InvalidRequest).await.field, "ref");
    assert_eq!(repository.refused(log(1001, ""), FailureCode::InvalidRequest).await.field, "limit");
}
