//! Commands in the background.

use std::time::Duration;

use emergent_test_support::{Sandbox, eventually};
use serde_json::json;

use crate::api::Api;

#[tokio::test]
async fn a_background_process_can_be_listed_read_and_signalled() {
    let api = Api::start().await;
    let workspace = api.create().await;
    assert_eq!(api.get(&workspace.path("/processes")).await.body["items"], json!([]));
    let started = workspace
        .post("/bash", json!({"command": "echo begun; echo oops >&2; sleep 1000", "background": true}))
        .await;
    assert_eq!(started.status, 200, "{}", started.body);
    let id = started.body["process_id"].as_u64().unwrap();
    let path = workspace.path(&format!("/processes/{id}"));

    let list = api.get(&workspace.path("/processes")).await.body;
    assert_eq!(list["items"][0]["process_id"], id);
    assert_eq!(
        (&list["items"][0]["status"], &list["items"][0]["exit_code"]),
        (&json!("running"), &json!(null))
    );
    assert!(list["items"][0]["command"].as_str().unwrap().contains("echo begun"));
    eventually("its output", Duration::from_secs(5), async || {
        let process = api.get(&path).await.body;
        (process["stdout"]["text"] == "begun\n" && process["stderr"]["text"] == "oops\n").then_some(())
    })
    .await;
    let rest = api.get(&format!("{path}?stdout_offset=3")).await.body;
    assert_eq!(rest["stdout"], json!({"offset": 3, "text": "un\n", "next_offset": 6}));

    let signalled = api.delete(&path).await;
    assert_eq!(signalled.status, 200, "{}", signalled.body);
    assert_eq!(
        (&signalled.body["signal"], signalled.body["delivered"].as_u64().unwrap() > 0),
        (&json!("SIGTERM"), true)
    );
    eventually("it has ended", Duration::from_secs(5), async || {
        let process = api.get(&path).await.body;
        (process["status"] == "exited" && process["exit_code"] == 143).then_some(())
    })
    .await;
    assert!(!Sandbox::of(workspace.id).runs("sleep 1000"));
    assert_eq!(api.delete(&format!("{path}?signal=KILL")).await.body["delivered"], 0, "all have ended");

    for query in ["signal=", "signal=BOOM", "signal=0", "signal=65"] {
        let answer = api.delete(&format!("{path}?{query}")).await;
        assert_eq!(
            (answer.failure(), answer.detail("field")),
            ((400, "invalid_request"), &json!("signal")),
            "{query}"
        );
    }
    for missing in ["999999", "x", "-1"] {
        let path = workspace.path(&format!("/processes/{missing}"));
        assert_eq!(api.get(&path).await.failure(), (404, "process_not_found"), "{missing}");
        assert_eq!(api.delete(&path).await.failure(), (404, "process_not_found"), "{missing}");
    }
    api.finish().await;
}

/// The call that started it is long over, and so is its connection.
#[tokio::test]
async fn a_background_process_outlives_whoever_started_it() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let probe = api.server.probe();
    let body = json!({"command": "sleep 2; echo done > /workspace/result", "background": true});
    assert_eq!(probe.post(&workspace.path("/bash"), &body).await.status, 200);
    drop(probe);
    eventually("its result", Duration::from_secs(10), async || {
        let read = workspace.post("/bash", json!({"command": "cat result"})).await;
        (read.body["stdout"] == "done\n").then_some(())
    })
    .await;
    api.finish().await;
}
