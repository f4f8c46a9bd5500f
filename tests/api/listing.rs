//! Lists, page by page.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::api::{Api, WORKSPACES};

fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

/// Proves: DESIGN-10.11
#[tokio::test]
async fn pages_cover_everything_once_and_filters_choose() {
    let api = Api::start().await;
    let mut created = Vec::new();
    for _ in 0..5 {
        created.push(api.create().await.id.to_string());
    }
    created.reverse();
    assert_eq!(ids(&api.get(WORKSPACES).await.body), created, "newest first");

    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = api.get(&format!("{WORKSPACES}?limit=2{cursor}")).await.body;
        seen.extend(ids(&page));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, created);

    api.post(&format!("{WORKSPACES}/{}/stop", created[0]), &json!({})).await;
    let filtered = async |query: &str| {
        let page = api.get(&format!("{WORKSPACES}?{query}")).await.body;
        ids(&page).into_iter().collect::<BTreeSet<_>>()
    };
    let all: BTreeSet<_> = created.iter().cloned().collect();
    let stopped = BTreeSet::from([created[0].clone()]);
    assert_eq!(filtered("status=stopped").await, stopped);
    assert_eq!(filtered("status=ready").await, all.difference(&stopped).cloned().collect());
    assert_eq!(filtered("status=failed").await, BTreeSet::new());
    assert_eq!(filtered("provider=local&container_type=agent_workspace").await, all);
    assert_eq!(filtered("provider=gvisor").await, BTreeSet::new());
    assert_eq!(filtered("container_type=mcp_server").await, BTreeSet::new());

    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=-1", "limit"),
        ("limit=many", "limit"),
        ("cursor=garbage", "cursor"),
        ("cursor=", "cursor"),
        ("status=done", "status"),
        ("provider=magic", "provider"),
        ("container_type=vm", "container_type"),
        ("order=asc", "order"),
        ("limit=1&limit=2", "limit"),
    ] {
        let answer = api.get(&format!("{WORKSPACES}?{query}")).await;
        assert_eq!(answer.failure(), (400, "invalid_request"), "{query}");
        assert_eq!(answer.detail("field"), field, "{query}");
    }
    api.finish().await;
}
