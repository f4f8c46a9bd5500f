//! A database that is gone for a while.

use std::time::{Duration, Instant};

use emergent_test_support::{Durability, PostgresServer, TestServerOptions, eventually};
use serde_json::json;

use crate::api::{Api, WORKSPACES};

/// Nothing waits for it for long, nothing is half done, and what needs no database goes on.
#[tokio::test]
async fn tools_go_on_and_the_rest_is_refused_until_it_is_back() {
    let mut postgres = PostgresServer::start(Durability::Full).unwrap();
    let url = postgres.create_database().unwrap();
    let api = Api::start_with(TestServerOptions::default().with("DATABASE_URL", url)).await;
    let workspace = api.create().await;
    workspace.sh("echo before > file").await;

    postgres.stop().unwrap();
    assert_eq!(workspace.sh("cat file; echo during >> file").await, "before\n");
    let started = Instant::now();
    for answer in [
        workspace.destroy().await,
        workspace.post("/stop", json!({})).await,
        api.post(WORKSPACES, &json!({})).await,
        api.get(WORKSPACES).await,
    ] {
        assert_eq!(answer.failure(), (503, "store_unavailable"));
        assert!(answer.headers.contains_key("retry-after"));
    }
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
    assert_eq!(workspace.sh("cat file").await, "before\nduring\n", "nothing was begun");

    postgres.resume().unwrap();
    eventually("the database is used again", Duration::from_secs(30), async || {
        (api.get(WORKSPACES).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(workspace.sh("cat file").await, "before\nduring\n");
    assert_eq!(api.count().await, 1);
    // Calls are written down behind the answer, in batches.
    eventually("all four calls are in the audit log", Duration::from_secs(10), async || {
        let audited = api.get("/api/v1/audit?tool=bash").await;
        (audited.body["items"].as_array()?.len() == 4).then_some(())
    })
    .await;
    assert_eq!(workspace.destroy().await.status, 200);
    api.finish().await;
}
