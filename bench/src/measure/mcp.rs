//! Hosted MCP servers: what the bridge adds to a call, what it lasts, and what each server costs.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use emergent_test_support::{TEST_IMAGE, TestDocker};
use futures::future::{join_all, try_join_all};
use serde_json::json;

use super::spread;
use crate::bench::Bench;
use crate::figure::{Figure, Target};
use crate::http::Endpoint;
use crate::mcp::{BareServer, Gateway, Hosted, Session, everything, installed};
use crate::memory::{held_together, processes_of_container, processor_time, resident};
use crate::report::{Row, Section};
use crate::server::{Gvisor, Server, ServerSetup, with_server};
use crate::stats::{Samples, Spread};
use crate::subprograms::Subprogram;

const METHOD: &str = "**mcp**: a server that does nothing but answer, hosted in a sandbox, and bare it is a child \
    process that is written to and read from. Calls are made in turn with those of the bare one and of supergateway \
    (npm, `--stateful`), each on an open session of Streamable HTTP. What is added is ours less the bare one's, \
    percentile by percentile. Calls a second are those of sixteen clients on one shared server. The fifty servers \
    are a page of shell each. The cost of a server is proportional memory and processor time of all processes on \
    the host that belong to it; it is `server-everything` (npm), and bare the same started by itself.";

const MOST_ADDED: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(3));
const MOST_MEMORY: u64 = 80 << 20;
const LEAST_CALLS: u64 = 1000;
const CLIENTS: usize = 16;
const SERVERS: usize = 50;
const SHELL: &str = include_str!("../../../crates/mcp-hosting/tests/hosting/server.sh");
/// How long nothing happens before an idle server is looked at, and for how long it is.
const IDLE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_secs(20);

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let mut rows = with_server(&bench.server("mcp", 64)?, async |server| calls(bench, server).await).await?;
    rows.extend(
        with_server(&bench.server("mcp-fifty", 64)?, async |server| fifty(bench, server).await).await?,
    );
    let local = bench.server("mcp-cost", 8)?;
    rows.extend(with_server(&local, async |server| cost_on_local(bench, server.endpoint()).await).await?);
    rows.extend(cost_on_gvisor(bench).await?);
    Ok(Section::new(METHOD, rows))
}

async fn calls(bench: &Bench, server: &Server) -> Result<Vec<Row>> {
    let endpoint = server.endpoint();
    let own = PathBuf::from("/proc/self/exe").canonicalize()?;
    let word = Subprogram::EchoServer.word();
    let fields = json!({"command": ["/workspace/echo", word], "provider": "local",
        "resource_limits": {"cpu": "2"}});
    let mut hosted = Hosted::register(endpoint, "echo", fields).await?;
    hosted.upload(&own, "/workspace/echo").await?;
    hosted.restart().await?;
    let mut bare = BareServer::start(Command::new(&own).arg(word))?;
    let gateway = Gateway::start(&format!("{} {word}", own.display())).await?;
    let mut theirs = Session::open(gateway.endpoint(), Gateway::PATH).await?;
    let mut ours = Session::open(endpoint, &hosted.path()).await?;
    let [mut by_session, mut by_call, mut by_pipe, mut by_gateway] = [(); 4].map(|()| Samples::default());
    let rounds = bench.rounds(3000, 50);
    for number in 0..rounds + rounds / 10 {
        let mut took = [Duration::ZERO; 4];
        let start = Instant::now();
        ours.echo(number).await?;
        took[0] = start.elapsed();
        let start = Instant::now();
        hosted.call(number).await?;
        took[1] = start.elapsed();
        let start = Instant::now();
        bare.echo(number)?;
        took[2] = start.elapsed();
        let start = Instant::now();
        theirs.echo(number).await?;
        took[3] = start.elapsed();
        // The first ones only warm up.
        if number >= rounds / 10 {
            by_session.add(took[0]);
            by_call.add(took[1]);
            by_pipe.add(took[2]);
            by_gateway.add(took[3]);
        }
    }
    let memory = (resident(server.pid())?, resident(gateway.pid())?);
    drop((theirs, gateway, bare));
    let (ours, plain, bare, theirs) =
        (spread(&by_session)?, spread(&by_call)?, spread(&by_pipe)?, spread(&by_gateway)?);
    let mut rows = vec![
        Row::new("MCP: a tool call over the server's `/mcp`; bare over its pipes", ours).beside(bare),
        Row::new("MCP: the same over `/call`", plain).beside(bare),
    ];
    rows.extend(added("`/mcp`", ours, bare));
    rows.extend(added("`/call`", plain, bare));
    rows.push(Row::new("MCP: a tool call over `/mcp`; bare through supergateway", ours).beside(theirs));
    rows.push(
        Row::new(
            "MCP: memory of the control plane, one server; bare supergateway's",
            Figure::Bytes(memory.0),
        )
        .beside(Figure::Bytes(memory.1)),
    );
    rows.push(sustained(bench, endpoint, &hosted).await?);
    Ok(rows)
}

fn added(way: &str, ours: Spread, bare: Spread) -> [Row; 2] {
    let row = |which: &str, ours: Duration, bare: Duration, most: Duration| {
        Row::new(format!("MCP: what {way} adds to a call, {which}"), Figure::Time(ours.saturating_sub(bare)))
            .target(Target::AtMost(Figure::Time(most)))
    };
    [row("p50", ours.p50, bare.p50, MOST_ADDED.0), row("p99", ours.p99, bare.p99, MOST_ADDED.1)]
}

