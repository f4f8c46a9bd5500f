//! How the program ends. The codes are in `emergent --help`.

use std::process::ExitCode;

use emergent_client::{ApiFailure, ClientError};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A call to the server failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The arguments make no sense together; what is wrong with them.
    #[error("{0}")]
    Usage(&'static str),
    /// Anything else; the chain of causes tells.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        self.code().into()
    }

    fn code(&self) -> u8 {
        match self {
            Self::Client(ClientError::Unreachable { .. }) => 5,
            Self::Client(ClientError::Api(ApiFailure { status, code, .. })) => {
                match (status, code.as_str()) {
                    (404, "workspace_not_found" | "mcp_server_not_found") => 3,
                    (401, _)
                    | (
                        403,
                        "forbidden"
                        | "forbidden_host"
                        | "forbidden_origin"
                        | "tool_not_allowed"
                        | "mcp_tool_not_allowed",
                    ) => 4,
                    (429 | 503, _) => 6,
                    _ => 1,
                }
            }
            // It comes from a flag or a variable.
            Self::Usage(_) | Self::Client(ClientError::InvalidUrl { .. }) => 2,
            Self::Client(_) | Self::Other(_) => 1,
        }
    }

    /// What may help, where that is known.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Client(ClientError::Unreachable { .. }) => {
                Some("is it running? `emergent serve` starts it; --url says where it is".to_owned())
            }
            Self::Client(ClientError::Api(ApiFailure { status: 401, .. })) => Some(
                "the token is in admin.token in the server's data folder; --token or EMERGENT_TOKEN gives it"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes() {
        let api = |status, code: &str| {
            Failure::Client(ClientError::Api(ApiFailure {
                status,
                code: code.to_owned(),
                message: String::new(),
                details: Default::default(),
                retry_after_seconds: None,
                request_id: None,
            }))
        };
        let check = |failure: Failure, expect| assert_eq!(failure.code(), expect, "{failure:?}");
        check(api(404, "workspace_not_found"), 3);
        check(api(404, "mcp_server_not_found"), 3);
        check(api(404, "file_not_found"), 1);
        check(api(401, "unauthorized"), 4);
        check(api(403, "permission_denied"), 1);
        check(api(403, "tool_not_allowed"), 4);
        check(api(429, "limit_reached"), 6);
        check(api(503, "no_provider_available"), 6);
        check(api(500, "internal_error"), 1);
        check(Failure::Usage("x"), 2);
        check(emergent_client::Client::new("nowhere", "token").unwrap_err().into(), 2);
        check(emergent_client::Client::new("http://127.0.0.1:1", "a\nb").unwrap_err().into(), 1);
        check(Failure::Other(anyhow::anyhow!("x")), 1);
    }
}
