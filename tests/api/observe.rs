//! What workspaces use, what happens to them, and what somebody should look at.

use std::time::Duration;

use emergent_client::{Client, EventStream, FollowEvents, ServerEvent};
use emergent_test_support::{TestServerOptions, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{Api, WORKSPACES};

const EVENTS: &str = "/api/v1/events";
const ALERTS: &str = "/api/v1/alerts";

/// How long something may take on a machine that has other things to do.
const LIMIT: Duration = Duration::from_secs(60);

async fn next(events: &mut EventStream) -> ServerEvent {
    match tokio::time::timeout(LIMIT, events.next()).await {
        Ok(Ok(Some(event))) => event,
        other => panic!("{other:?}"),
    }
}

/// The states that are told of until this one.
async fn states_until(events: &mut EventStream, last: &str) -> Vec<ServerEvent> {
    let mut seen: Vec<ServerEvent> = Vec::new();
    while seen.last().is_none_or(|event| event.data["to"] != last) {
        let event = next(events).await;
        if event.kind == "workspace.state" {
            seen.push(event);
        }
    }
    seen
}

fn names(states: &[ServerEvent]) -> Vec<&str> {
    states.iter().map(|event| event.data["to"].as_str().unwrap()).collect()
}

/// A busy loop and an allocation are seen from outside, in a real sandbox.
#[tokio::test]
async fn a_workspace_tells_what_it_uses() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let path = workspace.path("/metrics");
    let metrics = async || {
        let answer = api.get(&path).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    };
    let quiet = metrics().await;
    assert_eq!((&quiet["cpu"]["limit"], &quiet["memory"]["limit_bytes"]), (&json!(1.0), &json!(256 << 20)));
    assert_eq!(quiet["disk"]["limit_bytes"], json!(128 << 20));
    assert!(quiet["processes"].as_u64().unwrap() >= 1, "the agent: {quiet}");
    assert!(quiet["disk"]["used_percent"].as_f64().unwrap() < 80.0, "{quiet}");
    assert!(quiet["sampled_at"].is_string(), "{quiet}");
    let time = |shown: &Value| shown["cpu"]["time_seconds"].as_f64().unwrap();
    let memory = |shown: &Value| shown["memory"]["used_bytes"].as_u64().unwrap();

    let busy = "import time\nx = b'x' * (64 << 20)\nopen('held', 'w').close()\nwhile True: pass\n";
    workspace.post("/write", json!({"file_path": "busy.py", "content": busy})).await;
    let started = workspace.post("/bash", json!({"command": "python3 busy.py", "background": true})).await;
    workspace.sh("until [ -e held ]; do sleep 0.05; done").await;
    eventually("what it does is seen", LIMIT, async || {
        let shown = metrics().await;
        let used_percent = shown["cpu"]["used_percent"].as_f64();
        (time(&shown) > time(&quiet) + 0.5
            && memory(&shown) > memory(&quiet) + (50 << 20)
            && used_percent.is_some_and(|percent| percent > 5.0))
        .then_some(())
    })
    .await;
    // The server looks by itself, too.
    eventually("samples are kept", LIMIT, async || {
        metrics().await["samples"].as_array().is_some_and(|samples| !samples.is_empty()).then_some(())
    })
    .await;
    let process = started.body["process_id"].as_u64().unwrap();
    api.delete(&workspace.path(&format!("/processes/{process}?signal=KILL"))).await;

    let shown = api.server.command(&["workspace", "metrics", &workspace.id.to_string()]).await;
    assert!(shown.stdout.starts_with("WHAT") && shown.stdout.contains("256M"), "{}", shown.stdout);
    let figures = figures(&api).await;
    for name in [
        "emergent_workspaces_memory_bytes{provider=",
        "emergent_idle_workspaces{provider=",
        "emergent_alerts{kind=",
        "emergent_provider_state_changes_total{provider=",
        "emergent_provider_healthy{provider=",
    ] {
        assert!(figures.contains(name), "{name} is not in {figures}");
    }

    workspace.post("/stop", json!({})).await;
    assert_eq!(api.get(&path).await.failure(), (409, "workspace_not_ready"));
    workspace.destroy().await;
    assert_eq!(api.get(&path).await.failure(), (404, "workspace_not_found"));
    api.finish().await;
}

async fn figures(api: &Api) -> String {
    api.probe().request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap()
}

