//! Workspaces under gVisor beside bare containers of the same engine.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use emergent_test_support::TestDocker;
use futures::future::join_all;
use serde_json::{Value, json};

use super::{spread, two_kibibytes, warm};
use crate::bare::docker::{BareContainer, BareDocker};
use crate::bare::runsc::BareRunsc;
use crate::bench::Bench;
use crate::figure::{Figure, Target};
use crate::http::Endpoint;
use crate::memory::{held_together, processes_of_container, processor_time};
use crate::report::{Row, Section};
use crate::server::{Gvisor, ServerSetup, with_server};
use crate::stats::Samples;
use crate::workspace::Workspace;

const METHOD: &str = "**gvisor**: a Docker daemon of the benchmark's own with `runsc` (systrap). Bare is `docker run \
    --detach --runtime runsc` with the same limits, and `docker exec` by Docker's own client: `cat`, `sed -i`, `ls` \
    of the same 300 files, `dd conv=fsync`, `bash -c`. Creates are made in turn with theirs, calls ten and ten; a \
    read after a pause of 100 ms, in which the processors go to sleep, has a row of its own. A create counts when a \
    command in it has answered. Twenty at once are twenty requests, and twenty clients of Docker's; there a workspace \
    counts when it is ready and a container when its client has ended. Idle is half a minute after the last call: \
    proportional memory and processor time of the processes on the host that belong to one container. Without Docker, bare is `runsc run --detach` over the same root with the same limits, and `runsc exec` \
    of `bash -c true`.";

const PROVIDER: &str = "gvisor";
const FILE: &str = "small.rs";
/// Files in the folder that is listed, and those of them that a glob finds.
const FILES: &str = "mkdir many && cd many && touch f{1..270}.txt g{1..30}.rs";
/// So many calls of ours, then so many of theirs: after each of theirs the processors would be asleep.
const CALLS_IN_TURN: usize = 10;
/// How long somebody thinks between two calls.
const PAUSE: Duration = Duration::from_millis(100);
/// How long nothing happens before an idle workspace is looked at, and for how long it is.
const IDLE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_secs(10);

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let docker = TestDocker::own();
    let setup = ServerSetup {
        // Docker must see what is mounted below it.
        data_dir: docker.shared().join("gvisor"),
        gvisor: Gvisor::Docker(docker.address().to_owned()),
        ..bench.server("gvisor", 32)?
    };
    std::fs::create_dir(&setup.data_dir)?;
    let bare = BareDocker::new(docker.address());
    let mut rows = with_server(&setup, async |server| {
        let endpoint = server.endpoint();
        let mut rows = creates(bench, endpoint, &bare).await?;
        rows.extend(calls(bench, endpoint, &bare).await?);
        rows.extend(at_once(bench, endpoint, &bare).await?);
        rows.extend(idle(bench, endpoint, &bare).await?);
        Ok(rows)
    })
    .await?;
    let setup = ServerSetup { warm_pool_size: 2, data_dir: docker.shared().join("gvisor-warm"), ..setup };
    std::fs::create_dir(&setup.data_dir)?;
    let rounds = bench.rounds(20, 1);
    let warm = with_server(&setup, async |server| warm::claims(server.endpoint(), PROVIDER, rounds).await);
    rows.extend(warm.await?);
    drop(docker);
    let setup = ServerSetup { gvisor: Gvisor::Direct, ..bench.server("gvisor-direct", 32)? };
    rows.push(
        with_server(&setup, async |server| without_docker(bench, server.endpoint(), &setup).await).await?,
    );
    Ok(Section::new(METHOD, rows))
}

async fn without_docker(bench: &Bench, endpoint: &Endpoint, setup: &ServerSetup) -> Result<Row> {
    // The first only warms up: the image is made of the host's own system.
    Workspace::create_on(endpoint, PROVIDER).await?.destroy().await?;
    let bare = BareRunsc::over_root_of(&setup.data_dir, bench.folder("runsc")?)?;
    let (mut ours, mut theirs) = (Samples::default(), Samples::default());
    for round in 0..=bench.rounds(20, 1) {
        let start = Instant::now();
        let mut workspace = Workspace::create_on(endpoint, PROVIDER).await?;
        workspace.bash("true").await?;
        let took = start.elapsed();
        workspace.destroy().await?;
        let bare_took = bare.run_and_exec(round)?;
        if round > 0 {
            ours.add(took);
            theirs.add(bare_took);
        }
    }
    Ok(Row::new("gVisor without Docker: create until the first bash answer, over HTTP", spread(&ours)?)
        .beside(spread(&theirs)?)
        .target(Target::Ratio(1.25)))
}

