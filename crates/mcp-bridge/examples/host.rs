//! Serves stdio MCP servers over HTTP on 127.0.0.1, for trying clients against the bridge.
//!
//! `host PORT [--dedicated] -- COMMAND [ARG...] [-- COMMAND [ARG...]]...`
//!
//! One command is served at `/mcp`. Of several, `/mcp` offers the tools of all, as `s1`, `s2` and so on.

use std::convert::Infallible;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use emergent_mcp_bridge::front::{
    CallReport, Connector, Directory, Front, FrontOptions, Member, Observer, OpenError, Opened, Opening,
    Principal, Sharing,
};
use emergent_mcp_bridge::{Bridge, Handle, Mode, Options, ServerIo};
use http_body_util::BodyExt as _;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

/// A command that is started again when it ends.
fn supervise(argv: Vec<String>, mode: Mode) -> anyhow::Result<(Handle, tokio::task::JoinHandle<()>)> {
    let (child, io) = spawn(&argv)?;
    let (handle, mut ended) = Bridge::start(Options { mode, ..Options::default() }, io);
    let watched = tokio::spawn(async move {
        let mut child = child;
        while let Ok(over) = ended.await {
            eprintln!("the server ended: {}", over.reason());
            drop(child);
            tokio::time::sleep(Duration::from_millis(200)).await;
            match spawn(&argv) {
                Ok((next, io)) => {
                    child = next;
                    ended = over.restart(io);
                }
                Err(error) => return eprintln!("{error:#}"),
            }
        }
    });
    Ok((handle, watched))
}

fn spawn(argv: &[String]) -> anyhow::Result<(Child, ServerIo)> {
    let (program, arguments) = argv.split_first().context("there is no command")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("{program} could not be started"))?;
    let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).context("a child without pipes")?;
    Ok((child, ServerIo::new(stdin, stdout)))
}

/// A process for each session.
struct Dedicated(Vec<String>);

struct Ends(tokio::task::JoinHandle<()>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[async_trait::async_trait]
impl Connector for Dedicated {
    fn sharing(&self) -> Sharing {
        Sharing::Dedicated
    }

    async fn open(&self, opening: Opening) -> Result<Opened, OpenError> {
        let mode = opening.declaration.map_or(Mode::Shared, Mode::Dedicated);
        let (handle, watched) =
            supervise(self.0.clone(), mode).map_err(|error| OpenError::Unavailable(error.to_string()))?;
        Ok(Opened { handle, guard: Some(Box::new(Ends(watched))) })
    }
}

struct All(Vec<(String, Arc<dyn Connector>)>);

#[async_trait::async_trait]
impl Directory for All {
    async fn members(&self, _: &Principal) -> Vec<Member> {
        let member = |(name, connector): &(String, Arc<dyn Connector>)| Member {
            name: name.clone(),
            connector: connector.clone(),
        };
        self.0.iter().map(member).collect()
    }
}

struct Told;

impl Observer for Told {
    fn called(&self, report: CallReport) {
        eprintln!("{report:?}");
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let port: u16 = words.next().context("the port is missing")?.parse()?;
    let (mut dedicated, mut commands) = (false, Vec::<Vec<String>>::new());
    for word in words {
        match (word.as_str(), commands.last_mut()) {
            ("--", _) => commands.push(Vec::new()),
            (_, Some(command)) => command.push(word),
            ("--dedicated", None) => dedicated = true,
            (other, None) => bail!("{other} is not understood"),
        }
    }
    let mut connectors: Vec<Arc<dyn Connector>> = Vec::new();
    for command in commands {
        connectors.push(if dedicated {
            Arc::new(Dedicated(command))
        } else {
            Arc::new(supervise(command, Mode::Shared)?.0)
        });
    }
    let name = |host: &str| format!("http://{host}:{port}");
    let hosts = ["127.0.0.1", "localhost", "[::1]"];
    let options = FrontOptions {
        hosts: Some(hosts.map(str::to_owned).to_vec()),
        origins: Some(hosts.map(name).to_vec()),
        observer: Some(Arc::new(Told)),
        ..FrontOptions::default()
    };
    let front = match connectors.as_slice() {
        [] => bail!("there is no command"),
        [one] => Front::new(one.clone(), options),
        _ => {
            let named = connectors.into_iter().enumerate();
            let named = named.map(|(place, connector)| (format!("s{}", place + 1), connector));
            Front::combined(Arc::new(All(named.collect())), options)
        }
    };
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        let front = front.clone();
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let front = front.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
                let principal = Principal::new("anybody");
                Ok::<_, Infallible>(front.serve(principal, hyper::Request::from_parts(head, body)).await)
            }
        });
        tokio::spawn(async move {
            let mut server = hyper::server::conn::http1::Builder::new();
            if let Err(error) =
                server.timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await
            {
                eprintln!("{error}");
            }
        });
    }
}
