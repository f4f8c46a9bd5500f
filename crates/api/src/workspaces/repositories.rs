//! Repositories that a request names.

use std::collections::HashSet;

use emergent_checkout::{Handle, RepositoryUrl, check_reference};
use emergent_store::{Repository, RepositoryState};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::errors::{ApiError, ErrorCode};
use crate::extract::Object;

/// The most repositories of a workspace.
const MAX_REPOSITORIES: usize = 20;

/// How many commits of the history where a request does not say.
const DEFAULT_DEPTH: u32 = 1;

/// The longest history that can be asked for by number.
const MAX_DEPTH: u32 = 1_000_000;

/// The longest path.
const MAX_PATH_BYTES: usize = 512;

/// A repository that is asked for.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestedRepository {
    /// Where it comes from.
    #[schema(value_type = String, required = true, example = "https://github.com/org/repo")]
    url: Option<String>,
    /// Its branch, tag or commit; the default branch where not said.
    branch: Option<String>,
    /// Where it lies, from `/workspace`; its name where not said.
    path: Option<String>,
    /// How many commits of its history; 1 where not said, 0 is all.
    depth: Option<u32>,
}

/// The repositories of a request, whole and valid.
pub(super) fn parse(
    repository_url: Option<String>,
    branch: Option<String>,
    depth: Option<u32>,
    several: Option<Vec<Object<RequestedRepository>>>,
) -> Result<Vec<Repository>, ApiError> {
    let Some(single) = repository_url else {
        if branch.is_some() || depth.is_some() {
            let field = if branch.is_some() { "branch" } else { "depth" };
            return Err(ApiError::invalid(field, "belongs to repository_url, which is missing"));
        }
        return parse_several(several.unwrap_or_default());
    };
    if several.is_some() {
        return Err(ApiError::invalid("repositories", "either this or repository_url, not both"));
    }
    Ok(vec![Repository {
        url: url("repository_url", &single)?.to_string(),
        branch: branch.map(|name| reference("branch", name)).transpose()?,
        path: String::new(),
        depth: self::depth("depth", depth)?,
        state: RepositoryState::Pending,
    }])
}

fn parse_several(several: Vec<Object<RequestedRepository>>) -> Result<Vec<Repository>, ApiError> {
    if several.len() > MAX_REPOSITORIES {
        let reason = format!("may be {MAX_REPOSITORIES} at most, not {}", several.len());
        return Err(ApiError::invalid("repositories", reason));
    }
    let (mut repositories, mut paths) = (Vec::new(), HashSet::new());
    for (index, Object(asked)) in several.into_iter().enumerate() {
        let field = |name: &str| format!("repositories.{index}.{name}");
        let given = asked.url.ok_or_else(|| ApiError::invalid(field("url"), "is missing"))?;
        let url = url(&field("url"), &given)?;
        let path = match asked.path {
            Some(path) => folder(&field("path"), &path)?,
            None => name(&url),
        };
        if !paths.insert(path.clone()) {
            return Err(ApiError::invalid(field("path"), "is where another repository goes"));
        }
        repositories.push(Repository {
            url: url.to_string(),
            branch: asked.branch.map(|name| reference(&field("branch"), name)).transpose()?,
            path,
            depth: depth(&field("depth"), asked.depth)?,
            state: RepositoryState::Pending,
        });
    }
    Ok(repositories)
}

/// Refuses repositories at hosts that may not be spoken to.
pub(super) fn check_hosts(checkout: Option<&Handle>, repositories: &[Repository]) -> Result<(), ApiError> {
    if repositories.is_empty() {
        return Ok(());
    }
    let checkout = checkout
        .ok_or_else(|| ApiError::not_supported("repository_url", "this server checks out no repositories"))?;
    repositories.iter().try_for_each(|repository| {
        let url = url("repository_url", &repository.url)?;
        checkout.check(&url).map_err(|error| {
            ApiError::about(ErrorCode::RepositoryNotAllowed, "repository_url", error.to_string()).detail(
                "hint",
                "an administrator adds exactly this scheme, host and port to CHECKOUT_ALLOWED_HOSTS",
            )
        })
    })
}

/// The address of a repository.
pub(super) fn url(field: &str, text: &str) -> Result<RepositoryUrl, ApiError> {
    text.parse()
        .map_err(|error: emergent_checkout::ParseUrlError| ApiError::invalid(field, error.to_string()))
}