async fn creates(bench: &Bench, endpoint: &Endpoint, bare: &BareDocker) -> Result<Vec<Row>> {
    let (mut ours, mut theirs) = (Samples::default(), Samples::default());
    // The first of each only warms up: ours unpacks the image.
    for round in 0..=bench.rounds(20, 1) {
        let start = Instant::now();
        let mut workspace = Workspace::create_on(endpoint, PROVIDER).await?;
        workspace.bash("true").await?;
        let took = start.elapsed();
        workspace.destroy().await?;
        let start = Instant::now();
        let container = bare.run()?;
        container.exec(&["bash", "-c", "true"])?;
        let bare_took = start.elapsed();
        drop(container);
        if round > 0 {
            ours.add(took);
            theirs.add(bare_took);
        }
    }
    Ok(vec![
        Row::new("gVisor: create until the first bash answer, over HTTP", spread(&ours)?)
            .beside(spread(&theirs)?)
            .target(Target::Ratio(1.25)),
    ])
}

/// A call of ours, and a command that does the same.
struct Call {
    what: &'static str,
    tool: &'static str,
    /// What is sent the first, second, … time.
    body: fn(usize) -> Value,
    command: &'static [&'static str],
    target: Option<f64>,
}

fn all_calls() -> Vec<Call> {
    let faster_by_forty = Some(1.0 / 40.0);
    vec![
        Call {
            what: "read of a 2 KiB file",
            tool: "read",
            body: |_| json!({"file_path": FILE}),
            command: &["cat", FILE],
            target: faster_by_forty,
        },
        Call {
            what: "edit of a 2 KiB file",
            tool: "edit",
            // There and back: a text is not replaced by itself.
            body: |round| {
                let (old, new) = if round % 2 == 0 { ("line", "lime") } else { ("lime", "line") };
                json!({"file_path": FILE, "old_string": old, "new_string": new, "replace_all": true})
            },
            command: &["sed", "-i", "s/line/line/", FILE],
            target: faster_by_forty,
        },
        Call {
            what: "glob of 30 in 300 files",
            tool: "glob",
            body: |_| json!({"pattern": "*.rs", "path": "many"}),
            command: &["sh", "-c", "ls -t many/*.rs"],
            target: faster_by_forty,
        },
        Call {
            what: "durable write of a 2 KiB file",
            tool: "write",
            body: |_| json!({"file_path": "written", "content": two_kibibytes()}),
            command: &["dd", "if=/dev/zero", "of=written", "bs=2048", "count=1", "conv=fsync", "status=none"],
            target: None,
        },
        Call {
            what: "bash with a builtin",
            tool: "bash",
            body: |_| json!({"command": ":"}),
            command: &["bash", "-c", ":"],
            target: Some(0.35),
        },
        Call {
            what: "bash `git --version`",
            tool: "bash",
            body: |_| json!({"command": "git --version"}),
            command: &["bash", "-c", "git --version"],
            target: Some(0.65),
        },
    ]
}

async fn calls(bench: &Bench, endpoint: &Endpoint, bare: &BareDocker) -> Result<Vec<Row>> {
    let mut workspace = Workspace::create_on(endpoint, PROVIDER).await?;
    workspace.write(FILE, &two_kibibytes()).await?;
    workspace.bash(FILES).await?;
    let container = bare.run()?;
    container.exec(&[
        "bash",
        "-c",
        &format!("yes 'one line of thirty-two of them' | head -c 2048 > {FILE}"),
    ])?;
    container.exec(&["bash", "-c", FILES])?;
    let mut rows = Vec::new();
    for call in all_calls() {
        rows.push(one_call(bench, &mut workspace, &container, call).await?);
    }
    rows.push(after_a_pause(bench, &mut workspace).await?);
    workspace.destroy().await?;
    Ok(rows)
}

