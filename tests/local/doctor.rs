//! `emergent doctor`.

use emergent_test_support::run_program;
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
