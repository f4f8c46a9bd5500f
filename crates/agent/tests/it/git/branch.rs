//! Branches.

use emergent_protocol::{FailureCode, v1};
use v1::git_request::Action;

use super::Repository;

fn action(name: &str, delete: bool) -> Action {
    Action::Branch(v1::GitBranchRequest { name: name.to_owned(), delete })
}

#[tokio::test]
async fn listed_created_and_deleted() {
    let mut repository = Repository::fresh().await;
    let fresh = repository.branch("", false).await;
    assert_eq!((fresh.branches.len(), fresh.current.as_str()), (0, "main"));
    let failure = repository.refused(action("x", false), FailureCode::GitFailed).await;
    assert!(failure.message.contains("no commit yet"), "{failure:?}");
    repository.sh("git commit -q --allow-empty -m first").await;
    let created = repository.branch("feature/ä", false).await;
    assert_eq!(
        (created.branches, created.current.as_str()),
        (vec!["feature/ä".to_owned(), "main".to_owned()], "main")
    );
    repository.refused(action("feature/ä", false), FailureCode::AlreadyExists).await;
    assert_eq!(repository.branch("feature/ä", true).await.branches, ["main"]);
    repository.refused(action("feature/ä", true), FailureCode::RefNotFound).await;
    let current = repository.refused(action("main", true), FailureCode::GitFailed).await;
    assert!(current.message.contains("checked out"), "{current:?}");
    repository.sh("git checkout -qb work; git commit -q --allow-empty -m more; git checkout -q main").await;
    let unmerged = repository.refused(action("work", true), FailureCode::GitFailed).await;
    assert!(unmerged.message.contains("commits that no other branch has"), "{unmerged:?}");
    assert_eq!(repository.branch("", false).await.branches, ["main", "work"]);
    repository.sh("git checkout -q --detach").await;
    assert_eq!(repository.branch("", false).await.current, "");
}

#[tokio::test]
async fn names_that_are_none() {
    let mut repository = Repository::with_a_commit().await;
    for name in ["-D", "--force", "a b", "a..b", "a\nb", "a\u{3000}b", "HEAD", "a.lock", "@{-1}", "a:b"] {
        for delete in [false, true] {
            let failure = repository.refused(action(name, delete), FailureCode::InvalidRequest).await;
            assert_eq!(failure.field, "name", "{name:?}");
        }
    }
    assert_eq!(repository.refused(action("", true), FailureCode::InvalidRequest).await.field, "name");
    assert_eq!(repository.sh("git branch --format='%(refname:short)'").await, "main");
}
