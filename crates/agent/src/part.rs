//! The Part call: the control plane lets go of its connections for a while.
//!
//! Whatever runs here may want a service that the control plane offers over them, so it is told
//! whether anything runs.

use std::sync::Arc;

use emergent_protocol::v1;
use tokio::task::spawn_blocking;

use crate::agent::{Scope, Shared};
use crate::quiesce;

/// Counts who is alive. The deadline holds from now on: nobody says another before the next Hello.
pub(crate) async fn part(shared: &Arc<Shared>, request: v1::PartRequest) -> v1::PartResponse {
    shared.lease.renew(request.deadline_unix_ms);
    let alive = match shared.config.scope {
        Scope::Commands => shared.launcher.living().len(),
        // Whatever could not be counted is taken for somebody.
        Scope::Namespace => spawn_blocking(|| quiesce::foreign().len()).await.unwrap_or(1),
    };
    v1::PartResponse { alive: u32::try_from(alive).unwrap_or(u32::MAX) }
}
