//! Reads `docs/requirements.md`: the tables whose header is `id | requirement | kind | note`.

use anyhow::{Context, Result, bail};

/// One row of the document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) kind: Kind,
}

/// How a requirement is met.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// By a passing test.
    Test,
    /// Not yet: by a part of the product that is named.
    Later(String),
    /// On another operating system.
    Platform(String),
    /// By a document, named from the root of the repository.
    Answered(String),
    /// Differently, for this reason.
    Deviation(String),
}

pub(crate) fn parse(document: &str) -> Result<Vec<Requirement>> {
    let mut requirements: Vec<Requirement> = Vec::new();
    let mut in_table = false;
    for (number, line) in (1..).zip(document.lines()) {
        let Some(cells) = cells(line) else {
            in_table = false;
            continue;
        };
        match cells[..] {
            ["id", "requirement", "kind", "note"] => in_table = true,
            _ if !in_table || cells[0].starts_with("--") => {}
            [id, text, kind, _] => {
                let kind = kind_of(kind).with_context(|| format!("line {number}: {id}"))?;
                if !is_id(id) || text.is_empty() {
                    bail!("line {number}: a row needs an id such as LIFE-03 and a text");
                }
                if requirements.iter().any(|other| other.id == id) {
                    bail!("line {number}: {id} is used twice");
                }
                requirements.push(Requirement { id: id.to_owned(), text: text.to_owned(), kind });
            }
            _ => bail!("line {number}: a row has four cells: id, requirement, kind, note"),
        }
    }
    if requirements.is_empty() {
        bail!("there is no table with the header `id | requirement | kind | note`");
    }
    Ok(requirements)
}

/// `WORD-number`, with more words or a point where needed: LIFE-03, RISK-KVM-1, DESIGN-8.2.
pub(crate) fn is_id(text: &str) -> bool {
    let Some((words, number)) = text.rsplit_once('-') else { return false };
    let is_word = |word: &str| {
        word.starts_with(|letter: char| letter.is_ascii_uppercase())
            && word.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit())
    };
    let is_number = |part: &str| !part.is_empty() && part.chars().all(|digit| digit.is_ascii_digit());
    words.split('-').all(is_word) && number.split('.').all(is_number)
}

/// The cells of a table row, or `None` where the line is none.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

fn kind_of(text: &str) -> Result<Kind> {
    let (word, rest) = text.split_once(':').map_or((text, ""), |(word, rest)| (word, rest.trim()));
    Ok(match (word, rest) {
        ("test", "") => Kind::Test,
        ("later", part) if !part.is_empty() => Kind::Later(part.to_owned()),
        ("platform", system @ ("macos" | "windows")) => Kind::Platform(system.to_owned()),
        ("answered", page) if page.ends_with(".md") => Kind::Answered(page.to_owned()),
        ("deviation", reason) if !reason.is_empty() => Kind::Deviation(reason.to_owned()),
        _ => bail!(
            "`{text}` is no kind: `test`, `later: part`, `platform: macos|windows`, \
             `answered: page.md` or `deviation: reason`"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::{Kind, is_id, kind_of, parse};

    #[test]
    fn the_document_of_this_repository_is_understood() {
        let requirements = parse(include_str!("../../../docs/requirements.md")).unwrap();
        for prefix in ["LIFE-", "GVIS-", "ORCH-", "FIRE-", "DESIGN-", "RISK-", "MIGR-", "ROLL-", "OPEN-"] {
            assert!(requirements.iter().any(|row| row.id.starts_with(prefix)), "{prefix}");
        }
    }

    #[test]
    fn kinds_are_told_apart() {
        assert_eq!(kind_of("test").unwrap(), Kind::Test);
        assert_eq!(kind_of("later: MCP hosting").unwrap(), Kind::Later("MCP hosting".to_owned()));
        assert_eq!(kind_of("platform: macos").unwrap(), Kind::Platform("macos".to_owned()));
        assert_eq!(
            kind_of("answered: docs/adr/0007-network-modes.md").unwrap(),
            Kind::Answered("docs/adr/0007-network-modes.md".to_owned())
        );
        assert_eq!(
            kind_of("deviation: the product is Rust").unwrap(),
            Kind::Deviation("the product is Rust".to_owned())
        );
        for wrong in ["", "tests", "later:", "platform: plan9", "answered: somehow", "deviation:"] {
            assert!(kind_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ids_have_one_form() {
        for id in ["LIFE-03", "DESIGN-10.26", "RISK-E2B-1", "OPEN-10"] {
            assert!(is_id(id), "{id}");
        }
        for other in ["LIFE", "life-03", "LIFE-", "LIFE-3a", "DESIGN-8.", "-1"] {
            assert!(!is_id(other), "{other}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let check = |rows: &str, expect: &str| {
            let document = format!("| id | requirement | kind | note |\n|---|---|---|---|\n{rows}\n");
            let error = format!("{:#}", parse(&document).unwrap_err());
            assert!(error.contains(expect), "{error}");
        };
        check("| A-1 | x | test | |\n| A-1 | y | test | |", "line 4: A-1 is used twice");
        check("| A-1 | x | test |", "line 3: a row has four cells");
        check("| A-1 | x | soon | |", "line 3: A-1: `soon` is no kind");
        check("| a1 | x | test | |", "line 3: a row needs an id");
    }
}
