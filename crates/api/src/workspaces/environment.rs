//! Environment variables in a request.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::errors::ApiError;

/// Names and values together. The kernel gives a new program about 2 MiB for arguments and
/// environment; this leaves most of it to the commands themselves.
const MAX_TOTAL_BYTES: usize = 256 << 10;

/// The longest single value: the kernel's limit for one string, with room for the name.
const MAX_VALUE_BYTES: usize = 120 << 10;

/// The longest name.
const MAX_NAME_BYTES: usize = 256;

/// Variables as they are given. Two of one name are refused, because nobody knows which was meant;
/// and more than there may be while they are read, before they take any memory.
#[derive(Debug, Default)]
pub(super) struct Variables(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Variables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct VariablesVisitor;

        impl<'de> Visitor<'de> for VariablesVisitor {
            type Value = Variables;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Variables, A::Error> {
                let mut variables = BTreeMap::new();
                let mut total = 0;
                while let Some((name, value)) = fields.next_entry::<String, String>()? {
                    total += name.len() + value.len();
                    if total > MAX_TOTAL_BYTES {
                        return Err(Error::custom(format!("may have {MAX_TOTAL_BYTES} bytes in all")));
                    }
                    if let Some((name, _)) = variables.get_key_value(&name) {
                        return Err(Error::custom(format!("duplicate field `{name}`")));
                    }
                    variables.insert(name, value);
                }
                Ok(Variables(variables))
            }
        }

        deserializer.deserialize_map(VariablesVisitor)
    }
}

/// Variables that a shell can hold and a kernel can pass on.
pub(super) fn checked(variables: Option<Variables>) -> Result<BTreeMap<String, String>, ApiError> {
    let Variables(variables) = variables.unwrap_or_default();
    for (name, value) in &variables {
        let refused = |reason: &str| {
            let shown: String = name.chars().take(64).collect();
            Err(ApiError::invalid(format!("env.{shown}"), reason))
        };
        if !is_name(name) {
            return refused("not a name: letters, digits and underscores, not beginning with a digit");
        }
        if value.contains('\0') {
            return refused("must not contain a NUL character");
        }
        if value.len() > MAX_VALUE_BYTES {
            return refused(&format!("may have {MAX_VALUE_BYTES} bytes at most"));
        }
    }
    Ok(variables)
}

fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str, expect: Option<&str>) {
        let error = checked(Some(Variables(BTreeMap::from([(name.to_owned(), value.to_owned())])))).err();
        assert_eq!(error.as_ref().and_then(ApiError::field), expect, "{name:?}");
    }

    #[test]
    fn names_and_values() {
        check("PATH", "/bin", None);
        check("_x1", "", None);
        check("ÄPFEL", "", Some("env.ÄPFEL"));
        check("", "", Some("env."));
        check("1A", "", Some("env.1A"));
        check("A=B", "", Some("env.A=B"));
        check("A B", "", Some("env.A B"));
        check("A", "a\0b", Some("env.A"));
        check("A", &"x".repeat(MAX_VALUE_BYTES + 1), Some("env.A"));
        check("A", &"x".repeat(MAX_VALUE_BYTES), None);
    }

    #[test]
    fn the_whole_is_bounded_and_every_name_is_there_once() {
        let read = |json: &str| serde_json::from_str::<Variables>(json).map_err(|error| error.to_string());
        let many: BTreeMap<String, String> =
            (0..3).map(|number| (format!("A{number}"), "x".repeat(100 << 10))).collect();
        let error = read(&serde_json::to_string(&many).unwrap()).unwrap_err();
        assert!(error.starts_with("may have 262144 bytes"), "{error}");
        let error = read(r#"{"A": "1", "B": "2", "A": "1"}"#).unwrap_err();
        assert!(error.starts_with("duplicate field `A`"), "{error}");
        assert_eq!(read(r#"{"A": "1"}"#).unwrap().0.len(), 1);
        assert!(checked(None).unwrap().is_empty());
    }
}
