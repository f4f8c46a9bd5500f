//! The git tool.

use bytes::Bytes;
use emergent_agent_client::{
    AgentError, GitAction, GitAnswer, GitBranchRequest, GitBranches, GitChangeKind, GitCheckedOut,
    GitCheckoutRequest, GitCommitRequest, GitCommitScope, GitCommitted, GitDiff, GitDiffRequest, GitLog,
    GitLogRequest, GitStatus,
};

use super::{Subject, TestSandbox};

const REPOSITORY: &str = "git init -q -b main . && git config user.name Tester \
                          && git config user.email tester@example.org";

async fn git(sandbox: &TestSandbox, action: GitAction) -> GitAnswer {
    let answer = sandbox.client.git(None, None, &action).await;
    answer.unwrap_or_else(|error| panic!("{action:?}: {error}"))
}

async fn refused(sandbox: &TestSandbox, action: GitAction) -> (&'static str, Vec<String>) {
    match sandbox.client.git(None, None, &action).await {
        Err(AgentError::Failed { code, about, .. }) => (code.as_str(), about.suggestions),
        other => panic!("{action:?}: {other:?}"),
    }
}

async fn write(sandbox: &TestSandbox, path: &str, content: &'static str) {
    sandbox.client.write_file(path, Bytes::from_static(content.as_bytes())).await.expect("writes");
}

async fn status(sandbox: &TestSandbox) -> GitStatus {
    let GitAnswer::Status(status) = git(sandbox, GitAction::Status).await else { panic!("another answer") };
    status
}

async fn commit(sandbox: &TestSandbox, message: &str, what: GitCommitScope) -> GitCommitted {
    let action = GitAction::Commit(GitCommitRequest { message: message.to_owned(), what, author: None });
    let GitAnswer::Commit(committed) = git(sandbox, action).await else { panic!("another answer") };
    committed
}

fn checkout(reference: &str, create: bool) -> GitAction {
    GitAction::Checkout(GitCheckoutRequest { reference: reference.to_owned(), create })
}

async fn branches(sandbox: &TestSandbox, request: GitBranchRequest) -> GitBranches {
    let GitAnswer::Branch(branches) = git(sandbox, GitAction::Branch(request)).await else {
        panic!("another answer")
    };
    branches
}

/// Only the named files are committed; the rest is seen as what it is.
pub async fn what_is_named_is_committed(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    assert_eq!(refused(&sandbox, GitAction::Status).await.0, "not_a_repository");
    sandbox.sh(REPOSITORY).await;
    write(&sandbox, "one.txt", "one\n").await;
    write(&sandbox, "$(touch x) ü.txt", "two\n").await;
    let seen = status(&sandbox).await;
    assert_eq!((seen.branch.as_deref(), seen.commit), (Some("main"), None));
    assert_eq!(seen.untracked, ["$(touch x) ü.txt", "one.txt"]);

    let message = "first: $(touch x) `touch x`\n\nwith a body";
    let only = GitCommitScope::Files(vec!["one.txt".to_owned()]);
    let committed = commit(&sandbox, message, only).await;
    assert_eq!((committed.files_changed, committed.branch.as_deref()), (1, Some("main")));
    assert_eq!(
        sandbox.sh("git rev-parse HEAD; git ls-files").await,
        format!("{}\none.txt", committed.commit)
    );
    write(&sandbox, "one.txt", "one\nmore\n").await;
    let seen = status(&sandbox).await;
    assert_eq!(seen.commit.as_deref(), Some(committed.commit.as_str()));
    let unstaged: Vec<_> = seen.unstaged.iter().map(|change| (change.path.as_str(), change.change)).collect();
    assert_eq!(
        (unstaged.as_slice(), seen.staged.len()),
        ([("one.txt", GitChangeKind::Modified)].as_slice(), 0)
    );
    assert_eq!(seen.untracked, ["$(touch x) ü.txt"]);

    let all = commit(&sandbox, "second", GitCommitScope::All).await;
    assert_eq!(all.files_changed, 2);
    let nothing = GitCommitRequest { message: "third".to_owned(), what: GitCommitScope::All, author: None };
    assert_eq!(refused(&sandbox, GitAction::Commit(nothing)).await.0, "nothing_to_commit");
    let GitAnswer::Log(GitLog { commits, truncated }) =
        git(&sandbox, GitAction::Log(GitLogRequest::default())).await
    else {
        panic!("another answer")
    };
    assert!(!truncated);
    let subjects: Vec<_> = commits.iter().map(|commit| commit.subject.as_str()).collect();
    assert_eq!(subjects, ["second", "first: $(touch x) `touch x`"]);
    assert_eq!((commits[1].body.trim_end(), commits[1].author_name.as_str()), ("with a body", "Tester"));
    assert_eq!(commits[0].parents, [committed.commit]);
    assert_eq!(sandbox.sh("ls").await, "$(touch x) ü.txt\none.txt");
}

