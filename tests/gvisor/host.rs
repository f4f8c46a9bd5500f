//! A server beside a Docker, and what is seen of both.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use emergent_provider_gvisor::DEFAULT_IMAGE;
use emergent_test_support::{Answer, TestDocker, TestServer, TestServerOptions, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::unpacked;

pub(crate) const WORKSPACES: &str = "/api/v1/agent/workspaces";

/// A server that was told where Docker is. Most are told as well that only gVisor is wanted: it takes some seconds to
/// try out every other provider.
pub(crate) struct Host {
    pub(crate) server: TestServer,
    pub(crate) docker: Option<TestDocker>,
}

impl Host {
    pub(crate) async fn start() -> Self {
        Self::start_with(TestDocker::get()).await
    }

    pub(crate) async fn start_with(docker: TestDocker) -> Self {
        Self::start_told(docker, Vec::new()).await
    }

    /// A server that was told these things beside.
    pub(crate) async fn start_with_settings(settings: &[(&'static str, u64)]) -> Self {
        let settings = settings.iter().map(|(name, value)| (*name, value.to_string())).collect();
        Self::start_told(TestDocker::get(), settings).await
    }

    /// What every server of these tests is started with. It finds the default image unpacked.
    pub(crate) fn options(docker: &TestDocker) -> TestServerOptions {
        TestServerOptions {
            within: Some(docker.shared().to_owned()),
            elsewhere: vec![("containers/images", docker.images())],
            ..Default::default()
        }
    }

    /// What a server is started with that finds no Docker, but a runsc, and the default image unpacked.
    pub(crate) fn options_without_docker() -> TestServerOptions {
        let elsewhere = vec![("direct/images", unpacked::once(DEFAULT_IMAGE))];
        TestServerOptions { elsewhere, ..Default::default() }.with("WORKSPACE_GVISOR_MODE", "auto")
    }

    pub(crate) async fn start_told(docker: TestDocker, settings: Vec<(&'static str, String)>) -> Self {
        Self::start_by(Self::options(&docker).with("WORKSPACE_PROVIDERS", "gvisor"), docker, settings).await
    }

    /// A server that was told where Docker is, and nothing of who is to serve.
    pub(crate) async fn start_with_all_providers(
        docker: TestDocker,
        settings: &[(&'static str, u64)],
    ) -> Self {
        let settings = settings.iter().map(|(name, value)| (*name, value.to_string())).collect();
        Self::start_by(Self::options(&docker), docker, settings).await
    }

    async fn start_by(
        options: TestServerOptions,
        docker: TestDocker,
        settings: Vec<(&'static str, String)>,
    ) -> Self {
        let mut options = options.with("DOCKER_HOST", docker.address());
        for (name, value) in settings {
            options = options.with(name, value);
        }
        Self { server: options.start().await, docker: Some(docker) }
    }

    /// A server that finds no Docker, a runsc, and no image.
    pub(crate) async fn without_docker() -> Self {
        let options = TestServerOptions::default().with("WORKSPACE_GVISOR_MODE", "auto");
        Self { server: options.start().await, docker: None }
    }

    /// The Docker that the server was told of.
    pub(crate) fn engine(&self) -> &TestDocker {
        self.docker.as_ref().expect("it was started beside one")
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let probe = self.server.probe();
        let mut request = probe.request(method, path);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        probe.send(request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.call(Method::GET, path, None).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    /// One provider as the server describes it.
    pub(crate) async fn provider(&self, name: &str) -> Value {
        let all = self.get(&format!("{WORKSPACES}/providers")).await;
        all["providers"].as_array().unwrap().iter().find(|found| found["name"] == name).unwrap().clone()
    }

    /// Makes a workspace with these fields beside small limits.
    pub(crate) async fn create(&self, mut body: Value) -> Value {
        body["resource_limits"] = json!({"cpu": "1", "memory": "256M", "disk": "128M"});
        let answer = self.call(Method::POST, WORKSPACES, Some(&body)).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.body
    }

    /// Calls a tool of a workspace that must answer.
    pub(crate) async fn tool(&self, workspace: &Value, tool: &str, body: Value) -> Value {
        let answer = self.call(Method::POST, &path_of(workspace, tool), Some(&body)).await;
        assert_eq!(answer.status, 200, "{tool}: {}", answer.body);
        answer.body
    }

    pub(crate) async fn bash(&self, workspace: &Value, command: &str) -> String {
        let answer = self.tool(workspace, "bash", json!({"command": command})).await;
        assert_eq!(answer["exit_code"], 0, "{command}: {answer}");
        answer["stdout"].as_str().unwrap().trim_end().to_owned()
    }

    pub(crate) async fn post(&self, workspace: &Value, what: &str) -> Value {
        let answer = self.call(Method::POST, &path_of(workspace, what), Some(&json!({}))).await;
        assert_eq!(answer.status, 200, "{what}: {}", answer.body);
        answer.body
    }

    /// What a workspace is now.
    pub(crate) async fn look(&self, workspace: &Value) -> Value {
        self.get(&format!("{WORKSPACES}/{}", workspace["id"].as_str().unwrap())).await
    }

    pub(crate) async fn destroy(&self, workspace: &Value) {
        let path = format!("{WORKSPACES}/{}", workspace["id"].as_str().unwrap());
        let answer = self.call(Method::DELETE, &path, None).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }

    /// Docker's own client, which must succeed.
    pub(crate) fn docker(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("/usr/bin/docker");
        let docker = self.engine();
        let output = command.args(["--host", docker.address()]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Containers and volumes of this server's workspaces.
    pub(crate) fn left_with_docker(&self) -> BTreeSet<String> {
        let ours = format!("label=emergent.installation={}", self.server.installation());
        let listed = |arguments: &[&str]| self.docker(arguments);
        let containers = listed(&["ps", "-aq", "--filter", &ours]);
        let of_workspaces = ["volume", "ls", "-q", "--filter", &ours, "--filter", "label=emergent.workspace"];
        containers.lines().chain(listed(&of_workspaces).lines()).map(str::to_owned).collect()
    }

    /// Ends the server; nothing may be left of its workspaces.
    pub(crate) async fn finish(self) {
        // What is being removed takes a moment.
        eventually("Docker has nothing of it", Duration::from_secs(20), async || {
            self.left_with_docker().is_empty().then_some(())
        })
        .await;
        self.server.finish().await;
    }
}

fn path_of(workspace: &Value, what: &str) -> String {
    format!("{WORKSPACES}/{}/{what}", workspace["id"].as_str().unwrap())
}
