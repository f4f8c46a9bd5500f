use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::actor::{Carried, run};
use crate::command::Command;
use crate::error::EndReason;
use crate::handle::Handle;
use crate::hub::{Hub, Shared};
use crate::link::ServerIo;
use crate::options::Options;

/// How many commands may wait for the task. What they carry is bounded otherwise.
const COMMANDS: usize = 256;

/// Many clients on one server process.
#[derive(Debug)]
pub struct Bridge;

impl Bridge {
    /// Serves a process that just started. Must be called in a runtime.
    ///
    /// The task ends with the process, when [`Handle::close`] is called, and when the last handle
    /// and client are gone; both streams are closed then. A process that does not get through the
    /// handshake ends the task too.
    pub fn start(options: Options, io: ServerIo) -> (Handle, JoinHandle<Ended>) {
        let (sender, commands) = mpsc::channel(COMMANDS);
        let hub = Hub::new(options);
        let handle = Handle::new(Arc::new(Shared { hub: hub.clone(), commands: sender }));
        let first = Ended { reason: Arc::new(EndReason::Closed), hub, commands, carried: Carried::default() };
        (handle, first.restart(io))
    }
}

/// A bridge without a process. Handles and clients stay valid, with their subscriptions; calls
/// wait a short time for [`restart`](Self::restart). Dropping it is the end for all of them.
#[derive(Debug)]
pub struct Ended {
    reason: Arc<EndReason>,
    hub: Arc<Hub>,
    commands: mpsc::Receiver<Command>,
    carried: Carried,
}

impl Ended {
    /// Why the process is gone.
    pub fn reason(&self) -> &EndReason {
        &self.reason
    }

    /// Serves the next process: a new handshake, then subscriptions and log level are applied
    /// again. No call is repeated.
    pub fn restart(self, io: ServerIo) -> JoinHandle<Self> {
        let Self { hub, mut commands, carried, .. } = self;
        tokio::spawn(async move {
            let (reason, carried) = run(&hub, &mut commands, io, carried).await;
            Self { reason, hub, commands, carried }
        })
    }
}
