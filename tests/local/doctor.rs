//! `emergent doctor`, and machines on which not everything can be had.

use emergent_client::{BashRequest, CreateWorkspace};
use emergent_test_support::{TestServerOptions, run_program, run_unprivileged};
use serde_json::Value;

#[tokio::test]
async fn a_machine_that_works_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().to_str().unwrap();
    let output = run_program(&["doctor", "--data-dir", data_dir], &[]).await;
    assert_eq!(output.code, Some(0), "{}", output.stdout);
    for name in
        ["kernel", "root", "user namespaces", "control groups", "loop devices", "mkfs.ext4", "data folder"]
    {
        assert!(
            output.stdout.contains(&format!("✓ {name}: ")) || output.stdout.contains(&format!("! {name}: ")),
            "{name}"
        );
    }
    assert!(output.stdout.contains("✓ local provider: a sandbox was made and removed"), "{}", output.stdout);
    let json = run_program(&["doctor", "--json", "--data-dir", data_dir], &[]).await;
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(report["ok"], true);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

#[tokio::test]
async fn what_is_missing_is_named_with_its_cost_and_its_remedy() {
    let output = run_program(&["doctor", "--data-dir", "/proc/nowhere", "--json"], &[]).await;
    assert_eq!(output.code, Some(1));
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(report["ok"], false);
    let checks = report["checks"].as_array().unwrap();
    let missing = checks.iter().find(|check| check["name"] == "data folder").unwrap();
    assert_eq!(missing["level"], "missing");
    assert!(missing["cost"].is_string() && missing["remedy"].is_string());
}

/// A line for each thing, and below one that is not as it should be what that costs and how to get it.
fn every_line_is_whole(text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        if line.starts_with(['!', '✗']) {
            let below = &lines[number + 1..];
            assert!(below[0].starts_with("    costs: ") && below[1].starts_with("    to get it: "), "{text}");
        } else {
            let known = line.starts_with("✓ ") || line.starts_with("    ") || line.starts_with("Workspaces");
            assert!(known || line.is_empty(), "{line:?} stands alone:\n{text}");
        }
    }
}

/// Settings that cannot be used, and folders that cannot be written to, keep nobody from the rest.
#[tokio::test]
async fn what_cannot_be_read_is_one_of_the_things_that_are_told() {
    let closed = tempfile::tempdir().unwrap();
    std::fs::set_permissions(closed.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let closed = closed.path().to_str().unwrap();
    for (arguments, variables, told) in [
        (vec!["doctor"], vec![("WORKSPACE_MAX_CONCURRENT", "x")], "✗ settings: WORKSPACE_MAX_CONCURRENT: "),
        (vec!["doctor", "--data-dir", closed], vec![], "✗ data folder: "),
    ] {
        let output = run_unprivileged(&arguments, &variables).await;
        assert_eq!(output.code, Some(1), "{}{}", output.stdout, output.stderr);
        assert!(output.stdout.contains(told), "{told}: {}", output.stdout);
        assert!(output.stdout.contains("local provider: a sandbox was made"), "{}", output.stdout);
        every_line_is_whole(&output.stdout);
        assert!(!output.stdout.contains("os error"), "{}", output.stdout);
    }
}

/// Without root it works all the same, and says what that costs.
#[tokio::test]
async fn without_root_workspaces_are_made_and_what_is_missing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_unprivileged(&["doctor", "--data-dir", folder.path().to_str().unwrap()], &[]).await;
    assert!(output.stdout.contains("! root: no, user id 65534"), "{}", output.stdout);
    assert!(output.stdout.contains("! network: not tried: to make links and rules"), "{}", output.stdout);
    every_line_is_whole(&output.stdout);
    assert!(!output.stdout.contains("os error"), "{}", output.stdout);

    let options = TestServerOptions { unprivileged: true, ..TestServerOptions::default() };
    let server = options.with("WORKSPACE_DEFAULT_NETWORK", "internet").start().await;
    let client = server.client();
    let local = &client.providers().await.unwrap().providers[0];
    assert_eq!(local.status, "healthy", "{local:?}");
    let workspace = client.create(&CreateWorkspace::default()).await.unwrap();
    assert!(
        workspace.warnings.iter().any(|warning| warning.starts_with("memory is not limited")),
        "{:?}",
        workspace.warnings
    );
    assert!(
        workspace
            .warnings
            .iter()
            .any(|warning| warning.contains("internet") && warning.contains("need root")),
        "it says why it is isolated: {:?}",
        workspace.warnings
    );
    let ran =
        client.bash(workspace.id, &BashRequest::new("id -un; echo $((6 * 7)) > a; cat a")).await.unwrap();
    assert_eq!((ran.exit_code, ran.stdout.as_str()), (0, "root\n42\n"), "{ran:?}");
    client.stop(workspace.id).await.unwrap();
    client.resume(workspace.id).await.unwrap();
    let kept = client.bash(workspace.id, &BashRequest::new("cat a")).await.unwrap();
    assert_eq!(kept.stdout, "42\n");

    // What the request names and nobody can uphold is refused.
    for (limits, field) in [
        (serde_json::json!({"memory": "1G"}), "resource_limits.memory"),
        (serde_json::json!({"cpu": "1"}), "resource_limits.cpu"),
        (serde_json::json!({"disk": "1G"}), "resource_limits.disk"),
    ] {
        let body = serde_json::json!({"resource_limits": limits, "provider": "local"});
        let refused = server.probe().post("/api/v1/agent/workspaces", &body).await;
        assert_eq!(refused.failure(), (400, "not_enforceable"), "{body}");
        assert_eq!(refused.detail("field").as_str(), Some(field));
    }
    let body = serde_json::json!({"network": "internet"});
    let refused = server.probe().post("/api/v1/agent/workspaces", &body).await;
    assert_eq!(refused.failure(), (400, "not_enforceable"));
    server.finish().await;
}
