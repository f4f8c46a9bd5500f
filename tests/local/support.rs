//! Workspaces that are small enough for many of them.

use emergent_client::{
    BashRequest, Client, ClientError, CreateWorkspace, RequestedLimits, Workspace, WriteAnswer, WriteRequest,
};
use emergent_types::{ByteSize, Cpu, WorkspaceId};

/// A request for a small workspace.
pub(crate) fn small() -> CreateWorkspace {
    CreateWorkspace {
        resource_limits: Some(RequestedLimits {
            cpu: Some(Cpu::from_millis(1000)),
            memory: Some(ByteSize::from_mib(128)),
            disk: Some(ByteSize::from_mib(64)),
        }),
        ..CreateWorkspace::default()
    }
}

/// Creates a small workspace.
pub(crate) async fn create(client: &Client) -> Workspace {
    client.create(&small()).await.unwrap()
}

/// Writes a file.
pub(crate) async fn write(
    client: &Client,
    id: WorkspaceId,
    path: &str,
    content: &str,
) -> Result<WriteAnswer, ClientError> {
    let request = WriteRequest { file_path: path.to_owned(), content: content.to_owned() };
    client.write(id, &request).await
}

/// Runs a command that succeeds; answers what it printed.
pub(crate) async fn sh(client: &Client, id: WorkspaceId, command: &str) -> String {
    let answer = client.bash(id, &BashRequest::new(command)).await.unwrap();
    assert_eq!(answer.exit_code, 0, "{command}: {answer:?}");
    answer.stdout
}
