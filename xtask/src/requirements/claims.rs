//! Finds which tests claim to prove which requirements, and recognises those tests among the
//! results of a run.
//!
//! A claim is a line of a doc comment:
//!
//! ```text
//! /// Proves: LIFE-09, ORCH-01
//! ```
//!
//! It stands on a test, or on a check that a suite turns into tests of the check's name: in the
//! tests of the same package, or, for the conformance suite, in the tests of every provider.

use super::document::is_id;
use crate::junit::TestCase;

/// Where the checks live that every provider runs.
const CONFORMANCE_FOLDER: &str = "crates/provider/src/conformance/";
/// Runs the conformance suite against the in-memory fake: that shows that the suite works, and
/// proves nothing about a real sandbox.
const FAKE_PACKAGE: &str = "emergent-provider";
/// Requirements of one provider: a check of the suite proves them where that provider ran it.
const PROVIDER_OF_PREFIX: &[(&str, &str)] = &[("GVIS-", "gvisor"), ("FIRE-", "firecracker")];

/// A function that claims to prove requirements.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) ids: Vec<String>,
    pub(crate) function: String,
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) runner: Runner,
}

/// What runs a function that makes a claim.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    /// It is a test of this package.
    Itself { package: String },
    /// A suite in the tests of this package.
    Suite { package: String },
    /// The conformance suite, in the tests of any provider.
    Conformance,
}

impl Claim {
    /// For people: where to look.
    pub(crate) fn place(&self) -> String {
        format!("{}:{} ({})", self.file, self.line, self.function)
    }

    /// Whether `case` is a run of this function.
    pub(crate) fn is_run_by(&self, case: &TestCase) -> bool {
        let mut path = case.binary.split("::").chain(case.name.split("::"));
        let package = path.next().unwrap_or_default();
        let function = case.name.rsplit("::").next().unwrap_or_default();
        if function != self.function {
            return false;
        }
        // Two modules may have a function of the same name: the file's name decides. A suite's
        // tests stand in a file of their own.
        let mut in_module = || module_of(&self.file).is_none_or(|module| path.any(|part| part == module));
        match &self.runner {
            Runner::Itself { package: own } => own == package && in_module(),
            Runner::Suite { package: own } => own == package,
            Runner::Conformance => package != FAKE_PACKAGE && in_module(),
        }
    }

    /// Whether a run of this function counts for `id`.
    pub(crate) fn counts_for(&self, id: &str, case: &TestCase) -> bool {
        let provider = PROVIDER_OF_PREFIX.iter().find(|(prefix, _)| id.starts_with(prefix));
        match (&self.runner, provider) {
            (Runner::Conformance, Some((_, provider))) => {
                case.binary.contains(provider) || case.name.contains(provider)
            }
            _ => true,
        }
    }
}

/// The name a file gives to its module, unless it is the root of a crate.
fn module_of(file: &str) -> Option<&str> {
    let path = file.strip_suffix(".rs")?;
    let (folder, stem) = path.rsplit_once('/')?;
    let name = match stem {
        "mod" => folder.rsplit('/').next()?,
        "lib" | "main" => return None,
        stem => stem,
    };
    Some(name)
}

/// The claims of one file, and what is wrong with them.
pub(crate) fn scan(file: &str, text: &str, package: &str) -> (Vec<Claim>, Vec<String>) {
    let conformance = file.starts_with(CONFORMANCE_FOLDER);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let (mut claims, mut problems) = (Vec::new(), Vec::new());
    for (index, line) in lines.iter().enumerate() {
        let Some(list) = line.strip_prefix("/// Proves:") else { continue };
        let place = format!("{file}:{}", index + 1);
        let ids: Vec<String> = list.trim_end_matches('.').split(',').map(|id| id.trim().to_owned()).collect();
        if let Some(wrong) = ids.iter().find(|id| !is_id(id)) {
            problems.push(format!("{place}: `{wrong}` is not the id of a requirement"));
            continue;
        }
        match function_below(&lines, index) {
            None => problems.push(format!("{place}: no function follows this claim")),
            Some((function, is_test)) => claims.push(Claim {
                ids,
                function: function.to_owned(),
                file: file.to_owned(),
                line: index + 1,
                runner: match (conformance, is_test) {
                    (true, false) => Runner::Conformance,
                    (_, true) => Runner::Itself { package: package.to_owned() },
                    (false, false) => Runner::Suite { package: package.to_owned() },
                },
            }),
        }
    }
    (claims, problems)
}

/// The function whose doc comment contains line `index`, and whether it is marked as a test.
fn function_below<'a>(lines: &[&'a str], index: usize) -> Option<(&'a str, bool)> {
    let is_head = |line: &&str| line.starts_with("///") || line.starts_with("#[");
    let marks_test = |line: &str| line.starts_with("#[") && line.contains("test");
    let above = lines[..index].iter().rev().take_while(|line| is_head(line)).any(|line| marks_test(line));

    let mut is_test = above;
    for line in &lines[index..] {
        if let Some(function) = function_name(line) {
            return Some((function, is_test));
        }
        is_test |= marks_test(line);
        // An attribute may span lines; a finished item or an empty line ends the head.
        if line.is_empty() || line.ends_with('}') || line.ends_with(';') {
            return None;
        }
    }
    None
}