/// The figures of a workspace are there while it runs, and no longer.
#[tokio::test]
async fn the_figures_of_a_workspace_go_with_it() {
    let api = Api::start().await;
    let (one, other) = (api.create().await, api.create().await);
    let labels = |id: &dyn std::fmt::Display| format!("{{workspace=\"{id}\",provider=\"local\"}}");
    let limit = |id: &dyn std::fmt::Display| {
        format!("emergent_workspace_memory_limit_bytes{} {}\n", labels(id), 256 << 20)
    };
    let shown = figures(&api).await;
    assert!(shown.contains(&limit(&one.id)) && shown.contains(&limit(&other.id)), "{shown}");
    eventually("what it uses is known", LIMIT, async || {
        let used = format!("emergent_workspace_disk_bytes{} ", labels(&one.id));
        figures(&api).await.contains(&used).then_some(())
    })
    .await;
    let id = one.id.to_string();
    one.destroy().await;
    let shown = figures(&api).await;
    assert!(!shown.contains(&id) && shown.contains(&limit(&other.id)), "{shown}");
    other.post("/stop", json!({})).await;
    assert!(!figures(&api).await.contains(&other.id.to_string()), "it does not run");
    other.destroy().await;
    api.finish().await;
}

/// A create that takes what is there is a hit, and one that wants another disk a miss.
#[tokio::test]
async fn what_a_pool_serves_and_what_it_does_not_is_counted() {
    let api = Api::start_with(TestServerOptions::default().with("WORKSPACE_WARM_POOL_SIZE", 1)).await;
    let until_ready = async || {
        eventually("the pool is full", LIMIT, async || {
            let shown = figures(&api).await;
            shown.contains("emergent_warm_pool_members{state=\"ready\"} 1\n").then_some(())
        })
        .await;
    };
    until_ready().await;
    let before = figures(&api).await;
    for none in [
        "emergent_warm_pool_members{state=\"wanted\"} 1\n",
        "emergent_warm_pool_hits_total 0\n",
        "emergent_warm_pool_misses_total{reason=\"shape\"} 0\n",
    ] {
        assert!(before.contains(none), "{none} is not in {before}");
    }
    assert_eq!(api.post(WORKSPACES, &json!({})).await.status, 201);
    // Else it might find nobody, which is another miss.
    until_ready().await;
    api.create().await;
    let after = figures(&api).await;
    for counted in [
        "emergent_warm_pool_hits_total 1\n",
        "emergent_warm_pool_misses_total{reason=\"shape\"} 1\n",
        "emergent_warm_pool_misses_total{reason=\"empty\"} 0\n",
    ] {
        assert!(after.contains(counted), "{counted} is not in {after}");
    }
    api.finish().await;
}

#[tokio::test]
async fn what_happens_is_followed_and_caught_up_with() {
    let api = Api::start().await;
    let client = api.server.client();
    let mut live = client.follow_events(&FollowEvents::default()).await.unwrap();
    let workspace = api.create().await;
    let other = api.create().await;
    workspace.destroy().await;
    let of = |events: &[ServerEvent], id: &str| -> Vec<ServerEvent> {
        events.iter().filter(|event| event.data["workspace_id"] == id).cloned().collect()
    };
    let id = workspace.id.to_string();
    let seen = states_until(&mut live, "destroyed").await;
    let own = of(&seen, &id);
    assert_eq!(names(&own), ["creating", "ready", "destroying", "destroyed"]);
    assert!(seen.windows(2).all(|pair| pair[0].id < pair[1].id), "ids grow: {seen:?}");
    assert_eq!((&own[1].data["provider"], &own[1].data["from"]), (&json!("local"), &json!("creating")));

    // Whoever was cut off goes on behind the last one; a filter leaves out the rest.
    let request = FollowEvents {
        after: Some(own[1].id),
        workspace_id: Some(workspace.id),
        types: Some("workspace.state".to_owned()),
        follow: Some(false),
    };
    let mut rest = client.follow_events(&request).await.unwrap();
    let mut again = Vec::new();
    while let Some(event) = rest.next().await.unwrap() {
        again.push(event);
    }
    assert_eq!(names(&again), ["destroying", "destroyed"]);
    let header = api.probe().request(Method::GET, &format!("{EVENTS}?follow=false&types=workspace.*"));
    let text = header.header("last-event-id", again[0].id.to_string()).send().await.unwrap();
    assert_eq!(text.headers()["content-type"], "text/event-stream");
    let text = text.text().await.unwrap();
    assert!(text.contains("event: workspace.state\n") && text.contains("\"destroyed\""), "{text}");
    assert!(
        !text.contains("\"to\":\"destroying\"") && text.contains(&format!("id: {}\n", again[1].id)),
        "{text}"
    );
    // What is gone is said first.
    let lost = FollowEvents { after: Some(1), follow: Some(false), ..FollowEvents::default() };
    let mut lost = client.follow_events(&lost).await.unwrap();
    let first = lost.next().await.unwrap().unwrap();
    assert_eq!(first.kind, "events.lost");
    let second = lost.next().await.unwrap().unwrap();
    assert!(second.id > first.id, "and what is kept follows: {second:?}");

    let shown = api.server.command(&["events", "--recent", "--types", "workspace.state"]).await;
    assert!(shown.stdout.contains(&id) && shown.stdout.contains("to=destroyed"), "{}", shown.stdout);
    for (query, field) in [("after=x", "after"), ("follow=maybe", "follow"), ("x=1", "x")] {
        let answer = api.get(&format!("{EVENTS}?{query}")).await;
        assert_eq!((answer.failure(), answer.detail("field")), ((400, "invalid_request"), &json!(field)));
    }
    other.destroy().await;
    api.finish().await;
}

