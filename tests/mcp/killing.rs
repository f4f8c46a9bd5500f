//! Programs and control planes that are killed.

use std::time::{Duration, Instant};

use emergent_client::ClientError;
use emergent_test_support::{Sandbox, eventually};
use emergent_types::{ServerHealth, WorkspaceStatus};
use serde_json::json;

use crate::support::{all_processes, kill, processes, server, start, tool, tool_soon, wait_for};

/// Proves: LIFE-22, DESIGN-5.10
#[tokio::test]
async fn a_program_killed_in_the_middle_of_a_call_fails_it_at_once_and_comes_back() {
    let control = start().await;
    let client = control.client();
    let shell = client.register_mcp_server(&server("shell", "")).await.unwrap();
    assert_eq!(shell.health, ServerHealth::Ok, "{shell:?}");
    let pid = tool(&client, "shell", "pid").await.unwrap();
    let hanging = {
        let client = client.clone();
        tokio::spawn(async move { tool(&client, "shell", "hang").await })
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    let began = Instant::now();
    kill(&client, &shell, &pid).await;
    let failed = hanging.await.unwrap().unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let ClientError::Api(failure) = &failed else { panic!("{failed:?}") };
    assert_eq!((failure.status, failure.code.as_str()), (502, "mcp_server_ended"));
    assert!(failure.message.contains("signal 9"), "{}", failure.message);
    let again = tool_soon(&client, "shell", "pid").await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_ne!(again, pid);
    let after = client.mcp_server("shell").await.unwrap();
    assert_eq!((after.health, after.restart_count), (ServerHealth::Ok, 1));
    assert_eq!(after.last_crash.unwrap().signal, Some(9));
    control.finish().await;
}

/// Proves: LIFE-07, DESIGN-5.5
#[tokio::test]
async fn a_killed_control_plane_comes_back_with_its_servers_and_their_files() {
    let mut control = start().await;
    let client = control.client();
    let shell = client.register_mcp_server(&server("counter", "")).await.unwrap();
    assert_eq!(tool(&client, "counter", "count").await.unwrap(), "1");
    control.kill();
    control.start_again().await;
    let client = control.client();
    assert_eq!(tool_soon(&client, "counter", "count").await, "2");
    assert_eq!(processes(&client, &shell).await, 1, "the one before is gone");
    assert!(control.terminate().await.success());
    control.start_again().await;
    let client = control.client();
    assert_eq!(tool_soon(&client, "counter", "count").await, "3");
    let found = client.mcp_server("counter").await.unwrap();
    assert_eq!(found.sandbox.status, WorkspaceStatus::Ready);
    client.delete_mcp_server("counter", false).await.unwrap();
    control.finish().await;
}

#[tokio::test]
async fn restarts_leave_no_process_behind() {
    let control = start().await;
    let client = control.client();
    let shell = client.register_mcp_server(&server("shell", "")).await.unwrap();
    let at_first = all_processes(&client, &shell).await;
    let rounds = if std::env::var_os("EMERGENT_TEST_LONG").is_some() { 500 } else { 50 };
    for round in 0..rounds {
        if round % 5 == 0 {
            let pid = tool_soon(&client, "shell", "pid").await;
            tool_soon(&client, "shell", "children").await;
            kill(&client, &shell, &pid).await;
        }
        assert_eq!(client.restart_mcp_server("shell").await.unwrap().health, ServerHealth::Ok);
    }
    tool_soon(&client, "shell", "pid").await;
    assert_eq!(processes(&client, &shell).await, 1);
    // Its children are asked to end before they are made to.
    eventually("nothing is left of the others", Duration::from_secs(10), async || {
        (all_processes(&client, &shell).await == at_first).then_some(())
    })
    .await;
    control.finish().await;
}

/// The sandbox of a server dies, which is no fault of its program's.
#[tokio::test]
async fn a_sandbox_that_dies_costs_seconds_and_raises_no_alarm() {
    let control = start().await;
    let client = control.client();
    let shell = client.register_mcp_server(&server("shell", "")).await.unwrap();
    assert_eq!(tool(&client, "shell", "count").await.unwrap(), "1");
    for round in 1..=3 {
        let began = Instant::now();
        Sandbox::of(shell.sandbox.id).kill_init();
        assert_eq!(tool_soon(&client, "shell", "count").await, (round + 1).to_string());
        assert!(began.elapsed() < Duration::from_secs(5), "{round}: {:?}", began.elapsed());
        let after = client.mcp_server("shell").await.unwrap();
        assert_eq!((after.health, after.restart_count), (ServerHealth::Ok, round));
        let alerts = client.alerts().await.unwrap().items;
        assert!(!alerts.iter().any(|alert| alert.id.starts_with("mcp_server")), "{alerts:?}");
    }
    control.finish().await;
}

/// Proves: LIFE-23
#[tokio::test]
async fn a_crash_loop_is_held_back_and_told_of() {
    let control = start().await;
    let client = control.client();
    client.register_mcp_server(&server("broken", "broken")).await.unwrap();
    let broken = wait_for(&client, "broken", ServerHealth::BackingOff).await;
    let crash = broken.last_crash.unwrap();
    assert_eq!(crash.exit_code, Some(3));
    assert!(crash.stderr.iter().any(|line| line.contains("no such module")), "{crash:?}");
    assert!(broken.next_start_at.is_some());
    let alerts = client.alerts().await.unwrap().items;
    assert!(alerts.iter().any(|alert| alert.id == "mcp_server:broken"), "{alerts:?}");
    let refused = client.call_mcp_server("broken", "tools/list", Some(&json!({})), None).await.unwrap_err();
    let ClientError::Api(failure) = &refused else { panic!("{refused:?}") };
    assert_eq!((failure.status, failure.code.as_str()), (503, "mcp_server_unavailable"));
    assert!(failure.retry_after_seconds.is_some());
    client.delete_mcp_server("broken", false).await.unwrap();
    let alerts = client.alerts().await.unwrap().items;
    assert!(!alerts.iter().any(|alert| alert.id.starts_with("mcp_server")), "{alerts:?}");
    control.finish().await;
}
