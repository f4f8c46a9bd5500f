//! `emergent doctor`, and machines on which no sandbox can be made.

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

/// The server starts all the same, and says why it cannot make workspaces.
#[tokio::test]
async fn without_rights_everything_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_unprivileged(&["doctor", "--data-dir", folder.path().to_str().unwrap()], &[]).await;
    assert_eq!(output.code, Some(1), "{}", output.stdout);
    assert!(output.stdout.contains("✗ root: no, user id 65534"), "{}", output.stdout);
    assert!(output.stdout.contains("costs: ") && output.stdout.contains("to get it: "), "{}", output.stdout);

    let options = TestServerOptions { unprivileged: true, ..TestServerOptions::default() };
    let server = options.start().await;
    let client = server.client();
    let local = &client.providers().await.unwrap().providers[0];
    assert_eq!(local.status, "unhealthy");
    assert!(local.reason.as_deref().unwrap().contains("root"), "{local:?}");
    let refused = server.probe().post("/api/v1/agent/workspaces", &serde_json::json!({})).await;
    assert_eq!(refused.failure(), (503, "no_provider_available"));
    let providers = refused.detail("providers").as_array().unwrap();
    assert!(providers.iter().any(|provider| provider["provider"] == "local"), "{providers:?}");
    server.finish().await;
}
