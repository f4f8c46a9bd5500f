//! Whether it all works together: makes a real sandbox and removes it.

use std::path::Path;

use emergent_provider::{Health, WorkspaceProvider};
use emergent_types::InstallationId;

use super::finding::Finding;
use crate::serve::providers;

const NAME: &str = "local provider";

pub(super) async fn check(data_dir: Option<&Path>) -> Finding {
    let make = |place: &Path| tempfile::Builder::new().prefix("doctor-").tempdir_in(place);
    // On the disk that the server would use, where that can be written to.
    let temporary = std::env::temp_dir();
    let folder = match data_dir.map(make) {
        Some(Ok(folder)) => Ok(folder),
        Some(Err(_)) | None => make(&temporary),
    };
    match folder {
        Ok(folder) => judge(folder.path()).await,
        Err(_) => failed(format!("not tried: {} cannot be written to either", temporary.display())),
    }
}

/// As an installation of its own, so that a server that runs meanwhile is not disturbed.
async fn judge(folder: &Path) -> Finding {
    let provider = providers::local(folder, InstallationId::generate());
    match provider.health().await {
        Health::Healthy => Finding::ok(NAME, "a sandbox was made and removed"),
        Health::Unhealthy { reason } => failed(reason),
    }
}

fn failed(reason: String) -> Finding {
    Finding::missing(
        NAME,
        reason,
        "workspaces cannot be made with the embedded provider",
        "see above; where nothing is marked, the log of `emergent serve` has more",
    )
}
