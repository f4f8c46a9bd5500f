//! An answer that is not a success.

use axum::Json;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::ErrorCode;

/// The longest message that is sent: some of it may be the request's own text.
const MAX_MESSAGE: usize = 2000;

/// An answer that is not a success.
#[derive(Debug)]
pub(crate) struct ApiError {
    code: ErrorCode,
    message: String,
    details: Map<String, Value>,
    retry_after_seconds: Option<u32>,
    /// For the log only.
    cause: Option<String>,
}

/// What the log says of an answer that is not a success. Travels with the response.
#[derive(Debug, Clone)]
pub(crate) struct ErrorTrace {
    pub(crate) code: ErrorCode,
    pub(crate) cause: Option<String>,
}

impl ApiError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE) {
            message.truncate(end);
            message.push('…');
        }
        Self { code, message, details: Map::new(), retry_after_seconds: None, cause: None }
    }

    /// A part of the request that is not as it must be.
    pub(crate) fn invalid(field: impl Into<String>, message: impl AsRef<str>) -> Self {
        Self::about(ErrorCode::InvalidRequest, field, message)
    }

    /// A part of the request that this version cannot serve.
    pub(crate) fn not_supported(field: impl Into<String>, message: impl AsRef<str>) -> Self {
        Self::about(ErrorCode::NotSupported, field, message)
    }

    /// An error about one field, which the message begins with.
    pub(crate) fn about(code: ErrorCode, field: impl Into<String>, message: impl AsRef<str>) -> Self {
        let field = field.into();
        Self::new(code, format!("{field}: {}", message.as_ref())).detail("field", field)
    }

    /// A failure of the server itself. The cause is logged, not sent.
    pub(crate) fn internal(cause: impl Into<String>) -> Self {
        Self::new(ErrorCode::InternalError, "the server failed; its log has the reason").because(cause)
    }

    pub(crate) fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// The same request may succeed after this time.
    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }

    /// What the log should say beside the code.
    pub(crate) fn because(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// What is sent of it.
    pub(crate) fn into_content(self) -> Value {
        json!({ "code": self.code.as_str(), "message": self.message, "details": self.details })
    }

    pub(crate) fn code(&self) -> ErrorCode {
        self.code
    }

    #[cfg(test)]
    pub(crate) fn field(&self) -> Option<&str> {
        self.details.get("field").and_then(Value::as_str)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let cause =
            self.cause.or_else(|| self.code.http_status().is_server_error().then(|| self.message.clone()));
        let body = json!({
            "error": { "code": self.code.as_str(), "message": self.message, "details": self.details }
        });
        let mut response = (self.code.http_status(), Json(body)).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.code == ErrorCode::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.code == ErrorCode::UpgradeRequired {
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        }
        response.extensions_mut().insert(ErrorTrace { code: self.code, cause });
        response
    }
}
