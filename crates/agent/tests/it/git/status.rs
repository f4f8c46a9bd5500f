//! What differs.

use emergent_protocol::{FailureCode, v1};
use v1::git_request::Action;

use super::{Repository, changes};

const STATUS: Action = Action::Status(v1::GitStatusRequest {});

#[tokio::test]
async fn before_and_after_the_first_commit() {
    let mut repository = Repository::fresh().await;
    repository.sh("echo x > new; mkdir folder; echo y > folder/file").await;
    let status = repository.status().await;
    assert_eq!((status.branch.as_str(), status.commit.as_str()), ("main", ""));
    assert_eq!(status.untracked, ["folder/", "new"]);
    repository.sh("git add new; git commit -qm first").await;
    let status = repository.status().await;
    assert_eq!(status.commit, repository.sh("git rev-parse HEAD").await);
    assert_eq!((status.upstream.as_str(), status.ahead, status.behind), ("", 0, 0));
    repository.sh("git checkout -q --detach").await;
    assert_eq!(repository.status().await.branch, "");
}

#[tokio::test]
async fn every_kind_of_change() {
    let mut repository = Repository::with_a_commit().await;
    repository.sh("seq 50 > moved; echo s > staged; echo l > link; git add .; git commit -qm more").await;
    repository
        .sh("git mv moved away; echo s2 > staged; git add staged; echo s3 > staged; rm one; \
             git rm -q two; echo n > new; git add new; rm link; ln -s x link; echo u > untracked; \
             echo ignored > .gitignore; echo i > ignored")
        .await;
    let status = repository.status().await;
    assert_eq!(
        changes(&status.staged),
        [("away", "renamed"), ("new", "added"), ("staged", "modified"), ("two", "deleted")]
    );
    assert_eq!(status.staged[0].old_path, "moved");
    assert_eq!(
        changes(&status.unstaged),
        [("link", "type_changed"), ("one", "deleted"), ("staged", "modified")]
    );
    assert_eq!(status.untracked, [".gitignore", "untracked"]);
    assert!(!status.truncated);
}

#[tokio::test]
async fn conflicts_and_upstream() {
    let mut repository = Repository::with_a_commit().await;
    repository
        .sh("git checkout -qb other; echo other > one; git commit -qam other; git checkout -q main; \
             echo mine > one; git commit -qam mine; git branch -q --set-upstream-to=other; git merge -q other || true")
        .await;
    let status = repository.status().await;
    assert_eq!(status.conflicts, ["one"]);
    assert_eq!((status.upstream.as_str(), status.ahead, status.behind), ("other", 1, 1));
    let commit = Action::Commit(super::files("m", &["two"]));
    let failure = repository.refused(commit, FailureCode::GitFailed).await;
    assert_eq!(failure.suggestions, ["one"]);
    assert!(failure.message.contains("conflicts"), "{failure:?}");
    let failure = repository.refused(Action::Commit(super::all("m")), FailureCode::GitFailed).await;
    assert_eq!(failure.suggestions, ["one"]);
    // Resolved, it is committed as the merge that it is.
    repository.sh("echo both > one; git add one").await;
    repository.commit(super::all("merged")).await;
    assert_eq!(repository.log(1, "").await.commits[0].parents.len(), 2);
}

/// Any name is a name.
#[tokio::test]
async fn names_may_hold_anything() {
    let mut repository = Repository::fresh().await;
    repository
        .sh(r#"touch -- $'a\nb' 'quote"d' "it's" $'t\tab' 'sp ace ' ünï -dash '*' ':(top)x' '? y' $'\xff\xfe' '1 .M N...'"#)
        .await;
    let mut expected = vec![
        "*",
        "-dash",
        "1 .M N...",
        ":(top)x",
        "? y",
        "a\nb",
        "it's",
        "quote\"d",
        "sp ace ",
        "t\tab",
        "ünï",
        "\u{fffd}\u{fffd}",
    ];
    expected.sort_unstable();
    let mut untracked = repository.status().await.untracked;
    untracked.sort();
    assert_eq!(untracked, expected);
    let named: Vec<&str> = expected.iter().copied().filter(|name| !name.contains('\u{fffd}')).collect();
    let commit = repository.commit(super::files("all but one", &named)).await;
    assert_eq!(commit.files_changed, 11);
    assert_eq!(repository.status().await.untracked.len(), 1);
    assert_eq!(repository.commit(super::all("the last")).await.files_changed, 1);
    repository.sh(r#"for f in *; do echo changed > "./$f"; done"#).await;
    let diff = repository.diff(v1::GitDiffRequest::default()).await;
    let mut paths: Vec<_> = diff.files.iter().map(|file| file.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, expected);
}

/// Where there is no repository, no folder or no git.
#[tokio::test]
async fn nowhere_to_look() {
    let mut repository = Repository::with_a_commit().await;
    let check = |result: Result<_, crate::support::Failed>, code: FailureCode| {
        let (seen, failure) = result.map(|answer| panic!("{answer:?}")).unwrap_or_else(|failed| failed);
        assert_eq!(seen, code, "{failure:?}");
        failure.path
    };
    assert_eq!(check(repository.act_in("/", "", STATUS).await, FailureCode::NotARepository), "/");
    check(repository.act_in("/no/such", "", STATUS).await, FailureCode::FileNotFound);
    check(repository.act_in("one", "", STATUS).await, FailureCode::NotADirectory);
    check(repository.act_in("", "nobody-at-all", STATUS).await, FailureCode::InvalidRequest);
    repository.sh("git clone -q --bare . bare.git").await;
    check(repository.act_in("bare.git", "", STATUS).await, FailureCode::GitFailed);
    // Another worktree and a folder below the root are in a repository.
    repository.sh("git worktree add -q ../wt-$$ -b wt; mv ../wt-$$ wt; git worktree repair -q wt || git worktree repair wt >/dev/null; mkdir -p deep/er").await;
    assert!(repository.act_in("wt", "", STATUS).await.is_ok());
    assert!(repository.act_in("deep/er", "", STATUS).await.is_ok());
    let mut hello = Repository::greeting();
    hello.environment.insert("PATH".to_owned(), "/nonexistent".to_owned());
    repository.client.stub.hello(hello).await.expect("greets");
    check(repository.act(STATUS).await, FailureCode::ProgramMissing);
}

/// A repository of another account's is one.
#[tokio::test]
async fn another_account_s_repository() {
    let mut repository = Repository::with_a_commit().await;
    repository.sh("chmod 755 .; chown -R nobody .; echo x > one").await;
    assert_eq!(changes(&repository.status().await.unstaged), [("one", "modified")]);
    let status = repository.act_in("", "nobody", STATUS).await;
    assert!(status.is_ok(), "{status:?}");
    let commit = Action::Commit(super::files("mine", &["one"]));
    repository.act_in("", "nobody", commit).await.expect("commits");
    assert_eq!(repository.sh("stat -c %U .git/COMMIT_EDITMSG").await, "nobody");
}
