//! Schemathesis against the OpenAPI document of a real server: whatever it makes up, nothing fails
//! on our side, and every answer is one that the document describes.
//!
//! `cargo xtask test` installs Schemathesis. A quarter of an hour with `--long`, else a few minutes.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use emergent_client::CreateWorkspace;
use emergent_test_support::TestServerOptions;
use tokio::process::Command;

/// Where `cargo xtask test` puts it.
const SCHEMATHESIS: &str = "target/xtask/python/schemathesis/bin/st";

/// What it is asked to look at. Its own check for server errors is replaced by ours.
const CHECKS: &str = "nothing_fails_on_our_side,status_code_conformance,content_type_conformance,\
    response_schema_conformance,response_headers_conformance,unsupported_method";

/// Streams that end when somebody ends them.
const ENDLESS: &str = "/watch$|/terminal$|/tunnel/|/events$";

/// Would revoke the token that all of this is asked with.
const SUICIDAL: &str = "revoke_token";

/// The same inputs every time: a run that passes passes again.
const SEED: &str = "20261116";

#[tokio::test]
async fn every_answer_is_one_that_the_document_describes() {
    let seconds = if std::env::var_os("EMERGENT_TEST_LONG").is_some() { 900 } else { 180 };
    let server = TestServerOptions::default()
        .with("WORKSPACE_MAX_CONCURRENT", 8)
        .with("EMERGENT_RATE_LIMIT", 1_000_000)
        .start()
        .await;
    let workspace = server.client().create(&CreateWorkspace::default()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(schemathesis())
        .args(["run", &format!("{}/api/v1/openapi.json", server.url()), "--no-color", "--seed", SEED])
        .args(["--header", &format!("Authorization:Bearer {}", server.token())])
        .args(["--checks", CHECKS, "--max-time", &seconds.to_string()])
        .args(["--request-timeout", "60", "--continue-on-failure", "--generation-database", "none"])
        .args(["--exclude-path-regex", ENDLESS, "--exclude-operation-id", SUICIDAL])
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PYTHONPATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("schema"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("EMERGENT_TEST_WORKSPACE", workspace.id.to_string())
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(Duration::from_secs(2 * seconds), output).await.unwrap().unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(generated(&report) >= 1000, "too little was tried:\n{report}");
    server.finish().await;
}

/// How many requests were made up.
fn generated(report: &str) -> u64 {
    let count =
        report.lines().find_map(|line| line.trim().split_once(" generated")?.0.replace(',', "").parse().ok());
    count.unwrap_or(0)
}

fn schemathesis() -> PathBuf {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(SCHEMATHESIS);
    assert!(
        program.is_file(),
        "{} is missing: `cargo xtask test --tier schema` installs it",
        program.display()
    );
    program
}