fn function_name(line: &str) -> Option<&str> {
    if line.starts_with("//") {
        return None;
    }
    let (before, after) = line.split_once("fn ")?;
    let qualifiers = ["pub", "pub(crate)", "pub(super)", "async", "unsafe", "const"];
    if !before.split_whitespace().all(|word| qualifiers.contains(&word)) {
        return None;
    }
    after.split(['(', '<']).next().map(str::trim).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Claim, Runner, scan};
    use crate::junit::TestCase;

    fn scan_lines(file: &str, lines: &[&str]) -> (Vec<Claim>, Vec<String>) {
        scan(file, &lines.join("\n"), "emergent-store")
    }

    fn case(binary: &str, name: &str) -> TestCase {
        TestCase { binary: binary.to_owned(), name: name.to_owned(), passed: true, second_try: false }
    }

    #[test]
    fn claims_of_tests_are_found() {
        let check = |lines: &[&str], function: &str, ids: &[&str]| {
            let (claims, problems) = scan_lines("crates/store/src/sqlite.rs", lines);
            assert_eq!(problems, Vec::<String>::new());
            assert_eq!(claims.len(), 1, "{lines:?}");
            assert_eq!((claims[0].function.as_str(), &claims[0].ids[..]), (function, &own(ids)[..]));
        };
        check(&["/// Proves: LIFE-05", "#[test]", "fn limit() {"], "limit", &["LIFE-05"]);
        check(
            &[
                "    /// What it is.",
                "    /// Proves: LIFE-05, DESIGN-9.1.",
                "    #[tokio::test(",
                "  flavor = \"x\"",
                "    )]",
                "    async fn limit() {",
            ],
            "limit",
            &["LIFE-05", "DESIGN-9.1"],
        );
        check(&["#[test]", "/// Proves: LIFE-05", "fn limit() {"], "limit", &["LIFE-05"]);
    }

    #[test]
    fn claims_that_prove_nothing_are_refused() {
        let check = |lines: &[&str], expect: &str| {
            let (claims, problems) = scan_lines("crates/store/src/sqlite.rs", lines);
            assert_eq!(claims, []);
            assert!(problems[0].contains(expect), "{problems:?}");
        };
        check(&["/// Proves: LIFE-05", "struct Row;", "#[test]", "fn other() {"], "no function follows");
        check(&["/// Proves: all of it", "#[test]", "fn limit() {"], "not the id");
    }

    #[test]
    fn a_test_is_recognised_by_package_module_and_name() {
        let (claims, _) =
            scan_lines("crates/store/src/sqlite.rs", &["/// Proves: LIFE-05", "#[test]", "fn limit() {"]);
        let check =
            |binary, name, expect| assert_eq!(claims[0].is_run_by(&case(binary, name)), expect, "{name}");
        check("emergent-store", "sqlite::tests::limit", true);
        check("emergent-store", "postgres::tests::limit", false);
        check("emergent-store", "sqlite::tests::limit_of_another", false);
        check("emergent-api", "sqlite::tests::limit", false);
    }

    #[test]
    fn an_integration_test_is_recognised_by_its_target() {
        let lines = ["/// Proves: LIFE-05", "#[test]", "fn limit() {"];
        let (claims, _) = scan("tests/api/create.rs", &lines.join("\n"), "emergent-e2e");
        assert!(claims[0].is_run_by(&case("emergent-e2e::api", "create::limit")));
        assert!(!claims[0].is_run_by(&case("emergent-e2e::api", "destroy::limit")));
        let (claims, _) = scan("tests/api/main.rs", &lines.join("\n"), "emergent-e2e");
        assert!(claims[0].is_run_by(&case("emergent-e2e::api", "limit")));
    }

    #[test]
    fn a_check_of_a_suite_is_recognised_in_its_package() {
        let (claims, problems) = scan_lines(
            "crates/store/tests/store/suite/rows.rs",
            &["/// Proves: MIGR-2.5", "pub(crate) async fn a_row_comes_back(store: &dyn Store) {"],
        );
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(claims[0].runner, Runner::Suite { package: "emergent-store".to_owned() });
        assert!(claims[0].is_run_by(&case("emergent-store::store", "sqlite_suite::a_row_comes_back")));
        assert!(!claims[0].is_run_by(&case("emergent-api", "a_row_comes_back")));
    }

    #[test]
    fn a_conformance_check_is_proven_by_real_providers_only() {
        let (claims, problems) = scan_lines(
            "crates/provider/src/conformance/tools.rs",
            &["/// Proves: DESIGN-4.2, GVIS-04", "pub async fn bash_answers(p: &Provider) {"],
        );
        assert_eq!(problems, Vec::<String>::new());
        let claim = &claims[0];
        let on_fake = case("emergent-provider::fake", "tools::bash_answers");
        let on_local = case("emergent-provider-local::conformance", "tools::bash_answers");
        let on_gvisor = case("emergent-e2e::gvisor", "tools::bash_answers");
        assert!(!claim.is_run_by(&on_fake));
        assert!(!claim.is_run_by(&case("emergent-provider-local::conformance", "files::bash_answers")));
        assert!(claim.is_run_by(&on_local) && claim.is_run_by(&on_gvisor));
        assert!(claim.counts_for("DESIGN-4.2", &on_local));
        assert!(claim.counts_for("GVIS-04", &on_gvisor) && !claim.counts_for("GVIS-04", &on_local));
    }

    fn own(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|&id| id.to_owned()).collect()
    }
}
