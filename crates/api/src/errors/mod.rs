//! What goes wrong, as clients see it.
//!
//! Every answer that is not a success has the same body, whoever made it:
//!
//! ```json
//! {"error": {"code": "workspace_not_found", "message": "…", "details": {}}}
//! ```
//!
//! The code is for programs and stable; `docs/errors.md` describes each. The message is for
//! people and may change. [`mapping`] is the one place where errors of the crates below
//! become answers.

mod api_error;
mod code;
mod document;
mod mapping;

pub(crate) use api_error::{ApiError, ErrorTrace};
pub use code::ErrorCode;
pub(crate) use document::documented_errors;
pub(crate) use document::{
    ErrorBody, JSON_BODY, PLACE, PRIVATE, PUBLIC, QUERY, SOCKET, TOOL_CALL, WORKSPACE, to_responses,
};
