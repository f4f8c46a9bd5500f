//! A data folder that is full: nothing new begins, what runs goes on, and what is destroyed makes room.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::Duration;

use emergent_client::{Client, ListAudit, ListWorkspaces};
use emergent_test_support::{TestServerOptions, eventually, with_own_mounts};
use emergent_types::{ByteSize, WorkspaceId};
use serde_json::json;

use crate::support::{create, sh, write};

/// Enough for the agent's program, templates, a database and some small disks.
const SIZE: ByteSize = ByteSize::from_mib(128);

/// How long what waits for room may wait.
const LIMIT: Duration = Duration::from_secs(30);

/// Takes all the room that is left, to the last page.
fn fill(path: &Path) {
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    for piece in [vec![b'x'; 1 << 20], vec![b'x'; 4096]] {
        let end = loop {
            if let Err(error) = file.write(&piece) {
                break error;
            }
        };
        assert_eq!(end.kind(), ErrorKind::StorageFull, "{end}");
    }
}

async fn ids(client: &Client) -> Vec<WorkspaceId> {
    let listed = client.list(&ListWorkspaces::default()).await.unwrap().items;
    let mut ids: Vec<_> = listed.iter().map(|workspace| workspace.id).collect();
    ids.sort();
    ids
}

/// How many calls of `bash` for a workspace are on record as done.
async fn recorded(client: &Client, id: WorkspaceId) -> usize {
    let request = ListAudit {
        workspace_id: Some(id),
        tool: Some("bash".to_owned()),
        outcome: Some("ok".to_owned()),
        ..ListAudit::default()
    };
    client.audit(&request).await.unwrap().items.len()
}

#[test]
fn what_runs_goes_on_and_what_is_new_waits_for_room() {
    with_own_mounts(|mounts| async move {
        let disk = mounts.small_disk(SIZE);
        // Its log is there too, and has no room either.
        let options =
            TestServerOptions { within: Some(disk.path().to_owned()), ..TestServerOptions::default() };
        let mut server = options.start().await;
        let (client, probe, pid) = (server.client(), server.probe(), server.pid());
        let (kept, gone) = (create(&client).await.id, create(&client).await.id);
        write(&client, kept, "kept", "acknowledged\n").await.unwrap();
        sh(&client, kept, "sync").await;
        let filler = disk.path().join("filler");
        fill(&filler);

        // Nothing is begun that could not be written down, and nothing of it is left.
        let small = json!({"resource_limits": {"cpu": "1", "memory": "128M", "disk": "64M"}});
        let refused = probe.post("/api/v1/agent/workspaces", &small).await;
        assert_eq!(refused.failure(), (503, "store_unavailable"), "{}", refused.body);
        assert!(refused.headers.contains_key("retry-after"), "it may succeed later");
        assert_eq!(ids(&client).await, [kept, gone]);
        assert_eq!(server.census().state_folders.len(), 2, "{}", server.census());

        // What runs is still there to be used.
        assert_eq!(sh(&client, kept, "cat kept; echo $((6 * 7))").await, "acknowledged\n42\n");
        let path = format!("/api/v1/agent/workspaces/{kept}/read");
        let read = probe.post(&path, &json!({"file_path": "kept"})).await;
        assert_eq!(read.status, 200, "{}", read.body);
        assert!(read.body["content"].as_str().unwrap().contains("acknowledged"), "{}", read.body);

        // Who needs room can make some.
        client.destroy(gone).await.unwrap();
        assert_eq!(client.workspace(gone).await.unwrap_err().code(), Some("workspace_not_found"));
        assert_eq!(ids(&client).await, [kept]);
        assert_eq!(server.census().state_folders.len(), 1, "{}", server.census());

        fs::remove_file(&filler).unwrap();
        let new = create(&client).await.id;
        assert_eq!(sh(&client, new, "echo new > file; cat file").await, "new\n");
        assert_eq!(server.pid(), pid);
        // One call before and one while it was full, whose entry had to wait.
        eventually("every call is on record", LIMIT, async || {
            (recorded(&client, kept).await == 2).then_some(())
        })
        .await;

        // All of it is on the disk, and not in memory alone.
        server.kill();
        server.start_again().await;
        let client = server.client();
        assert_eq!(ids(&client).await, [kept, new]);
        assert_eq!(sh(&client, kept, "cat kept").await, "acknowledged\n");
        server.finish().await;
    });
}
