use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::observe::Observer;

/// What a front is told at its start.
#[derive(Clone)]
pub struct FrontOptions {
    /// How long a call may take. `None` takes the bridge's.
    pub call_timeout: Option<Duration>,
    /// How long an answer may take and still be sent as JSON. What takes longer is a stream, which
    /// can be resumed in the older era and is kept alive in both.
    pub json_grace: Duration,
    /// How often a silent stream says that it lives.
    pub keep_alive: Duration,
    /// After how long without a word of its client a session ends, whatever streams are open.
    pub idle_ttl: Duration,
    /// The same for a client that did not say anything after its `initialize`.
    pub pre_init_ttl: Duration,
    /// How many sessions there may be.
    pub max_sessions: usize,
    /// How many of them may be one principal's.
    pub max_sessions_per_principal: usize,
    /// For how long a session must have been idle to make room for another principal's.
    pub min_idle_to_evict: Duration,
    /// How many requests may be open, per session in the older era and per principal in the newer one.
    pub max_open: usize,
    /// The biggest body of a request, in bytes.
    pub max_body_bytes: usize,
    /// How many events a stream keeps.
    pub max_stream_events: usize,
    /// And how many bytes of them; an answer is kept whatever its size.
    pub max_stream_bytes: usize,
    /// How many streams that are over a session keeps for a client that comes back.
    pub max_replay_streams: usize,
    /// And how many bytes of them.
    pub max_replay_bytes: usize,
    /// And for how long.
    pub replay_ttl: Duration,
    /// How long a combined front waits for the tools of one server.
    pub merge_timeout: Duration,
    /// The hosts that may be named in `Host`, without ports. `None`: somebody else checks.
    pub hosts: Option<Vec<String>>,
    /// The origins that browsers may come from. `None`: somebody else checks.
    pub origins: Option<Vec<String>>,
    /// Who is told of calls.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for FrontOptions {
    fn default() -> Self {
        Self {
            call_timeout: Some(Duration::from_secs(600)),
            json_grace: Duration::from_millis(250),
            keep_alive: Duration::from_secs(15),
            idle_ttl: Duration::from_secs(60 * 60),
            pre_init_ttl: Duration::from_secs(60),
            max_sessions: 1024,
            max_sessions_per_principal: 256,
            min_idle_to_evict: Duration::from_secs(60),
            max_open: 256,
            max_body_bytes: 4 << 20,
            max_stream_events: 256,
            max_stream_bytes: 1 << 20,
            max_replay_streams: 16,
            max_replay_bytes: 2 << 20,
            replay_ttl: Duration::from_secs(300),
            merge_timeout: Duration::from_secs(10),
            hosts: None,
            origins: None,
            observer: None,
        }
    }
}

impl FrontOptions {
    /// How often sessions are looked through.
    pub(super) fn tick(&self) -> Duration {
        let shortest = self.idle_ttl.min(self.pre_init_ttl);
        (shortest / 4).clamp(Duration::from_millis(100), Duration::from_secs(15))
    }
}

impl fmt::Debug for FrontOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontOptions").finish_non_exhaustive()
    }
}
