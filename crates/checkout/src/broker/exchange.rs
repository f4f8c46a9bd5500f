//! What git asks for.

use http::Method;

/// One of the two things that git does with a repository elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GitService {
    UploadPack,
    ReceivePack,
}

impl GitService {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::UploadPack => "git-upload-pack",
            Self::ReceivePack => "git-receive-pack",
        }
    }

    /// What it is called in the audit log.
    pub(super) fn tool(self) -> &'static str {
        match self {
            Self::UploadPack => "git_fetch",
            Self::ReceivePack => "git_push",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::UploadPack, Self::ReceivePack].into_iter().find(|service| service.name() == name)
    }
}

/// One of the two steps of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// What is there.
    Advertise(GitService),
    /// The transfer itself.
    Call(GitService),
}

impl Step {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Advertise(_) => "refs",
            Self::Call(_) => "data",
        }
    }

    /// What its answer must be.
    pub(super) fn answer_type(self) -> String {
        match self {
            Self::Advertise(service) => format!("application/x-{}-advertisement", service.name()),
            Self::Call(service) => format!("application/x-{}-result", service.name()),
        }
    }

    pub(super) fn request_type(service: GitService) -> String {
        format!("application/x-{}-request", service.name())
    }
}

/// What git asks for, and of which repository.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    pub(super) repository: String,
    pub(super) step: Step,
}

impl Exchange {
    /// Reads one of the four requests that there are.
    pub(super) fn read(method: &Method, path: &str, query: Option<&str>) -> Option<Self> {
        let path = path.strip_prefix('/')?;
        let (repository, step) = match (method, query) {
            (&Method::GET, Some(query)) => {
                let service = GitService::named(query.strip_prefix("service=")?)?;
                (path.strip_suffix("/info/refs")?, Step::Advertise(service))
            }
            (&Method::POST, None) => {
                let (repository, service) = path.rsplit_once('/')?;
                (repository, Step::Call(GitService::named(service)?))
            }
            _ => return None,
        };
        (!repository.is_empty()).then(|| Self { repository: repository.to_owned(), step })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_four_requests() {
        let read = |method: Method, path: &str, query: Option<&str>| {
            Exchange::read(&method, path, query).map(|exchange| (exchange.repository, exchange.step))
        };
        let advertised = Step::Advertise(GitService::UploadPack);
        assert_eq!(
            read(Method::GET, "/https/a/b/c/info/refs", Some("service=git-upload-pack")),
            Some(("https/a/b/c".to_owned(), advertised))
        );
        assert_eq!(
            read(Method::POST, "/https/a/b/git-receive-pack", None),
            Some(("https/a/b".to_owned(), Step::Call(GitService::ReceivePack)))
        );
        for (method, path, query) in [
            (Method::GET, "/https/a/b/info/refs", None),
            (Method::GET, "/https/a/b/info/refs", Some("service=git-upload-archive")),
            (Method::GET, "/https/a/b/info/refs", Some("service=git-upload-pack&x=y")),
            (Method::GET, "/https/a/b/HEAD", Some("service=git-upload-pack")),
            (Method::GET, "/https/a/b/objects/info/packs", None),
            (Method::POST, "/https/a/b/git-upload-pack", Some("x")),
            (Method::POST, "/https/a/b/info/lfs/objects/batch", None),
            (Method::PUT, "/https/a/b/git-receive-pack", None),
            (Method::POST, "/git-upload-pack", None),
            (Method::CONNECT, "github.com:443", None),
        ] {
            assert_eq!(read(method.clone(), path, query), None, "{method} {path}");
        }
    }
}
