//! A burst of creates over HTTP: whoever is not served is told when to try again.

use std::collections::BTreeMap;

use emergent_test_support::{Answer, TestServer, TestServerOptions};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::sh;

const WORKSPACES: &str = "/api/v1/agent/workspaces";
const BURST: usize = 50;

/// All at once, on a server that takes so many.
async fn burst(most: usize) -> (TestServer, Vec<Answer>) {
    let server = TestServerOptions::default().with("WORKSPACE_MAX_CONCURRENT", most).start().await;
    let probe = server.probe();
    let body = json!({"resource_limits": {"cpu": "1", "memory": "128M", "disk": "64M"}});
    let answers = join_all((0..BURST).map(|_| probe.post(WORKSPACES, &body))).await;
    (server, answers)
}

/// How often each status was answered.
fn statuses(answers: &[Answer]) -> BTreeMap<u16, usize> {
    let mut counts = BTreeMap::new();
    for answer in answers {
        *counts.entry(answer.status).or_default() += 1;
    }
    counts
}

/// A whole number of seconds, as clients understand it.
fn retry_after(answer: &Answer) -> Option<u32> {
    answer.headers.get("retry-after")?.to_str().ok()?.parse().ok()
}

/// Every workspace that was promised is there and works, and there is no other.
async fn keeps_its_promises(server: &TestServer, answers: &[Answer]) {
    let client = server.client();
    let promised: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
    let names = join_all(promised.iter().map(|answer| {
        let id = answer.body["id"].as_str().unwrap().parse().unwrap();
        sh(&client, id, "hostname")
    }))
    .await;
    let different: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(different.len(), promised.len(), "each is a sandbox of its own");
    let listed = server.probe().get(&format!("{WORKSPACES}?limit=500")).await.body;
    let is_ready = |row: &&Value| row["status"] == "ready";
    assert_eq!(listed["items"].as_array().unwrap().iter().filter(is_ready).count(), promised.len());
    assert_eq!(server.census().state_folders.len(), promised.len(), "nothing is left of the others");
}

#[tokio::test]
async fn more_than_there_is_room_for_are_told_when_to_try_again() {
    let (server, answers) = burst(20).await;
    let counts = statuses(&answers);
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        assert!([429, 503].contains(&answer.status), "{counts:?}: {}", answer.body);
        assert!(!answer.code().is_empty());
        let seconds = retry_after(answer);
        assert!(seconds.is_some_and(|seconds| seconds > 0), "{:?}: {}", answer.headers, answer.body);
    }
    assert_eq!(counts.get(&201), Some(&20), "{counts:?}");
    keeps_its_promises(&server, &answers).await;
    server.finish().await;
}

#[tokio::test]
async fn as_many_as_there_is_room_for_are_all_served() {
    let (server, answers) = burst(60).await;
    let counts = statuses(&answers);
    assert_eq!(counts, BTreeMap::from([(201, BURST)]), "{:?}", answers.iter().find(|a| a.status != 201));
    keeps_its_promises(&server, &answers).await;
    server.finish().await;
}
