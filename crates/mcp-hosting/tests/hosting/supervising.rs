//! Programs that end, and programs that do not answer.

use std::time::{Duration, Instant};

use emergent_mcp_hosting::{CallFailure, Options, Registration};
use emergent_types::ServerHealth;
use emergent_workspaces::{AlertKind, Heard};

use crate::setup::{Installation, eventually, is_alive, server};

/// Proves: LIFE-22, DESIGN-5.3, DESIGN-5.10
#[tokio::test]
async fn a_program_that_ends_fails_its_calls_at_once_and_comes_back() {
    let installation = Installation::start().await;
    installation.servers().register(server("shell", "")).await.unwrap();
    let bridge = installation.servers().bridge("shell").unwrap();
    let client = bridge.connect().unwrap();
    let pid = installation.tool("shell", "pid").await.unwrap();
    let began = Instant::now();
    let failed = installation.tool("shell", "crash").await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let CallFailure::Ended { reason, sent, .. } = &failed else { panic!("{failed:?}") };
    assert!(*sent && reason.contains("exit code 7") && reason.contains("about to crash"), "{reason}");
    let again = installation.tool_soon("shell", "pid").await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_ne!(again, pid);
    let view = installation.view("shell").await;
    assert_eq!((view.health, view.restart_count), (ServerHealth::Ok, 1));
    let crash = view.last_crash.unwrap();
    assert_eq!((crash.exit_code, crash.stderr.last().map(String::as_str)), (Some(7), Some("about to crash")));
    assert_eq!(bridge.clients(), 1, "clients stay");
    drop(client);
}

/// Proves: LIFE-23
#[tokio::test]
async fn one_that_ends_again_and_again_is_told_of_and_has_to_wait() {
    let installation = Installation::start().await;
    let mut events = installation.workspaces().events().subscribe(None);
    installation.servers().register(server("broken", "broken")).await.unwrap();
    let view = installation.wait_for("broken", ServerHealth::BackingOff).await;
    assert_eq!(view.restart_count, 3);
    assert!(view.next_start.is_some());
    let refused = installation.tool("broken", "pid").await.unwrap_err();
    let CallFailure::Unavailable { health, retry_after, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!(*health, ServerHealth::BackingOff);
    assert!(retry_after.is_some_and(|after| after <= Duration::from_secs(5)));
    let alerts = installation.workspaces().alerts();
    let alert = alerts.iter().find(|alert| alert.kind == AlertKind::McpServer).expect("an alert");
    assert!(alert.message.contains("broken") && alert.message.contains("exit code 3"), "{alert:?}");
    let mut crashes = 0;
    while let Some(heard) = events.take() {
        if let Heard::Event(published) = heard {
            crashes += usize::from(published.event.kind == "mcp_server.crashed");
        }
    }
    assert_eq!(crashes, 4);

    installation.servers().delete("broken", false).await.unwrap();
    assert!(installation.workspaces().alerts().iter().all(|alert| alert.kind != AlertKind::McpServer));
}

#[tokio::test]
async fn policies_leave_programs_that_may_end() {
    let installation = Installation::start().await;
    for (name, behaviour, policy) in [("once", "quits", "on-failure"), ("never", "broken", "never")] {
        let policy = Some(policy.to_owned());
        let registration = Registration { restart_policy: policy, ..server(name, behaviour) };
        let view = installation.servers().register(registration).await.unwrap();
        assert_eq!((view.health, view.restart_count), (ServerHealth::Ended, 0), "{name}");
        assert!(matches!(installation.tool(name, "pid").await, Err(CallFailure::Unavailable { .. })));
    }
}

#[tokio::test]
async fn one_that_does_not_answer_is_marked_and_left_alone() {
    let options = Options {
        ping_interval: Duration::from_millis(100),
        ping_timeout: Duration::from_millis(200),
        ..Options::default()
    };
    let installation = Installation::start_with(options).await;
    installation.servers().register(server("deaf", "deaf")).await.unwrap();
    let pid = installation.tool("deaf", "pid").await.unwrap();
    installation.wait_for("deaf", ServerHealth::Unresponsive).await;
    assert!(installation.workspaces().alerts().iter().any(|alert| alert.kind == AlertKind::McpServer));
    assert_eq!(installation.tool("deaf", "pid").await.unwrap(), pid, "it is used all the same");
    assert!(is_alive(&pid));
}

#[tokio::test]
async fn a_sandbox_that_is_lost_comes_back_with_its_program() {
    let installation = Installation::start().await;
    let view = installation.servers().register(server("shell", "")).await.unwrap();
    assert_eq!(installation.tool("shell", "count").await.unwrap(), "1");
    let began = Instant::now();
    installation.provider.lose_sandbox(view.server.id).await;
    assert_eq!(installation.tool_soon("shell", "count").await, "2", "its disk was there");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let view = installation.view("shell").await;
    assert_eq!((view.health, view.restart_count), (ServerHealth::Ok, 1), "one end, and no loop of them");
    assert!(installation.workspaces().alerts().iter().all(|alert| alert.kind != AlertKind::McpServer));
}

/// What a program started ends with it, in its own session or not.
#[tokio::test]
async fn a_program_that_ends_leaves_no_children() {
    let installation = Installation::start().await;
    installation.servers().register(server("shell", "")).await.unwrap();
    let children = installation.tool("shell", "children").await.unwrap();
    let children: Vec<&str> = children.split(' ').collect();
    assert!(children.len() == 2 && children.iter().all(|child| is_alive(child)), "{children:?}");
    installation.tool("shell", "crash").await.unwrap_err();
    eventually("its children are gone", || !children.iter().any(|child| is_alive(child))).await;
    installation.tool_soon("shell", "pid").await;
}

#[tokio::test]
async fn restarts_leave_no_process() {
    let installation = Installation::start().await;
    installation.servers().register(server("shell", "")).await.unwrap();
    let mut pids = Vec::new();
    for _ in 0..10 {
        pids.push(installation.tool("shell", "pid").await.unwrap());
        installation.servers().restart("shell").await.unwrap();
    }
    pids.dedup();
    assert_eq!(pids.len(), 10);
    assert!(!pids.iter().any(|pid| is_alive(pid)));
}
