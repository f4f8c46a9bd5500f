//! What a user with runsc and without Docker gets, without saying anything.

use std::time::Duration;

use emergent_test_support::{eventually, run_program};
use serde_json::{Value, json};

use crate::host::Host;

const BACKGROUND: &str = "i=0; while sleep 0.2; do i=$((i+1)); echo $i > /workspace/alive; done";
const STILL_ALIVE: &str = "a=$(cat alive); sleep 1; b=$(cat alive); test \"$a\" != \"$b\" && echo alive";

/// The process of a workspace's sandbox.
fn sandbox_pid(host: &Host, workspace: &Value) -> String {
    let folder = host.server.data_dir().join("direct/sandboxes").join(workspace["id"].as_str().unwrap());
    std::fs::read_to_string(folder.join("sandbox.pid")).unwrap().trim().to_owned()
}

/// Proves: DESIGN-1.4, TRADE-SELFHOST-3
#[tokio::test]
async fn gvisor_without_docker_is_what_one_gets() {
    let mut host = Host::without_docker().await;
    let provider = host.provider("gvisor").await;
    assert_eq!(
        (&provider["status"], &provider["isolation"]),
        (&json!("healthy"), &json!("gvisor")),
        "{provider}"
    );
    let made = host.create(json!({})).await;
    assert_eq!((&made["provider"], &made["isolation"]), (&json!("gvisor"), &json!("gvisor")));
    assert_eq!((&made["disk_enforcement"], &made["persistence"]), (&json!("hard"), &json!("full")));
    assert!(made["warnings"].to_string().contains("minimal image"), "{}", made["warnings"]);
    assert!(
        host.bash(&made, "dmesg 2>/dev/null || cat /proc/version").await.to_lowercase().contains("gvisor")
    );
    host.tool(&made, "write", json!({"file_path": "a.txt", "content": "one\n"})).await;
    host.tool(&made, "edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"})).await;
    assert_eq!(host.tool(&made, "read", json!({"file_path": "a.txt"})).await["content"], "1: two");

    // The server dies; what runs goes on, and the next server finds it.
    host.tool(&made, "bash", json!({"command": BACKGROUND, "background": true})).await;
    host.server.kill();
    host.server.start_again().await;
    assert_eq!(host.look(&made).await["status"], "ready");
    assert_eq!(host.bash(&made, STILL_ALIVE).await, "alive");

    // Its sandbox dies; it is started again on its disk.
    let pid = sandbox_pid(&host, &made);
    assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    let (read, _) = eventually("it answers again", Duration::from_secs(60), async || {
        let path = format!("/api/v1/agent/workspaces/{}/bash", made["id"].as_str().unwrap());
        let answer = host.call(reqwest::Method::POST, &path, Some(&json!({"command": "cat a.txt"}))).await;
        (answer.status == 200).then_some(answer.body)
    })
    .await;
    assert_eq!(read["stdout"], "two\n");

    host.bash(&made, "echo root > /opt/file; sync").await;
    host.post(&made, "stop").await;
    host.post(&made, "resume").await;
    assert_eq!(host.bash(&made, "cat a.txt /opt/file").await, "two\nroot");
    let body = json!({"provider": "gvisor", "base_image": "debian:bookworm"});
    let answer = host.call(reqwest::Method::POST, "/api/v1/agent/workspaces", Some(&body)).await;
    assert_eq!((answer.status, answer.code()), (404, "image_not_found"), "{}", answer.body);

    host.destroy(&made).await;
    let sandboxes = host.server.data_dir().join("direct/sandboxes");
    assert_eq!(std::fs::read_dir(sandboxes).unwrap().count(), 0);
    host.server.finish().await;
}

#[tokio::test]
async fn the_doctor_says_that_no_docker_is_needed() {
    let data = tempfile::tempdir().unwrap();
    let data_dir = data.path().to_string_lossy();
    let said = async |mode: &str| {
        let variables = [("WORKSPACE_GVISOR_MODE", mode), ("EMERGENT_DATA_DIR", &*data_dir)];
        run_program(&["doctor"], &variables).await.stdout
    };
    let direct = said("auto").await;
    assert!(direct.contains("✓ gvisor") && direct.contains("without Docker"), "{direct}");
    let docker = said("docker").await;
    assert!(docker.contains("! docker") && !docker.contains("without Docker"), "{docker}");
}
