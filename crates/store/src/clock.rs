//! Instants as the store keeps them: whole milliseconds, UTC.

use time::OffsetDateTime;

/// The current time, cut to what a row keeps, so that a value looks the same before it is
/// written and after it is read.
pub fn now() -> OffsetDateTime {
    to_stored_precision(OffsetDateTime::now_utc())
}

pub(crate) fn to_millis(instant: OffsetDateTime) -> i64 {
    // Both parts round towards the past, also before 1970.
    instant.unix_timestamp() * 1000 + i64::from(instant.millisecond())
}

pub(crate) fn from_millis(millis: i64) -> Result<OffsetDateTime, time::error::ComponentRange> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000)
}

pub(crate) fn to_stored_precision(instant: OffsetDateTime) -> OffsetDateTime {
    // Whatever was a valid instant stays one when its digits are cut.
    from_millis(to_millis(instant)).unwrap_or(instant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_instant_loses_less_than_a_millisecond(nanos in -62_000_000_000_000_000_000_i128..253_000_000_000_000_000_000) {
            let instant = OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap();
            let kept = from_millis(to_millis(instant)).unwrap();
            let lost = instant - kept;
            prop_assert!((time::Duration::ZERO..time::Duration::MILLISECOND).contains(&lost), "{instant} became {kept}");
            prop_assert_eq!(to_millis(kept), to_millis(instant));
        }
    }

    #[test]
    fn now_is_already_cut() {
        let now = now();
        assert_eq!(from_millis(to_millis(now)), Ok(now));
    }
}
