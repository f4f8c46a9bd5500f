//! Finds the backports of this machine's Debian release: the same mirror and key the machine
//! already uses for the release itself, with another suite. No mirror is named here.

/// What has to be done so that packages can be taken from the backports.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Backports {
    /// A source the machine has offers them.
    Configured,
    /// This deb822 text has to be put into a sources file of its own.
    Missing(String),
    /// No source of the release itself was found to derive them from.
    Underivable,
}

/// One line or stanza of the machine's package sources.
#[derive(Debug, Default, PartialEq, Eq)]
struct Source {
    uris: String,
    suites: Vec<String>,
    /// As written after `Signed-By:`; may span lines when the key itself stands there.
    signed_by: Option<String>,
}

/// The backports of `codename`, given the text of every sources file: in the one-line format
/// (`*.list`) and in the deb822 format (`*.sources`).
pub(crate) fn backports(codename: &str, list_files: &[String], deb822_files: &[String]) -> Backports {
    let sources: Vec<Source> = list_files
        .iter()
        .flat_map(|text| text.lines().filter_map(one_line))
        .chain(deb822_files.iter().flat_map(|text| stanzas(text)))
        .collect();
    let wanted = format!("{codename}-backports");
    let offering = |suite: &str| sources.iter().find(|source| source.suites.iter().any(|own| own == suite));

    if offering(&wanted).is_some() {
        return Backports::Configured;
    }
    let Some(release) = offering(codename) else {
        return Backports::Underivable;
    };
    let mut text = format!("Types: deb\nURIs: {}\nSuites: {wanted}\nComponents: main\n", release.uris);
    if let Some(key) = &release.signed_by {
        text.push_str(&format!("Signed-By: {key}\n"));
    }
    Backports::Missing(text)
}

/// `deb [signed-by=FILE] URI SUITE COMPONENT…`
fn one_line(line: &str) -> Option<Source> {
    let rest = line.trim().strip_prefix("deb ")?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace();
    let uris = words.next()?.to_owned();
    let suites = vec![words.next()?.to_owned()];
    let signed_by =
        options.split_whitespace().find_map(|option| option.strip_prefix("signed-by=")).map(str::to_owned);
    Some(Source { uris, suites, signed_by })
}

/// The enabled binary-package stanzas of a deb822 file.
fn stanzas(text: &str) -> Vec<Source> {
    text.split("\n\n").filter_map(stanza).collect()
}

fn stanza(text: &str) -> Option<Source> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with([' ', '\t']) {
            let (_, value) = fields.last_mut()?;
            value.push('\n');
            value.push_str(line);
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    let field = |name: &str| fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());

    let binary = field("types")?.split_whitespace().any(|kind| kind == "deb");
    let enabled = field("enabled").is_none_or(|value| !value.eq_ignore_ascii_case("no"));
    (binary && enabled).then_some(())?;
    Some(Source {
        uris: field("uris")?,
        suites: field("suites")?.split_whitespace().map(str::to_owned).collect(),
        signed_by: field("signed-by"),
    })
}

#[cfg(test)]
mod tests {
    use super::{Backports, backports};

    fn check(list: &str, deb822: &str, expect: Backports) {
        assert_eq!(backports("bookworm", &[list.to_owned()], &[deb822.to_owned()]), expect);
    }

    #[test]
    fn mirror_and_key_come_from_the_release() {
        let deb822 = "# made by an installer\n\
            Types: deb deb-src\n# a comment between\nURIs: http://mirror.invalid/debian\n\
            Suites: bookworm bookworm-updates\nComponents: main\nSigned-By: /keys/debian.gpg\n\n\
            Types: deb\nURIs: http://mirror.invalid/security\nSuites: bookworm-security\n";
        let expect = "Types: deb\nURIs: http://mirror.invalid/debian\nSuites: bookworm-backports\n\
            Components: main\nSigned-By: /keys/debian.gpg\n";
        check("", deb822, Backports::Missing(expect.to_owned()));
    }

    #[test]
    fn one_line_sources_are_understood() {
        let expect = "Types: deb\nURIs: http://mirror.invalid/debian\nSuites: bookworm-backports\n\
            Components: main\nSigned-By: /keys/debian.gpg\n";
        check(
            "deb-src http://other.invalid/debian bookworm main\n\
             deb [arch=amd64 signed-by=/keys/debian.gpg] http://mirror.invalid/debian bookworm main contrib\n",
            "",
            Backports::Missing(expect.to_owned()),
        );
        check(
            "deb http://mirror.invalid/debian bookworm main",
            "",
            Backports::Missing(
                "Types: deb\nURIs: http://mirror.invalid/debian\nSuites: bookworm-backports\n\
                 Components: main\n"
                    .to_owned(),
            ),
        );
    }

    #[test]
    fn what_is_there_is_not_added_again() {
        check("deb http://mirror.invalid/debian bookworm-backports main", "", Backports::Configured);
    }

    #[test]
    fn a_disabled_source_is_none() {
        check(
            "# deb http://mirror.invalid/debian bookworm main",
            "Types: deb\nURIs: http://mirror.invalid/debian\nSuites: bookworm\nEnabled: no\n",
            Backports::Underivable,
        );
    }

    #[test]
    fn a_key_written_out_keeps_its_lines() {
        let deb822 = "Types: deb\nURIs: http://mirror.invalid/debian\nSuites: bookworm\nSigned-By:\n \
            -----BEGIN\n .\n -----END\n";
        let Backports::Missing(text) = backports("bookworm", &[], &[deb822.to_owned()]) else {
            panic!("backports can be derived");
        };
        assert!(text.ends_with("Signed-By: \n -----BEGIN\n .\n -----END\n"), "{text}");
    }
}
