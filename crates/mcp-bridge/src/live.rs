use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use crate::rules::ToolRules;
use crate::session::lock;

/// What may change while a process runs. Clones are one and the same, so that all bridges of a server follow one
/// change, those that are open already too.
#[derive(Debug, Clone)]
pub struct Live(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tools: watch::Sender<Arc<ToolRules>>,
    call_timeout: Mutex<Duration>,
}

impl Live {
    /// What is so at first.
    pub fn new(tools: ToolRules, call_timeout: Duration) -> Self {
        Self(Arc::new(Inner {
            tools: watch::Sender::new(Arc::new(tools)),
            call_timeout: Mutex::new(call_timeout),
        }))
    }

    /// Changes which tools are offered, from the next list and call on. Clients are told.
    pub fn set_tools(&self, tools: ToolRules) {
        self.0.tools.send_if_modified(|old| {
            let is_new = **old != tools;
            *old = Arc::new(tools);
            is_new
        });
    }

    /// Changes how long a call may take, from the next one on.
    pub fn set_call_timeout(&self, timeout: Duration) {
        *lock(&self.0.call_timeout) = timeout;
    }

    pub(crate) fn tools(&self) -> Arc<ToolRules> {
        self.0.tools.borrow().clone()
    }

    pub(crate) fn tools_changes(&self) -> watch::Receiver<Arc<ToolRules>> {
        self.0.tools.subscribe()
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        *lock(&self.0.call_timeout)
    }
}
