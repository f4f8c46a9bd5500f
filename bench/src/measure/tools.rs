//! Edit, glob and grep over HTTP, and grep beside ripgrep.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{spread, two_kibibytes};
use crate::bench::Bench;
use crate::figure::{Figure, Target};
use crate::report::{Row, Section};
use crate::server::with_server;
use crate::stats::Samples;
use crate::workspace::Workspace;

const METHOD: &str = "**tools**: one connection that stays open, one call at a time. The edit replaces a word of a \
    2 KiB file and back again; glob finds 30 of 300 files, and all of 300. grep looks through 20,000 files of 50 \
    lines in 200 folders; bare is Debian's `rg` over the same tree in the same sandbox, by the shell's own clock, \
    in turn with ours over HTTP.";

/// Files, and the lines in each of them.
const TREE: &str = "\
    mkdir -p tree && cd tree && \
    for folder in $(seq 200); do mkdir d$folder && for file in $(seq 100); do \
      echo d$folder/f$file.rs; done; done > ../names && \
    content=$(seq -f 'let line = value + %g; // nothing to see here' 50) && \
    while read -r name; do echo \"$content\" > $name; done < ../names && \
    for folder in $(seq 20); do echo 'a needle in the hay' >> d$folder/f7.rs; done";
const MATCHES: usize = 20;
const RIPGREP: &str = "cd tree && TIMEFORMAT=%6R && time rg -n needle . | wc -l";

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    with_server(&bench.server("tools", 10)?, async |server| {
        let mut workspace = Workspace::create(server.endpoint()).await?;
        let mut rows = small_calls(bench, &mut workspace).await?;
        rows.extend(greps(bench, &mut workspace).await?);
        Ok(Section::new(METHOD, rows))
    })
    .await
}

async fn small_calls(bench: &Bench, workspace: &mut Workspace) -> Result<Vec<Row>> {
    workspace.write("small.rs", &two_kibibytes().replacen("one", "a needle", 1)).await?;
    workspace.bash("mkdir many && cd many && touch f{1..270}.txt g{1..30}.rs").await?;
    let (mut edits, mut few, mut all) = (Samples::default(), Samples::default(), Samples::default());
    for round in 0..bench.rounds(1000, 20) {
        let (old, new) = if round % 2 == 0 { ("a needle", "a noodle") } else { ("a noodle", "a needle") };
        let edit = json!({"file_path": "small.rs", "old_string": old, "new_string": new});
        let start = Instant::now();
        workspace.post("edit", &edit).await?;
        edits.add_since(start);
        for (pattern, expect, samples) in [("*.rs", 30, &mut few), ("*", 300, &mut all)] {
            let glob = json!({"pattern": pattern, "path": "many", "limit": 500});
            let start = Instant::now();
            let found = workspace.post("glob", &glob).await?;
            samples.add_since(start);
            ensure!(
                found["files"].as_array().is_some_and(|files| files.len() == expect),
                "{pattern}: {found}"
            );
        }
    }
    let within = |row: Row| row.target(Target::AtMost(Figure::Time(Duration::from_millis(1))));
    Ok(vec![
        within(Row::new("edit of a 2 KiB file over HTTP", spread(&edits)?)),
        within(Row::new("glob of 30 in 300 files over HTTP", spread(&few)?)),
        Row::new("glob of 300 in 300 files over HTTP", spread(&all)?),
    ])
}

async fn greps(bench: &Bench, workspace: &mut Workspace) -> Result<Vec<Row>> {
    workspace.bash(TREE).await?;
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    // The first of each only warms the cache.
    for round in 0..=bench.rounds(30, 2) {
        let start = Instant::now();
        let found = workspace.post("grep", &json!({"pattern": "needle", "path": "tree"})).await?;
        let took = start.elapsed();
        ensure!(found["matches"].as_array().is_some_and(|matches| matches.len() == MATCHES), "{found}");
        let by_ripgrep = ripgrep(workspace).await?;
        if round > 0 {
            ours.add(took);
            bare.add(by_ripgrep);
        }
    }
    Ok(vec![
        Row::new("grep over 20,000 files over HTTP", spread(&ours)?)
            .beside(spread(&bare)?)
            .target(Target::Ratio(1.3)),
    ])
}

/// Looks for the same with `rg`, and gives what the shell says it took.
async fn ripgrep(workspace: &mut Workspace) -> Result<Duration> {
    let answer = workspace.post("bash", &json!({"command": RIPGREP})).await?;
    let printed = answer["stdout"].as_str().unwrap_or_default().trim();
    ensure!(
        printed == MATCHES.to_string(),
        "`rg` found {printed:?} instead of {MATCHES}; is Debian's ripgrep installed? {answer}"
    );
    let seconds = answer["stderr"].as_str().unwrap_or_default().trim().parse().context("no time")?;
    Ok(Duration::try_from_secs_f64(seconds)?)
}
