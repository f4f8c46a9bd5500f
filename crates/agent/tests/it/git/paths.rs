//! Paths in requests start at the folder that the request names.

use emergent_protocol::{FailureCode, v1};
use v1::git_request::Action;
use v1::git_response::Answer;

use super::{Repository, files};

impl Repository {
    async fn commit_in(&mut self, folder: &str, named: &[&str]) -> u64 {
        match self.act_in(folder, "", Action::Commit(files("m", named))).await {
            Ok(Answer::Commit(commit)) => commit.files_changed,
            other => panic!("{folder} {named:?}: {other:?}"),
        }
    }

    async fn diff_in(&mut self, folder: &str, named: &[&str]) -> Vec<String> {
        let paths = named.iter().map(|path| (*path).to_owned()).collect();
        match self.act_in(folder, "", Action::Diff(v1::GitDiffRequest { paths, ..Default::default() })).await
        {
            Ok(Answer::Diff(diff)) => diff.files.into_iter().map(|file| file.path).collect(),
            other => panic!("{folder} {named:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn files_are_those_of_the_folder() {
    let mut repository = Repository::with_a_commit().await;
    repository.sh("mkdir -p sub/deep; for f in one sub/f sub/deep/g; do echo n > $f; done").await;
    assert_eq!(repository.commit_in("sub", &["f"]).await, 1);
    assert_eq!(repository.sh("git show --format= --name-only HEAD").await, "sub/f");
    assert_eq!(repository.commit_in("sub", &["../one"]).await, 1);
    assert_eq!(repository.commit_in("./sub", &["./deep/../deep/g"]).await, 1);
    assert_eq!(repository.sh("git status --porcelain").await, "");
    repository.sh("echo x > sub/f; echo x > sub/deep/g; echo x > sub/new; echo x > two").await;
    assert_eq!(repository.commit_in("sub", &["."]).await, 3);
    assert_eq!(repository.sh("git status --porcelain").await, " M two");
    assert_eq!(repository.commit_in("", &["./two"]).await, 1);
    repository.sh("echo y > sub/f; echo y > two").await;
    assert_eq!(repository.commit_in("", &["."]).await, 2);
}

#[tokio::test]
async fn a_rename_is_one_change_in_a_folder_too() {
    let mut repository = Repository::with_a_commit().await;
    repository.sh("mkdir sub; seq 50 > sub/old; git add .; git commit -qm old; git mv sub/old sub/new").await;
    repository.commit_in("sub", &["./new"]).await;
    assert_eq!(repository.sh("git show --format= --name-status HEAD").await, "R100\tsub/old\tsub/new");
}

#[tokio::test]
async fn differences_of_the_folder() {
    let mut repository = Repository::with_a_commit().await;
    repository
        .sh("mkdir -p sub/deep; echo > sub/f; echo > sub/deep/g; echo > 'sub/*'; git add .; git commit -qm m")
        .await;
    repository.sh("for f in one sub/f sub/deep/g 'sub/*'; do echo y > \"$f\"; done").await;
    for (folder, named, expect) in [
        ("sub", ["f"], vec!["sub/f"]),
        ("sub", ["./f"], vec!["sub/f"]),
        ("sub", ["deep"], vec!["sub/deep/g"]),
        ("sub", ["."], vec!["sub/*", "sub/deep/g", "sub/f"]),
        ("sub", ["../one"], vec!["one"]),
        // Names, whatever they look like.
        ("sub", ["*"], vec!["sub/*"]),
        ("sub", [":/one"], vec![]),
        ("sub", [":(top)one"], vec![]),
        ("", ["."], vec!["one", "sub/*", "sub/deep/g", "sub/f"]),
        ("", ["./sub/"], vec!["sub/*", "sub/deep/g", "sub/f"]),
    ] {
        assert_eq!(repository.diff_in(folder, &named).await, expect, "{folder} {named:?}");
    }
}

#[tokio::test]
async fn what_is_outside_the_repository_is_a_mistake_of_the_request() {
    let mut repository = Repository::with_a_commit().await;
    for path in ["../x", "/etc/passwd"] {
        let named = v1::GitDiffRequest { paths: vec![path.to_owned()], ..Default::default() };
        let failure = repository.refused(Action::Diff(named), FailureCode::InvalidRequest).await;
        assert_eq!((failure.field.as_str(), failure.path.as_str()), ("paths", path));
        let named = files("m", &["one", path]);
        let failure = repository.refused(Action::Commit(named), FailureCode::InvalidRequest).await;
        assert_eq!((failure.field.as_str(), failure.path.as_str()), ("files", path));
        assert_eq!(failure.message, format!("{path} is outside the repository"));
    }
    // A name of the repository that is nowhere is none of that.
    let named = files("m", &["nowhere"]);
    let failure = repository.refused(Action::Commit(named), FailureCode::FileNotFound).await;
    assert_eq!((failure.field.as_str(), failure.path.as_str()), ("", "nowhere"));
}
