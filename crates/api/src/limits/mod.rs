//! How much one caller may ask for, so that there is always something left for the others, and
//! for the administrator in any case.
//!
//! | what | who | then |
//! |---|---|---|
//! | [`Rates`]: requests per second | every token but `admin` | 429 |
//! | [`Rates`]: tokens that are not valid | every address; a valid token is never held up | 429 |
//! | [`InProgress`]: requests at once | every token but `admin`, and these together | 429 |
//! | [`bodies`]: memory of bodies that arrive | `admin` has a share of its own | 429 |
//! | [`SocketPlaces`]: WebSockets at once | every token, and these together; `admin` has a share of its own | 429 |
//! | [`connections`](crate::connections): connections | those that have shown no token go first | closed |

pub(crate) mod bodies;
mod in_progress;
mod rates;
mod socket_places;

pub(crate) use in_progress::{InProgress, Place};
pub(crate) use rates::Rates;
pub(crate) use socket_places::{SocketPlace, SocketPlaces};

use crate::errors::{ApiError, ErrorCode};
use crate::metrics::names;

/// The answer to one too many.
fn too_many(reason: &'static str, message: &str, retry_after_seconds: u32) -> ApiError {
    metrics::counter!(names::RATE_LIMITED, "reason" => reason).increment(1);
    ApiError::new(ErrorCode::RateLimited, message).retry_after(retry_after_seconds)
}
