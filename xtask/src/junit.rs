//! What a test run left behind: one JUnit file per tier in `target/xtask/junit/`, written by
//! nextest, read by the summary of `cargo xtask test` and by `cargo xtask requirements`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Where the results lie, relative to the root of the repository.
pub(crate) const FOLDER: &str = "target/xtask/junit";

/// One test that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestCase {
    /// nextest's binary id: `package`, `package::test-target` or `package::bin/name`.
    pub(crate) binary: String,
    /// The path of the function inside that binary, such as `limits::tests::sizes_are_binary`.
    pub(crate) name: String,
    pub(crate) passed: bool,
    /// Whether it passed only when it was run again.
    pub(crate) second_try: bool,
}

/// The file of a tier's results.
pub(crate) fn file_of(tier: &str) -> String {
    format!("{FOLDER}/{tier}.xml")
}

pub(crate) fn read(path: &Path) -> Result<Vec<TestCase>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| format!("{} is not a JUnit report", path.display()))
}

fn parse(xml: &str) -> Result<Vec<TestCase>> {
    let document = roxmltree::Document::parse(xml)?;
    document
        .descendants()
        .filter(|node| node.has_tag_name("testcase"))
        // Never reported as passed; nextest writes it for tests that were filtered out late.
        .filter(|case| !case.children().any(|child| child.has_tag_name("skipped")))
        .map(|case| {
            let attribute =
                |name| case.attribute(name).with_context(|| format!("a testcase without `{name}`"));
            let broken =
                case.children().any(|child| child.has_tag_name("failure") || child.has_tag_name("error"));
            let tried_again = |child: roxmltree::Node<'_, '_>| {
                child.has_tag_name("flakyFailure") || child.has_tag_name("flakyError")
            };
            Ok(TestCase {
                binary: attribute("classname")?.to_owned(),
                name: attribute("name")?.to_owned(),
                passed: !broken,
                second_try: !broken && case.children().any(tried_again),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{TestCase, parse};

    #[test]
    fn cases_are_read_with_their_verdict() {
        let xml = r#"<?xml version="1.0" encoding="UTF-8"?>
            <testsuites name="nextest-run" tests="4" failures="1" errors="1">
              <testsuite name="emergent-types">
                <testcase name="limits::tests::good" classname="emergent-types" time="0.1"/>
                <testcase name="limits::tests::bad" classname="emergent-types"><failure/></testcase>
              </testsuite>
              <testsuite name="emergent-e2e::api">
                <testcase name="hangs" classname="emergent-e2e::api"><error type="timeout"/></testcase>
                <testcase name="again" classname="emergent-e2e::api"><flakyFailure type="test failure"/></testcase>
                <testcase name="absent" classname="emergent-e2e::api"><skipped/></testcase>
              </testsuite>
            </testsuites>"#;
        let case = |binary: &str, name: &str, passed| TestCase {
            binary: binary.to_owned(),
            name: name.to_owned(),
            passed,
            second_try: false,
        };
        assert_eq!(
            parse(xml).unwrap(),
            [
                case("emergent-types", "limits::tests::good", true),
                case("emergent-types", "limits::tests::bad", false),
                case("emergent-e2e::api", "hangs", false),
                TestCase { second_try: true, ..case("emergent-e2e::api", "again", true) },
            ]
        );
    }

    #[test]
    fn a_report_cut_short_is_an_error() {
        assert!(parse("<testsuites><testsuite>").is_err());
    }
}
