//! From a registration to its end, over restarts of the control plane.

use std::time::{Duration, Instant};

use emergent_mcp_hosting::{BridgeState, HostingError, LogStream, Options, Registration, Update};
use emergent_provider::WorkspaceProvider as _;
use emergent_store::{IdempotencyKey, TokenId};
use emergent_types::{
    ContainerType, Lifecycle, ResourceLimits, RestartPolicy, ServerHealth, ServerMode, WorkspaceId,
    WorkspaceStatus,
};

use crate::setup::{Installation, eventually, is_alive, server};

/// Proves: LIFE-06, LIFE-14, DESIGN-5.1, DESIGN-5.4, DESIGN-9.3
#[tokio::test]
async fn a_registered_server_runs_and_never_expires() {
    let installation = Installation::start().await;
    let view = installation.servers().register(server("shell", "")).await.unwrap();
    assert_eq!(view.health, ServerHealth::Ok, "{view:?}");
    assert!(matches!(view.bridge, BridgeState::Ready { era: "legacy", .. }), "{view:?}");
    let row = &view.workspace;
    assert_eq!((row.container_type, row.lifecycle), (ContainerType::McpServer, Lifecycle::Persistent));
    assert_eq!((row.expires_at, row.ttl_seconds, row.owner_id), (None, None, None));
    assert_eq!((row.id, row.status), (view.server.id, WorkspaceStatus::Ready));
    assert_eq!(row.resource_limits, ResourceLimits::MCP_SERVER_DEFAULT);
    assert!(!installation.tool("shell", "pid").await.unwrap().is_empty());
    // By its id as well.
    assert!(!installation.tool(&row.id.to_string(), "pid").await.unwrap().is_empty());
    // The sweeper looks every 50 ms.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let row = installation.workspaces().get(view.server.id).await.unwrap();
    assert_eq!((row.status, row.expires_at), (WorkspaceStatus::Ready, None));
}

#[tokio::test]
async fn a_sandbox_that_is_lost_for_good_is_made_anew() {
    let installation = Installation::start().await;
    let view = installation.servers().register(server("shell", "")).await.unwrap();
    assert_eq!(installation.tool("shell", "count").await.unwrap(), "1");
    installation.provider.destroy(view.server.id).await.unwrap();
    // Whoever looks after it finds nothing to resume, and the next start of the program makes another.
    assert_eq!(installation.tool_soon("shell", "count").await, "1", "its disk is a new one");
    let row = installation.workspaces().get(view.server.id).await.unwrap();
    assert_eq!((row.status, row.error), (WorkspaceStatus::Ready, None));
    assert!(installation.workspaces().remake(WorkspaceId::generate()).await.is_err());
}

#[tokio::test]
async fn a_name_is_given_once_and_free_after_a_deletion() {
    let installation = Installation::start().await;
    let servers = installation.servers();
    servers.register(server("shell", "")).await.unwrap();
    let taken = servers.register(server("shell", "")).await;
    assert!(matches!(taken, Err(HostingError::NameTaken(name)) if name == "shell"));
    let pid = installation.tool("shell", "pid").await.unwrap();
    servers.delete("shell", false).await.unwrap();
    eventually("its program is gone", || !is_alive(&pid)).await;
    assert!(matches!(servers.get("shell").await, Err(HostingError::NotFound(_))));
    assert!(servers.list().await.is_empty());
    servers.register(server("shell", "")).await.unwrap();
}

#[tokio::test]
async fn a_registration_that_is_sent_twice_under_a_key_is_one() {
    let installation = Installation::start().await;
    let servers = installation.servers();
    let owner = TokenId::generate();
    let key =
        |fingerprint| Some(IdempotencyKey { owner, key: "once".to_owned(), fingerprint: [fingerprint; 32] });
    let made = servers.register_once(server("shell", ""), key(1)).await.unwrap();
    let replayed = servers.register_once(server("shell", ""), key(1)).await.unwrap();
    assert_eq!((made.replayed, replayed.replayed), (false, true));
    assert_eq!(made.view.server.id, replayed.view.server.id);
    assert_eq!(servers.list().await.len(), 1);
    let refused = servers.register_once(server("other", ""), key(2)).await;
    assert!(matches!(refused, Err(HostingError::Create(_))), "{:?}", refused.map(|made| made.replayed));
    assert_eq!(servers.list().await.len(), 1);
}

