//! A database that is gone for a while.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use emergent_test_support::{Answer, Durability, PostgresServer, TestServerOptions, eventually};
use reqwest::Method;
use serde_json::json;
use tokio::task::JoinHandle;

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

/// How long it is away.
const AWAY: Duration = Duration::from_secs(31);

/// Asks for something without waiting for the answer.
fn ask(api: &Api, method: Method, path: String, body: &'static str) -> JoinHandle<Answer> {
    let probe = api.probe().clone();
    tokio::spawn(async move {
        let request = probe.request(method, &path).header("content-type", "application/json");
        probe.send(request.body(body)).await
    })
}

/// Every workspace and what it is, as soon as nothing is under way and the host has nothing else.
async fn settled(api: &Api) -> BTreeMap<String, String> {
    let (rows, took) = eventually("all is settled", Duration::from_secs(60), async || {
        let answer = api.get(WORKSPACES).await;
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let items = answer.body["items"].as_array()?.iter();
        let rows: BTreeMap<_, _> = items.map(|row| (text(&row["id"]), text(&row["status"]))).collect();
        let at_rest = rows.values().all(|status| ["ready", "stopped", "failed"].contains(&status.as_str()));
        (at_rest && api.server.census().state_folders.len() == rows.len()).then_some(rows)
    })
    .await;
    println!("settled after {took:?}: {rows:?}");
    rows
}

/// It dies under whatever is under way, and is away for half a minute. Tools are used all the while, and
/// afterwards everything is one thing or the other.
#[tokio::test]
async fn half_a_minute_without_it_is_survived() {
    let mut postgres = PostgresServer::start(Durability::Full).unwrap();
    let url = postgres.create_database().unwrap();
    let api = Api::start_with(TestServerOptions::default().with("DATABASE_URL", url)).await;
    let (used, stopping, destroying) = (api.create().await, api.create().await, api.create().await);
    stopping.sh("echo kept > file; sync").await;
    let process = api.server.pid();

    let under_way = [
        ask(&api, Method::POST, stopping.path("/stop"), "{}"),
        ask(&api, Method::DELETE, destroying.path(""), ""),
        ask(&api, Method::POST, WORKSPACES.to_owned(), r#"{"resource_limits": {"disk": "64M"}}"#),
    ];
    tokio::time::sleep(Duration::from_millis(15)).await;
    postgres.kill().unwrap();
    let gone = Instant::now();
    let mut lines = 0;
    while gone.elapsed() < AWAY {
        let begun = Instant::now();
        lines += 1;
        assert_eq!(used.sh("echo line >> lines; wc -l < lines").await.trim(), lines.to_string());
        let read = used.post("/read", json!({"file_path": "lines", "limit": 1})).await;
        assert_eq!(read.status, 200, "{}", read.body);
        assert!(begun.elapsed() < Duration::from_secs(10), "tools took {:?}", begun.elapsed());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(lines > 20, "tools were used {lines} times only");
    assert_eq!(api.get(WORKSPACES).await.failure(), (503, "store_unavailable"));

    postgres.resume().unwrap();
    let mut answers = Vec::new();
    for asked in under_way {
        answers.push(asked.await.unwrap());
    }
    let told: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    println!("answers: {told:?}");
    for answer in &answers {
        let is_told = answer.status < 300 || answer.failure() == (503, "store_unavailable");
        assert!(is_told, "{}: {}", answer.status, answer.body);
    }
    let rows = settled(&api).await;
    assert_eq!(api.server.pid(), process, "it is the same server");
    let status_of = |id: &str| rows.get(id).map(String::as_str);

    // Whoever was told that something is done finds it done, and nothing is half of it.
    let stopped = status_of(&stopping.id.to_string());
    assert!(matches!((stopped, told[0]), (Some("stopped"), _) | (Some("ready"), 503)), "{stopped:?}");
    let destroyed = status_of(&destroying.id.to_string());
    assert!(matches!((destroyed, told[1]), (None, _) | (Some("ready"), 503)), "{destroyed:?}");
    if told[2] == 201 {
        assert_eq!(status_of(answers[2].body["id"].as_str().unwrap()), Some("ready"));
    }
    if stopped == Some("stopped") {
        assert_eq!(stopping.post("/resume", json!({})).await.status, 200);
    }
    assert_eq!(stopping.sh("cat file").await, "kept\n");
    assert_eq!(used.sh("wc -l < lines").await.trim(), lines.to_string());
    api.finish().await;
}
