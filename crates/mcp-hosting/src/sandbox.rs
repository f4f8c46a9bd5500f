//! The sandbox of a server, made ready for a program.

use std::sync::Arc;
use std::time::Duration;

use emergent_agent_client::{AgentError, StdioSpec};
use emergent_types::{WorkspaceId, WorkspaceStatus};
use emergent_workspaces::{Handle, LifecycleError, ToolCall, ToolError};

use crate::logs::Logs;
use crate::process::{Process, Stdout};

/// How often a sandbox that is on its way is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SandboxError {
    #[error("its sandbox has failed: {0}")]
    Failed(String),
    #[error("its sandbox could not be resumed: {0}")]
    NotResumed(LifecycleError),
    #[error("its sandbox is not usable: {0}")]
    Unusable(ToolError),
    #[error("its sandbox was not ready within {} s", .0.as_secs())]
    TimedOut(Duration),
}

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("the program could not be started: {0}")]
    Program(ToolError),
}

/// Starts a program in the sandbox, once that is ready.
///
/// One that has just died is called ready until its owner has looked. A start that did not get there is no
/// fault of the program's, so it is tried again as long as a sandbox may take.
pub(crate) async fn start(
    workspaces: &Handle,
    id: WorkspaceId,
    limit: Duration,
    spec: &StdioSpec,
    logs: &Arc<Logs>,
    stdout: Stdout,
) -> Result<Process, StartError> {
    let starting = async {
        loop {
            let call = until_ready(workspaces, id).await?;
            match Process::start(call, spec, logs.clone(), stdout).await {
                Ok(process) => return Ok(process),
                Err(error) if is_passing(&error) => tokio::time::sleep(LOOK).await,
                Err(error) => return Err(StartError::Program(error)),
            }
        }
    };
    tokio::time::timeout(limit, starting).await.unwrap_or(Err(SandboxError::TimedOut(limit).into()))
}

/// Whether the sandbox is only not there at the moment. Its owner looks after it, and says what came of that.
fn is_passing(error: &ToolError) -> bool {
    matches!(error, ToolError::NotReady { .. } | ToolError::Agent(AgentError::Unreachable { .. }))
}

/// A call on the sandbox, once it is ready. One that is stopped is resumed, one that has failed is made anew; one
/// whose agent is away is waited for.
pub(crate) async fn ready(
    workspaces: &Handle,
    id: WorkspaceId,
    limit: Duration,
) -> Result<ToolCall, SandboxError> {
    tokio::time::timeout(limit, until_ready(workspaces, id))
        .await
        .unwrap_or(Err(SandboxError::TimedOut(limit)))
}

async fn until_ready(workspaces: &Handle, id: WorkspaceId) -> Result<ToolCall, SandboxError> {
    let mut is_remade = false;
    loop {
        let row = workspaces.get(id).await.map_err(SandboxError::NotResumed)?;
        match row.status {
            WorkspaceStatus::Ready => match workspaces.tool(id).await {
                Ok(call) => return Ok(call),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(SandboxError::Unusable(error)),
            },
            WorkspaceStatus::Stopped => match workspaces.resume(id).await {
                // Somebody else did something with it: what, the row says.
                Ok(_) | Err(LifecycleError::WrongState { .. }) => continue,
                Err(error) => return Err(SandboxError::NotResumed(error)),
            },
            // Once a start: one that cannot be made now may be the next time.
            WorkspaceStatus::Failed if !std::mem::replace(&mut is_remade, true) => {
                let reason = row.error.map_or_else(|| "no reason is known".to_owned(), |error| error.message);
                tracing::warn!(workspace = %id, reason, "the sandbox {id} of an MCP server has failed and is made anew");
                match workspaces.remake(id).await {
                    Ok(_) | Err(LifecycleError::WrongState { .. }) => continue,
                    Err(error) => return Err(SandboxError::Failed(error.to_string())),
                }
            }
            WorkspaceStatus::Failed => {
                let reason = row.error.map_or_else(|| "no reason is known".to_owned(), |error| error.message);
                return Err(SandboxError::Failed(reason));
            }
            WorkspaceStatus::Destroying => {
                return Err(SandboxError::NotResumed(LifecycleError::NotFound { id }));
            }
            WorkspaceStatus::Creating | WorkspaceStatus::Resuming | WorkspaceStatus::Stopping => {}
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns when the sandbox is not ready any more.
pub(crate) async fn lost(workspaces: &Handle, id: WorkspaceId) {
    if let Ok(mut row) = workspaces.watch(id) {
        // Closed means gone, which is lost as well.
        let _gone = row.wait_for(|row| row.status != WorkspaceStatus::Ready).await;
    }
}