#[tokio::test]
async fn what_cannot_be_made_leaves_nothing() {
    let installation = Installation::start().await;
    let servers = installation.servers();
    // The fake has no network.
    let refused =
        servers.register(Registration { network: Some("internet".to_owned()), ..server("shell", "") }).await;
    assert!(matches!(refused, Err(HostingError::Create(_))), "{refused:?}");
    assert!(servers.list().await.is_empty());
    servers.register(server("shell", "")).await.expect("the name is free");
}

/// Proves: LIFE-07, DESIGN-5.5
#[tokio::test]
async fn servers_come_back_with_the_control_plane() {
    let mut installation = Installation::start().await;
    installation.servers().register(server("counter", "")).await.unwrap();
    assert_eq!(installation.tool("counter", "count").await.unwrap(), "1");
    let pid = installation.tool("counter", "pid").await.unwrap();

    installation.crash().await;
    installation.start_again().await;
    assert_eq!(installation.tool_soon("counter", "count").await, "2", "its files were kept");
    eventually("the old program is gone", || !is_alive(&pid)).await;

    let pid = installation.tool("counter", "pid").await.unwrap();
    installation.shut_down().await;
    assert!(!is_alive(&pid), "an end of the control plane ends its program");
    installation.start_again().await;
    assert_eq!(installation.tool_soon("counter", "count").await, "3");
    installation.shut_down().await;
}

/// Proves: LIFE-24
#[tokio::test]
async fn programs_are_told_to_end_before_they_are_made_to() {
    for keep_running in [false, true] {
        let mut installation = Installation::start_with(Options { keep_running, ..Options::default() }).await;
        installation.servers().register(server("polite", "")).await.unwrap();
        let pid = installation.tool("polite", "pid").await.unwrap();
        let id = installation.view("polite").await.server.id;
        let mut log = installation.servers().follow_logs("polite", None).unwrap();
        let heard = tokio::spawn(async move {
            let mut lines = Vec::new();
            while !lines.contains(&"told to end".to_owned()) {
                lines.extend(log.next().await.unwrap().lines.into_iter().map(|line| line.text));
            }
        });
        installation.shut_down().await;
        heard.await.unwrap();
        assert!(!is_alive(&pid));
        let expect = if keep_running { WorkspaceStatus::Ready } else { WorkspaceStatus::Stopped };
        assert_eq!(installation.written_status(id).await, expect, "{keep_running}");
        installation.start_again().await;
        installation.tool_soon("polite", "pid").await;
        installation.shut_down().await;
    }
}

#[tokio::test]
async fn two_broken_ones_do_not_hold_up_the_others() {
    let mut installation = Installation::start().await;
    for number in 0..5 {
        let behaviour = if number < 2 { "broken" } else { "" };
        installation.servers().register(server(&format!("s{number}"), behaviour)).await.unwrap();
    }
    installation.shut_down().await;
    installation.start_again().await;
    for number in 2..5 {
        installation.tool_soon(&format!("s{number}"), "pid").await;
    }
    let broken = installation.wait_for("s0", ServerHealth::BackingOff).await;
    let crash = broken.last_crash.unwrap();
    assert_eq!(crash.exit_code, Some(3));
    assert!(crash.stderr.iter().any(|line| line.contains("no such module")), "{crash:?}");
    installation.shut_down().await;
}

