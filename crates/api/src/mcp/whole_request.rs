//! A request as an MCP front takes it.

use axum::extract::{FromRequest, Request};
use axum::http;
use bytes::Bytes;

use crate::errors::ApiError;
use crate::extract::read_body;
use crate::limits::bodies::Memory;

/// The largest message of a client: as large as the largest body of a tool call.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// A whole request, with the memory it takes. Its content is nobody's business but the front's.
pub(crate) struct WholeRequest(pub(crate) http::Request<Bytes>, pub(crate) Memory);

impl<S: Sync> FromRequest<S> for WholeRequest {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let (bytes, memory) = read_body(&parts, body, MAX_MESSAGE_BYTES).await?;
        Ok(Self(http::Request::from_parts(parts, bytes), memory))
    }
}
