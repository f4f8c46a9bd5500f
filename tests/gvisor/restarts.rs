//! Docker dies and comes back, in the middle of anything.

use std::time::{Duration, Instant};

use emergent_test_support::{DaemonOptions, TestDocker, eventually, run_program};
use reqwest::Method;
use serde_json::{Value, json};

use crate::faults::{BACKGROUND, STILL_ALIVE};
use crate::host::{Host, WORKSPACES};

/// How a daemon ends: without a word, and as an administrator ends it.
const ENDS: [&str; 2] = ["KILL", "TERM"];

/// While Docker is away a call is refused within this.
const REFUSED_WITHIN: Duration = Duration::from_secs(15);

fn live_restore() -> TestDocker {
    TestDocker::own_with(DaemonOptions { live_restore: true, ..DaemonOptions::default() })
}

impl Host {
    /// Ends Docker's daemon, and looks how that shows.
    async fn end_docker(&self, signal: &str, workspace: &Value) {
        tokio::task::block_in_place(|| self.engine().daemon().end_by(signal));
        let clock = Instant::now();
        let path = format!("{WORKSPACES}/{}/bash", workspace["id"].as_str().unwrap());
        let refused = self.call(Method::POST, &path, Some(&json!({"command": "true"}))).await;
        assert!(refused.status >= 500, "without Docker ({signal}): {} {}", refused.status, refused.body);
        assert!(clock.elapsed() < REFUSED_WITHIN, "refused after {:?}", clock.elapsed());
    }

    fn start_docker(&self) {
        tokio::task::block_in_place(|| self.engine().daemon().start_again());
    }

    /// Waits until a command has its answer again.
    async fn answers(&self, workspace: &Value, command: &str) -> String {
        let path = format!("{WORKSPACES}/{}/bash", workspace["id"].as_str().unwrap());
        let answered = eventually("it answers again", Duration::from_secs(60), async || {
            let answer = self.call(Method::POST, &path, Some(&json!({"command": command}))).await;
            let now = self.look(workspace).await;
            assert_ne!(now["status"], "failed", "{now}");
            (answer.status == 200).then_some(answer.body)
        });
        let (answer, _) = answered.await;
        assert_eq!(answer["exit_code"], 0, "{command}: {answer}");
        answer["stdout"].as_str().unwrap().trim_end().to_owned()
    }
}

impl Host {
    /// Docker 20.10 miscounts who uses a volume when a container has outlived its daemon, and does not remove it
    /// before it is started the next time. The server tries until then.
    async fn destroy_sooner_or_later(&self, workspace: &Value) {
        let path = format!("{WORKSPACES}/{}", workspace["id"].as_str().unwrap());
        let answer = self.call(Method::DELETE, &path, None).await;
        if answer.status != 200 {
            assert!(answer.body.to_string().contains("volume has active mounts"), "{}", answer.body);
            tokio::task::block_in_place(|| self.engine().daemon().end_by("TERM"));
            self.start_docker();
        }
        eventually("it is gone", Duration::from_secs(60), async || {
            (self.call(Method::GET, &path, None).await.status == 404).then_some(())
        })
        .await;
    }
}

/// With `live-restore` containers outlive their daemon, and so does everything in them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workspaces_outlive_docker_with_live_restore() {
    let host = Host::start_with(live_restore()).await;
    let made = host.create(json!({})).await;
    host.tool(&made, "bash", json!({"command": BACKGROUND, "background": true})).await;
    host.bash(&made, "until test -e alive; do sleep 0.1; done").await;
    let before = host.bash(&made, "cat /workspace/pid; echo kept > /tmp/in-memory").await;
    for signal in ENDS {
        host.end_docker(signal, &made).await;
        host.start_docker();
        assert_eq!(host.answers(&made, STILL_ALIVE).await, "alive", "after {signal}");
        assert_eq!(host.bash(&made, "cat /workspace/pid /tmp/in-memory").await, format!("{before}\nkept"));
    }
    let now = host.look(&made).await;
    assert!(now["status"] == "ready" && !now["warnings"].to_string().contains("again"), "{now}");
    host.destroy_sooner_or_later(&made).await;
    host.finish().await;
}

/// Without it they end with the daemon, and are started again on their disks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_outlive_docker_without_live_restore() {
    let host = Host::start_with(TestDocker::own()).await;
    let made = host.create(json!({})).await;
    for signal in ENDS {
        host.bash(&made, &format!("echo {signal} > /workspace/file; echo {signal} > /opt/file; sync")).await;
        host.end_docker(signal, &made).await;
        host.start_docker();
        let kept = host.answers(&made, "cat /workspace/file /opt/file").await;
        assert_eq!(kept, format!("{signal}\n{signal}"));
        let warnings = host.look(&made).await["warnings"].to_string();
        assert!(warnings.contains("started again"), "after {signal}: {warnings}");
    }
    host.destroy(&made).await;
    host.finish().await;
}

