//! Single tool calls over HTTP, one after another on one connection.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::Method;

use super::{spread, two_kibibytes};
use crate::bench::Bench;
use crate::figure::{Figure, Target};
use crate::http::Connection;
use crate::report::{Row, Section};
use crate::server::with_server;
use crate::stats::Samples;
use crate::workspace::Workspace;

const METHOD: &str = "**calls**: one connection that stays open, one call at a time; bare is a host process that \
    starts `bash -c true` with the environment a command has in a workspace, reads its output from pipes and \
    waits for it. Both in turn, then reads in turn with `/healthz`, which shows what HTTP alone costs.";

const FILE: &str = "small.rs";

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let rounds = bench.rounds(2000, 20);
    with_server(&bench.server("calls", 10)?, async |server| {
        let mut workspace = Workspace::create(server.endpoint()).await?;
        workspace.write(FILE, &two_kibibytes()).await?;
        let environment = environment_of(&workspace.bash("env").await?);
        for _ in 0..rounds.div_ceil(10) {
            workspace.bash("true").await?;
            workspace.read(FILE).await?;
            bash_from_the_host(&environment)?;
        }

        let (mut bash, mut host, mut read, mut health) =
            (Samples::default(), Samples::default(), Samples::default(), Samples::default());
        for _ in 0..rounds {
            let start = Instant::now();
            workspace.bash("true").await?;
            bash.add_since(start);
            host.add(bash_from_the_host(&environment)?);
        }
        // Not earlier: a connection over which nothing comes is closed.
        let mut connection = Connection::open(server.endpoint()).await?;
        for _ in 0..rounds {
            let start = Instant::now();
            workspace.read(FILE).await?;
            read.add_since(start);
            let start = Instant::now();
            let answer = connection.call(Method::GET, "/healthz", None).await?;
            health.add_since(start);
            ensure!(answer.status.is_success(), "/healthz answered {}", answer.status);
        }
        let rows = vec![
            Row::new("bash `true` over HTTP", spread(&bash)?)
                .beside(spread(&host)?)
                .target(Target::Ratio(2.0)),
            Row::new("read of a 2 KiB file over HTTP", spread(&read)?)
                .target(Target::AtMost(Figure::Time(Duration::from_millis(1)))),
            Row::new("`/healthz`", spread(&health)?),
        ];
        Ok(Section::new(METHOD, rows))
    })
    .await
}

/// The variables that `env` has printed. The locale alone is a dozen files that a shell opens.
fn environment_of(printed: &str) -> Vec<(String, String)> {
    let variables = printed.lines().filter_map(|line| line.split_once('='));
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn bash_from_the_host(environment: &[(String, String)]) -> Result<Duration> {
    let mut command = Command::new("bash");
    command.args(["-c", "true"]).env_clear().envs(environment.iter().cloned()).stdin(Stdio::null());
    let start = Instant::now();
    let output = command.output().context("bash cannot be started")?;
    let took = start.elapsed();
    ensure!(output.status.success(), "`true` failed on the host: {}", output.status);
    Ok(took)
}
