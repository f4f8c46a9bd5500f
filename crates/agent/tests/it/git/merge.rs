//! Finishing a merge that has conflicts.

use emergent_protocol::FailureCode;
use emergent_protocol::v1::git_request::Action;

use super::{Repository, all, changes, files};

/// A merge that stopped: `one` and `sub/f` are in conflict, `theirs` is merged, `two` is changed
/// and not staged.
async fn merging() -> Repository {
    let mut repository = Repository::with_a_commit().await;
    repository
        .sh("mkdir sub; echo f > sub/f; git add .; git commit -qm f; git checkout -qb other; \
             echo o > one; echo o > sub/f; echo t > theirs; git add .; git commit -qm other; \
             git checkout -q main; echo m > one; echo m > sub/f; git commit -qam main; \
             ! git merge -q other; echo 2b > two")
        .await;
    assert_eq!(repository.status().await.conflicts, ["one", "sub/f"]);
    repository
}

/// Whether the newest commit concludes the merge.
async fn is_merged(repository: &mut Repository) -> bool {
    repository
        .sh("git rev-list --parents -n 1 HEAD | wc -w; test -e .git/MERGE_HEAD && echo still || true")
        .await
        == "3"
}

#[tokio::test]
async fn resolved_files_are_named() {
    let mut repository = merging().await;
    repository.sh("echo both > one; rm sub/f").await;
    let commit = repository.commit(files("merged", &["./one", "sub"])).await;
    // What the merge brought is in it too: a merge has no parts.
    assert_eq!((commit.files_changed, commit.branch.as_str()), (3, "main"));
    assert!(is_merged(&mut repository).await);
    assert_eq!(repository.sh("cat one theirs; git ls-files sub").await, "both\nt");
    // What was neither named nor part of the merge is left alone.
    let status = repository.status().await;
    assert_eq!(changes(&status.unstaged), [("two", "modified")]);
    assert!(status.staged.is_empty() && status.conflicts.is_empty());
}

#[tokio::test]
async fn everything_is_resolved() {
    let mut repository = merging().await;
    // A title is no mark.
    repository.sh("printf 'Title\\n=======\\n' > one; echo both > sub/f").await;
    assert_eq!(repository.commit(all("merged")).await.files_changed, 4);
    assert!(is_merged(&mut repository).await);
    assert_eq!(repository.sh("git status --porcelain").await, "");
}

#[tokio::test]
async fn what_is_not_resolved_is_named() {
    let mut repository = merging().await;
    repository.sh("echo both > sub/f").await;
    for request in [all("m"), files("m", &["one", "sub/f"]), files("m", &["sub/f"])] {
        let failure = repository.refused(Action::Commit(request), FailureCode::GitFailed).await;
        assert_eq!(failure.suggestions, ["one"], "{failure:?}");
        assert!(failure.message.contains("1 file"), "{}", failure.message);
    }
    // A half of the marks is one.
    repository.sh("printf 'both\\n>>>>>>> other\\n' > one").await;
    repository.refused(Action::Commit(all("m")), FailureCode::GitFailed).await;
    // Resolved, and not named.
    repository.sh("echo both > one").await;
    let failure = repository.refused(Action::Commit(files("m", &["one"])), FailureCode::GitFailed).await;
    assert_eq!(failure.suggestions, ["sub/f"]);
    let missing = Action::Commit(files("m", &["one", "sub/f", "gone"]));
    assert_eq!(repository.refused(missing, FailureCode::FileNotFound).await.path, "gone");
    // Nothing of this has changed anything.
    assert_eq!(repository.status().await.conflicts, ["one", "sub/f"]);
    repository.sh("echo n > new").await;
    assert_eq!(repository.commit(files("merged", &["one", "sub/f", "new"])).await.files_changed, 4);
    assert!(is_merged(&mut repository).await);
}

/// Resolved by git itself before; any file may be named then.
#[tokio::test]
async fn a_merge_without_conflicts_is_concluded() {
    let mut repository = merging().await;
    repository.sh("echo both > one; git rm -q --cached sub/f; git add one").await;
    assert_eq!(repository.commit(files("merged", &["two"])).await.files_changed, 4);
    assert!(is_merged(&mut repository).await);
}

/// A conflict without a merge: only the named file is committed.
#[tokio::test]
async fn a_stash_in_conflict() {
    let mut repository = Repository::with_a_commit().await;
    repository
        .sh("echo s > one; git stash -q; echo m > one; git commit -qam m; ! git stash pop -q 2>/dev/null; \
             echo 2b > two; git add two; echo both > one")
        .await;
    assert_eq!(repository.commit(files("resolved", &["one"])).await.files_changed, 1);
    assert_eq!(changes(&repository.status().await.staged), [("two", "modified")]);
}
