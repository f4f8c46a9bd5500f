//! Who can make sandboxes.

use std::time::Duration;

use emergent_test_support::{TestServerOptions, eventually};
use emergent_types::WorkspaceId;
use reqwest::Method;
use serde_json::json;

use crate::api::{Api, WORKSPACES};

/// Proves: ORCH-02, ORCH-15, DESIGN-2.3, RISK-DOWNTIME-2
#[tokio::test]
async fn providers_say_how_they_are_and_what_they_can_do() {
    let api = Api::start().await;
    let path = format!("{WORKSPACES}/providers");
    let list = api.get(&path).await.body;
    let providers = list["providers"].as_array().unwrap();
    let local = &providers[0];
    assert_eq!((&local["name"], &local["status"]), (&json!("local"), &json!("healthy")), "{local}");
    assert_eq!((&local["reason"], &local["isolation"]), (&json!(null), &json!("container")));
    assert_eq!(local["active_workspaces"], 0);
    assert!(local["last_check_at"].is_string());
    assert!(local["resources"]["cpus"].as_u64().unwrap() > 0, "{local}");
    let capabilities = &local["capabilities"];
    assert_eq!((&capabilities["persistence"], &capabilities["snapshots"]), (&json!("full"), &json!(true)));
    assert_eq!(capabilities["networks"], json!(["isolated", "internet"]));
    assert_eq!(capabilities["networks_unavailable"], json!([]));
    assert!(capabilities["warm_pool"].is_boolean());
    assert!(capabilities["platform_needs"].as_array().unwrap().contains(&json!("linux")));

    let workspace = api.create().await;
    let local = &api.get(&path).await.body["providers"][0];
    assert_eq!(local["active_workspaces"], 1);
    let (p50, p95) = (local["start_ms"]["p50"].as_u64().unwrap(), local["start_ms"]["p95"].as_u64().unwrap());
    assert!(0 < p50 && p50 <= p95, "measured, not a literal: {local}");
    workspace.post("/stop", json!({})).await;
    assert_eq!(api.get(&path).await.body["providers"][0]["active_workspaces"], 0);

    // Those that are not used are named with the reason.
    let others: Vec<_> = providers[1..].iter().map(|other| other["name"].as_str().unwrap()).collect();
    assert_eq!(others, ["e2b", "firecracker", "gvisor", "docker"]);
    for other in &providers[1..] {
        assert_eq!((&other["status"], &other["capabilities"]), (&json!("disabled"), &json!(null)), "{other}");
        assert!(other["reason"].is_string(), "{other}");
    }
    assert!(providers[3]["reason"].as_str().unwrap().contains("there is no Docker"), "{}", providers[3]);
    api.finish().await;
}

/// Without root there are no links and no rules, and so nobody is let out.
#[tokio::test]
async fn a_network_that_is_not_offered_has_a_reason() {
    let options = TestServerOptions { unprivileged: true, ..TestServerOptions::default() };
    let api = Api::start_with(options).await;
    let list = api.get(&format!("{WORKSPACES}/providers")).await.body;
    let local = &list["providers"][0];
    assert_eq!((&local["name"], &local["status"]), (&json!("local"), &json!("healthy")), "{local}");
    let capabilities = &local["capabilities"];
    assert_eq!(capabilities["networks"], json!(["isolated"]));
    let unavailable = capabilities["networks_unavailable"].as_array().unwrap();
    assert_eq!(unavailable.len(), 1, "{capabilities}");
    assert_eq!(unavailable[0]["network"], "internet");
    assert!(unavailable[0]["reason"].as_str().unwrap().contains("need root"), "{capabilities}");
    // A client that does not know of reasons reads the rest.
    assert!(api.server.client().providers().await.unwrap().providers[0].capabilities.is_some());
    api.finish().await;
}

