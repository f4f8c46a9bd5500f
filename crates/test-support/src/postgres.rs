//! A real PostgreSQL server for tests, in a temporary folder.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::sandbox::{pids, read};

mod tls;

/// Where Debian keeps the programs of every version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The account that Debian's package makes; the programs refuse to run as root.
const ACCOUNT: &str = "postgres";
const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(50);

/// Whether what the server has acknowledged must survive its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// As in production.
    Full,
    /// Quick, for tests in which nothing is killed.
    None,
}

/// A PostgreSQL server on a free port of loopback and on a Unix socket, with everybody let in.
/// It goes away, with all it wrote, when this is dropped.
#[derive(Debug)]
pub struct PostgresServer {
    programs: PathBuf,
    account: Option<Account>,
    durability: Durability,
    port: u16,
    running: Option<Child>,
    databases: AtomicU32,
    folder: TempDir,
}

#[derive(Debug, Clone, Copy)]
struct Account {
    uid: u32,
    gid: u32,
}

impl PostgresServer {
    /// Makes and starts a server.
    pub fn start(durability: Durability) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("emergent-pg-").tempdir()?;
        let account = Account::to_run_as()?;
        if let Some(Account { uid, gid }) = account {
            chown(folder.path(), Some(uid), Some(gid))?;
        }
        let mut server = Self {
            programs: programs()?,
            account,
            durability,
            port: free_port()?,
            running: None,
            databases: AtomicU32::new(0),
            folder,
        };
        let data = server.data();
        let data = data.to_str().context("the temporary folder has an odd name")?;
        server.run(
            "initdb",
            &["-D", data, "-U", ACCOUNT, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
        )?;
        server.resume()?;
        Ok(server)
    }

    /// Starts it again after [`stop`](Self::stop) or [`kill`](Self::kill), on the same port.
    pub fn resume(&mut self) -> Result<()> {
        ensure!(self.running.is_none(), "the server runs already");
        let deadline = Instant::now() + START_LIMIT;
        // After a kill, the kernel may need a moment until nothing of the old server is left.
        while Instant::now() < deadline {
            self.running = Some(self.spawn()?);
            if self.wait_until_ready(deadline) {
                return Ok(());
            }
        }
        bail!("PostgreSQL does not start:\n{}", self.log())
    }

    /// Ends it as an administrator does: running statements are cut off, everything is written.
    pub fn stop(&mut self) -> Result<()> {
        let Some(mut child) = self.running.take() else { return Ok(()) };
        signal(&child, Signal::INT)?;
        let deadline = Instant::now() + STOP_LIMIT;
        while child.try_wait()?.is_none() {
            ensure!(Instant::now() < deadline, "PostgreSQL does not stop:\n{}", self.log());
            std::thread::sleep(INTERVAL);
        }
        Ok(())
    }

    /// `kill -9` of the server and of every process it has started.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.running.take() else { return Ok(()) };
        let family = descendants(child.id());
        signal(&child, Signal::KILL)?;
        child.wait()?;
        for pid in family {
            // It may have followed by itself.
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
        Ok(())
    }

    /// Stops every process where it is: connections stay, and nobody answers.
    pub fn freeze(&self) -> Result<()> {
        self.signal_all(Signal::STOP)
    }

    /// Lets them go on.
    pub fn thaw(&self) -> Result<()> {
        self.signal_all(Signal::CONT)
    }

    /// Makes a new, empty database and returns its URL.
    pub fn create_database(&self) -> Result<String> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.query("postgres", &format!("CREATE DATABASE {name} TEMPLATE template0"))?;
        Ok(self.url(&name))
    }

    /// The URL of a database, over TCP.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{ACCOUNT}@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs a statement in a database through `psql`; returns what it printed, values
    /// separated by `|`.
    pub fn query(&self, database: &str, sql: &str) -> Result<String> {
        let socket = self.folder.path().to_str().context("the temporary folder has an odd name")?;
        let port = self.port.to_string();
        let options = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", ACCOUNT];
        self.run("psql", &[&options[..], &["-h", socket, "-p", &port, "-d", database, "-c", sql]].concat())
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn spawn(&self) -> Result<Child> {
        let log = File::options().create(true).append(true).open(self.folder.path().join("log"))?;
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data());
        command.args(["-p", &self.port.to_string()]);
        let sockets = format!("unix_socket_directories={}", self.folder.path().display());
        let settings = ["listen_addresses=127.0.0.1", &sockets, "shared_buffers=16MB", "max_connections=50"];
        for setting in settings {
            command.args(["-c", setting]);
        }
        if self.durability == Durability::None {
            command.args(["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"]);
        }
        command.stdout(log.try_clone()?).stderr(log).spawn().context("cannot start postgres")
    }

    /// Whether it has begun to answer; not, when it has ended.
    fn wait_until_ready(&mut self, deadline: Instant) -> bool {
        while Instant::now() < deadline {
            std::thread::sleep(INTERVAL);
            if self.query("postgres", "SELECT 1").is_ok() {
                return true;
            }
            let ended = self.running.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)));
            if ended {
                self.running = None;
                return false;
            }
        }
        false
    }

    fn signal_all(&self, wanted: Signal) -> Result<()> {
        let child = self.running.as_ref().context("the server does not run")?;
        signal(child, wanted)?;
        for pid in descendants(child.id()) {
            // It may have ended meanwhile.
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, wanted));
        }
        Ok(())
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let output = self.command(program).args(arguments).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        ensure!(output.status.success(), "{program}: {}", text(&output.stderr));
        Ok(text(&output.stdout))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.env_clear().env("LC_ALL", "C").current_dir("/").stdin(Stdio::null());
        if let Some(Account { uid, gid }) = self.account {
            command.uid(uid).gid(gid);
        }
        command
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("PostgreSQL may be left behind: {error:#}");
        }
    }
}

impl Account {
    /// The account for the server's processes; `None` is this one, which is not root's.
    fn to_run_as() -> Result<Option<Self>> {
        if fs::metadata("/proc/self")?.uid() != 0 {
            return Ok(None);
        }
        let accounts = fs::read_to_string("/etc/passwd")?;
        let find = |line: &str| {
            let mut fields = line.split(':');
            let (name, _, uid, gid) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
            (name == ACCOUNT).then_some(Self { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
        };
        let account = accounts.lines().find_map(find);
        account.map(Some).context("there is no account `postgres`: install Debian's package `postgresql`")
    }
}

/// The folder of the newest version's programs.
fn programs() -> Result<PathBuf> {
    let versions = fs::read_dir(VERSIONS).context("install Debian's package `postgresql`")?;
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.flatten().map(|entry| entry.path()).max_by_key(|path| version(path));
    let programs = newest.context("no version of PostgreSQL")?.join("bin");
    ensure!(programs.join("postgres").is_file(), "there is no server in {}", programs.display());
    Ok(programs)
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn signal(child: &Child, signal: Signal) -> Result<()> {
    kill_process(Pid::from_child(child), signal).context("cannot signal PostgreSQL")
}

/// The processes that a server has started. Its own have no children.
fn descendants(server: u32) -> Vec<i32> {
    let parent = format!("PPid:\t{server}");
    pids().filter(|pid| read(*pid, "status").lines().any(|line| line == parent)).collect()
}
