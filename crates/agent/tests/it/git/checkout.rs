//! Switching.

use emergent_protocol::FailureCode;

use super::{Repository, checkout};

#[tokio::test]
async fn branches_tags_commits_and_new_ones() {
    let mut repository = Repository::with_a_commit().await;
    let first = repository.sh("git rev-parse HEAD").await;
    repository.sh("git tag -a v1 -m v1; git checkout -qb work; echo w > one; git commit -qam work; git checkout -q main").await;
    let work = repository.sh("git rev-parse work").await;
    let seen = repository.checkout("work", false).await;
    assert_eq!((seen.branch.as_str(), seen.commit.as_str()), ("work", work.as_str()));
    for name in ["v1", &first, &first[..10], "HEAD~1"] {
        repository.checkout("work", false).await;
        let seen = repository.checkout(name, false).await;
        assert_eq!((seen.branch.as_str(), seen.commit.as_str()), ("", first.as_str()), "{name}");
    }
    repository.sh("echo kept > new; echo kept >> two").await;
    let seen = repository.checkout("fresh/one", true).await;
    assert_eq!((seen.branch.as_str(), seen.commit.as_str()), ("fresh/one", first.as_str()));
    assert_eq!(repository.sh("cat new; tail -n 1 two").await, "kept\nkept");
    repository.refused(checkout("main", true), FailureCode::AlreadyExists).await;
    repository.refused(checkout("nowhere", false), FailureCode::RefNotFound).await;
    // A file of that name is no branch.
    repository.refused(checkout("one", false), FailureCode::RefNotFound).await;
    for odd in ["", "-", "--orphan", "-b", "main:one", "a\0b"] {
        assert_eq!(repository.refused(checkout(odd, false), FailureCode::InvalidRequest).await.field, "ref");
    }
    assert_eq!(repository.refused(checkout("a..b", true), FailureCode::InvalidRequest).await.field, "ref");
}

#[tokio::test]
async fn before_the_first_commit() {
    let mut repository = Repository::fresh().await;
    let seen = repository.checkout("trunk", true).await;
    assert_eq!((seen.branch.as_str(), seen.commit.as_str()), ("trunk", ""));
    repository.refused(checkout("main", false), FailureCode::RefNotFound).await;
}

#[tokio::test]
async fn remote_branches_are_tracked() {
    let mut repository = Repository::with_a_commit().await;
    // The clone takes the place of what it was cloned from.
    repository.sh("git branch feature/x; git branch other; git clone -q . clone").await;
    repository.sh("rm -rf .git one two; mv clone/* clone/.git .; rmdir clone").await;
    let seen = repository.checkout("feature/x", false).await;
    assert_eq!(seen.branch, "feature/x");
    assert_eq!(repository.status().await.upstream, "origin/feature/x");
    // With its remote's name it is the same.
    assert_eq!(repository.checkout("origin/other", false).await.branch, "other");
    assert_eq!(repository.status().await.upstream, "origin/other");
    assert_eq!(repository.checkout("origin/feature/x", false).await.branch, "feature/x");
    // One name at two remotes has to be told apart, unless one of them is the origin.
    repository
        .sh("git update-ref refs/remotes/a/shared HEAD; git update-ref refs/remotes/b/shared HEAD; \
             git config remote.a.url x; git config remote.a.fetch '+refs/heads/*:refs/remotes/a/*'; \
             git config remote.b.url y; git config remote.b.fetch '+refs/heads/*:refs/remotes/b/*'")
        .await;
    let failure = repository.refused(checkout("shared", false), FailureCode::GitFailed).await;
    assert_eq!(failure.suggestions, ["refs/remotes/a/shared", "refs/remotes/b/shared"]);
    assert_eq!(repository.checkout("b/shared", false).await.branch, "shared");
}

#[tokio::test]
async fn nothing_is_overwritten() {
    let mut repository = Repository::with_a_commit().await;
    repository
        .sh("git checkout -qb work; echo w > one; echo w > $'odd\\nname'; git add .; git commit -qm work; git checkout -q main")
        .await;
    repository.sh("echo mine > one; echo mine > $'odd\\nname'; echo mine > two").await;
    let failure = repository.refused(checkout("work", false), FailureCode::WouldOverwrite).await;
    assert_eq!(failure.suggestions, ["one", "odd\nname"]);
    assert_eq!(repository.sh("cat one two; git branch --show-current").await, "mine\nmine\nmain");
    repository.sh("git checkout -q one").await;
    let failure = repository.refused(checkout("work", false), FailureCode::WouldOverwrite).await;
    assert_eq!(failure.suggestions, ["odd\nname"]);
    repository.sh("rm odd*").await;
    assert_eq!(repository.checkout("work", false).await.branch, "work");
    assert_eq!(repository.sh("cat one two").await, "w\nmine");
}
