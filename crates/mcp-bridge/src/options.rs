use std::time::Duration;

use tokio::sync::mpsc;

use crate::RawJson;
use crate::live::Live;
use crate::rules::ToolRules;

/// Who shares the process.
#[derive(Debug, Clone)]
pub enum Mode {
    /// Many clients. What a server asks of a client cannot be attributed to one, so it is refused.
    Shared,
    /// One client, which declared this when it introduced itself. It is asked what the server asks.
    Dedicated(Declaration),
}

/// What a client says about itself.
#[derive(Debug, Clone)]
pub struct Declaration {
    /// The object `capabilities`, as the client sent it.
    pub capabilities: RawJson,
    /// The object `clientInfo`, as the client sent it.
    pub info: RawJson,
}

/// How the era of a server is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EraChoice {
    /// Ask for discovery and fall back to `initialize`.
    Probe,
    /// `initialize` at once.
    Legacy,
}

/// What a bridge is told at its start.
#[derive(Debug, Clone)]
pub struct Options {
    /// Who shares the process.
    pub mode: Mode,
    /// One call at a time, in the order they came.
    pub serialize: bool,
    /// How the era of the server is found.
    pub era: EraChoice,
    /// How long a call may take, its wait for a turn included.
    pub call_timeout: Duration,
    /// How long a call may take at most whose server tells of its progress: each time it does, the call has
    /// `call_timeout` once more.
    pub longest_call: Duration,
    /// How long discovery may take before `initialize` is tried.
    pub probe_timeout: Duration,
    /// How long the whole handshake may take.
    pub handshake_timeout: Duration,
    /// How long a call waits for a process that ended to be started again. Zero: not at all.
    pub restart_grace: Duration,
    /// With `serialize`: how long a call that was given up keeps its turn, unless the server answers it.
    pub settle: Duration,
    /// The longest line in either direction, in bytes.
    pub max_line_bytes: usize,
    /// How much may wait to be written to the server, in bytes. At least `max_line_bytes`.
    pub max_waiting_bytes: usize,
    /// How many calls may be open at once.
    pub max_calls: usize,
    /// How many of them may be one client's.
    pub max_calls_per_client: usize,
    /// How many messages may wait for a client to take them.
    pub max_mailbox: usize,
    /// And how many bytes.
    pub max_mailbox_bytes: usize,
    /// How many resources a client may be subscribed to, and how many listen requests it may have open.
    pub max_subscriptions: usize,
    /// Which tools are offered.
    pub tools: ToolRules,
    /// Where `call_timeout` and `tools` are found in place of these two, if other bridges are to follow their
    /// changes too.
    pub live: Option<Live>,
    /// Where log messages of the server go that belong to no client. What does not fit is dropped.
    pub log: Option<mpsc::Sender<RawJson>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Shared,
            serialize: false,
            era: EraChoice::Probe,
            call_timeout: Duration::from_secs(30),
            longest_call: Duration::from_secs(600),
            probe_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(60),
            restart_grace: Duration::from_secs(5),
            settle: Duration::from_secs(1),
            max_line_bytes: 16 << 20,
            max_waiting_bytes: 32 << 20,
            max_calls: 1024,
            max_calls_per_client: 128,
            max_mailbox: 256,
            max_mailbox_bytes: 4 << 20,
            max_subscriptions: 256,
            tools: ToolRules::default(),
            live: None,
            log: None,
        }
    }
}

impl Options {
    /// The unit in which bytes that wait are counted: a message costs at least one, so that many
    /// small ones are bounded too.
    pub(crate) const UNIT: usize = 1024;

    pub(crate) fn waiting_units(&self) -> usize {
        self.max_waiting_bytes.max(self.max_line_bytes).div_ceil(Self::UNIT) + 1
    }

    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.mode, Mode::Shared)
    }
}
