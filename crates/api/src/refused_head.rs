//! Requests whose head cannot be read. No endpoint sees them: the HTTP layer answers by itself, with
//! a status and nothing else. Here such an answer gets the body that every other refusal has.

use serde_json::json;
use uuid::Uuid;

use crate::errors::{ApiError, ErrorCode};
use crate::metrics::names;
use crate::observe::NO_ROUTE;

/// The answer that is sent instead of `bare`, the HTTP layer's own; `None` where that says
/// something else.
pub(crate) fn answer(bare: &[u8]) -> Option<Vec<u8>> {
    let head = std::str::from_utf8(bare).ok()?.strip_suffix("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    let error = match status {
        400 => ApiError::invalid("head", "this is not the head of an HTTP/1.1 request"),
        414 => ApiError::new(ErrorCode::UriTooLong, "the path and the query of this request are too long"),
        431 => ApiError::new(ErrorCode::HeadTooLarge, "the headers of this request are too many or too long"),
        _ => return None,
    };
    let (code, id) = (error.code().as_str(), Uuid::now_v7().simple().to_string());
    metrics::counter!(names::REQUESTS, "method" => "other", "route" => NO_ROUTE, "status" => status.to_string())
        .increment(1);
    tracing::info!(id, status, code, "request refused: {code}");
    let body = json!({ "error": error.into_content() }).to_string();
    let kept = head.split("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with("content-length:"));
    let own = [
        "content-type: application/json".to_owned(),
        "cache-control: no-store".to_owned(),
        format!("x-request-id: {id}"),
        format!("content-length: {}", body.len()),
    ];
    let lines: Vec<&str> = kept.chain(own.iter().map(String::as_str)).collect();
    Some(format!("{}\r\n\r\n{body}", lines.join("\r\n")).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_http_layer_says_gets_a_body() {
        let bare =
            b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let text = String::from_utf8(answer(bare).unwrap()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"));
        assert!(head.contains(&format!("\r\ncontent-length: {}", body.len())) && !head.contains("length: 0"));
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"]["code"], "head_too_large");
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for other in [
            "",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 431 x\r\n\r\nbody",
            "HTTP/1.1 431",
            "\x02HTTP/1.1 431 x\r\n\r\n",
        ] {
            assert!(answer(other.as_bytes()).is_none(), "{other:?}");
        }
    }
}
