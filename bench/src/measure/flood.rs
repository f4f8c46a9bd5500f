//! A command that prints a gibibyte: nobody's memory may grow with it, and others must not
//! notice much.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{spread, two_kibibytes};
use crate::bench::Bench;
use crate::figure::{Figure, Target};
use crate::memory::{AgentProcesses, Watched};
use crate::report::{Row, Section};
use crate::server::with_server;
use crate::stats::Samples;
use crate::workspace::Workspace;

const METHOD: &str = "**flood**: growth is the kernel's peak of the resident set during the command, less the \
    resident set before it. Reads go to another workspace over another connection, one at a time. Bare is a host \
    process that reads the same from a pipe and throws it away.";

const FLOOD: &str = "head -c 1G /dev/zero";
const FLOOD_BYTES: u64 = 1 << 30;
const MOST_GROWTH: u64 = 32 << 20;
const FILE: &str = "small.rs";

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let rounds = bench.rounds(5, 1);
    with_server(&bench.server("flood", 10)?, async |server| {
        let mut noisy = Workspace::create(server.endpoint()).await?;
        let mut quiet = Workspace::create(server.endpoint()).await?;
        quiet.write(FILE, &two_kibibytes()).await?;
        noisy.bash("true").await?;
        let agent = AgentProcesses::of_workspace(noisy.id())?.agent;

        let mut idle = Samples::default();
        for _ in 0..bench.rounds(2000, 50) {
            let start = Instant::now();
            quiet.read(FILE).await?;
            idle.add_since(start);
        }

        let (mut flood, mut bare, mut meanwhile) =
            (Samples::default(), Samples::default(), Samples::default());
        let (mut server_growth, mut agent_growth) = (0, 0);
        for _ in 0..rounds {
            bare.add(flood_on_the_host()?);
            let (of_server, of_agent) = (Watched::begin(server.pid())?, Watched::begin(agent)?);
            let start = Instant::now();
            let took = async {
                let answer = noisy.bash(FLOOD).await;
                answer.map(|_| start.elapsed())
            };
            flood.add(read_while(took, &mut quiet, &mut meanwhile).await?);
            server_growth = of_server.growth()?.max(server_growth);
            agent_growth = of_agent.growth()?.max(agent_growth);
        }
        let growth = |what: &str, bytes| {
            Row::new(what, Figure::Bytes(bytes)).target(Target::AtMost(Figure::Bytes(MOST_GROWTH)))
        };
        let rows = vec![
            growth("growth of the server while a command prints 1 GiB", server_growth),
            growth("growth of the agent while a command prints 1 GiB", agent_growth),
            Row::new("a command that prints 1 GiB", spread(&flood)?).beside(spread(&bare)?),
            Row::new("read of a 2 KiB file, nothing else going on", spread(&idle)?),
            Row::new("read of a 2 KiB file while a command prints 1 GiB", spread(&meanwhile)?),
        ];
        Ok(Section::new(METHOD, rows))
    })
    .await
}

/// Reads one file again and again until `flood` is over, and gives what came of it. The read
/// that is under way at the end counts too: it may be the one that was kept waiting.
async fn read_while(
    flood: impl Future<Output = Result<Duration>>,
    quiet: &mut Workspace,
    reads: &mut Samples,
) -> Result<Duration> {
    let mut flood = std::pin::pin!(flood);
    loop {
        let start = Instant::now();
        let read = quiet.read(FILE);
        let mut read = std::pin::pin!(read);
        tokio::select! {
            biased;
            done = &mut read => done?,
            took = &mut flood => {
                read.await?;
                reads.add_since(start);
                return took;
            }
        }
        reads.add_since(start);
    }
}

fn flood_on_the_host() -> Result<Duration> {
    let start = Instant::now();
    let mut child = Command::new("bash")
        .args(["-c", FLOOD])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("bash cannot be started")?;
    let mut output = child.stdout.take().context("no pipe")?;
    let mut buffer = vec![0; 64 << 10];
    let mut total = 0;
    loop {
        match output.read(&mut buffer)? {
            0 => break,
            length => total += length as u64,
        }
    }
    ensure!(child.wait()?.success() && total == FLOOD_BYTES, "`{FLOOD}` printed {total} bytes on the host");
    Ok(start.elapsed())
}
