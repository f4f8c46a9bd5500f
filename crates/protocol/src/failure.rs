//! Typed failures of tool calls, carried in the details of a gRPC status.

use prost::Message;
use tonic::{Code, Status};

use crate::v1::Failure;

macro_rules! failure_codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $grpc:ident;)+) => {
        /// Why a tool call failed. The text is the API's error code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum FailureCode { $($(#[$doc])* $variant),+ }

        impl FailureCode {
            /// The code as the API shows it.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            fn grpc(self) -> Code {
                match self { $(Self::$variant => Code::$grpc),+ }
            }

            fn from_text(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

failure_codes! {
    /// The request makes no sense: a bad path, user, signal or combination.
    InvalidRequest = "invalid_request", InvalidArgument;
    /// No such file or folder.
    FileNotFound = "file_not_found", NotFound;
    /// A file was needed and a folder is there.
    IsDirectory = "is_directory", FailedPrecondition;
    /// A folder was needed and something else is there.
    NotADirectory = "not_a_directory", FailedPrecondition;
    /// The file system said no.
    PermissionDenied = "permission_denied", PermissionDenied;
    /// The disk or its inodes are used up.
    NoSpace = "no_space", ResourceExhausted;
    /// The text to replace is not in the file.
    NoMatch = "no_match", FailedPrecondition;
    /// The text to replace is in the file more than once.
    MultipleMatches = "multiple_matches", FailedPrecondition;
    /// The file to create is there already.
    AlreadyExists = "already_exists", AlreadyExists;
    /// No repository here.
    NotARepository = "not_a_repository", FailedPrecondition;
    /// No such branch, tag or commit.
    RefNotFound = "ref_not_found", NotFound;
    /// There is nothing to commit.
    NothingToCommit = "nothing_to_commit", FailedPrecondition;
    /// Local changes would be lost.
    WouldOverwrite = "would_overwrite", FailedPrecondition;
    /// git refused for another reason, which the message gives.
    GitFailed = "git_failed", FailedPrecondition;
    /// The sandbox has no such program (git, most often).
    ProgramMissing = "program_missing", FailedPrecondition;
    /// Nobody listens on that port of the sandbox.
    PortClosed = "port_closed", Unavailable;
    /// No such background process.
    ProcessNotFound = "process_not_found", NotFound;
    /// The agent gave up: what was asked takes longer than it may.
    Timeout = "timeout", DeadlineExceeded;
    /// Too many background processes or open calls.
    TooMany = "too_many", ResourceExhausted;
    /// The process could not be started (fork or exec failed).
    SpawnFailed = "spawn_failed", Internal;
    /// Anything else the operating system reported.
    IoError = "io_error", Internal;
}

impl FailureCode {
    /// A status that carries this code, a message for people, and what it is about.
    pub fn status(self, failure: Failure) -> Status {
        let message = failure.message.clone();
        let failure = Failure { code: self.as_str().to_owned(), ..failure };
        Status::with_details(self.grpc(), message, failure.encode_to_vec().into())
    }

    /// The code and the details of a status, if it is one of ours.
    pub fn read(status: &Status) -> Option<(Self, Failure)> {
        if status.details().is_empty() {
            return None;
        }
        let failure = Failure::decode(status.details()).ok()?;
        let code = Self::from_text(&failure.code)?;
        Some((code, failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_survives_the_wire() {
        let sent = Failure {
            message: "no such file".to_owned(),
            path: "/workspace/a".to_owned(),
            suggestions: vec!["ab".to_owned()],
            ..Failure::default()
        };
        let (code, read) = FailureCode::read(&FailureCode::FileNotFound.status(sent)).unwrap();
        assert_eq!(code, FailureCode::FileNotFound);
        assert_eq!(read.suggestions, ["ab"]);
    }

    #[test]
    fn foreign_details_are_not_a_failure() {
        assert!(FailureCode::read(&Status::internal("x")).is_none());
        let odd = Status::with_details(Code::Internal, "x", b"\xff\xff\xff".as_slice().into());
        assert!(FailureCode::read(&odd).is_none());
    }
}