async fn sustained(bench: &Bench, endpoint: &Endpoint, hosted: &Hosted) -> Result<Row> {
    let path = hosted.path();
    let mut sessions = try_join_all((0..CLIENTS).map(|_| Session::open(endpoint, &path))).await?;
    let long = Duration::from_secs(if bench.quick { 2 } else { 20 });
    let begun = Instant::now();
    let counts = join_all(sessions.iter_mut().map(async |session| {
        let mut count = 0;
        while begun.elapsed() < long {
            session.echo(count).await?;
            count += 1;
        }
        Ok::<_, anyhow::Error>(count as u64)
    }))
    .await;
    let total: u64 = counts.into_iter().sum::<Result<u64>>()?;
    let each_second = (total as f64 / begun.elapsed().as_secs_f64()) as u64;
    Ok(Row::new(
        format!("MCP: calls a second of {CLIENTS} clients on one shared server"),
        Figure::Count(each_second),
    )
    .target(Target::AtLeast(Figure::Count(LEAST_CALLS))))
}

async fn fifty(bench: &Bench, server: &Server) -> Result<Vec<Row>> {
    let count = bench.rounds(SERVERS, 5);
    let command = json!(["/bin/sh", "-c", SHELL, "server", ""]);
    let mut hosted = Vec::new();
    for number in 0..count {
        let fields = json!({"command": command, "provider": "local"});
        hosted.push(Hosted::register(server.endpoint(), &format!("s{number}"), fields).await?);
    }
    for server in &mut hosted {
        server.ready().await?;
    }
    tokio::time::sleep(if bench.quick { Duration::ZERO } else { IDLE }).await;
    Ok(vec![
        Row::new(
            format!("MCP: memory of the control plane with {count} servers"),
            Figure::Bytes(resident(server.pid())?),
        )
        .target(Target::AtMost(Figure::Bytes(MOST_MEMORY))),
    ])
}

async fn cost_on_local(bench: &Bench, endpoint: &Endpoint) -> Result<Vec<Row>> {
    let [node, script] = everything()?;
    let path = script.strip_prefix(installed("servers")?)?;
    let command = json!(["/workspace/node", format!("/workspace/servers/{}", path.display())]);
    let fields = json!({"command": command, "provider": "local"});
    let mut hosted = Hosted::register(endpoint, "everything", fields).await?;
    hosted.upload(&node, "/workspace/node").await?;
    hosted.upload_folder(&installed("servers")?, "/workspace/servers").await?;
    hosted.restart().await?;
    let mut bare = BareServer::start(Command::new(node).arg(script))?;
    hosted.call(1).await?;
    bare.echo(1)?;
    cost(bench, "local", &processes_of_container(hosted.id()), &[bare.pid()]).await
}

async fn cost_on_gvisor(bench: &Bench) -> Result<Vec<Row>> {
    let docker = TestDocker::own();
    let image = make_image(&docker)?;
    let setup = ServerSetup {
        // Docker must see what is mounted below it.
        data_dir: docker.shared().join("mcp"),
        gvisor: Gvisor::Docker(docker.address().to_owned()),
        ..bench.server("mcp-gvisor", 8)?
    };
    std::fs::create_dir(&setup.data_dir)?;
    let [node, script] = everything()?;
    with_server(&setup, async |server| {
        let fields = json!({"image": image, "provider": "gvisor"});
        let mut hosted = Hosted::register(server.endpoint(), "everything", fields).await?;
        hosted.ready().await?;
        let mut bare = BareServer::start(Command::new(&node).arg(&script))?;
        hosted.call(1).await?;
        bare.echo(1)?;
        let filter = format!("label=emergent.workspace={}", hosted.id());
        let container = docker.docker(&["ps", "--quiet", "--no-trunc", "--filter", &filter]);
        cost(bench, "gVisor", &processes_of_container(&container), &[bare.pid()]).await
    })
    .await
}

/// An image whose own program the server is.
fn make_image(docker: &TestDocker) -> Result<&'static str> {
    let [node, script] = everything()?;
    let servers = installed("servers")?;
    let inside = format!("/opt/servers/{}", script.strip_prefix(&servers)?.display());
    let container = docker.docker(&["create", TEST_IMAGE, "true"]);
    docker.docker(&["cp", node.to_str().context("a path")?, &format!("{container}:/opt/node")]);
    docker.docker(&["cp", servers.to_str().context("a path")?, &format!("{container}:/opt/servers")]);
    let image = "emergent/mcp-everything:latest";
    let change = format!(r#"CMD ["/opt/node", "{inside}"]"#);
    docker.docker(&["commit", "--change", &change, &container, image]);
    docker.docker(&["rm", &container]);
    Ok(image)
}

async fn cost(bench: &Bench, provider: &str, ours: &[u32], bare: &[u32]) -> Result<Vec<Row>> {
    let (wait, look) = if bench.quick { (Duration::ZERO, Duration::from_secs(1)) } else { (IDLE, LOOK) };
    tokio::time::sleep(wait).await;
    let used = || [ours, bare].map(processor_time);
    let before = used();
    tokio::time::sleep(look).await;
    let after = used();
    let [idle, bare_idle] =
        [0, 1].map(|side| Figure::Time(after[side].saturating_sub(before[side]).div_f64(look.as_secs_f64())));
    let [held, bare_held] = [ours, bare].map(|pids| Figure::Bytes(held_together(pids)));
    Ok(vec![
        Row::new(format!("MCP on {provider}: memory of a server with its sandbox"), held).beside(bare_held),
        Row::new(format!("MCP on {provider}: processor time of an idle server, each second"), idle)
            .beside(bare_idle),
    ])
}
