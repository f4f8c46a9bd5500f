//! Globs: what they match, where they are wrong, and where not to look for them.
//!
//! `*`, `?` and classes stay within a folder, `**` does not, `{a,b}` is either. A pattern is
//! matched against the path below the place where the search begins; one that begins with a
//! slash against the whole path.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::CallError;

/// Braces may nest; each level costs stack.
const MAX_DEPTH: usize = 8;

/// A glob that can be matched.
pub(super) struct Pattern {
    glob: GlobSet,
    parts: Vec<Part>,
    /// It is about names in the folder where the search begins, and none below.
    is_one_name: bool,
    /// It has a name that begins with a dot.
    pub(super) names_dot: bool,
}

/// What a name at one depth must be.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(Vec<u8>),
    Any,
    /// Any number of names: nothing is known from here on.
    Deep,
}

/// What is wrong with a pattern.
#[derive(Debug, PartialEq, Eq)]
struct Mistake {
    position: usize,
    reason: &'static str,
}

impl Pattern {
    /// Understands a pattern; `field` is what to blame.
    pub(super) fn parse(pattern: &str, field: &'static str) -> Result<Self, CallError> {
        let shape = check(pattern, field)?;
        let invalid = |error: globset::Error| CallError::field(field, error.kind().to_string());
        // A pattern for one name is not matched against slashes. Where they do not matter, the common
        // patterns are matched by their ending and need no automaton, which takes longer to make than a
        // small folder to walk.
        let is_one_name = matches!(shape.parts.as_slice(), [Part::Any | Part::Literal(_)]);
        let glob = GlobBuilder::new(pattern)
            .literal_separator(!is_one_name)
            .backslash_escape(true)
            .empty_alternates(true)
            .build()
            .map_err(invalid)?;
        let glob = GlobSetBuilder::new().add(glob).build().map_err(invalid)?;
        Ok(Self { glob, parts: shape.parts, is_one_name, names_dot: shape.names_dot })
    }

    pub(super) fn matches(&self, relative: &[u8]) -> bool {
        if self.is_one_name && relative.contains(&b'/') {
            return false;
        }
        self.glob.is_match(std::path::Path::new(super::walk::os_str(relative)))
    }

    /// Whether something below this folder can match.
    pub(super) fn enters(&self, relative: &[u8]) -> bool {
        for (index, name) in relative.split(|byte| *byte == b'/').enumerate() {
            match self.parts.get(index) {
                Some(Part::Deep) => return true,
                Some(Part::Literal(literal)) if literal != name => return false,
                Some(_) => {}
                None => return false,
            }
        }
        relative.split(|byte| *byte == b'/').count() < self.parts.len()
    }
}

/// An error that names the position, when a pattern is wrong.
pub(super) fn check(pattern: &str, field: &'static str) -> Result<Shape, CallError> {
    shape(pattern).map_err(|mistake| CallError::InvalidField {
        field,
        reason: format!("invalid glob: {} at byte {}", mistake.reason, mistake.position),
        position: Some(mistake.position),
    })
}

/// What can be seen of a pattern without matching it.
#[derive(Debug, Default)]
pub(super) struct Shape {
    parts: Vec<Part>,
    names_dot: bool,
}

fn shape(pattern: &str) -> Result<Shape, Mistake> {
    let mut shape = Shape::default();
    let mut part = String::new();
    let mut is_literal = true;
    // Where braces were opened, and whether each was at the beginning of a name.
    let mut braces: Vec<(usize, bool)> = Vec::new();
    let mut has_slash_in_braces = false;
    let mut begins_name = true;
    let mut characters = pattern.char_indices().peekable();
    while let Some((position, character)) = characters.next() {
        let began = std::mem::replace(&mut begins_name, false);
        match character {
            '\\' => {
                let Some((_, escaped)) = characters.next() else {
                    return Err(Mistake { position, reason: "nothing after the backslash" });
                };
                shape.names_dot |= began && escaped == '.';
                is_literal = false;
            }
            '[' => {
                let has_dot = class(position, &mut characters)?;
                shape.names_dot |= began && has_dot;
                is_literal = false;
            }
            '{' => {
                braces.push((position, began));
                begins_name = began;
                is_literal = false;
                if braces.len() > MAX_DEPTH {
                    return Err(Mistake { position, reason: "braces are nested too deeply" });
                }
            }
            ',' if !braces.is_empty() => begins_name = braces.last().is_some_and(|(_, began)| *began),
            '}' => {
                if braces.pop().is_none() {
                    return Err(Mistake { position, reason: "a brace is closed that was not opened" });
                }
            }
            '*' | '?' => {
                is_literal = false;
                part.push(character);
            }
            '/' => {
                begins_name = true;
                if braces.is_empty() {
                    shape.parts.push(finish(&mut part, &mut is_literal));
                } else {
                    has_slash_in_braces = true;
                }
            }
            '.' if began => {
                let rest = pattern.get(position + 1..).unwrap_or_default();
                let name = rest.split('/').next().unwrap_or_default();
                if name == "." {
                    return Err(Mistake { position, reason: "'..' is not understood here; use path" });
                }
                shape.names_dot |= !name.is_empty();
                part.push(character);
            }
            _ => part.push(character),
        }
    }
    if let Some((position, _)) = braces.pop() {
        return Err(Mistake { position, reason: "a brace is not closed" });
    }
    shape.parts.push(finish(&mut part, &mut is_literal));
    if has_slash_in_braces {
        shape.parts = vec![Part::Deep];
    }
    Ok(shape)
}

fn finish(part: &mut String, is_literal: &mut bool) -> Part {
    let text = std::mem::take(part);
    if std::mem::replace(is_literal, true) {
        Part::Literal(text.into_bytes())
    } else if text == "**" {
        Part::Deep
    } else {
        Part::Any
    }
}

