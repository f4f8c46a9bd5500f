//! What the git tool is asked for: one body for every action, and which fields belong to which.

use emergent_agent_client::{
    GitAction, GitBranchRequest, GitCheckoutRequest, GitCloneRequest, GitCommitRequest, GitCommitScope,
    GitDiffRequest, GitFetchRequest, GitLogRequest, GitPullRequest, GitPushRequest,
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{repositories, text};
use crate::errors::ApiError;
use crate::extract::Strings;

/// The most commits of one log.
const MAX_LOG: u32 = 1000;

/// The most paths of one request.
const MAX_PATHS: usize = 10_000;

/// The longest message of a commit.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// The longest name of a branch, tag or commit.
const MAX_REF_BYTES: usize = 1024;

/// Something to do in a repository.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GitRequest {
    /// What to do: `status`, `diff`, `log`, `commit`, `branch`, `checkout`, `clone`, `fetch`, `pull` or `push`.
    #[schema(value_type = String, required = true, example = "status")]
    action: Option<String>,
    /// A folder in the repository; `/workspace` where not said. clone: where to; the repository's name where
    /// not said.
    path: Option<String>,
    /// The account to run it as; root where not said.
    user: Option<String>,
    /// diff: what is staged instead of what is not.
    staged: Option<bool>,
    /// diff: only these.
    #[schema(value_type = Option<Vec<String>>)]
    paths: Option<Strings<MAX_PATHS>>,
    /// diff: the branch, tag or commit to compare with.
    base: Option<String>,
    /// log: how many commits; 20 where not said.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// log: where to begin. checkout, clone: a branch, a tag or a commit. fetch, pull, push: a branch. Also
    /// called `branch`.
    #[serde(rename = "ref", alias = "branch")]
    reference: Option<String>,
    /// commit: the message.
    message: Option<String>,
    /// commit: these files and nothing else. Either this or `all`.
    #[schema(value_type = Option<Vec<String>>)]
    files: Option<Strings<MAX_PATHS>>,
    /// commit: everything that differs.
    all: Option<bool>,
    /// checkout: make a new branch of this name.
    create: Option<bool>,
    /// branch: one to create, or to delete; without it they are listed.
    name: Option<String>,
    /// branch: delete it.
    delete: Option<bool>,
    /// clone: which. One of the workspace's, or one that the caller may add.
    repository_url: Option<String>,
    /// clone, fetch: how many commits of the history; 0 is all. 1 where a clone does not say.
    depth: Option<u32>,
    /// push: also where the remote's history is lost, as long as it is as it was last seen.
    force_with_lease: Option<bool>,
    // What the actions take that this version does not have, so that these are refused for
    // what they are.
    #[schema(ignore)]
    title: Option<serde::de::IgnoredAny>,
    #[schema(ignore)]
    body: Option<serde::de::IgnoredAny>,
    #[schema(ignore)]
    head: Option<serde::de::IgnoredAny>,
    #[schema(ignore)]
    draft: Option<serde::de::IgnoredAny>,
}

/// Something to do in a repository, whole and valid.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GitCall {
    pub(super) path: Option<String>,
    pub(super) user: Option<String>,
    pub(super) action: GitAction,
}

impl GitRequest {
    pub(super) fn parse(mut self) -> Result<GitCall, ApiError> {
        let action = text::required("action", self.action.take())?;
        let fields: &[&str] = match action.as_str() {
            "status" => &[],
            "diff" => &["staged", "paths", "base"],
            "log" => &["limit", "ref"],
            "commit" => &["message", "files", "all"],
            "branch" => &["name", "delete"],
            "checkout" => &["ref", "create"],
            "clone" => &["repository_url", "ref", "depth"],
            "fetch" => &["ref", "depth"],
            "pull" => &["ref"],
            "push" => &["ref", "force_with_lease"],
            "pull_request" => {
                return Err(ApiError::not_supported("action", format!("{action} is not there yet")));
            }
            _ => {
                let shown: String = action.chars().take(64).collect();
                return Err(ApiError::invalid(
                    "action",
                    format!(
                        "{shown:?} is none of status, diff, log, commit, branch, checkout, clone, fetch, pull, push"
                    ),
                ));
            }
        };
        if let Some(foreign) = self.given().into_iter().find(|name| !fields.contains(name)) {
            return Err(ApiError::invalid(foreign, format!("does not belong to {action}")));
        }
        Ok(GitCall {
            path: self.path.take().map(|path| text::path("path", path)).transpose()?,
            user: self.user.take().map(|user| text::user("user", user)).transpose()?,
            action: match action.as_str() {
                "diff" => self.diff()?,
                "log" => self.log()?,
                "commit" => self.commit()?,
                "branch" => self.branch()?,
                "checkout" => self.checkout()?,
                "clone" => self.clone()?,
                "fetch" => self.fetch()?,
                "pull" => self.pull()?,
                "push" => self.push()?,
                _ => GitAction::Status,
            },
        })
    }

