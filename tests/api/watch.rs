//! Changes of files while they happen.

use std::time::Duration;

use emergent_client::{FileChange, FileChangeKind, WatchStream};
use serde_json::json;

use crate::api::Api;

/// Reads until there is a change like this one.
async fn until(stream: &mut WatchStream, expect: impl Fn(&FileChange) -> bool) -> FileChange {
    let mut seen = Vec::new();
    loop {
        match tokio::time::timeout(Duration::from_secs(20), stream.next()).await {
            Ok(Ok(Some(change))) if expect(&change) => return change,
            Ok(Ok(Some(change))) => seen.push(change),
            other => panic!("{other:?} after {seen:?}"),
        }
    }
}

#[tokio::test]
async fn changes_are_seen() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let client = api.server.client();
    workspace.sh("mkdir -p sub other").await;
    let mut stream = client.watch(workspace.id, Some("sub"), true).await.unwrap();
    workspace.sh("echo a > 'sub/$(x)'; echo b > other/y; mkdir sub/deep").await;
    let odd = "/workspace/sub/$(x)";
    until(&mut stream, |change| change.kind == FileChangeKind::Created && change.path == odd).await;
    let deep = until(&mut stream, |change| change.path == "/workspace/sub/deep").await;
    assert!(deep.directory && deep.kind == FileChangeKind::Created);
    workspace.sh("mv 'sub/$(x)' sub/z").await;
    let renamed = until(&mut stream, |change| change.kind == FileChangeKind::Renamed).await;
    assert_eq!((renamed.path.as_str(), renamed.old_path.as_deref()), ("/workspace/sub/z", Some(odd)));
    workspace.sh("rm sub/z").await;
    let removed = until(&mut stream, |change| change.kind == FileChangeKind::Removed).await;
    assert_eq!(removed.path, "/workspace/sub/z");
    drop(stream);

    let gone = api.get(&workspace.path("/watch?path=nope")).await;
    assert_eq!(gone.failure(), (404, "file_not_found"));
    for (query, field) in [("path=", "path"), ("recursive=maybe", "recursive"), ("x=1", "x")] {
        let answer = api.get(&workspace.path(&format!("/watch?{query}"))).await;
        assert_eq!((answer.failure(), answer.detail("field")), ((400, "invalid_request"), &json!(field)));
    }
    api.finish().await;
}
