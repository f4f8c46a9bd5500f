//! The real program, serving.

use std::fs::{self, DirBuilder, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{DirBuilderExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use emergent_client::{Client, ListWorkspaces};
use emergent_types::{InstallationId, WorkspaceId};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::program::{self, CommandOutput, NOBODY};
use crate::{Census, Probe, Scope, eventually, sandbox};

/// How long a server may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(30);

/// How long it may take to end: its own grace, and some.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// How long cleaning up after a failed test may take.
const CLEANUP_LIMIT: Duration = Duration::from_secs(60);

/// How many lines of the log a failed test shows.
const SHOWN_LINES: usize = 40;

const READY: &str = "listening on ";

/// What a server is started with.
#[derive(Debug, Clone, Default)]
pub struct TestServerOptions {
    /// Environment variables.
    pub variables: Vec<(&'static str, String)>,
    /// Run it as a user without any rights, for whom no sandbox can be made.
    pub unprivileged: bool,
    /// Where its data folder is made; `None` is where temporary folders are.
    pub within: Option<PathBuf>,
    /// Listen where it did before when it is started again, for clients that come back by themselves.
    pub same_address: bool,
    /// Folders of its data folder that it finds somewhere else.
    pub elsewhere: Vec<(&'static str, PathBuf)>,
}

impl TestServerOptions {
    /// With one variable more.
    pub fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.variables.push((name, value.to_string()));
        self
    }

    /// Starts the server and waits until it listens.
    ///
    /// # Panics
    ///
    /// When it does not, with its log.
    pub async fn start(self) -> TestServer {
        let within = self.within.clone().unwrap_or_else(std::env::temp_dir);
        let folder =
            TempDir::with_prefix_in("emergent-test-", within).expect("a temporary folder can be made");
        let mut server =
            TestServer { options: self, folder, running: None, url: String::new(), token: String::new() };
        for (name, place) in &server.options.elsewhere {
            let name = server.data_dir().join(name);
            let above = name.parent().expect("it is below the data folder");
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(above)
                .and_then(|()| symlink(place, &name))
                .expect("a temporary folder can be written to");
        }
        server.start_again().await;
        server
    }
}

/// The real program on a free port of loopback, with a data folder of its own.
///
/// A test that passes ends it with [`finish`](Self::finish), which looks for what is left. One
/// that panics drops it: then every workspace is destroyed all the same.
pub struct TestServer {
    options: TestServerOptions,
    folder: TempDir,
    running: Option<Child>,
    url: String,
    token: String,
}

impl TestServer {
    /// A server with the defaults.
    pub async fn start() -> Self {
        TestServerOptions::default().start().await
    }

    /// What it is started with from the next start on.
    pub fn set_options(&mut self, options: TestServerOptions) {
        self.options = options;
    }

    /// Its data folder.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The admin token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The process that serves.
    ///
    /// # Panics
    ///
    /// When it does not run.
    pub fn pid(&self) -> i32 {
        let child = self.running.as_ref().expect("the server runs");
        i32::try_from(child.id()).expect("a process id fits")
    }

    /// A typed client with the admin token.
    pub fn client(&self) -> Client {
        Client::new(&self.url, &self.token).expect("the address and the token make sense")
    }

    /// A client that sends whatever it is told to.
    pub fn probe(&self) -> Probe {
        Probe::new(self.url.clone(), self.token.clone())
    }

    /// Runs a command of the program against this server, which it finds by itself.
    pub async fn command(&self, arguments: &[&str]) -> CommandOutput {
        let data_dir = self.data_dir();
        program::run_program(arguments, &[("EMERGENT_DATA_DIR", &data_dir.to_string_lossy())]).await
    }

    /// The same with this on the command's standard input.
    pub async fn command_with_input(&self, arguments: &[&str], input: &[u8]) -> CommandOutput {
        let data_dir = self.data_dir();
        let variables = [("EMERGENT_DATA_DIR", &*data_dir.to_string_lossy())];
        program::run_program_with_input(arguments, &variables, input).await
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    /// Which installation this is. The server says so in its log.
    ///
    /// # Panics
    ///
    /// When it does not.
    pub fn installation(&self) -> InstallationId {
        let log = self.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let mut ids = lines.filter_map(|line| line["installation"].as_str()?.parse().ok());
        ids.next().expect("the log names the installation")
    }

    /// What there is of it outside its process.
    pub fn census(&self) -> Census {
        Census::take(&Scope::Installation { id: self.installation(), data_dir: self.data_dir() })
    }

    /// Memory of the serving process that is in use.
    pub fn resident_kib(&self) -> u64 {
        let status = sandbox::read(self.pid(), "status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
    }

    /// `kill -9`, in the middle of whatever it does.
    pub fn kill(&mut self) {
        let mut child = self.running.take().expect("the server runs");
        child.kill().and_then(|()| child.wait()).expect("a process of ours can be killed");
    }

    /// SIGTERM, and what came of it.
    ///
    /// # Panics
    ///
    /// When it does not end in time.
    pub async fn terminate(&mut self) -> ExitStatus {
        sandbox::kill(self.pid(), Signal::TERM);
        self.wait().await
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    ///
    /// When it does not end in time.
    pub async fn wait(&mut self) -> ExitStatus {
        let mut child = self.running.take().expect("the server runs");
        let (ended, _) = eventually("the server ends", STOP_LIMIT, async || {
            child.try_wait().expect("a child can be waited for")
        })
        .await;
        ended
    }

    /// Starts it on the same folder, after [`kill`](Self::kill) or
    /// [`terminate`](Self::terminate).
    ///
    /// # Panics
    ///
    /// When it does not come to listen, with its log.
    pub async fn start_again(&mut self) {
        if let Err(error) = self.try_start().await {
            panic!("the server does not start: {error:#}\n{}", self.log());
        }
    }

    /// Starts it on the same folder, with something that ends it before it listens.
    ///
    /// # Panics
    ///
    /// When it comes to listen all the same.
    pub async fn start_and_end(&mut self) {
        assert!(self.try_start().await.is_err(), "the server starts: {}", self.log());
        self.wait().await;
    }

    async fn try_start(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let mut variables: Vec<(&str, &str)> =
            self.options.variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        if !variables.iter().any(|(name, _)| *name == "EMERGENT_LOG") {
            variables.push(("EMERGENT_LOG", "info"));
        }
        let program = if self.options.unprivileged {
            let copy = program::for_everybody(self.folder.path())?;
            fs::create_dir_all(self.data_dir())?;
            chown(self.data_dir(), Some(NOBODY), Some(NOBODY))?;
            copy
        } else {
            program::locate()?
        };
        let mut command = program::command(program, &variables).into_std();
        if self.options.unprivileged {
            command.uid(NOBODY).gid(NOBODY);
        }
        let before = self.url.strip_prefix("http://").filter(|_| self.options.same_address);
        command
            .args(["serve", "--listen", before.unwrap_or("127.0.0.1:0"), "--data-dir"])
            .arg(self.data_dir());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        // A child of the standard library's: it must be possible to wait for it on whichever
        // thread a failed test drops it.
        let mut child = command.spawn().context("cannot start the program")?;
        let stdout = child.stdout.take().context("no standard output")?;
        self.running = Some(child);
        let first_line =
            tokio::task::spawn_blocking(move || BufReader::new(stdout).lines().next().transpose());
        let line = tokio::time::timeout(START_LIMIT, first_line)
            .await
            .context("it does not listen in time")???;
        let Some(url) = line.as_deref().and_then(|line| line.strip_prefix(READY)) else {
            bail!("expected \"{READY}…\", not {line:?}");
        };
        self.url = url.to_owned();
        self.token = fs::read_to_string(self.data_dir().join("admin.token"))?.trim().to_owned();
        Ok(())
    }

    /// Destroys every workspace, ends the server, and looks for what is left.
    ///
    /// # Panics
    ///
    /// When anything is.
    pub async fn finish(mut self) {
        if self.running.is_none() {
            self.start_again().await;
        }
        let installation = self.installation();
        destroy_all(&self.client()).await.expect("every workspace can be destroyed");
        let status = self.terminate().await;
        assert!(status.success(), "the server ended with {status}");
        let census = Census::take(&Scope::Installation { id: installation, data_dir: self.data_dir() });
        assert!(census.is_empty(), "something is left:\n{census}");
    }

    /// As much of [`finish`](Self::finish) as can be done after a failure.
    async fn clean_up(&mut self) -> Result<()> {
        let runs =
            self.running.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|ended| ended.is_none()));
        if !runs {
            self.try_start().await?;
        }
        let destroyed = destroy_all(&self.client()).await;
        self.terminate().await;
        destroyed
    }

    fn show_log(&self) {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        eprintln!("the end of the server's log:");
        for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
            eprintln!("  {line}");
        }
    }
}

async fn destroy_all(client: &Client) -> Result<()> {
    delete_mcp_servers(client).await?;
    let page = ListWorkspaces { limit: Some(500), ..ListWorkspaces::default() };
    let workspaces = match client.list(&page).await {
        // Switched off, it has none of its own.
        Err(error) if error.code() == Some("feature_disabled") => return Ok(()),
        listed => listed?.items,
    };
    for workspace in workspaces {
        destroy(client, workspace.id).await?;
    }
    // A page at a time: what was there is gone when the next is asked for.
    loop {
        let snapshots = client.snapshots(None, None).await?.items;
        if snapshots.is_empty() {
            return Ok(());
        }
        for snapshot in snapshots.iter().filter(|snapshot| snapshot.status == "ready") {
            client.delete_snapshot(snapshot.id).await?;
        }
    }
}

async fn delete_mcp_servers(client: &Client) -> Result<()> {
    let servers = match client.mcp_servers().await {
        Err(error) if error.code() == Some("feature_disabled") => return Ok(()),
        listed => listed?.items,
    };
    for server in servers {
        client.delete_mcp_server(&server.name, true).await?;
    }
    Ok(())
}

async fn destroy(client: &Client, id: WorkspaceId) -> Result<()> {
    match client.destroy(id).await {
        // Gone by itself, meanwhile.
        Err(error) if error.code() == Some("workspace_not_found") => Ok(()),
        destroyed => Ok(destroyed.map(drop)?),
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if self.running.is_none() && !std::thread::panicking() {
            return;
        }
        self.show_log();
        // On a thread of its own: this one may be in the middle of a runtime.
        let cleaned = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                    runtime.block_on(async { tokio::time::timeout(CLEANUP_LIMIT, self.clean_up()).await? })
                })
                .join()
        });
        if !matches!(cleaned, Ok(Ok(()))) {
            eprintln!("workspaces may be left in {}: {cleaned:?}", Path::display(&self.data_dir()));
        }
    }
}
