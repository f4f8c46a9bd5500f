//! Compares what is required, what tests claim, what ran, and what was proven before. No input or
//! output here: facts in, verdict out.

use std::collections::{BTreeMap, BTreeSet};

use super::claims::Claim;
use super::document::{Kind, Requirement};
use crate::junit::TestCase;

/// Everything the verdict depends on.
pub(crate) struct Facts<'a> {
    pub(crate) requirements: &'a [Requirement],
    pub(crate) claims: &'a [Claim],
    pub(crate) cases: &'a [TestCase],
    /// Tiers that have tests and left no results.
    pub(crate) tiers_without_results: &'a [String],
    /// The committed list of ids that were proven.
    pub(crate) proven_before: &'a BTreeSet<String>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Proven ids with the tests that prove them.
    pub(crate) proven: BTreeMap<String, Vec<String>>,
    /// What must be mended. Empty means success.
    pub(crate) problems: Vec<String>,
    /// What could not be judged because a tier did not run.
    pub(crate) unjudged: Vec<String>,
}

pub(crate) fn judge(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let known: BTreeSet<&str> = facts.requirements.iter().map(|row| row.id.as_str()).collect();
    let mut broken: BTreeSet<&str> = BTreeSet::new();

    for claim in facts.claims {
        for id in claim.ids.iter().filter(|id| !known.contains(id.as_str())) {
            verdict.problems.push(format!("{}: {id} is not in docs/requirements.md", claim.place()));
        }
        let runs: Vec<&TestCase> = facts.cases.iter().filter(|case| claim.is_run_by(case)).collect();
        if runs.is_empty() {
            let what = format!("{}: no tier ran this test", claim.place());
            let list = if facts.tiers_without_results.is_empty() {
                &mut verdict.problems
            } else {
                &mut verdict.unjudged
            };
            list.push(what);
        }
        for id in claim.ids.iter().filter(|id| known.contains(id.as_str())) {
            for run in runs.iter().filter(|run| claim.counts_for(id, run)) {
                if run.passed {
                    let tests = verdict.proven.entry(id.clone()).or_default();
                    tests.push(format!("{} {}", run.binary, run.name));
                } else {
                    broken.insert(id);
                }
            }
        }
    }
    // A failing test outweighs the ones that pass.
    verdict.proven.retain(|id, _| !broken.contains(id.as_str()));
    compare_with_before(facts, &broken, &mut verdict);
    verdict
}

fn compare_with_before(facts: &Facts<'_>, broken: &BTreeSet<&str>, verdict: &mut Verdict) {
    let complete = facts.tiers_without_results.is_empty();
    for id in facts.proven_before {
        if verdict.proven.contains_key(id) {
            continue;
        }
        let lost = format!("{id} was proven and no longer is");
        if broken.contains(id.as_str()) {
            verdict.problems.push(format!("{lost}: a test that proves it fails"));
        } else if complete {
            verdict.problems.push(format!("{lost}: no test that ran names it"));
        } else {
            verdict.unjudged.push(format!("{id}: no test that ran names it"));
        }
    }
    for id in verdict.proven.keys().filter(|id| !facts.proven_before.contains(*id)) {
        verdict.problems.push(format!(
            "{id} is proven now: add it to docs/requirements.proven (`cargo xtask requirements --update`)"
        ));
    }
}