/// A branch, a tag or a commit.
pub(super) fn reference(field: &str, name: String) -> Result<String, ApiError> {
    check_reference(&name).map_err(|error| ApiError::invalid(field, error.to_string()))?;
    Ok(name)
}

/// How many commits.
pub(super) fn depth(field: &str, depth: Option<u32>) -> Result<u32, ApiError> {
    match depth.unwrap_or(DEFAULT_DEPTH) {
        depth @ 0..=MAX_DEPTH => Ok(depth),
        depth => Err(ApiError::invalid(field, format!("must be between 0 and {MAX_DEPTH}, not {depth}"))),
    }
}

/// A folder of the workspace's, from there.
pub(super) fn folder(field: &str, path: &str) -> Result<String, ApiError> {
    let inner = match path.strip_prefix("/workspace") {
        Some("" | "/") => return Ok(String::new()),
        Some(rest) => rest.strip_prefix('/'),
        None => Some(path),
    };
    let is_part = |part: &str| !part.is_empty() && part != "." && part != ".." && part != ".git";
    match inner.map(|inner| inner.strip_suffix('/').unwrap_or(inner)) {
        Some(".") => Ok(String::new()),
        Some(inner)
            if inner.len() <= MAX_PATH_BYTES
                && !inner.contains(char::is_control)
                && inner.split('/').all(is_part) =>
        {
            Ok(inner.to_owned())
        }
        _ => Err(ApiError::invalid(field, "must be a folder in /workspace")),
    }
}

/// What a repository is called.
pub(super) fn name(url: &RepositoryUrl) -> String {
    let last = url.path().rsplit('/').next().unwrap_or_default();
    last.strip_suffix(".git").filter(|name| !name.is_empty()).unwrap_or(last).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn several(body: Value) -> Result<Vec<Repository>, ApiError> {
        parse(None, None, None, serde_json::from_value(body).unwrap())
    }

    #[test]
    fn the_single_form_goes_to_the_workspace_itself() {
        let parsed =
            parse(Some("https://GitHub.com/a/b".to_owned()), Some("v1".to_owned()), None, None).unwrap();
        assert_eq!(parsed.len(), 1);
        assert_eq!((parsed[0].url.as_str(), parsed[0].path.as_str()), ("https://github.com/a/b", ""));
        assert_eq!((parsed[0].branch.as_deref(), parsed[0].depth), (Some("v1"), 1));
        assert!(parse(None, None, None, None).unwrap().is_empty());
        for (url, branch, depth, field) in [
            (None, Some("main"), None, "branch"),
            (None, None, Some(1), "depth"),
            (Some("ssh://x/y"), None, None, "repository_url"),
            (Some("https://github.com/a/b"), Some("-x"), None, "branch"),
            (Some("https://github.com/a/b"), None, Some(u32::MAX), "depth"),
        ] {
            let error = parse(url.map(str::to_owned), branch.map(str::to_owned), depth, None).unwrap_err();
            assert_eq!(error.field(), Some(field), "{url:?} {branch:?}");
        }
    }

    #[test]
    fn several_go_to_folders_of_their_own() {
        let parsed = several(json!([
            {"url": "https://github.com/a/one.git"},
            {"url": "https://github.com/a/two", "path": "/workspace/lib/two/", "branch": "x", "depth": 0},
            {"url": "https://github.com/a/three", "path": "/workspace"},
        ]))
        .unwrap();
        let paths: Vec<&str> = parsed.iter().map(|repository| repository.path.as_str()).collect();
        assert_eq!(paths, ["one", "lib/two", ""]);
        for (body, field) in [
            (json!([{}]), "repositories.0.url"),
            (json!([{"url": "https://a/b", "path": "../x"}]), "repositories.0.path"),
            (json!([{"url": "https://a/b", "path": "/etc"}]), "repositories.0.path"),
            (json!([{"url": "https://a/b", "path": "/workspacex"}]), "repositories.0.path"),
            (json!([{"url": "https://a/b", "path": "x/.git"}]), "repositories.0.path"),
            (json!([{"url": "https://a/b", "path": ""}]), "repositories.0.path"),
            (json!([{"url": "https://a/b"}, {"url": "https://c/b"}]), "repositories.1.path"),
        ] {
            assert_eq!(several(body.clone()).unwrap_err().field(), Some(field), "{body}");
        }
        assert!(several(json!(vec![json!({"url": "https://a/b"}); 21])).is_err());
    }
}
