//! A process for one client alone.

use std::time::Duration;

use emergent_mcp_bridge::{self as bridge, Bridge, Declaration, EndReason, Mode};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::attempt::{bridge_options, obituary, program};
use crate::calls::failure;
use crate::error::CallFailure;
use crate::listening::{Listening, Streams};
use crate::process::Stdout;
use crate::registry::Order;
use crate::{Handle, sandbox};

/// How long such a process may take to end.
const GRACE: Duration = Duration::from_secs(5);
/// How long it may take to be usable.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// A process for one client alone, in the sandbox of its server; of a server that speaks HTTP itself, a session. It ends when this is dropped, and when its
/// server is restarted, closed or lost.
pub struct Dedicated {
    bridge: bridge::Handle,
    stop: Option<oneshot::Sender<()>>,
    keeper: JoinHandle<()>,
}

impl Dedicated {
    /// The way to it.
    pub fn bridge(&self) -> &bridge::Handle {
        &self.bridge
    }

    /// Ends it, and waits until it is over.
    pub async fn end(mut self) {
        drop(self.stop.take());
        // One that panicked has let go of its process, too.
        let _panicked = (&mut self.keeper).await;
    }
}

impl Handle {
    /// Starts a process for a client that says this about itself. One that says nothing may come with several
    /// requests at once, and is asked nothing.
    pub async fn dedicated(
        &self,
        name_or_id: &str,
        declaration: Option<Declaration>,
    ) -> Result<Dedicated, CallFailure> {
        let server = self.find_for_call(name_or_id)?;
        let row = server.row();
        self.check_running(&server)?;
        let options = &self.context.options;
        let too_many =
            || CallFailure::TooManyProcesses { server: server.name.clone(), max: options.max_dedicated };
        let place = server.dedicated.clone().try_acquire_owned().map_err(|_| too_many())?;
        let broken = |reason: String| CallFailure::Ended { server: server.name.clone(), reason, sent: false };
        let (workspaces, limit) = (&self.context.workspaces, options.sandbox_limit);
        let mut generation = server.generation.subscribe();
        let (io, process) = if row.stdio_bridge {
            let spec = program(&row).map_err(broken)?;
            let stdout = Stdout::Protocol;
            let started = sandbox::start(workspaces, server.id, limit, &spec, &server.logs, stdout).await;
            let mut process = started.map_err(|error| broken(error.to_string()))?;
            (process.io().ok_or_else(|| broken("it has no streams".to_owned()))?, Some(process))
        } else {
            // The program tells its clients apart itself: each has a session of its own with it.
            sandbox::ready(workspaces, server.id, limit).await.map_err(|error| broken(error.to_string()))?;
            let listening = Listening::of(workspaces, &row).map_err(broken)?;
            (Streams::new(listening).open(None), None)
        };
        let bridge_options = bridge::Options {
            mode: declaration.map_or(Mode::Shared, Mode::Dedicated),
            // There is no second process for this client.
            restart_grace: Duration::ZERO,
            ..bridge_options(&server, options)
        };
        let (bridge, running) = Bridge::start(bridge_options, io);
        let (stop, stopped) = oneshot::channel();
        let mourner = server.clone();
        let keeper = tokio::spawn(async move {
            let ended = tokio::select! {
                biased;
                _ = stopped => None,
                _ = generation.changed() => None,
                // Both ends of the bridge: the program's, and that of whoever used it.
                ended = running => ended.ok().filter(|ended| *ended.reason() != EndReason::Closed),
            };
            match (process, ended) {
                (Some(process), Some(ended)) => {
                    let obituary = obituary(&process, Some(&ended)).await;
                    mourner.order(Order::Mourn(obituary.into_crash(process.stderr_tail()))).await;
                }
                (Some(process), None) => {
                    process.end(GRACE).await;
                }
                (None, _) => {}
            }
            drop(place);
        });
        let dedicated = Dedicated { bridge, stop: Some(stop), keeper };
        dedicated.bridge.ready(READY_LIMIT).await.map_err(|error| failure(&server, error))?;
        Ok(dedicated)
    }
}
