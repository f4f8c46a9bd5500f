//! Another bridge from npm: supergateway, in the way in which it does best, with a process for each session.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::TcpStream;

use super::installed;
use crate::http::Endpoint;

/// How long it may take to listen, in tenths of a second.
const PATIENCE: u32 = 300;

/// Ends with the value, and its servers with it.
pub(crate) struct Gateway {
    process: Child,
    endpoint: Endpoint,
}

impl Gateway {
    pub(crate) const PATH: &str = "/mcp";

    /// Starts it before a server with this command line.
    pub(crate) async fn start(command_line: &str) -> Result<Self> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let process = Command::new(installed("runtime/node_modules/node/bin/node")?)
            .arg(installed("gateway/node_modules/supergateway/dist/index.js")?)
            .args(["--stdio", command_line, "--outputTransport", "streamableHttp", "--stateful"])
            .args(["--streamableHttpPath", Self::PATH, "--logLevel", "none", "--port", &free.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("supergateway cannot be started")?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free));
        let gateway = Self { process, endpoint: Endpoint { address, token: "none".to_owned() } };
        for _ in 0..PATIENCE {
            if TcpStream::connect(address).await.is_ok() {
                return Ok(gateway);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("supergateway does not listen")
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.process.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.process.wait();
    }
}
