//! `/api/v1/agent/workspaces/{id}/files`: files of any size, as bytes.

pub(crate) mod download;
mod range;
pub(crate) mod upload;
mod validators;

use serde::Deserialize;
use utoipa::ToSchema;

use crate::errors::ApiError;
use crate::workspaces::text;

/// The bytes of a file.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
struct FileContent(#[expect(dead_code, reason = "only described")] String);

/// The path of a query.
fn path(given: Option<String>) -> Result<String, ApiError> {
    text::path("path", text::required("path", given)?)
}

/// Permission bits, as people write them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileMode(u32);

impl<'de> Deserialize<'de> for FileMode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| digits && (1..=0o7777).contains(mode));
        mode.map(Self).ok_or_else(|| {
            serde::de::Error::custom("not a file mode: expected octal digits such as 644, up to 7777")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::from_query;

    #[derive(Debug, Deserialize)]
    struct Sample {
        mode: Option<FileMode>,
    }

    #[test]
    fn modes_are_octal() {
        for (text, expect) in [("644", 0o644), ("0755", 0o755), ("7777", 0o7777), ("07777", 0o7777)] {
            let sample: Sample = from_query(&format!("mode={text}")).unwrap();
            assert_eq!(sample.mode, Some(FileMode(expect)));
        }
        for bad in ["", "0", "8", "0o644", "-1", "10000", "rwx", "+644", "000644"] {
            let error = from_query::<Sample>(&format!("mode={bad}")).unwrap_err();
            assert_eq!(error.field(), Some("mode"), "{bad}");
        }
    }
}
