//! The processes of a workspace, seen from the host.

use std::collections::BTreeMap;
use std::fs;

use emergent_types::WorkspaceId;
use rustix::process::{Pid, Signal, kill_process};

/// The processes of one workspace under the local provider, found by their control group.
#[derive(Debug)]
pub struct Sandbox {
    processes: BTreeMap<i32, Process>,
}

#[derive(Debug)]
struct Process {
    parent: i32,
    command: String,
}

impl Sandbox {
    /// The processes as they are now.
    pub fn of(id: WorkspaceId) -> Self {
        let marker = format!("/{id}/");
        let processes =
            pids().filter(|pid| read(*pid, "cgroup").contains(&marker)).map(|pid| (pid, Process::of(pid)));
        Self { processes: processes.collect() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.processes.len()
    }

    /// Whether one of them was started with this text in its arguments.
    pub fn runs(&self, text: &str) -> bool {
        self.processes.values().any(|process| process.command.contains(text))
    }

    /// The first process of the sandbox, by whose end the kernel ends all others.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn init(&self) -> i32 {
        let is_init = |process: &Process| !self.processes.contains_key(&process.parent);
        let found =
            self.processes.iter().find(|(_, process)| is_init(process) && process.command.contains(" init "));
        *found.expect("the sandbox has an init").0
    }

    /// The agent, which init keeps alive.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn agent(&self) -> i32 {
        let init = self.init();
        let is_agent = |process: &Process| process.parent == init && process.command.contains(" serve ");
        *self.processes.iter().find(|(_, process)| is_agent(process)).expect("the sandbox has an agent").0
    }
}

impl Process {
    fn of(pid: i32) -> Self {
        let parent =
            read(pid, "status").lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok());
        Self { parent: parent.unwrap_or(0), command: read(pid, "cmdline").replace('\0', " ") }
    }
}

/// Ends a process without asking it.
///
/// # Panics
///
/// When there is no such process.
pub(crate) fn kill(pid: i32, signal: Signal) {
    let target = Pid::from_raw(pid).expect("a process id is positive");
    kill_process(target, signal).unwrap_or_else(|error| panic!("cannot signal process {pid}: {error}"));
}

impl Sandbox {
    /// `kill -9` of the agent.
    pub fn kill_agent(&self) {
        kill(self.agent(), Signal::KILL);
    }

    /// `kill -9` of the first process, and with it of all.
    pub fn kill_init(&self) {
        kill(self.init(), Signal::KILL);
    }
}

/// Every process of this machine, without those that have ended and only wait for the
/// machine's own first process to take notice.
pub(crate) fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| !is_ended_orphan(&read(*pid, "status")))
}

fn is_ended_orphan(status: &str) -> bool {
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    field("State:").starts_with('Z') && field("PPid:") == "1"
}

/// A file of a process; empty where the process is gone.
pub(crate) fn read(pid: i32, name: &str) -> String {
    fs::read(format!("/proc/{pid}/{name}"))
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}
