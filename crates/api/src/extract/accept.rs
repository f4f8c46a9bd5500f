//! Which kind of answer a client wants.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::http::request::Parts;

use crate::errors::{ApiError, ErrorCode};

/// Which kind of answer a client wants, where an endpoint has both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// One JSON object at the end. Also where a client does not say, or takes anything.
    Json,
    /// Events while it happens.
    Events,
}

/// How much a client wants something: how well the range fits, and in thousandths, how much.
type Wish = Option<(u8, u16)>;

impl Accepted {
    fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let values = headers.get_all(ACCEPT);
        let mut ranges = values
            .iter()
            .flat_map(|value| value.to_str().unwrap_or("?").split(','))
            .filter(|range| !range.trim().is_empty())
            .peekable();
        if ranges.peek().is_none() {
            return Ok(Self::Json);
        }
        let (mut json, mut events): (Wish, Wish) = (None, None);
        for (name, quality) in ranges.filter_map(range) {
            json = better(json, fit(&name, "application/json"), quality);
            events = better(events, fit(&name, "text/event-stream"), quality);
        }
        let wanted = |wish: Wish| wish.filter(|(_, quality)| *quality > 0);
        match (wanted(json), wanted(events)) {
            (None, None) => Err(ApiError::new(
                ErrorCode::NotAcceptable,
                "Accept: this endpoint answers with application/json or text/event-stream",
            )
            .detail("field", "Accept")),
            (Some(_), None) => Ok(Self::Json),
            (None, Some(_)) => Ok(Self::Events),
            // Events only where they are named, and wanted more, or named more precisely.
            (Some((json_fit, json)), Some((events_fit, events))) => {
                let named = events_fit == EXACT;
                let preferred = events > json || events == json && events_fit > json_fit;
                Ok(if named && preferred { Self::Events } else { Self::Json })
            }
        }
    }
}

const EXACT: u8 = 3;

/// How well a range fits a type: not at all, everything, the group, the type itself.
fn fit(range: &str, name: &str) -> u8 {
    let group = name.split('/').next().unwrap_or_default();
    match range {
        _ if range == name => EXACT,
        "*/*" => 1,
        _ if range.strip_suffix("/*") == Some(group) => 2,
        _ => 0,
    }
}

/// The most precise range counts.
fn better(known: Wish, fit: u8, quality: u16) -> Wish {
    match known {
        _ if fit == 0 => known,
        Some((best, _)) if best >= fit => known,
        _ => Some((fit, quality)),
    }
}

/// A range with its quality; `None` where it is none.
fn range(text: &str) -> Option<(String, u16)> {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().filter(|name| name.contains('/'))?.to_ascii_lowercase();
    let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    let quality = match quality {
        None => 1.0,
        Some(text) => text.parse::<f32>().ok().filter(|quality| (0.0..=1.0).contains(quality))?,
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
    Some((name, (quality * 1000.0) as u16))
}

impl<S: Send + Sync> FromRequestParts<S> for Accepted {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::of(&parts.headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[&str], expect: Option<Accepted>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ACCEPT, value.parse().unwrap());
        }
        assert_eq!(Accepted::of(&headers).ok(), expect, "{values:?}");
    }

    #[test]
    fn what_is_wanted_most() {
        use Accepted::{Events, Json};
        check(&[], Some(Json));
        check(&[""], Some(Json));
        check(&["*/*"], Some(Json));
        check(&["application/json"], Some(Json));
        check(&["application/*"], Some(Json));
        check(&["text/event-stream"], Some(Events));
        check(&["TEXT/EVENT-STREAM; charset=utf-8"], Some(Events));
        check(&["text/event-stream, */*;q=0.1"], Some(Events));
        check(&["text/event-stream, */*"], Some(Events));
        check(&["*/*", "text/event-stream"], Some(Events));
        check(&["application/json, text/event-stream"], Some(Json));
        check(&["application/json;q=0.5, text/event-stream"], Some(Events));
        check(&["text/event-stream;q=0.5, application/json"], Some(Json));
        check(&["text/event-stream;q=0, */*"], Some(Json));
        check(&["application/json;q=0, */*"], Some(Events));
        check(&["text/*"], Some(Events));
    }

    #[test]
    fn what_cannot_be_given_is_refused() {
        for value in ["text/html", "image/png, video/*", "json", "*/*;q=0", "*/*;q=x", "*/*;q=2"] {
            check(&[value], None);
        }
    }
}
