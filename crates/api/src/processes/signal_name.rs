//! Signals, by name or by number.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

/// Names and numbers as Linux has them on the architectures we build for.
const NAMES: &[(&str, u32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("WINCH", 28),
];

/// The greatest signal number.
const MAX_NUMBER: u32 = 64;

/// A signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signal {
    number: u32,
}

impl Signal {
    /// The polite request to end.
    pub(super) const TERM: Self = Self { number: 15 };

    pub(super) fn number(self) -> u32 {
        self.number
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, number)| *number == self.number) {
            Some((name, _)) => write!(f, "SIG{name}"),
            None => self.number.fmt(f),
        }
    }
}

impl FromStr for Signal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let named = NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let given = text.parse().ok().filter(|number| digits && (1..=MAX_NUMBER).contains(number));
        let number = named.or(given);
        number.map(|number| Self { number }).ok_or_else(|| {
            "not a signal: expected a name such as TERM or KILL, or a number from 1 to 64".to_owned()
        })
    }
}

impl<'de> Deserialize<'de> for Signal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        let check = |text: &str, expect: Option<u32>| {
            assert_eq!(text.parse::<Signal>().ok().map(Signal::number), expect, "{text:?}");
        };
        check("TERM", Some(15));
        check("SIGKILL", Some(9));
        check("sigint", Some(2));
        check("1", Some(1));
        check("64", Some(64));
        for bad in ["", "0", "65", "-9", "SIG", "BOOM", "SIGSIGTERM", "9 ", "+9"] {
            check(bad, None);
        }
        assert_eq!(Signal::TERM.to_string(), "SIGTERM");
        assert_eq!("40".parse::<Signal>().unwrap().to_string(), "40");
    }
}
