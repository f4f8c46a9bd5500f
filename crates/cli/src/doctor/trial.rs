//! Whether it all works together: makes a real sandbox and removes it.

use std::path::Path;

use emergent_provider::{Health, WorkspaceProvider};
use emergent_types::InstallationId;

use super::finding::Finding;
use crate::serve::providers;

const NAME: &str = "local provider";

pub(super) async fn check(data_dir: &Path) -> Finding {
    match tempfile::Builder::new().prefix("doctor-").tempdir_in(place(data_dir)) {
        Ok(folder) => judge(folder.path()).await,
        Err(error) => failed(format!("no folder to try it in: {error}")),
    }
}

/// On the disk that the server would use, where that can be written to.
fn place(data_dir: &Path) -> std::path::PathBuf {
    if data_dir.is_dir() { data_dir.to_owned() } else { std::env::temp_dir() }
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
