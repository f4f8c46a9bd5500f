//! Many at once.

use std::time::Duration;

use emergent_client::BashRequest;
use emergent_test_support::TestServerOptions;

use crate::support::{create, sh, small};

/// Proves: MIGR-5.1
#[tokio::test]
async fn fifty_creates_at_once_all_succeed() {
    let server = TestServerOptions::default().with("WORKSPACE_MAX_CONCURRENT", 50).start().await;
    let client = server.client();
    let request = small();
    let created = futures::future::join_all((0..50).map(|_| client.create(&request))).await;
    let ids: Vec<_> = created.into_iter().map(|workspace| workspace.unwrap().id).collect();
    let answers = futures::future::join_all(ids.iter().map(|id| sh(&client, *id, "hostname"))).await;
    let names: std::collections::BTreeSet<_> = answers.into_iter().collect();
    assert_eq!(names.len(), 50, "each is a sandbox of its own");
    let refused = client.create(&request).await.unwrap_err();
    assert_eq!(refused.code(), Some("limit_reached"));
    let destroyed = futures::future::join_all(ids.iter().map(|id| client.destroy(*id))).await;
    assert!(destroyed.iter().all(Result::is_ok));
    server.finish().await;
}

/// However much a command prints, memory stays bounded and others go on.
#[tokio::test]
async fn a_flood_of_output_disturbs_nobody() {
    let server = TestServerOptions::default().start().await;
    let client = server.client();
    let (loud, quiet) = (create(&client).await.id, create(&client).await.id);
    sh(&client, loud, "true").await;
    let before = server.resident_kib();
    let flood =
        BashRequest { timeout_ms: Some(100_000), ..BashRequest::new("head -c 256M /dev/zero; echo end") };
    let flood = tokio::spawn({
        let client = client.clone();
        async move { client.bash(loud, &flood).await }
    });
    let mut peak = 0;
    while !flood.is_finished() {
        peak = peak.max(server.resident_kib());
        let begun = std::time::Instant::now();
        assert_eq!(sh(&client, quiet, "echo fine").await, "fine\n");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
    let answer = flood.await.unwrap().unwrap();
    assert_eq!(answer.total_bytes.stdout, (256 << 20) + 4);
    assert!(answer.truncated && answer.stdout.ends_with("end\n"));
    assert!(peak.saturating_sub(before) < 32 << 10, "grew from {before} KiB to {peak} KiB");
    server.finish().await;
}