    /// The fields that are there and belong to some actions only.
    fn given(&self) -> Vec<&'static str> {
        [
            ("staged", self.staged.is_some()),
            ("paths", self.paths.is_some()),
            ("base", self.base.is_some()),
            ("limit", self.limit.is_some()),
            ("ref", self.reference.is_some()),
            ("message", self.message.is_some()),
            ("files", self.files.is_some()),
            ("all", self.all.is_some()),
            ("create", self.create.is_some()),
            ("name", self.name.is_some()),
            ("delete", self.delete.is_some()),
            ("repository_url", self.repository_url.is_some()),
            ("depth", self.depth.is_some()),
            ("force_with_lease", self.force_with_lease.is_some()),
            ("title", self.title.is_some()),
            ("body", self.body.is_some()),
            ("head", self.head.is_some()),
            ("draft", self.draft.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, given)| given.then_some(name))
        .collect()
    }

    fn diff(self) -> Result<GitAction, ApiError> {
        Ok(GitAction::Diff(GitDiffRequest {
            staged: self.staged.unwrap_or(false),
            paths: paths("paths", self.paths.unwrap_or_default().0)?,
            base: self.base.map(|base| reference("base", base)).transpose()?,
        }))
    }

    fn log(self) -> Result<GitAction, ApiError> {
        if let Some(limit) = self.limit.filter(|limit| !(1..=MAX_LOG).contains(limit)) {
            return Err(ApiError::invalid("limit", format!("must be between 1 and {MAX_LOG}, not {limit}")));
        }
        Ok(GitAction::Log(GitLogRequest {
            limit: self.limit.unwrap_or(0),
            reference: self.reference.map(|name| reference("ref", name)).transpose()?,
        }))
    }

    fn commit(self) -> Result<GitAction, ApiError> {
        let message = text::required("message", self.message)?;
        let message = text::checked("message", message, MAX_MESSAGE_BYTES)?;
        if message.trim().is_empty() {
            return Err(ApiError::invalid("message", "must not be blank"));
        }
        let what = match (self.files, self.all.unwrap_or(false)) {
            (None, true) => GitCommitScope::All,
            (Some(Strings(files)), false) if !files.is_empty() => {
                GitCommitScope::Files(paths("files", files)?)
            }
            (Some(_), true) => return Err(ApiError::invalid("all", "either this or files, not both")),
            (_, false) => return Err(ApiError::invalid("files", "name some, or say all: true")),
        };
        Ok(GitAction::Commit(GitCommitRequest { message, what, author: None }))
    }

    fn branch(self) -> Result<GitAction, ApiError> {
        let name = self.name.map(|name| reference("name", name)).transpose()?;
        Ok(GitAction::Branch(match (name, self.delete.unwrap_or(false)) {
            (None, false) => GitBranchRequest::List,
            (Some(name), false) => GitBranchRequest::Create(name),
            (Some(name), true) => GitBranchRequest::Delete(name),
            (None, true) => return Err(ApiError::invalid("name", "is missing")),
        }))
    }

    fn checkout(self) -> Result<GitAction, ApiError> {
        let name = reference("ref", text::required("ref", self.reference)?)?;
        Ok(GitAction::Checkout(GitCheckoutRequest { reference: name, create: self.create.unwrap_or(false) }))
    }

    fn clone(self) -> Result<GitAction, ApiError> {
        let url = text::required("repository_url", self.repository_url)?;
        let url = repositories::url("repository_url", &url)?;
        Ok(GitAction::Clone(GitCloneRequest {
            url: url.to_string(),
            reference: remote_reference(self.reference)?,
            depth: repositories::depth("depth", self.depth)?,
            clean: false,
            author: None,
        }))
    }

    fn fetch(self) -> Result<GitAction, ApiError> {
        let depth = self.depth.map(|depth| repositories::depth("depth", Some(depth))).transpose()?;
        Ok(GitAction::Fetch(GitFetchRequest { branch: remote_reference(self.reference)?, depth }))
    }

    fn pull(self) -> Result<GitAction, ApiError> {
        Ok(GitAction::Pull(GitPullRequest { branch: remote_reference(self.reference)?, author: None }))
    }

    fn push(self) -> Result<GitAction, ApiError> {
        let force_with_lease = self.force_with_lease.unwrap_or(false);
        Ok(GitAction::Push(GitPushRequest { branch: remote_reference(self.reference)?, force_with_lease }))
    }
}

fn reference(field: &'static str, name: String) -> Result<String, ApiError> {
    text::checked(field, name, MAX_REF_BYTES)
}

/// What another side is asked for is spelled as git spells it.
fn remote_reference(name: Option<String>) -> Result<Option<String>, ApiError> {
    name.map(|name| repositories::reference("branch", name)).transpose()
}