/// The rest of a class; whether a dot is in it.
fn class(
    opened: usize,
    characters: &mut std::iter::Peekable<std::str::CharIndices<'_>>,
) -> Result<bool, Mistake> {
    if characters.peek().is_some_and(|(_, character)| matches!(character, '!' | '^')) {
        characters.next();
    }
    let mut has_dot = false;
    let mut previous: Option<(usize, char)> = None;
    let mut is_first = true;
    while let Some((position, character)) = characters.next() {
        match (character, previous, characters.peek()) {
            (']', _, _) if !is_first => return Ok(has_dot),
            ('-', Some((start, from)), Some((_, to))) if *to != ']' => {
                if from > *to {
                    return Err(Mistake { position: start, reason: "the range is backwards" });
                }
                has_dot |= (from..=*to).contains(&'.');
                characters.next();
                previous = None;
            }
            _ => {
                has_dot |= character == '.';
                previous = Some((position, character));
            }
        }
        is_first = false;
    }
    Err(Mistake { position: opened, reason: "the class is not closed" })
}

/// The globs of a list: commas separate them, but not within braces or classes.
pub(super) fn split_list(list: &str) -> Vec<(usize, &str)> {
    let mut globs = Vec::new();
    let (mut start, mut depth, mut in_class, mut escaped) = (0, 0usize, false, false);
    for (position, character) in list.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '{' if !in_class => depth += 1,
            '}' if !in_class => depth = depth.saturating_sub(1),
            ',' if depth == 0 && !in_class => {
                globs.push((start, list.get(start..position).unwrap_or_default()));
                start = position + 1;
            }
            _ => {}
        }
    }
    globs.push((start, list.get(start..).unwrap_or_default()));
    globs.retain(|(_, glob)| !glob.trim().is_empty());
    globs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_have_a_position() {
        let check = |pattern: &str, expect: Option<usize>| {
            let position = shape(pattern).err().map(|mistake| mistake.position);
            assert_eq!(position, expect, "{pattern:?}");
            let built = GlobBuilder::new(pattern).literal_separator(true).build();
            if position.is_none() {
                assert!(built.is_ok(), "{pattern:?}: {built:?}");
            }
        };
        check("**/*.{rs,toml}", None);
        check("a[", Some(1));
        check("a[]", Some(1));
        check("a[]]", None);
        check("[!a-z]x[^0-9-]", None);
        check("x[z-a]", Some(2));
        check("a{b,c", Some(1));
        check("a}b", Some(1));
        check("ä{b,{c}", Some(2));
        check("a\\", Some(1));
        check("{{{{{{{{{a}}}}}}}}}", Some(8));
        check("src/../x", Some(4));
        check("$(touch pwned); `id` | & > '\"", None);
    }

    #[test]
    fn dots_are_named_at_the_beginning_of_names() {
        let check = |pattern: &str, expect: bool| {
            assert_eq!(shape(pattern).unwrap().names_dot, expect, "{pattern:?}");
        };
        check("*.rs", false);
        check(".env", true);
        check("**/.env*", true);
        check(".github/**", true);
        check("{.a,b}", true);
        check("{a,.b}", true);
        check("x{.a,.b}", false);
        check("[.a]b", true);
        check("\\.x", true);
        check("./a", false);
        check("a/**", false);
    }

    #[test]
    fn only_folders_that_can_hold_a_match_are_entered() {
        let check = |pattern: &str, folder: &str, expect: bool| {
            let pattern = Pattern::parse(pattern, "pattern").unwrap();
            assert_eq!(pattern.enters(folder.as_bytes()), expect, "{folder}");
        };
        check("*.rs", "src", false);
        check("src/*.rs", "src", true);
        check("src/*.rs", "lib", false);
        check("src/*.rs", "src/a", false);
        check("*/x/*.rs", "a", true);
        check("*/x/*.rs", "a/x", true);
        check("*/x/*.rs", "a/y", false);
        check("src/**/*.rs", "src/a/b/c", true);
        check("src/**/*.rs", "lib/a", false);
        check("**", "a/b", true);
        check("{a/b,c}/d", "a/b", true);
    }

    #[test]
    fn what_matches() {
        let check = |pattern: &str, path: &str, expect: bool| {
            let parsed = Pattern::parse(pattern, "pattern").unwrap();
            assert_eq!(parsed.matches(path.as_bytes()), expect, "{pattern} {path}");
        };
        check("*.rs", "a.rs", true);
        check("*.rs", "src/a.rs", false);
        check("*.rs", ".rs", true);
        check("*", "src/a", false);
        check("a*c", "a/c", false);
        check("[!a]b", "/b", false);
        check("**/*.rs", "a.rs", true);
        check("**/*.rs", "x/y/a.rs", true);
        check("src/**", "src/a/b", true);
        check("*.{ts,tsx}", "a.tsx", true);
        check("[a-c]?.x", "b1.x", true);
        check("[!a-c]?.x", "b1.x", false);
        check("a\\*b", "a*b", true);
        check("a\\*b", "axb", false);
    }

    #[test]
    fn lists() {
        let check = |list: &str, expect: &[&str]| {
            let globs: Vec<_> = split_list(list).into_iter().map(|(_, glob)| glob).collect();
            assert_eq!(globs, expect, "{list:?}");
        };
        check("*.rs", &["*.rs"]);
        check("*.rs,*.toml", &["*.rs", "*.toml"]);
        check("*.{rs,toml},a[,]b", &["*.{rs,toml}", "a[,]b"]);
        check(" ,,", &[]);
    }
}
