//! The Quiesce call: nothing runs any more, and what was written is on the disk.

use std::collections::HashSet;
use std::ffi::CStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use emergent_protocol::v1;
use rustix::process::{Pid, Signal};
use tokio::task::{JoinSet, spawn_blocking};

use crate::agent::{Scope, Shared};
use crate::tree;

/// The longest grace period: the caller waits for it.
const MAX_GRACE: Duration = Duration::from_secs(120);

/// How often it is looked whether everything has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Ends every process of the sandbox and writes everything to the disk.
pub(crate) async fn quiesce(shared: &Arc<Shared>, request: v1::QuiesceRequest) -> v1::QuiesceResponse {
    let grace = Duration::from_millis(request.grace_ms).min(MAX_GRACE);
    let killed = end(shared, shared.config.scope, grace).await;
    let folders = [shared.config.workspace.clone(), "/home".into(), "/".into()];
    // Each file system of the sandbox's, and not the whole kernel's: that would be the host's.
    let _ = spawn_blocking(move || folders.iter().for_each(|folder| sync(folder))).await;
    v1::QuiesceResponse { killed }
}

/// SIGTERM to everything in scope, SIGKILL for what is left after `grace`.
pub(crate) async fn end(shared: &Arc<Shared>, scope: Scope, grace: Duration) -> u32 {
    match scope {
        Scope::Commands => {
            let mut ending = JoinSet::new();
            for tree in shared.launcher.living() {
                ending.spawn(async move { tree.end(grace).await });
            }
            ending.join_all().await.into_iter().sum()
        }
        Scope::Namespace => end_namespace(grace).await,
    }
}

async fn end_namespace(grace: Duration) -> u32 {
    let deadline = Instant::now() + grace;
    spawn_blocking(|| tree::signal_all(&foreign(), Signal::TERM)).await.unwrap_or(0);
    loop {
        match spawn_blocking(|| foreign().len()).await {
            Ok(0) | Err(_) => return 0,
            Ok(_) if Instant::now() >= deadline => break,
            Ok(_) => tokio::time::sleep(LOOK_INTERVAL).await,
        }
    }
    let mut killed = 0;
    for _ in 0..50 {
        match spawn_blocking(|| tree::kill_forking(None, foreign)).await {
            Ok(0) | Err(_) => break,
            Ok(number) => killed += number,
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    killed
}

/// Every process but init and our own: agent, supervisors (they end with what they watch
/// over) and relays (one of them carries this very call).
pub(crate) fn foreign() -> Vec<Pid> {
    let own = Looks::of(rustix::process::getpid());
    tree::everyone().into_iter().filter(|pid| !pid.is_init() && !Looks::of(*pid).is_like(&own)).collect()
}

/// What tells our processes from others. One that makes itself look like ours only escapes
/// being asked politely: the sandbox is about to be taken down.
pub(crate) struct Looks {
    /// Which file it executes. Not readable where it has more privileges than this process: a
    /// relay may.
    program: Option<(u64, u64)>,
    name: String,
}

impl Looks {
    pub(crate) fn of(pid: Pid) -> Self {
        let folder = Path::new("/proc").join(pid.as_raw_pid().to_string());
        let program = fs::metadata(folder.join("exe")).ok();
        let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
        Self { program: program.map(|file| (file.dev(), file.ino())), name }
    }

    /// Whether this is what it calls itself.
    pub(crate) fn has_name(&self, name: &CStr) -> bool {
        self.name.trim_end_matches('\n').as_bytes() == name.to_bytes()
    }

    pub(crate) fn is_like(&self, own: &Self) -> bool {
        match self.program {
            Some(program) => Some(program) == own.program,
            None => self.name == own.name,
        }
    }
}

fn sync(folder: &Path) {
    if let Ok(folder) = fs::File::open(folder) {
        let _ = rustix::fs::syncfs(folder);
    }
}

/// Ends everything below this process or, for PID 1, everything. For init, which has no
/// runtime and exits afterwards.
pub(crate) fn end_below(grace: Duration, mut reap: impl FnMut()) {
    let this = rustix::process::getpid();
    let targets = || if this.is_init() { foreign() } else { below(this) };
    tree::signal_all(&targets(), Signal::TERM);
    let deadline = Instant::now() + grace;
    while Instant::now() < deadline {
        reap();
        if targets().is_empty() {
            break;
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    // Now the agent and its supervisors too.
    let everything = || if this.is_init() { tree::everyone() } else { tree::descendants(this) };
    for _ in 0..50 {
        reap();
        if tree::kill_forking(None, everything) == 0 {
            return;
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

fn below(root: Pid) -> Vec<Pid> {
    let foreign: HashSet<Pid> = foreign().into_iter().collect();
    tree::descendants(root).into_iter().filter(|pid| foreign.contains(pid)).collect()
}
