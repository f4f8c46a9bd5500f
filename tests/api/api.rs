//! A server, and calls to it that are compared with the contract.

use std::time::Duration;

use emergent_test_support::{Answer, Probe, TestServer, TestServerOptions};
use emergent_types::WorkspaceId;
use reqwest::Method;
use serde_json::{Value, json};

use crate::contract::Contract;

/// Where workspaces are.
pub(crate) const WORKSPACES: &str = "/api/v1/agent/workspaces";

/// A server, and calls to it that are compared with the contract.
pub(crate) struct Api {
    pub(crate) server: TestServer,
    contract: Contract,
    probe: Probe,
}

impl Api {
    pub(crate) async fn start() -> Self {
        Self::start_with(TestServerOptions::default()).await
    }

    pub(crate) async fn start_with(options: TestServerOptions) -> Self {
        let server = options.start().await;
        Self { contract: Contract::committed(), probe: server.probe(), server }
    }

    /// After the server was started again.
    pub(crate) async fn restart(&mut self) {
        self.server.start_again().await;
        self.probe = self.server.probe();
    }

    pub(crate) fn probe(&self) -> &Probe {
        &self.probe
    }

    pub(crate) async fn call(&self, method: Method, path: &str, request: reqwest::RequestBuilder) -> Answer {
        let answer = self.probe.send(request).await;
        self.contract.check(method.as_str(), path, &answer);
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, self.probe.request(Method::GET, path)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.call(Method::DELETE, path, self.probe.request(Method::DELETE, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_text(path, &body.to_string()).await
    }

    pub(crate) async fn post_text(&self, path: &str, body: &str) -> Answer {
        let request = self.probe.request(Method::POST, path).header("content-type", "application/json");
        self.call(Method::POST, path, request.body(body.to_owned())).await
    }

    /// Creates a workspace that is small enough for many of them.
    pub(crate) async fn create(&self) -> Workspace<'_> {
        self.create_with(json!({})).await
    }

    /// Creates a workspace with these fields beside the small limits.
    pub(crate) async fn create_with(&self, mut body: Value) -> Workspace<'_> {
        if body.get("resource_limits").is_none() {
            body["resource_limits"] = json!({"cpu": "1", "memory": "256M", "disk": "128M"});
        }
        let answer = self.post(WORKSPACES, &body).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        Workspace { api: self, id: answer.body["id"].as_str().unwrap().parse().unwrap() }
    }

    /// How many workspaces there are.
    pub(crate) async fn count(&self) -> usize {
        self.get(WORKSPACES).await.body["items"].as_array().unwrap().len()
    }

    pub(crate) async fn finish(self) {
        self.server.finish().await;
    }
}

/// One workspace.
pub(crate) struct Workspace<'a> {
    api: &'a Api,
    pub(crate) id: WorkspaceId,
}

impl Workspace<'_> {
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("{WORKSPACES}/{}{rest}", self.id)
    }

    pub(crate) async fn get(&self) -> Answer {
        self.api.get(&self.path("")).await
    }

    pub(crate) async fn status(&self) -> String {
        self.get().await.body["status"].as_str().unwrap_or("gone").to_owned()
    }

    pub(crate) async fn destroy(&self) -> Answer {
        self.api.delete(&self.path("")).await
    }

    pub(crate) async fn post(&self, rest: &str, body: Value) -> Answer {
        self.api.post(&self.path(rest), &body).await
    }

    /// Runs a command that succeeds; answers what it printed.
    pub(crate) async fn sh(&self, command: &str) -> String {
        let answer = self.post("/bash", json!({"command": command})).await;
        assert_eq!(
            (answer.status, &answer.body["exit_code"]),
            (200, &json!(0)),
            "{command}: {}",
            answer.body
        );
        answer.body["stdout"].as_str().unwrap().to_owned()
    }
}

/// Waits a moment for something that has no end to wait for.
pub(crate) async fn moment(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
