//! The suite that every provider passes, on the local provider with the real agent. Needs
//! root.

use std::sync::Arc;

use emergent_provider::conformance::Subject;
use emergent_provider_local::{AgentSource, HelperCommand, LocalProvider, Options};
use emergent_types::InstallationId;

async fn subject() -> Subject {
    let data_dir = tempfile::tempdir().expect("a folder for the test");
    let provider = LocalProvider::new(Options {
        data_dir: data_dir.path().to_owned(),
        installation: InstallationId::generate(),
        agent: AgentSource::Bytes(emergent_agent_bundle::bytes().into()),
        helper: HelperCommand {
            program: env!("CARGO_BIN_EXE_emergent-local-helper").into(),
            args: Vec::new(),
        },
    });
    let folders = data_dir.path().join("local");
    let mut subject = Subject::new(Arc::new(provider), Some("/workspace"), data_dir);
    subject.folders = Some(folders);
    subject
}

emergent_provider::conformance_tests!(crate::subject; lifecycle, exec, files, edit, search, git, output, watch, terminal, tunnel, transfer, streams, stdio, snapshots, limits, usage, isolation);