fn paths(field: &'static str, paths: Vec<String>) -> Result<Vec<String>, ApiError> {
    paths.into_iter().map(|path| text::path(field, path)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::errors::ErrorCode;

    fn parse(body: &Value) -> Result<GitCall, ApiError> {
        serde_json::from_value::<GitRequest>(body.clone()).unwrap().parse()
    }

    fn action(body: &Value) -> GitAction {
        parse(body).unwrap().action
    }

    #[test]
    fn each_action_with_its_fields() {
        let call = parse(&json!({"action": "status", "path": "sub", "user": "user"})).unwrap();
        assert_eq!((call.path.as_deref(), call.user.as_deref()), (Some("sub"), Some("user")));
        assert_eq!(call.action, GitAction::Status);
        assert_eq!(
            action(&json!({"action": "diff", "staged": true, "paths": ["a"], "base": "main"})),
            GitAction::Diff(GitDiffRequest {
                staged: true,
                paths: vec!["a".to_owned()],
                base: Some("main".to_owned())
            })
        );
        for name in ["ref", "branch"] {
            assert_eq!(
                action(&json!({"action": "checkout", name: "$(x)", "create": true})),
                GitAction::Checkout(GitCheckoutRequest { reference: "$(x)".to_owned(), create: true })
            );
        }
        assert_eq!(
            action(&json!({"action": "log", "limit": 5})),
            GitAction::Log(GitLogRequest { limit: 5, reference: None })
        );
        let GitAction::Commit(commit) =
            action(&json!({"action": "commit", "message": "m", "files": ["-rf", "a b"]}))
        else {
            panic!("not a commit")
        };
        assert_eq!(commit.what, GitCommitScope::Files(vec!["-rf".to_owned(), "a b".to_owned()]));
        assert_eq!(action(&json!({"action": "branch"})), GitAction::Branch(GitBranchRequest::List));
        assert_eq!(
            action(&json!({"action": "branch", "name": "x", "delete": true})),
            GitAction::Branch(GitBranchRequest::Delete("x".to_owned()))
        );
    }

    #[test]
    fn each_remote_action_with_its_fields() {
        let clone = json!({"action": "clone", "repository_url": "https://github.com/a/b", "branch": "v1", "depth": 0});
        let GitAction::Clone(clone) = action(&clone) else { panic!("not a clone") };
        assert_eq!(
            (clone.url.as_str(), clone.reference.as_deref(), clone.depth),
            ("https://github.com/a/b", Some("v1"), 0)
        );
        assert_eq!(action(&json!({"action": "fetch"})), GitAction::Fetch(GitFetchRequest::default()));
        assert_eq!(
            action(&json!({"action": "push", "branch": "x", "force_with_lease": true})),
            GitAction::Push(GitPushRequest { branch: Some("x".to_owned()), force_with_lease: true })
        );
        for (body, field) in [
            (json!({"action": "clone"}), "repository_url"),
            (json!({"action": "clone", "repository_url": "ext::sh -c x"}), "repository_url"),
            (
                json!({"action": "clone", "repository_url": "https://a/b", "branch": "--upload-pack=x"}),
                "branch",
            ),
            (json!({"action": "push", "branch": "a b"}), "branch"),
            (json!({"action": "pull", "depth": 1}), "depth"),
            (json!({"action": "fetch", "force_with_lease": true}), "force_with_lease"),
        ] {
            assert_eq!(parse(&body).unwrap_err().field(), Some(field), "{body}");
        }
    }

    #[test]
    fn what_is_refused() {
        for (body, field) in [
            (json!({}), "action"),
            (json!({"action": "eat"}), "action"),
            (json!({"action": "status", "ref": "x"}), "ref"),
            (json!({"action": "status", "path": ""}), "path"),
            (json!({"action": "diff", "paths": ["a\0"]}), "paths"),
            (json!({"action": "log", "limit": 0}), "limit"),
            (json!({"action": "log", "limit": 1001}), "limit"),
            (json!({"action": "commit", "files": ["a"]}), "message"),
            (json!({"action": "commit", "message": " \n", "all": true}), "message"),
            (json!({"action": "commit", "message": "m"}), "files"),
            (json!({"action": "commit", "message": "m", "files": []}), "files"),
            (json!({"action": "commit", "message": "m", "files": ["a"], "all": true}), "all"),
            (json!({"action": "branch", "delete": true}), "name"),
            (json!({"action": "checkout"}), "ref"),
            (json!({"action": "checkout", "ref": ""}), "ref"),
            (json!({"action": "checkout", "ref": "x", "title": 5}), "title"),
        ] {
            assert_eq!(parse(&body).unwrap_err().field(), Some(field), "{body}");
        }
        let many = json!({"action": "diff", "paths": vec!["a"; MAX_PATHS + 1]});
        assert!(serde_json::from_value::<GitRequest>(many).is_err());
    }

    #[test]
    fn what_is_not_there_yet_is_not_supported() {
        let error = parse(&json!({"action": "pull_request", "title": "x"})).unwrap_err();
        assert_eq!((error.code(), error.field()), (ErrorCode::NotSupported, Some("action")));
    }
}
