//! Whole bodies, none longer than allowed.

use futures::StreamExt as _;
use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::Pieces;

/// What a body is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Media {
    Json,
    Events,
    Other,
}

impl Media {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "application/json" => Self::Json,
            "text/event-stream" => Self::Events,
            _ => Self::Other,
        }
    }
}

/// The body as text.
pub(super) async fn whole(mut body: Pieces, longest: usize) -> Result<String, String> {
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece.map_err(|error| broken(&error))?);
        if bytes.len() > longest {
            return Err(format!("the server's answer is longer than the {longest} bytes allowed"));
        }
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

pub(super) fn broken(error: &std::io::Error) -> String {
    format!("the connection to the server failed: {error}")
}
