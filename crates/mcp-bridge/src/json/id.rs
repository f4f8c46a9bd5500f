/// An id or progress token by its meaning, for comparing; what is sent is always the original text.
///
/// `1`, `1.0` and `1e0` are one number, because clients exist that write integers as floats
/// and write them differently the second time. Big integers are compared digit by digit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum IdKey {
    Text(String),
    /// `digits` without zeros at either end, times ten to the `exponent`. Zero has no digits.
    Number {
        negative: bool,
        digits: String,
        exponent: i64,
    },
}

impl IdKey {
    /// `None` for what cannot be an id: null, a boolean, an array, an object.
    pub(crate) fn of(raw: &str) -> Option<Self> {
        match raw.as_bytes().first()? {
            b'"' => super::text_of(raw).map(Self::Text),
            b'-' | b'0'..=b'9' => Some(Self::number(raw)),
            _ => None,
        }
    }

    fn number(raw: &str) -> Self {
        let (negative, rest) = match raw.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, raw),
        };
        let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        // An exponent too big for i64 can only be compared with itself; saturating keeps it apart from sane ones.
        let written: i64 =
            exponent.parse().unwrap_or(if exponent.starts_with('-') { i64::MIN } else { i64::MAX });
        let all = format!("{whole}{fraction}");
        let ended = all.trim_end_matches('0');
        let dropped = all.len() - ended.len();
        let digits = ended.trim_start_matches('0').to_owned();
        if digits.is_empty() {
            return Self::Number { negative: false, digits, exponent: 0 };
        }
        let exponent =
            written.saturating_sub_unsigned(fraction.len() as u64).saturating_add_unsigned(dropped as u64);
        Self::Number { negative, digits, exponent }
    }

    /// The integer it is, if it is one that the bridge could have given out.
    pub(crate) fn as_own(&self) -> Option<u64> {
        match self {
            Self::Number { negative: false, digits, exponent } if (0..20).contains(exponent) => {
                let zeros = "0".repeat(usize::try_from(*exponent).ok()?);
                format!("{digits}{zeros}").parse().ok()
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_number_in_all_its_spellings() {
        for same in ["1", "1.0", "1e0", "10e-1", "0.1E+1", "1.000"] {
            assert_eq!(IdKey::of(same), IdKey::of("1"), "{same}");
        }
        assert_eq!(IdKey::of("-0"), IdKey::of("0.00"));
        assert_ne!(IdKey::of("1"), IdKey::of("\"1\""));
        assert_ne!(IdKey::of("1"), IdKey::of("-1"));
        assert_ne!(IdKey::of("9007199254740993"), IdKey::of("9007199254740992"));
        assert_eq!(IdKey::of(r#""a""#), IdKey::of(r#""\u0061""#));
        for none in ["null", "true", "[1]", "{}"] {
            assert_eq!(IdKey::of(none), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn own_ids_come_back(id: u64) {
            for text in [format!("{id}"), format!("{id}.0"), format!("{id}00e-2")] {
                prop_assert_eq!(IdKey::of(&text).and_then(|key| key.as_own()), Some(id));
            }
        }

        #[test]
        fn different_integers_differ(a: i128, b: i128) {
            prop_assert_eq!(IdKey::of(&a.to_string()) == IdKey::of(&b.to_string()), a == b);
        }

        #[test]
        fn any_number_text_is_a_key(text in "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,30})?") {
            prop_assert!(IdKey::of(&text).is_some());
        }
    }
}
