//! Names of branches, tags and commits that a request may ask for.

/// The longest name.
const MAX_LENGTH: usize = 255;

/// No branch, tag or commit can be called so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{shown:?} cannot be the name of a branch, a tag or a commit")]
pub struct InvalidReference {
    shown: String,
}

/// Refuses what git would refuse, what could be taken for an option, and what people cannot see.
pub fn check_reference(name: &str) -> Result<(), InvalidReference> {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let is_visible = |c: char| !c.is_control() && !c.is_whitespace() && !is_deceptive(c);
    let is_fine = !name.is_empty()
        && name.len() <= MAX_LENGTH
        && !name.starts_with('-')
        && !name.contains(['~', '^', ':', '?', '*', '[', '\\'])
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && name != "@"
        && name != "HEAD"
        && name.chars().all(is_visible)
        && name.split('/').all(is_part);
    if is_fine { Ok(()) } else { Err(InvalidReference { shown: name.chars().take(100).collect() }) }
}

/// What does not show, or shows as something else.
fn is_deceptive(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in
            ["main", "feature/x", "v1.2.3", "ä", "$(touch x)".replace(' ', "").as_str(), "0123456789abcdef"]
        {
            assert!(check_reference(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "-x",
            "--upload-pack=x",
            "a..b",
            "a b",
            "a\u{3000}b",
            "a\nb",
            "a\r",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.",
            "@",
            "a@{1}",
            "HEAD",
            "a\u{202e}b",
            "\u{feff}a",
            "a\0",
        ] {
            assert!(check_reference(bad).is_err(), "{bad:?}");
        }
        assert!(check_reference(&"x".repeat(300)).is_err());
    }
}
