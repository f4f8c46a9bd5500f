//! The end of a workspace that nobody uses.

use std::time::Duration;

use emergent_test_support::{Sandbox, eventually};
use serde_json::json;

use crate::api::{Api, moment};

/// How long after its time a workspace may still be there.
const LATEST: Duration = Duration::from_secs(5);

/// Proves: LIFE-13, LIFE-15, RISK-RESOURCES-3, MIGR-4.5
#[tokio::test]
async fn what_nobody_uses_ends_and_what_is_used_stays() {
    let api = Api::start().await;
    let idle = api.create_with(json!({"ttl_seconds": 3})).await;
    let stopped = api.create_with(json!({"ttl_seconds": 3})).await;
    stopped.post("/stop", json!({})).await;
    let busy = api.create_with(json!({"ttl_seconds": 3})).await;
    let kept = api.create().await;

    let use_it = async {
        for _ in 0..12 {
            moment(1000).await;
            busy.sh("true").await;
        }
    };
    let watch = async {
        moment(2000).await;
        assert_eq!((idle.status().await, stopped.status().await), ("ready".to_owned(), "stopped".to_owned()));
        eventually("both are gone", Duration::from_secs(2) + LATEST, async || {
            (idle.get().await.status == 404 && stopped.get().await.status == 404).then_some(())
        })
        .await;
    };
    tokio::join!(use_it, watch);
    assert_eq!(busy.status().await, "ready", "every use moves its end");
    assert_eq!(kept.status().await, "ready");
    assert_eq!(Sandbox::of(idle.id).count(), 0);
    let log = api.server.log();
    assert!(
        log.lines().any(|line| line.contains("expired") && line.contains(&idle.id.to_string())),
        "it is logged"
    );
    eventually("the busy one is gone as well", Duration::from_secs(3) + LATEST, async || {
        (busy.get().await.status == 404).then_some(())
    })
    .await;
    api.finish().await;
}

/// Proves: LIFE-13
#[tokio::test]
async fn nothing_ends_while_an_operation_runs_in_it() {
    let api = Api::start().await;
    let workspace = api.create_with(json!({"ttl_seconds": 1})).await;
    let answer = workspace.post("/bash", json!({"command": "sleep 6; echo done"})).await;
    assert_eq!((answer.status, &answer.body["stdout"]), (200, &json!("done\n")), "{}", answer.body);
    eventually("it is gone", Duration::from_secs(1) + LATEST, async || {
        (workspace.get().await.status == 404).then_some(())
    })
    .await;
    api.finish().await;
}
