//! Ending the server, politely.

use std::time::{Duration, Instant};

use emergent_test_support::{Sandbox, run_program};
use serde_json::json;

use crate::api::{Api, WORKSPACES, moment};

/// Proves: RISK-DOWNTIME-3
#[tokio::test]
async fn running_calls_end_and_workspaces_stay_up() {
    let mut api = Api::start().await;
    let workspace = api.create().await;
    let (id, path) = (workspace.id, workspace.path("/bash"));
    workspace.sh("echo kept > file").await;
    let probe = api.server.probe();
    let body = json!({"command": "sleep 2; echo finished"});
    let call = tokio::spawn({
        let path = path.clone();
        async move { probe.post(&path, &body).await }
    });
    moment(500).await;
    let url = api.server.url().to_owned();
    let begun = Instant::now();
    let (status, refused) = tokio::join!(api.server.terminate(), async {
        moment(500).await;
        reqwest::Client::builder()
            .no_proxy()
            .build()
            .unwrap()
            .get(format!("{url}/healthz"))
            .send()
            .await
            .is_err()
    });
    assert!(status.success(), "{status}");
    assert!(refused, "no new connections");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let answer = call.await.unwrap();
    assert_eq!((answer.status, &answer.body["stdout"]), (200, &json!("finished\n")), "{}", answer.body);
    assert!(Sandbox::of(id).count() > 0, "the sandbox outlives the server");
    assert!(!api.server.data_dir().join("listen").exists());

    api.restart().await;
    assert_eq!(api.get(&format!("{WORKSPACES}/{id}")).await.body["status"], "ready");
    assert_eq!(api.post(&path, &json!({"command": "cat file"})).await.body["stdout"], "kept\n");
    api.finish().await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_does_not_hold_the_server_up() {
    let mut api = Api::start().await;
    let workspace = api.create().await;
    let (id, path) = (workspace.id, workspace.path("/bash"));
    let probe = api.server.probe();
    let request = probe.request(reqwest::Method::POST, &path).json(&json!({"command": "sleep 5432"}));
    let call = tokio::spawn(request.send());
    moment(500).await;
    let begun = Instant::now();
    assert!(api.server.terminate().await.success());
    let took = begun.elapsed();
    assert!(Duration::from_secs(9) < took && took < Duration::from_secs(14), "{took:?}");
    assert!(call.await.unwrap().is_err(), "it was dropped");
    moment(200).await;
    api.restart().await;
    assert_eq!(api.post(&path, &json!({"command": "echo fine"})).await.body["stdout"], "fine\n");
    assert!(!Sandbox::of(id).runs("sleep 5432"));
    api.finish().await;
}

#[tokio::test]
async fn a_second_server_on_the_same_folder_is_refused() {
    let api = Api::start().await;
    let folder = api.server.data_dir();
    let second =
        run_program(&["serve", "--listen", "127.0.0.1:0", "--data-dir", folder.to_str().unwrap()], &[]).await;
    assert_eq!((second.code, second.stdout.as_str()), (Some(1), ""));
    assert!(second.stderr.contains("already uses the data folder"), "{}", second.stderr);
    assert!(second.stderr.contains(&api.server.pid().to_string()), "{}", second.stderr);
    assert_eq!(api.get(WORKSPACES).await.status, 200, "the first one does not mind");
    api.finish().await;
}

#[tokio::test]
async fn beyond_this_machine_only_when_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let listen = ["serve", "--listen", "0.0.0.0:0", "--data-dir", data_dir.to_str().unwrap()];
    let refused = run_program(&listen, &[]).await;
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
    assert!(refused.stderr.contains("--allow-plain-http"), "{}", refused.stderr);
    assert!(!data_dir.exists(), "nothing was made");
    for (name, value) in
        [("EMERGENT_LISTEN", "nowhere"), ("WORKSPACE_MAX_CONCURRENT", "0"), ("EMERGENT_LOG", "=,=")]
    {
        let refused =
            run_program(&["serve", "--data-dir", data_dir.to_str().unwrap()], &[(name, value)]).await;
        assert_eq!(refused.code, Some(1));
        assert!(refused.stderr.contains(name), "{}", refused.stderr);
    }
}
