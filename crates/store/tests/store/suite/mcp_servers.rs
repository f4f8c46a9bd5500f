//! Hosted MCP servers.

use emergent_store::{Environment, InsertWorkspaceError, McpServerRow, Store, WorkspaceRow, now};
use emergent_types::{
    ContainerType, Lifecycle, ProviderChoice, ProviderKind, RestartPolicy, ServerMode, WorkspaceId,
};
use futures::future::join_all;
use serde_json::json;

use super::fixtures::workspace;

fn server(name: &str) -> (WorkspaceRow, McpServerRow) {
    let sandbox = WorkspaceRow {
        container_type: ContainerType::McpServer,
        lifecycle: Lifecycle::Persistent,
        ..workspace()
    };
    let row = McpServerRow {
        id: sandbox.id,
        name: name.to_owned(),
        image: Some("emergent/mcp-langfuse:latest".to_owned()),
        command: Some(vec!["server".to_owned(), "--flag=\u{fc}".to_owned()]),
        image_defaults: None,
        provider: ProviderChoice::Explicit(ProviderKind::Gvisor),
        restart_policy: RestartPolicy::OnFailure,
        mode: ServerMode::Dedicated,
        serialize: true,
        stdio_bridge: false,
        port: Some(65535),
        path: Some("/other".to_owned()),
        tools_allow: Some(vec!["one".to_owned()]),
        tools_deny: vec!["two".to_owned()],
        call_timeout_ms: 30_000,
        environment: Environment::from_iter([("KEY".to_owned(), "secret".to_owned())]),
        created_at: now(),
        updated_at: now(),
    };
    (sandbox, row)
}

pub(crate) async fn a_server_comes_back_as_it_was_written(store: &dyn Store) {
    let (sandbox, row) = server("langfuse-mcp");
    store.insert_mcp_server(&sandbox, &row, None).await.unwrap();
    assert_eq!(store.list_mcp_servers().await.unwrap(), std::slice::from_ref(&row));
    assert_eq!(store.get_workspace(row.id).await.unwrap(), Some(sandbox));

    let defaults = json!({"entrypoint": ["/server"]});
    assert!(store.set_image_defaults(row.id, &defaults).await.unwrap());
    let changed = McpServerRow {
        command: None,
        restart_policy: RestartPolicy::Never,
        mode: ServerMode::Shared,
        serialize: false,
        tools_allow: None,
        tools_deny: Vec::new(),
        call_timeout_ms: 1,
        environment: Environment::default(),
        ..row
    };
    assert!(store.update_mcp_server(&changed).await.unwrap());
    let expect = McpServerRow { image_defaults: defaults.as_object().cloned(), ..changed };
    assert_eq!(store.get_mcp_server(expect.id).await.unwrap(), Some(expect.clone()));

    let stranger = McpServerRow { id: WorkspaceId::generate(), ..expect };
    assert!(!store.update_mcp_server(&stranger).await.unwrap());
    assert!(!store.set_image_defaults(stranger.id, &defaults).await.unwrap());
    assert_eq!(store.get_mcp_server(stranger.id).await.unwrap(), None);
}

pub(crate) async fn a_name_is_given_once(store: &dyn Store) {
    let servers: Vec<_> = (0..8).map(|_| server("taken")).collect();
    let answers =
        join_all(servers.iter().map(|(sandbox, row)| store.insert_mcp_server(sandbox, row, None))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    for error in answers.into_iter().filter_map(Result::err) {
        assert!(matches!(&error, InsertWorkspaceError::NameTaken { name } if name == "taken"), "{error:?}");
    }
    assert_eq!(store.workspaces_for_reconcile().await.unwrap().len(), 1, "a refusal leaves no sandbox's row");
}

pub(crate) async fn a_server_goes_with_its_sandbox(store: &dyn Store) {
    let (sandbox, row) = server("short-lived");
    store.insert_mcp_server(&sandbox, &row, None).await.unwrap();
    assert!(store.delete_workspace(row.id).await.unwrap());
    assert_eq!(store.list_mcp_servers().await.unwrap(), []);
    let (sandbox, row) = server("short-lived");
    store.insert_mcp_server(&sandbox, &row, None).await.expect("the name is free again");
}