/// A file with conflicts is one file.
pub async fn a_file_with_conflicts_is_told_once(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh(REPOSITORY).await;
    write(&sandbox, "one.txt", "a\n").await;
    write(&sandbox, "two.txt", "a\n").await;
    commit(&sandbox, "first", GitCommitScope::All).await;
    sandbox
        .sh("git checkout -qb other; echo b > one.txt; git commit -qam b; git checkout -q main; echo c > one.txt; \
             git commit -qam c; ! git merge -q other; echo x >> two.txt")
        .await;
    assert_eq!(status(&sandbox).await.conflicts, ["one.txt"]);
    let GitAnswer::Diff(diff) = git(&sandbox, GitAction::Diff(GitDiffRequest::default())).await else {
        panic!("another answer")
    };
    let files: Vec<_> =
        diff.files.iter().map(|file| (file.path.as_str(), file.added, file.deleted)).collect();
    assert_eq!(files, [("one.txt", 4, 0), ("two.txt", 1, 0)], "{}", diff.diff);
    assert_eq!(diff.diff.matches("<<<<<<<").count(), 1);
}

/// How files differ, from the index and from a commit.
pub async fn differences_are_shown(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh(REPOSITORY).await;
    write(&sandbox, "one.txt", "a\nb\n").await;
    write(&sandbox, "two.txt", "a\n").await;
    commit(&sandbox, "first", GitCommitScope::All).await;
    write(&sandbox, "one.txt", "a\nc\nd\n").await;
    write(&sandbox, "two.txt", "b\n").await;
    sandbox.sh("git add two.txt").await;
    let show = async |request: GitDiffRequest| -> GitDiff {
        let GitAnswer::Diff(diff) = git(&sandbox, GitAction::Diff(request)).await else {
            panic!("another answer")
        };
        diff
    };
    let diff = show(GitDiffRequest::default()).await;
    assert!(diff.diff.contains("@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n"), "{}", diff.diff);
    let files: Vec<_> =
        diff.files.iter().map(|file| (file.path.as_str(), file.added, file.deleted)).collect();
    assert_eq!(files, [("one.txt", 2, 1)]);
    let staged = show(GitDiffRequest { staged: true, ..GitDiffRequest::default() }).await;
    assert_eq!(staged.files.len(), 1);
    assert_eq!(staged.files[0].path, "two.txt");
    let paths = vec!["two.txt".to_owned()];
    let base =
        show(GitDiffRequest { base: Some("main".to_owned()), paths, ..GitDiffRequest::default() }).await;
    assert!(base.diff.contains("-a\n+b\n") && base.files.len() == 1, "{}", base.diff);
    let nowhere = GitDiffRequest { base: Some("nowhere".to_owned()), ..GitDiffRequest::default() };
    assert_eq!(refused(&sandbox, GitAction::Diff(nowhere)).await.0, "ref_not_found");
    let option = GitDiffRequest { base: Some("--output=x".to_owned()), ..GitDiffRequest::default() };
    assert!(matches!(
        refused(&sandbox, GitAction::Diff(option)).await.0,
        "invalid_request" | "ref_not_found"
    ));
    assert_eq!(sandbox.sh("ls").await, "one.txt\ntwo.txt");
}

/// Branches are made, switched to and deleted, and no local change is lost.
pub async fn branches_are_switched(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh(REPOSITORY).await;
    write(&sandbox, "file", "main\n").await;
    let first = commit(&sandbox, "first", GitCommitScope::All).await.commit;
    let listed = branches(&sandbox, GitBranchRequest::Create("other".to_owned())).await;
    assert_eq!(
        (listed.branches.as_slice(), listed.current.as_deref()),
        (["main".to_owned(), "other".to_owned()].as_slice(), Some("main"))
    );
    let GitAnswer::Checkout(GitCheckedOut { branch, commit: at }) =
        git(&sandbox, checkout("feature/new", true)).await
    else {
        panic!("another answer")
    };
    assert_eq!((branch.as_deref(), at), (Some("feature/new"), Some(first)));
    write(&sandbox, "file", "feature\n").await;
    commit(&sandbox, "second", GitCommitScope::All).await;
    git(&sandbox, checkout("main", false)).await;
    assert_eq!(sandbox.sh("cat file").await, "main");
    // A change that the other branch has another content for is not overwritten.
    write(&sandbox, "file", "local\n").await;
    let (code, files) = refused(&sandbox, checkout("feature/new", false)).await;
    assert_eq!((code, files.as_slice()), ("would_overwrite", ["file".to_owned()].as_slice()));
    assert_eq!(sandbox.sh("cat file; git branch --show-current").await, "local\nmain");
    assert_eq!(refused(&sandbox, checkout("nowhere", false)).await.0, "ref_not_found");
    for name in ["-f", "a b", "a..b", "$(touch x)", "\u{3000}"] {
        let (code, _) = refused(&sandbox, checkout(name, true)).await;
        assert_eq!(code, "invalid_request", "{name:?}");
    }
    let left = branches(&sandbox, GitBranchRequest::Delete("other".to_owned())).await;
    assert_eq!(left.branches, ["feature/new", "main"]);
    assert_eq!(sandbox.sh("ls").await, "file");
}