/// Whatever was under way when the daemon died has an answer; what it leaves is whole or can be removed, and
/// nothing is forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn docker_dies_in_the_middle_of_anything() {
    let host = Host::start_with(live_restore()).await;
    // Right at its beginning, and in its midst.
    let moments: &[u64] = if std::env::var_os("EMERGENT_TEST_LONG").is_some() { &[20, 200] } else { &[200] };
    for &milliseconds in moments {
        for operation in ["create", "stop", "resume", "destroy"] {
            let (method, path, body) = host.before(operation).await;
            let probe = host.server.probe();
            let asked = tokio::spawn(async move {
                let request = probe.request(method, &path).header("content-type", "application/json");
                probe.send(request.body(body)).await
            });
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            tokio::task::block_in_place(|| host.engine().daemon().end_by("KILL"));
            tokio::time::sleep(Duration::from_millis(300)).await;
            host.start_docker();
            let answer = tokio::time::timeout(Duration::from_secs(60), asked).await;
            let answer =
                answer.unwrap_or_else(|_| panic!("{operation} after {milliseconds} ms: no answer")).unwrap();
            println!("{operation}, daemon killed after {milliseconds} ms: {}", answer.status);
            host.everything_is_whole(operation).await;
            host.everything_can_be_removed().await;
        }
    }
    host.finish().await;
}

const LIMITS: &str = r#"{"resource_limits": {"cpu": "1", "memory": "256M", "disk": "128M"}}"#;

impl Host {
    /// Makes what an operation begins with; answers how it is asked for.
    async fn before(&self, operation: &str) -> (Method, String, &'static str) {
        if operation == "create" {
            return (Method::POST, WORKSPACES.to_owned(), LIMITS);
        }
        // After an end of Docker's it may take until the next check of its health.
        let (made, _) = eventually("gVisor serves", Duration::from_secs(60), async || {
            let body = json!({"provider": "gvisor",
                "resource_limits": {"cpu": "1", "memory": "256M", "disk": "128M"}});
            let answer = self.call(Method::POST, WORKSPACES, Some(&body)).await;
            (answer.status == 201).then_some(answer.body)
        })
        .await;
        let path = format!("{WORKSPACES}/{}", made["id"].as_str().unwrap());
        self.bash(&made, "echo kept > /workspace/file; echo kept > /opt/file; sync").await;
        if operation == "resume" {
            self.post(&made, "stop").await;
        }
        match operation {
            "destroy" => (Method::DELETE, path, ""),
            _ => (Method::POST, format!("{path}/{operation}"), "{}"),
        }
    }

    /// Every workspace comes to rest.
    async fn rests(&self) -> Vec<Value> {
        let (rows, _) = eventually("nothing is under way", Duration::from_secs(60), async || {
            let listed = self.get(WORKSPACES).await;
            let rests =
                |row: &Value| ["ready", "stopped", "failed"].contains(&row["status"].as_str().unwrap());
            let rows = listed["items"].as_array().unwrap();
            rows.iter().all(rests).then(|| rows.clone())
        })
        .await;
        rows
    }

    /// What was neither being made nor removed has not failed, and has its files after a stop and a resume.
    async fn everything_is_whole(&self, operation: &str) {
        if operation != "stop" && operation != "resume" {
            return;
        }
        let rows = self.rests().await;
        assert_eq!(rows.len(), 1, "{rows:?}");
        for workspace in rows {
            assert_ne!(workspace["status"], "failed", "{operation}: {workspace}");
            for step in ["stop", "resume"] {
                self.succeeds_sooner_or_later(&workspace, step).await;
            }
            assert_eq!(self.answers(&workspace, "cat /workspace/file /opt/file").await, "kept\nkept");
        }
    }

    /// After an end of Docker's it may take until the next check of its health. What is done already is done.
    async fn succeeds_sooner_or_later(&self, workspace: &Value, step: &str) {
        let done = if step == "stop" { "stopped" } else { "ready" };
        let path = format!("{WORKSPACES}/{}/{step}", workspace["id"].as_str().unwrap());
        eventually(&format!("it is {done}"), Duration::from_secs(60), async || {
            let now = self.look(workspace).await;
            assert_ne!(now["status"], "failed", "{now}");
            if now["status"] != done {
                self.call(Method::POST, &path, Some(&json!({}))).await;
            }
            (now["status"] == done).then_some(())
        })
        .await;
    }

    /// Every workspace comes to rest, and can be removed.
    async fn everything_can_be_removed(&self) {
        for workspace in self.rests().await {
            self.destroy_sooner_or_later(&workspace).await;
        }
        // What the server was trying out itself goes with the next check of its health.
        eventually("Docker has nothing of it", Duration::from_secs(90), async || {
            self.left_with_docker().is_empty().then_some(())
        })
        .await;
    }
}

/// The doctor says which of the two a restart of Docker's costs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_knows_what_a_restart_of_docker_costs() {
    let data = tempfile::tempdir().unwrap();
    let said = async |docker: &TestDocker| {
        let variables =
            [("DOCKER_HOST", docker.address()), ("EMERGENT_DATA_DIR", data.path().to_str().unwrap())];
        run_program(&["doctor"], &variables).await.stdout
    };
    let without = said(&TestDocker::get()).await;
    assert!(without.contains("! docker") && without.contains("live-restore is off"), "{without}");
    let with = said(&live_restore()).await;
    assert!(with.contains("✓ docker") && with.contains("live-restore is on"), "{with}");
}
