use std::ops::Range;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Malformed;

/// A place in a text.
pub(crate) type Span = Range<usize>;

/// What is found of an object's members, and where.
type Found<'a, const N: usize> = [Option<&'a str>; N];

/// The raw values of the wanted members of an object; `None` for a member that is absent.
///
/// A wanted member that occurs twice is an error: JSON readers disagree about which one
/// counts, and a bridge that changes one of them would say different things to each.
pub(crate) fn pick<'a, const N: usize>(text: &'a str, wanted: [&str; N]) -> Result<Found<'a, N>, Malformed> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let mut twice = None;
    let found = reader.deserialize_map(Members { wanted: &wanted, twice: &mut twice });
    if let Some(name) = twice {
        return Err(Malformed::Duplicate(name));
    }
    let found = found.map_err(|e| Malformed::NotJson(e.to_string()))?;
    reader.end().map_err(|e| Malformed::NotJson(e.to_string()))?;
    Ok(found)
}

/// Where `inner`, which was borrowed from `outer`, is in it.
pub(crate) fn span_of(outer: &str, inner: &str) -> Span {
    let start = inner.as_ptr() as usize - outer.as_ptr() as usize;
    start..start + inner.len()
}

/// The string that a raw value is; `None` if it is no string.
pub(crate) fn text_of(raw: &str) -> Option<String> {
    serde_json::from_str(raw).ok()
}

struct Members<'w, const N: usize> {
    wanted: &'w [&'w str; N],
    twice: &'w mut Option<String>,
}

impl<'de, const N: usize> Visitor<'de> for Members<'_, N> {
    type Value = Found<'de, N>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(key) = map.next_key_seed(WhichKey(self.wanted))? {
            let Some(index) = key else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if found[index].is_some() {
                *self.twice = Some(self.wanted[index].to_owned());
                return Err(A::Error::custom("duplicate member"));
            }
            found[index] = Some(map.next_value::<&'de RawValue>()?.get());
        }
        Ok(found)
    }
}

/// Compares a key without keeping it.
struct WhichKey<'w>(&'w [&'w str]);

impl<'de> DeserializeSeed<'de> for WhichKey<'_> {
    type Value = Option<usize>;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for WhichKey<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|wanted| *wanted == key))
    }
}
