//! Lists of texts in a body. What is too long is refused while it is read: a body of sixteen
//! mebibytes can hold millions of empty texts, which would take ten times as much memory.

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A list of so many texts at most.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Strings<const MAX: usize>(pub(crate) Vec<String>);

impl<'de, const MAX: usize> Deserialize<'de> for Strings<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<const MAX: usize>;

        impl<'de, const MAX: usize> Visitor<'de> for ListVisitor<MAX> {
            type Value = Strings<MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of {MAX} texts at most")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = items.next_element()? {
                    if texts.len() == MAX {
                        return Err(serde::de::Error::custom(format!("may have {MAX} entries at most")));
                    }
                    texts.push(text);
                }
                Ok(Strings(texts))
            }
        }

        deserializer.deserialize_seq(ListVisitor::<MAX>)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::errors::ApiError;

    #[derive(Debug, Deserialize)]
    struct Sample {
        list: Strings<2>,
    }

    #[test]
    fn lists_are_bounded() {
        let read = |json: &str| super::super::from_json::<Sample>(json.as_bytes());
        assert_eq!(read(r#"{"list": ["a", "b"]}"#).unwrap().list.0, ["a", "b"]);
        for bad in [r#"{"list": ["", "", ""]}"#, r#"{"list": "a"}"#, r#"{"list": null}"#] {
            let error = read(bad).unwrap_err();
            assert!(error.field().is_some_and(|field| field.starts_with("list")), "{bad}: {error:?}");
        }
        assert_eq!(read(r#"{"list": ["a", 5]}"#).err().as_ref().and_then(ApiError::field), Some("list[1]"));
    }
}