#[tokio::test]
async fn a_change_restarts_the_program_where_it_must() {
    let installation = Installation::start().await;
    let servers = installation.servers();
    servers.register(server("shell", "")).await.unwrap();
    let pid = installation.tool("shell", "pid").await.unwrap();

    let update = Update { tools_deny: Some(vec!["crash".to_owned()]), ..Update::default() };
    servers.update("shell", update).await.unwrap();
    assert_eq!(installation.tool("shell", "pid").await.unwrap(), pid, "a list of tools is no reason");

    let secret = std::collections::BTreeMap::from([("SECRET".to_owned(), "xyzzy".to_owned())]);
    let update = Update { environment: Some(secret), ..Update::default() };
    let view = servers.update("shell", update).await.unwrap();
    assert_eq!(view.health, ServerHealth::Ok);
    assert_ne!(installation.tool("shell", "pid").await.unwrap(), pid);
    assert_eq!(installation.tool("shell", "env").await.unwrap(), "xyzzy");
    assert!(!is_alive(&pid));

    let nothing = Update { command: Some(None), ..Update::default() };
    assert!(matches!(servers.update("shell", nothing).await, Err(HostingError::Invalid(_))));
}

#[tokio::test]
async fn a_restart_is_a_new_process() {
    let installation = Installation::start().await;
    installation.servers().register(server("shell", "")).await.unwrap();
    let pid = installation.tool("shell", "pid").await.unwrap();
    let view = installation.servers().restart("shell").await.unwrap();
    assert_eq!((view.health, view.restart_count, view.last_crash), (ServerHealth::Ok, 0, None));
    assert_ne!(installation.tool("shell", "pid").await.unwrap(), pid);
    assert!(!is_alive(&pid));
    let page = installation.servers().logs("shell", 0, 100).unwrap();
    assert!(page.lines.iter().any(|line| line.stream == LogStream::Stderr && line.text == "told to end"));
}

/// Proves: LIFE-24
#[tokio::test]
async fn programs_that_do_not_end_are_made_to() {
    let grace = Duration::from_millis(400);
    let options = Options { keep_running: true, shutdown_grace: grace, ..Options::default() };
    let mut installation = Installation::start_with(options).await;
    installation.servers().register(server("stubborn", "stubborn")).await.unwrap();
    let pid = installation.tool("stubborn", "pid").await.unwrap();
    let began = Instant::now();
    installation.shut_down_hosting().await;
    assert!(!is_alive(&pid));
    let took = began.elapsed();
    assert!(took >= grace && took < Duration::from_secs(5), "{took:?}");
    installation.shut_down_workspaces().await;
}

#[tokio::test]
async fn changes_that_come_at_once_are_all_made() {
    let installation = Installation::start().await;
    let servers = installation.servers();
    servers.register(server("shell", "")).await.unwrap();
    for round in 0..5 {
        let deny = vec![format!("tool{round}")];
        let policy = if round % 2 == 0 { RestartPolicy::Never } else { RestartPolicy::OnFailure };
        let tools = Update { tools_deny: Some(deny.clone()), ..Update::default() };
        let restarts = Update { restart_policy: Some(policy), ..Update::default() };
        let (one, other) = tokio::join!(servers.update("shell", tools), servers.update("shell", restarts));
        one.unwrap();
        other.unwrap();
        let row = installation.view("shell").await.server;
        assert_eq!((row.tools_deny, row.restart_policy), (deny, policy));
    }
}

#[tokio::test]
async fn whoever_offers_the_tools_of_all_servers_hears_of_others() {
    let installation = Installation::start().await;
    let servers = installation.servers();
    let mut changes = servers.changes();
    let mut news = || {
        let is_news = changes.has_changed().unwrap();
        changes.mark_unchanged();
        is_news
    };
    servers.register(server("shell", "")).await.unwrap();
    assert!(news(), "there is one more, and it is ready");
    servers
        .update("shell", Update { tools_deny: Some(vec!["x".to_owned()]), ..Update::default() })
        .await
        .unwrap();
    assert!(!news(), "its own clients are told of that");
    servers.update("shell", Update { mode: Some(ServerMode::Dedicated), ..Update::default() }).await.unwrap();
    assert!(news());
    servers.delete("shell", false).await.unwrap();
    assert!(news());
}