/// What the administrator has left out is no failure of the server's: nothing is made, nothing is tried.
///
/// Proves: ROLL-4
#[tokio::test]
async fn a_provider_that_is_left_out_is_refused() {
    let api = Api::start_with(TestServerOptions::default().with("WORKSPACE_PROVIDERS", "local")).await;
    for provider in ["gvisor", "docker", "firecracker", "e2b"] {
        for wait in ["", "?wait=false"] {
            let answer = api.post(&format!("{WORKSPACES}{wait}"), &json!({"provider": provider})).await;
            assert_eq!(answer.failure(), (400, "provider_disabled"), "{}", answer.body);
            assert_eq!(
                (answer.detail("field"), answer.detail("provider")),
                (&json!("provider"), &json!(provider))
            );
        }
    }
    assert_eq!(api.count().await, 0);
    let list = api.get(&format!("{WORKSPACES}/providers")).await.body;
    let disabled = list["providers"].as_array().unwrap().iter().filter(|one| one["status"] == "disabled");
    assert_eq!(disabled.count(), 4, "{list}");
    assert_eq!(api.post(WORKSPACES, &json!({"provider": "local"})).await.status, 201);
    api.finish().await;
}

/// Of what is with a provider that the server does not have any more nobody can tell what is left. Whoever is
/// refused is told what to do, and only an administrator can have it forgotten.
#[tokio::test]
async fn what_a_missing_provider_has_is_forgotten_by_force_alone() {
    let mut api = Api::start_with(TestServerOptions::default().with("WORKSPACE_PROVIDERS", "local")).await;
    let (one, other) = (api.create().await.id, api.create().await.id);
    let path = |id: WorkspaceId| format!("{WORKSPACES}/{id}");
    let user = api.post("/api/v1/tokens", &json!({"name": "n", "kind": "user"})).await.body;
    let mine: WorkspaceId = {
        let probe = api.probe();
        let request = probe.anonymous(Method::POST, WORKSPACES).bearer_auth(user["token"].as_str().unwrap());
        probe.send(request.json(&json!({}))).await.body["id"].as_str().unwrap().parse().unwrap()
    };
    api.server.kill();
    api.server.set_options(TestServerOptions::default().with("WORKSPACE_PROVIDERS", "docker"));
    api.restart().await;
    let refused = api.delete(&path(one)).await;
    assert_eq!(refused.failure(), (502, "provider_failed"), "{}", refused.body);
    assert_eq!(refused.detail("provider"), &json!("local"));
    assert!(refused.body.to_string().contains("force=true"), "{}", refused.body);
    let request = api.probe().anonymous(Method::DELETE, &format!("{}?force=true", path(mine)));
    let not_an_admin = api.probe().send(request.bearer_auth(user["token"].as_str().unwrap())).await;
    assert_eq!(not_an_admin.failure(), (403, "forbidden"), "{}", not_an_admin.body);
    for id in [one, mine] {
        let gone = api.delete(&format!("{}?force=true", path(id))).await;
        assert_eq!((gone.status, &gone.body["status"]), (200, &json!("destroyed")), "{}", gone.body);
        assert!(gone.body["warning"].as_str().unwrap().contains("local"), "{}", gone.body);
        assert_eq!(api.get(&path(id)).await.status, 404);
    }
    assert!(api.server.log().contains("forced_destroy"), "{}", api.server.log());
    // Written down beside the answer, not before it.
    eventually("it is written down", Duration::from_secs(10), async || {
        let audited = api.get("/api/v1/audit?tool=destroy_workspace&outcome=ok").await.body;
        (audited["items"][0]["summary"]["left_with_provider"] == "local").then_some(())
    })
    .await;
    // Once the provider is back, what was forgotten is an orphan, and the rest is as it was.
    api.server.kill();
    api.server.set_options(TestServerOptions::default());
    api.restart().await;
    let looked = api.post(&format!("{}/bash", path(other)), &json!({"command": "echo up"})).await;
    assert_eq!(looked.body["stdout"], "up\n", "{}", looked.body);
    eventually("orphans are gone", Duration::from_secs(20), async || {
        (api.server.census().state_folders.len() == 1).then_some(())
    })
    .await;
    api.finish().await;
}