async fn one_call(
    bench: &Bench,
    workspace: &mut Workspace,
    container: &BareContainer,
    call: Call,
) -> Result<Row> {
    let (mut ours, mut theirs) = (Samples::default(), Samples::default());
    for turn in 0..=bench.rounds(4, 1) {
        for call_number in 0..CALLS_IN_TURN {
            let body = (call.body)(turn * CALLS_IN_TURN + call_number);
            let start = Instant::now();
            workspace.post(call.tool, &body).await?;
            if turn > 0 {
                ours.add(start.elapsed());
            }
        }
        for _ in 0..CALLS_IN_TURN {
            let start = Instant::now();
            container.exec(call.command)?;
            if turn > 0 {
                theirs.add(start.elapsed());
            }
        }
    }
    let row = Row::new(format!("gVisor: {} over HTTP", call.what), spread(&ours)?).beside(spread(&theirs)?);
    Ok(match call.target {
        Some(ratio) => row.target(Target::Ratio(ratio)),
        None => row,
    })
}

async fn after_a_pause(bench: &Bench, workspace: &mut Workspace) -> Result<Row> {
    let mut ours = Samples::default();
    for _ in 0..bench.rounds(40, 1) {
        tokio::time::sleep(PAUSE).await;
        let start = Instant::now();
        workspace.read(FILE).await?;
        ours.add(start.elapsed());
    }
    Ok(Row::new("gVisor: read of a 2 KiB file over HTTP, after a pause", spread(&ours)?))
}

async fn at_once(bench: &Bench, endpoint: &Endpoint, bare: &BareDocker) -> Result<Vec<Row>> {
    let count = bench.rounds(20, 2);
    let start = Instant::now();
    let made = join_all((0..count).map(|_| Workspace::create_on(endpoint, PROVIDER))).await;
    let ours = start.elapsed();
    let mut succeeded = 0;
    for workspace in made {
        match workspace {
            Ok(workspace) => {
                succeeded += 1;
                workspace.destroy().await?;
            }
            Err(error) => eprintln!("one of {count} creates at once failed: {error:#}"),
        }
    }
    let start = Instant::now();
    let runs: Vec<_> = (0..count)
        .map(|_| {
            let bare = bare.clone();
            std::thread::spawn(move || bare.run())
        })
        .collect();
    let containers: Vec<_> = runs.into_iter().map(std::thread::JoinHandle::join).collect();
    let theirs = start.elapsed();
    let started = containers.iter().filter(|run| matches!(run, Ok(Ok(_)))).count();
    ensure!(started == count, "only {started} of {count} bare containers started");
    Ok(vec![
        Row::new(format!("gVisor: {count} creates at once: succeeded"), Figure::Count(succeeded))
            .target(Target::Exactly(Figure::Count(count as u64))),
        Row::new(format!("gVisor: {count} creates at once: until all are ready"), Figure::Time(ours))
            .beside(Figure::Time(theirs))
            .target(Target::Ratio(1.0)),
    ])
}

async fn idle(bench: &Bench, endpoint: &Endpoint, bare: &BareDocker) -> Result<Vec<Row>> {
    let mut workspace = Workspace::create_on(endpoint, PROVIDER).await?;
    workspace.bash("true").await?;
    let filter = format!("label=emergent.workspace={}", workspace.id());
    let ours = bare.client(&["ps", "--quiet", "--no-trunc", "--filter", &filter])?;
    let theirs = bare.run()?;
    theirs.exec(&["bash", "-c", "true"])?;
    let (wait, look) = if bench.quick { (Duration::ZERO, Duration::from_secs(1)) } else { (IDLE, LOOK) };
    tokio::time::sleep(wait).await;
    let processes = [ours.as_str(), theirs.id()].map(processes_of_container);
    let before = processes.each_ref().map(|pids| processor_time(pids));
    tokio::time::sleep(look).await;
    let after = processes.each_ref().map(|pids| processor_time(pids));
    let share = |index: usize| -> Result<Figure> {
        let (before, after) = (before.get(index).context("two")?, after.get(index).context("two")?);
        Ok(Figure::Time(after.saturating_sub(*before).div_f64(look.as_secs_f64())))
    };
    let [held, bare_held] = processes.each_ref().map(|pids| Figure::Bytes(held_together(pids)));
    let rows = vec![
        Row::new("gVisor: memory of an idle workspace on the host", held).beside(bare_held),
        Row::new("gVisor: processor time of an idle workspace, each second", share(0)?).beside(share(1)?),
    ];
    workspace.destroy().await?;
    Ok(rows)
}