/// The report for people: every id once, under what is known of it.
pub(crate) fn report(requirements: &[Requirement], verdict: &Verdict) -> String {
    let mut proven = Vec::new();
    let mut unproven = Vec::new();
    let mut documents = Vec::new();
    let mut deviations = Vec::new();
    let mut waiting: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut elsewhere: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let (mut later, mut platform) = (0, 0);
    for row in requirements {
        let id = row.id.as_str();
        if let Some(tests) = verdict.proven.get(id) {
            let more =
                if tests.len() > 1 { format!(" (and {} more)", tests.len() - 1) } else { String::new() };
            proven.push(format!("{id:<18} {}{more}", tests[0]));
            continue;
        }
        match &row.kind {
            Kind::Test => unproven.push(format!("{id:<18} {}", row.text)),
            Kind::Later(part) => {
                later += 1;
                waiting.entry(part).or_default().push(id);
            }
            Kind::Platform(system) => {
                platform += 1;
                elsewhere.entry(system).or_default().push(id);
            }
            Kind::Answered(page) => documents.push(format!("{id:<18} {page}")),
            Kind::Deviation(reason) => deviations.push(format!("{id:<18} {reason}")),
        }
    }
    let grouped = |groups: BTreeMap<&str, Vec<&str>>| -> Vec<String> {
        groups.into_iter().map(|(name, ids)| format!("{name}: {}", ids.join(", "))).collect()
    };
    let sums = format!(
        "{} requirements: {} proven, {} without proof, {later} wait, {platform} elsewhere, {} answered, \
         {} deviations\n",
        requirements.len(),
        proven.len(),
        unproven.len(),
        documents.len(),
        deviations.len()
    );
    let mut text = String::new();
    for (title, lines) in [
        ("Proven by a passing test", proven),
        ("Settled by a document", documents),
        ("Done differently", deviations),
        ("Need another operating system", grouped(elsewhere)),
        ("Wait for a later part", grouped(waiting)),
        ("Without a passing test, and should have one", unproven),
    ] {
        if !lines.is_empty() {
            text.push_str(&format!("{title}\n  {}\n\n", lines.join("\n  ")));
        }
    }
    text + &sums
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::claims::{Claim, Runner};
    use super::super::document::{Kind, Requirement};
    use super::{Facts, Verdict, judge, report};
    use crate::junit::TestCase;

    /// Requirements, a test `one` that claims `ids`, and what became of it.
    struct Scene {
        ids: &'static [&'static str],
        result: Option<bool>,
        complete: bool,
        before: &'static [&'static str],
    }

    fn requirements() -> Vec<Requirement> {
        ["A-1", "A-2"]
            .map(|id| Requirement { id: id.to_owned(), text: format!("what {id} asks"), kind: Kind::Test })
            .into()
    }

    fn judged(scene: &Scene) -> Verdict {
        let claims = [Claim {
            ids: scene.ids.iter().map(|&id| id.to_owned()).collect(),
            function: "one".to_owned(),
            file: "src/lib.rs".to_owned(),
            line: 1,
            runner: Runner::Itself { package: "p".to_owned() },
        }];
        let cases: Vec<TestCase> = scene
            .result
            .map(|passed| TestCase {
                binary: "p".to_owned(),
                name: "tests::one".to_owned(),
                passed,
                second_try: false,
            })
            .into_iter()
            .collect();
        let missing = if scene.complete { vec![] } else { vec!["local".to_owned()] };
        judge(&Facts {
            requirements: &requirements(),
            claims: &claims,
            cases: &cases,
            tiers_without_results: &missing,
            proven_before: &scene.before.iter().map(|&id| id.to_owned()).collect::<BTreeSet<_>>(),
        })
    }

    fn check(scene: Scene, proven: &[&str], problems: &[&str], unjudged: usize) {
        let verdict = judged(&scene);
        let ids: Vec<&str> = verdict.proven.keys().map(String::as_str).collect();
        assert_eq!(ids, proven, "{verdict:?}");
        assert_eq!(verdict.problems.len(), problems.len(), "{verdict:?}");
        for (problem, expect) in verdict.problems.iter().zip(problems) {
            assert!(problem.contains(expect), "{problem}");
        }
        assert_eq!(verdict.unjudged.len(), unjudged, "{verdict:?}");
    }

    #[test]
    fn a_proven_id_must_stay_proven() {
        let scene = |result| Scene { ids: &["A-1"], result, complete: true, before: &["A-1"] };
        check(scene(Some(true)), &["A-1"], &[], 0);
        check(scene(Some(false)), &[], &["a test that proves it fails"], 0);
        check(scene(None), &[], &["no tier ran this test", "no test that ran names it"], 0);
    }

    #[test]
    fn a_new_proof_must_be_written_down() {
        let scene = Scene { ids: &["A-1"], result: Some(true), complete: true, before: &[] };
        check(scene, &["A-1"], &["--update"], 0);
    }

    #[test]
    fn an_unknown_id_is_refused() {
        let scene = Scene { ids: &["A-1", "B-9"], result: Some(true), complete: true, before: &["A-1"] };
        check(scene, &["A-1"], &["B-9 is not in docs/requirements.md"], 0);
    }

    #[test]
    fn what_did_not_run_is_not_judged() {
        let scene = Scene { ids: &["A-1"], result: None, complete: false, before: &["A-1"] };
        check(scene, &[], &[], 2);
    }

    #[test]
    fn the_report_names_every_id_once() {
        let scene = Scene { ids: &["A-1"], result: Some(true), complete: true, before: &["A-1"] };
        let text = report(&requirements(), &judged(&scene));
        assert!(text.contains("A-1                p tests::one"), "{text}");
        assert!(text.contains("A-2                what A-2 asks"), "{text}");
        assert!(text.ends_with(
            "2 requirements: 1 proven, 1 without proof, 0 wait, 0 elsewhere, 0 answered, 0 deviations\n"
        ));
    }
}
