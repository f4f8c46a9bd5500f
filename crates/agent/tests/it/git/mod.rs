//! The git tool over a real connection, with the git of this machine.

mod branch;
mod checkout;
mod clone;
mod commit;
mod diff;
mod hostile;
mod merge;
mod paths;
mod status;

use emergent_protocol::{FailureCode, v1};
use v1::git_request::Action;
use v1::git_response::Answer;

use crate::support::{Client, Sandbox, failure};

/// A sandbox with a repository in its workspace, and a connection to it.
struct Repository {
    sandbox: Sandbox,
    client: Client,
}

impl Repository {
    /// Without any commit.
    async fn fresh() -> Self {
        let sandbox = Sandbox::start();
        let client = sandbox.client().await;
        let mut repository = Self { sandbox, client };
        // Nothing of this machine's user decides what comes of a test.
        repository.client.stub.hello(Self::greeting()).await.expect("greets");
        repository.sh("git init -q -b main .").await;
        repository
    }

    /// With one commit: `one` and `two` hold a line each.
    async fn with_a_commit() -> Self {
        let mut repository = Self::fresh().await;
        repository.sh("echo 1 > one; echo 2 > two; git add .; git commit -qm first").await;
        repository
    }

    fn greeting() -> v1::HelloRequest {
        let identity = [("GIT_AUTHOR_NAME", "Test"), ("GIT_AUTHOR_EMAIL", "test@example.com")];
        let committer = [("GIT_COMMITTER_NAME", "Test"), ("GIT_COMMITTER_EMAIL", "test@example.com")];
        let home = [("HOME", "/nonexistent")];
        let environment = identity.into_iter().chain(committer).chain(home);
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        v1::HelloRequest { environment, ..crate::support::hello() }
    }

    async fn sh(&mut self, text: &str) -> String {
        self.client.sh(&format!("set -e\n{text}")).await
    }

    async fn act_in(
        &mut self,
        path: &str,
        user: &str,
        action: Action,
    ) -> Result<Answer, crate::support::Failed> {
        let (path, user, action) = (path.to_owned(), user.to_owned(), Some(action));
        let request = v1::GitRequest { path, user, action, ..v1::GitRequest::default() };
        let response = self.client.stub.git(request).await.map_err(|status| failure(&status))?;
        Ok(response.into_inner().answer.expect("an answer"))
    }

    async fn act(&mut self, action: Action) -> Result<Answer, crate::support::Failed> {
        self.act_in("", "", action).await
    }

    async fn status(&mut self) -> v1::GitStatusResponse {
        match self.act(Action::Status(v1::GitStatusRequest {})).await {
            Ok(Answer::Status(status)) => status,
            other => panic!("{other:?}"),
        }
    }

    async fn diff(&mut self, request: v1::GitDiffRequest) -> v1::GitDiffResponse {
        match self.act(Action::Diff(request)).await {
            Ok(Answer::Diff(diff)) => diff,
            other => panic!("{other:?}"),
        }
    }

    async fn log(&mut self, limit: u32, name: &str) -> v1::GitLogResponse {
        match self.act(Action::Log(v1::GitLogRequest { limit, r#ref: name.to_owned() })).await {
            Ok(Answer::Log(log)) => log,
            other => panic!("{other:?}"),
        }
    }

    async fn commit(&mut self, request: v1::GitCommitRequest) -> v1::GitCommitResponse {
        match self.act(Action::Commit(request)).await {
            Ok(Answer::Commit(commit)) => commit,
            other => panic!("{other:?}"),
        }
    }

    async fn branch(&mut self, name: &str, delete: bool) -> v1::GitBranchResponse {
        match self.act(Action::Branch(v1::GitBranchRequest { name: name.to_owned(), delete })).await {
            Ok(Answer::Branch(branch)) => branch,
            other => panic!("{other:?}"),
        }
    }

    async fn checkout(&mut self, name: &str, create: bool) -> v1::GitCheckoutResponse {
        match self.act(checkout(name, create)).await {
            Ok(Answer::Checkout(checkout)) => checkout,
            other => panic!("{other:?}"),
        }
    }

    /// What is refused, and with which words.
    async fn refused(&mut self, action: Action, code: FailureCode) -> v1::Failure {
        let (seen, failure) = self.act(action).await.expect_err("refused");
        assert_eq!(seen, code, "{failure:?}");
        failure
    }
}

fn files(message: &str, files: &[&str]) -> v1::GitCommitRequest {
    let files = files.iter().map(|file| (*file).to_owned()).collect();
    v1::GitCommitRequest { message: message.to_owned(), files, all: false, ..Default::default() }
}

fn all(message: &str) -> v1::GitCommitRequest {
    v1::GitCommitRequest { message: message.to_owned(), files: Vec::new(), all: true, ..Default::default() }
}

fn checkout(name: &str, create: bool) -> Action {
    Action::Checkout(v1::GitCheckoutRequest { r#ref: name.to_owned(), create })
}

fn changes(list: &[v1::GitChange]) -> Vec<(&str, &str)> {
    list.iter().map(|change| (change.path.as_str(), change.change.as_str())).collect()
}
