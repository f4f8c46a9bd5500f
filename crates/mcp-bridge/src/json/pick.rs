use std::ops::Range;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Malformed;

/// How many members a message, and its params, may have. MCP knows a dozen.
const MOST_MEMBERS: usize = 256;

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

/// The names of an object's members as a careless reader takes them: some look at names without regard to case,
/// so that `Name` is `name` to them, and the last one counts.
pub(crate) fn folded_names(text: &str) -> Result<Vec<(String, String)>, Malformed> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let names = reader.deserialize_map(Names).map_err(|e| Malformed::NotJson(e.to_string()))?;
    Ok(names.into_iter().map(|name| (folded(&name), name)).collect())
}

/// Without regard to case, as Go's reader compares: two letters beyond ASCII are letters of ASCII to it.
fn folded(name: &str) -> String {
    name.chars().flat_map(char::to_lowercase).map(|letter| if letter == 'ſ' { 's' } else { letter }).collect()
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

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object of few members")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if names.len() == MOST_MEMBERS {
                return Err(A::Error::custom("too many members"));
            }
            map.next_value::<IgnoredAny>()?;
            names.push(name);
        }
        Ok(names)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_a_careless_reader_takes_them_for() {
        let names = folded_names(r#"{"n\u0061me":1,"Name":{"x":2},"param\u017f":3,"to\u212Aen":4}"#).unwrap();
        let names: Vec<&str> = names.iter().map(|(folded, _)| folded.as_str()).collect();
        assert_eq!(names, ["name", "name", "params", "token"]);
        assert!(folded_names(r#"{"n\ud800":1}"#).is_err(), "half a letter");
        let many: Vec<String> = (0..=MOST_MEMBERS).map(|n| format!("\"{n}\":0")).collect();
        assert!(folded_names(&format!("{{{}}}", many.join(","))).is_err());
    }
}
