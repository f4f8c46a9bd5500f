//! A server of the product, as a child process with a data folder of its own.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use emergent_test_support::{Census, Scope};
use emergent_types::InstallationId;
use rustix::process::{Pid, Signal, kill_process};

use crate::http::Endpoint;
use crate::workspace::destroy_all;

/// How long a server may take to be ready.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Where nobody listens.
const NO_DOCKER: &str = "unix:///nonexistent/docker.sock";
/// How long a server may take to end.
const END_LIMIT: Duration = Duration::from_secs(30);

/// What a server has beside the embedded provider.
#[derive(Debug, Clone)]
pub(crate) enum Gvisor {
    /// Nothing.
    Off,
    /// This Docker.
    Docker(String),
    /// `runsc` alone.
    Direct,
}

impl Gvisor {
    fn variables(&self) -> [(&'static str, &str); 2] {
        let (mode, docker) = match self {
            Self::Off => ("docker", NO_DOCKER),
            Self::Docker(address) => ("docker", address.as_str()),
            Self::Direct => ("direct", NO_DOCKER),
        };
        [("WORKSPACE_GVISOR_MODE", mode), ("DOCKER_HOST", docker)]
    }
}

/// Where a server comes from and where its data goes.
#[derive(Debug, Clone)]
pub(crate) struct ServerSetup {
    pub(crate) program: PathBuf,
    pub(crate) data_dir: PathBuf,
    /// Workspaces that may run at once.
    pub(crate) max_concurrent: u32,
    /// The database, where it is not a file in the data folder.
    pub(crate) database_url: Option<String>,
    pub(crate) gvisor: Gvisor,
    /// Sandboxes that are made ahead of time.
    pub(crate) warm_pool_size: u32,
    /// A git host that repositories may be at.
    pub(crate) git_host: Option<String>,
}

/// A running server.
pub(crate) struct Server {
    setup: ServerSetup,
    child: Child,
    endpoint: Endpoint,
    started_within: Duration,
}

impl Server {
    /// Starts a server on a free port of the loopback interface and waits until it listens.
    pub(crate) fn start(setup: &ServerSetup) -> Result<Self> {
        let started = Instant::now();
        let mut child = Command::new(&setup.program)
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(&setup.data_dir)
            .envs(setup.gvisor.variables())
            // What a create costs that nobody has prepared.
            .env("WORKSPACE_WARM_POOL_SIZE", setup.warm_pool_size.to_string())
            .env("WORKSPACE_MAX_CONCURRENT", setup.max_concurrent.to_string())
            .envs(setup.git_host.iter().map(|host| ("CHECKOUT_ALLOWED_HOSTS", host)))
            .envs(setup.database_url.iter().map(|url| ("DATABASE_URL", url)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log_file(&setup.data_dir)?)
            // An interrupt of the benchmark is not the server's: it is still needed to clean up.
            .process_group(0)
            .spawn()
            .with_context(|| format!("{} cannot be started", setup.program.display()))?;
        match await_listening(&mut child) {
            Ok(address) => {
                let started_within = started.elapsed();
                let token = fs::read_to_string(setup.data_dir.join("admin.token")).context("admin.token")?;
                let endpoint = Endpoint { address: address.parse()?, token: token.trim().to_owned() };
                Ok(Self { setup: setup.clone(), child, endpoint, started_within })
            }
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error.context(format!("the server said:\n{}", log_tail(&setup.data_dir))))
            }
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// From its start until it said that it listens.
    pub(crate) fn started_within(&self) -> Duration {
        self.started_within
    }

    /// Kills the server without warning and starts another one on the same data.
    pub(crate) fn kill_and_restart(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        *self = Self::start(&self.setup)?;
        Ok(())
    }

    /// What there is of it outside its process.
    pub(crate) fn census(&self) -> Result<Census> {
        let data_dir = self.setup.data_dir.clone();
        Ok(Census::take(&Scope::Installation { id: installation(&data_dir)?, data_dir }))
    }

    /// Destroys what it has, ends it, and makes sure that nothing is left.
    async fn retire(mut self) -> Result<()> {
        let mut destroyed = destroy_all(&self.endpoint).await;
        if destroyed.is_err() {
            // The server itself may be what is broken; a new one knows what there is.
            self.kill_and_restart()?;
            destroyed = destroy_all(&self.endpoint).await;
        }
        let ended = self.end();
        destroyed.context("workspaces could not be destroyed")?;
        ended?;
        let left = self.census()?;
        ensure!(left.is_empty(), "left behind:\n{left}");
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let pid = Pid::from_raw(self.child.id().cast_signed()).context("no process id")?;
        kill_process(pid, Signal::TERM)?;
        let deadline = Instant::now() + END_LIMIT;
        while Instant::now() < deadline {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("the server did not end within {END_LIMIT:?} of SIGTERM")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Does nothing where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Does `work` with a server, and leaves nothing of it behind: not when `work` fails, and not
/// when it is interrupted.
pub(crate) async fn with_server<T>(
    setup: &ServerSetup,
    work: impl AsyncFnOnce(&mut Server) -> Result<T>,
) -> Result<T> {
    let mut server = Server::start(setup)?;
    let result = tokio::select! {
        result = work(&mut server) => result,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    let result = result.with_context(|| format!("the server's last words:\n{}", log_tail(&setup.data_dir)));
    let retired = server.retire().await;
    fs::remove_dir_all(&setup.data_dir).with_context(|| setup.data_dir.display().to_string())?;
    let value = result?;
    retired?;
    Ok(value)
}

fn await_listening(child: &mut Child) -> Result<String> {
    let stdout = child.stdout.take().context("no pipe")?;
    let (found, listening) = mpsc::channel();
    // Reads to the end: a server that cannot write would stop.
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some(address) = line.strip_prefix("listening on http://") {
                let _ = found.send(address.to_owned());
            }
        }
    });
    listening.recv_timeout(START_LIMIT).context("it ended, or did not say where it listens")
}

fn log_path(data_dir: &Path) -> PathBuf {
    data_dir.with_extension("log")
}

fn log_file(data_dir: &Path) -> Result<File> {
    Ok(File::options().create(true).append(true).open(log_path(data_dir))?)
}

/// Which installation a server is: it says so in its log.
fn installation(data_dir: &Path) -> Result<InstallationId> {
    let log = fs::read_to_string(log_path(data_dir))?;
    let entries = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut ids = entries.filter_map(|entry| entry["installation"].as_str()?.parse().ok());
    ids.next().context("the server's log does not name its installation")
}

fn log_tail(data_dir: &Path) -> String {
    let text = fs::read(log_path(data_dir)).unwrap_or_default();
    let start = text.len().saturating_sub(4000);
    String::from_utf8_lossy(&text[start..]).into_owned()
}
