//! Committing.

use emergent_protocol::FailureCode;
use emergent_protocol::v1::git_request::Action;

use super::{Repository, all, changes, files};

#[tokio::test]
async fn only_the_named_files() {
    let mut repository = Repository::with_a_commit().await;
    repository
        .sh("echo 1b > one; echo 2b > two; git add two; echo n > new; echo o > other; mkdir sub; echo s > sub/a; \
             echo s > sub/b; seq 50 > moved; git add moved; git commit -qm moved moved; rm moved")
        .await;
    let commit = repository.commit(files("some\n\nwith a body", &["one", "new", "sub", "moved"])).await;
    assert_eq!((commit.files_changed, commit.branch.as_str()), (5, "main"));
    let seen = repository.sh("git show --format=%B%H --name-status --no-renames HEAD").await;
    let expected =
        format!("some\n\nwith a body\n{}\n\nD\tmoved\nA\tnew\nM\tone\nA\tsub/a\nA\tsub/b", commit.commit);
    assert_eq!(seen, expected);
    // What else was staged still is.
    let status = repository.status().await;
    assert_eq!(changes(&status.staged), [("two", "modified")]);
    assert_eq!(status.untracked, ["other"]);
    // Absolute paths, and the rest.
    let other = repository.sandbox.path("other").display().to_string();
    assert_eq!(repository.commit(files("absolute", &[&other])).await.files_changed, 1);
    assert_eq!(repository.commit(all("rest")).await.files_changed, 1);
    assert_eq!(repository.sh("git status --porcelain").await, "");
}

#[tokio::test]
async fn a_rename_is_one_change() {
    let mut repository = Repository::with_a_commit().await;
    repository
        .sh("seq 50 > old; git add old; git commit -qm old; git mv old new; echo x > one; git add one")
        .await;
    repository.commit(files("renamed", &["new"])).await;
    assert_eq!(repository.sh("git show --format= --name-status HEAD").await, "R100\told\tnew");
    assert_eq!(changes(&repository.status().await.staged), [("one", "modified")]);
}

#[tokio::test]
async fn everything_but_what_is_ignored() {
    let mut repository = Repository::fresh().await;
    repository.sh("echo ignored > .gitignore; touch ignored new; mkdir sub; touch sub/x").await;
    let commit = repository.commit(all("first")).await;
    assert_eq!((commit.files_changed, commit.branch.as_str()), (3, "main"));
    assert_eq!(repository.sh("git ls-files").await, ".gitignore\nnew\nsub/x");
    assert_eq!(repository.sh("test -e ignored; git log --format=%an%ae").await, "Testtest@example.com");
}

#[tokio::test]
async fn nothing_half_done() {
    let mut repository = Repository::with_a_commit().await;
    let before = repository.sh("git rev-parse HEAD").await;
    repository.refused(Action::Commit(files("m", &["one"])), FailureCode::NothingToCommit).await;
    repository.refused(Action::Commit(all("m")), FailureCode::NothingToCommit).await;
    repository.sh("echo n > new; echo ign > ign; echo ign > .git/info/exclude").await;
    for (missing, code) in [
        ("gone", FailureCode::FileNotFound),
        ("ign", FailureCode::FileNotFound),
        ("*", FailureCode::FileNotFound),
        ("../x", FailureCode::InvalidRequest),
    ] {
        let failure = repository.refused(Action::Commit(files("m", &["new", missing])), code).await;
        assert_eq!(failure.path, missing);
    }
    for (request, field) in
        [(files("  \n", &["new"]), "message"), (files("m", &[]), "files"), (files("m", &[""]), "files")]
    {
        assert_eq!(
            repository.refused(Action::Commit(request), FailureCode::InvalidRequest).await.field,
            field
        );
    }
    let status = repository.status().await;
    assert_eq!((status.commit, status.untracked), (before, vec!["new".to_owned()]));
    assert!(status.staged.is_empty() && status.unstaged.is_empty(), "{:?}", status.unstaged);
}

/// Who commits is told by the configuration, or is the agent.
#[tokio::test]
async fn somebody_commits() {
    let sandbox = crate::support::Sandbox::start();
    let mut client = sandbox.client().await;
    let environment = [("HOME".to_owned(), "/nonexistent".to_owned())].into();
    let hello = emergent_protocol::v1::HelloRequest { environment, ..crate::support::hello() };
    client.stub.hello(hello).await.expect("greets");
    let mut repository = Repository { sandbox, client };
    repository.sh("git init -q -b main .; echo x > a").await;
    repository.commit(files("m", &["a"])).await;
    assert_eq!(
        repository.sh("git log -1 --format='%an <%ae> %cn <%ce>'").await,
        "Emergent Agent <agent@emergent.local> Emergent Agent <agent@emergent.local>"
    );
    repository.sh("git config user.name 'A Person'; echo y > a").await;
    repository.commit(files("m", &["a"])).await;
    assert_eq!(repository.sh("git log -1 --format='%an <%ae>'").await, "A Person <agent@emergent.local>");
}

#[tokio::test]
async fn long_messages_and_many_at_once() {
    let mut repository = Repository::with_a_commit().await;
    repository.sh("echo x > one").await;
    let long = format!("-m subject\n\n{}", "x".repeat(300 << 10));
    repository.commit(files(&long, &["one"])).await;
    assert_eq!(repository.sh("git log -1 --format=%B | wc -c").await, (long.len() + 2).to_string());
    repository.sh("for i in $(seq 8); do echo $i > file$i; done").await;
    let calls: Vec<_> = (1..=8)
        .map(|number| {
            let mut stub = repository.client.stub.clone();
            let action =
                Some(Action::Commit(files(&format!("number {number}"), &[&format!("file{number}")])));
            tokio::spawn(async move {
                stub.git(emergent_protocol::v1::GitRequest { action, ..Default::default() }).await
            })
        })
        .collect();
    for call in calls {
        call.await.expect("no panic").expect("they wait for each other");
    }
    assert_eq!(repository.sh("git log --format=%s | wc -l").await, "10");
}
