//! What is secret is in the workspace, and in nothing that Docker tells of its container.

use emergent_test_support::TestDocker;
use reqwest::Method;
use serde_json::{Value, json};

use crate::host::{Host, WORKSPACES};
use crate::pool::until_ready;

const CANARY: &str = "canary-of-1f7d5b";

fn with_secret(mut body: Value) -> Value {
    body["env"] = json!({"CANARY": CANARY});
    body
}

impl Host {
    /// The workspace has its secret, and nobody hears of it from Docker.
    async fn keeps_its_secret(&self, workspace: &Value, way: &str) {
        assert_eq!(self.bash(workspace, "echo \"$CANARY\"").await, CANARY, "{way}");
        let ours = format!("label=emergent.installation={}", self.server.installation());
        for (list, inspect) in
            [(&["ps", "-aq"][..], &["inspect"][..]), (&["volume", "ls", "-q"], &["volume", "inspect"])]
        {
            let listed = self.docker(&[list, &["--filter", &ours]].concat());
            let told = self.docker(&[inspect, &listed.lines().collect::<Vec<_>>()].concat());
            assert!(told.contains(workspace["id"].as_str().unwrap()), "{way}: {told}");
            assert!(!told.contains(CANARY), "{way}: {told}");
        }
    }

    async fn made(&self, path: &str, body: Value) -> Value {
        let answer = self.call(Method::POST, path, Some(&body)).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.body
    }

    /// Made, resumed, and restored from a copy.
    async fn keeps_secrets_on_every_way(&self, body: Value, way: &str) {
        let made = self.made(WORKSPACES, with_secret(body)).await;
        assert_eq!(made["provider"], "gvisor", "{made}");
        self.keeps_its_secret(&made, way).await;
        self.post(&made, "stop").await;
        self.post(&made, "resume").await;
        self.keeps_its_secret(&made, &format!("{way}, resumed")).await;
        let path = format!("{WORKSPACES}/{}/snapshot", made["id"].as_str().unwrap());
        let snapshot = self.made(&path, json!({})).await;
        let body = with_secret(json!({"snapshot_id": snapshot["id"]}));
        let restored = self.made(&format!("{WORKSPACES}/from-snapshot"), body).await;
        self.keeps_its_secret(&restored, &format!("{way}, restored")).await;
        for workspace in [made, restored] {
            self.destroy(&workspace).await;
        }
        let path = format!("/api/v1/agent/snapshots/{}", snapshot["id"].as_str().unwrap());
        let deleted = self.call(Method::DELETE, &path, None).await;
        assert!(deleted.status < 300, "{}", deleted.body);
    }
}

#[tokio::test]
async fn docker_hears_of_no_secret() {
    let host = Host::start().await;
    for network in ["isolated", "internet"] {
        let body = json!({"network": network, "resource_limits": {"memory": "256M", "disk": "128M"}});
        host.keeps_secrets_on_every_way(body, network).await;
    }
    host.finish().await;
}

#[tokio::test]
async fn docker_on_another_host_hears_of_no_secret() {
    let docker = TestDocker::get();
    let address = docker.address_by_tcp();
    let host = Host::start_told(docker, vec![("DOCKER_HOST", address)]).await;
    let body = json!({"resource_limits": {"memory": "256M"}});
    host.keeps_secrets_on_every_way(body, "on volumes").await;
    host.finish().await;
}

#[tokio::test]
async fn docker_hears_of_no_secret_of_one_that_was_there_before() {
    let host = Host::start_with_settings(&[("WORKSPACE_WARM_POOL_SIZE", 1)]).await;
    until_ready(&host, 1).await;
    let made = host.made(WORKSPACES, with_secret(json!({}))).await;
    assert_eq!(host.get("/api/v1/warm-pool").await["hits"], 1);
    host.keeps_its_secret(&made, "from the pool").await;
    host.destroy(&made).await;
    let resized = host.call(Method::PUT, "/api/v1/warm-pool", Some(&json!({"size": 0}))).await;
    assert_eq!(resized.status, 200, "{}", resized.body);
    until_ready(&host, 0).await;
    host.finish().await;
}
