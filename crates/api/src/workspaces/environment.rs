//! Environment variables in a request.

use std::collections::BTreeMap;

use crate::errors::ApiError;

/// Names and values together. The kernel gives a new program about 2 MiB for arguments and
/// environment; this leaves most of it to the commands themselves.
const MAX_TOTAL_BYTES: usize = 256 << 10;

/// The longest single value: the kernel's limit for one string, with room for the name.
const MAX_VALUE_BYTES: usize = 120 << 10;

/// The longest name.
const MAX_NAME_BYTES: usize = 256;

/// Variables that a shell can hold and a kernel can pass on.
pub(super) fn checked(
    variables: Option<BTreeMap<String, String>>,
) -> Result<BTreeMap<String, String>, ApiError> {
    let variables = variables.unwrap_or_default();
    let mut total = 0;
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
        total += name.len() + value.len();
    }
    if total > MAX_TOTAL_BYTES {
        return Err(ApiError::invalid(
            "env",
            format!("may have {MAX_TOTAL_BYTES} bytes in all, not {total}"),
        ));
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
        let error = checked(Some(BTreeMap::from([(name.to_owned(), value.to_owned())]))).err();
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
    fn the_whole_is_bounded() {
        let many = (0..3).map(|i| (format!("A{i}"), "x".repeat(100 << 10))).collect();
        assert_eq!(checked(Some(many)).unwrap_err().field(), Some("env"));
        assert!(checked(None).unwrap().is_empty());
    }
}
