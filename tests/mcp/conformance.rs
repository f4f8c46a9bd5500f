//! The official conformance suite against a server that the control plane hosts. What is expected to fail is what
//! fails through the bridge alone; a failure that is not on the list fails, and one on the list that passes does too.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use emergent_client::{Client, McpServer, RegisterMcpServer};
use emergent_test_support::TestServer;
use emergent_types::{NetworkMode, ServerHealth, ServerMode};
use futures::{StreamExt, stream};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::programs::upload;
use crate::support::start;
use emergent_e2e::packages::{node, node_folder};

/// How the fixture is hosted, the set of the suite, and what is expected to fail.
struct Case {
    mode: ServerMode,
    /// Whether the fixture knows nothing of the newer era.
    legacy: bool,
    version: &'static str,
    expected: &'static str,
}

const OLDER: &str = "2025-11-25";
const NEWER: &str = "2026-07-28";

const CASES: [Case; 7] = {
    use ServerMode::{Dedicated, Shared};
    [
        Case { mode: Dedicated, legacy: true, version: OLDER, expected: "expected-2025-11-25" },
        Case { mode: Dedicated, legacy: false, version: OLDER, expected: "expected-2025-11-25" },
        Case { mode: Shared, legacy: true, version: OLDER, expected: "expected-2025-11-25-shared" },
        Case { mode: Shared, legacy: false, version: OLDER, expected: "expected-2025-11-25-shared-modern" },
        Case { mode: Shared, legacy: false, version: NEWER, expected: "expected-2026-07-28" },
        Case { mode: Dedicated, legacy: false, version: NEWER, expected: "expected-2026-07-28" },
        Case { mode: Shared, legacy: true, version: NEWER, expected: "expected-2026-07-28-legacy" },
    ]
};

/// How long one run of the suite may take.
const LIMIT: Duration = Duration::from_secs(110);

/// Proves: DESIGN-5.2
#[tokio::test]
async fn the_official_suite_passes_through_the_control_plane() {
    let control = start().await;
    let results = tempfile::tempdir().unwrap();
    let client = control.client();
    let runs = CASES.iter().enumerate().map(async |(number, case)| {
        let server = host_fixture(&client, &format!("fixture-{number}"), case).await;
        run_suite(&control, &server, case, &results.path().join(&server.name)).await
    });
    // Some scenarios give an answer so and so long: not more of them than there are processors for.
    let failed: Vec<String> =
        stream::iter(runs).buffer_unordered(2).filter_map(async |failed| failed).collect().await;
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    control.finish().await;
}

async fn host_fixture(client: &Client, name: &str, case: &Case) -> McpServer {
    let mut command = vec!["/workspace/fixture".to_owned()];
    command.extend(case.legacy.then(|| "--legacy".to_owned()));
    let registration = RegisterMcpServer {
        name: name.to_owned(),
        command: Some(command),
        mode: Some(case.mode),
        network: Some(NetworkMode::Isolated),
        ..RegisterMcpServer::default()
    };
    let server = client.register_mcp_server(&registration).await.unwrap();
    upload(client, &server, &fixture(), "/workspace/fixture").await;
    let server = client.restart_mcp_server(name).await.unwrap();
    assert_eq!(server.health, ServerHealth::Ok, "{server:?}");
    server
}

/// The fixture is an example, which is built with the tests.
fn fixture() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let program = own.ancestors().nth(2).unwrap().join("examples/conformance_server");
    assert!(program.is_file(), "{} is missing: build the examples of emergent-mcp-bridge", program.display());
    program
}

/// What the suite said, if it was not content.
async fn run_suite(control: &TestServer, server: &McpServer, case: &Case, results: &Path) -> Option<String> {
    let (_proxy, url) = proxy(control, server).await;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let expected = here.join("../crates/mcp-bridge/tests/conformance").join(format!("{}.yml", case.expected));
    let suite = node_folder("clients").join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let mut run = Command::new(node());
    run.arg(suite)
        .args([
            "server",
            "--url",
            &url,
            "--suite",
            "all",
            "--spec-version",
            case.version,
            "--timeout",
            "60000",
        ])
        .arg("--expected-failures")
        .arg(expected)
        .arg("-o")
        .arg(results)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(LIMIT, run.output()).await.expect("the suite ends").unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("Total: "),
        "the suite did not run: {said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    println!(
        "{} {:?} {}",
        case.version,
        case.mode,
        said.lines().rfind(|line| line.starts_with("Total")).unwrap()
    );
    let what = format!("{} on a {:?} server, legacy {}:", case.version, case.mode, case.legacy);
    (!output.status.success()).then(|| format!("{what}\n{said}"))
}

/// Gives what passes through it the token, which the suite has no option for.
async fn proxy(control: &TestServer, server: &McpServer) -> (Child, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("mcp/conformance/proxy.mjs");
    let target = format!("{}/api/v1/mcp/servers/{}/mcp", control.url(), server.name);
    let mut process = Command::new(node())
        .arg(script)
        .args([&target, control.token()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let url = lines.next_line().await.unwrap().unwrap();
    (process, url)
}