/// A user hears of its own workspaces; nothing of others', of providers or of alerts.
#[tokio::test]
async fn nobody_hears_of_what_is_not_theirs() {
    let api = Api::start().await;
    let token = async |kind: &str| {
        let made = api.post("/api/v1/tokens", &json!({"name": kind, "kind": kind})).await;
        made.body["token"].as_str().unwrap().to_owned()
    };
    let (user, reader) = (token("user").await, token("read_only").await);
    let theirs = api.create().await;
    let small = json!({"resource_limits": {"cpu": "1", "memory": "256M", "disk": "128M"}});
    let made = api
        .probe()
        .send(api.probe().anonymous(Method::POST, WORKSPACES).bearer_auth(&user).json(&small))
        .await;
    let own = made.body["id"].as_str().unwrap().to_owned();
    let text = async |token: &str, query: &str| {
        let path = format!("{EVENTS}?follow=false{query}");
        let answer = api.probe().anonymous(Method::GET, &path).bearer_auth(token).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{query}");
        answer.text().await.unwrap()
    };
    let heard = text(&user, "").await;
    assert!(heard.contains(&own) && !heard.contains(&theirs.id.to_string()), "{heard}");
    let asked = text(&user, &format!("&workspace_id={}", theirs.id)).await;
    assert!(!asked.contains("event:"), "{asked}");
    let all = text(&reader, "").await;
    assert!(all.contains(&own) && all.contains(&theirs.id.to_string()), "{all}");

    let alerts = async |token: &str| {
        let request = api.probe().anonymous(Method::GET, ALERTS).bearer_auth(token);
        api.call(Method::GET, ALERTS, request).await
    };
    assert_eq!(alerts(&user).await.failure(), (403, "forbidden"));
    assert_eq!(alerts(&reader).await.status, 200);
    api.finish().await;
}

/// The line is set so low that one small workspace is over it; when it is gone, so is the alert.
///
/// Proves: MIGR-4.4
#[tokio::test]
async fn too_much_is_an_alert_until_it_is_over() {
    let api = Api::start_with(TestServerOptions::default().with("WORKSPACE_ALERT_PERCENT", 6)).await;
    let client: Client = api.server.client();
    let mut events = client
        .follow_events(&FollowEvents { types: Some("alert.*".to_owned()), ..FollowEvents::default() })
        .await
        .unwrap();
    let workspace = api.create().await;
    workspace.sh("head -c 32M /dev/urandom > file; sync").await;
    let id = format!("workspace_disk:{}", workspace.id);
    let raised = loop {
        let event = next(&mut events).await;
        if event.data["alert_id"] == id {
            break event;
        }
    };
    assert_eq!((raised.kind.as_str(), &raised.data["threshold"]), ("alert.raised", &json!(6.0)));
    let list = api.get(ALERTS).await.body;
    let alert = list["items"].as_array().unwrap().iter().find(|alert| alert["id"] == id.as_str());
    assert!(alert.is_some_and(|alert| alert["value"].as_f64().unwrap() > 6.0), "{list}");
    let shown = api.server.command(&["alerts"]).await;
    assert!(shown.stdout.contains("workspace_disk"), "{}", shown.stdout);
    workspace.destroy().await;
    loop {
        let event = next(&mut events).await;
        if event.kind == "alert.cleared" && event.data["alert_id"] == id {
            break;
        }
    }
    api.finish().await;
}
