//! Changes of files while they happen.

use std::time::Duration;

use bytes::Bytes;
use emergent_agent_client::{AgentError, Change, ChangeKind, EditSpec, WatchStream};

use super::{Subject, TestSandbox};

/// The changes up to one that is awaited.
async fn until(watch: &mut WatchStream, wanted: (ChangeKind, &str)) -> Vec<Change> {
    let mut seen: Vec<Change> = Vec::new();
    let waiting = async {
        loop {
            let change = watch.next().await.expect("no failure").expect("it goes on");
            let is_wanted = (change.kind, change.path.as_str()) == wanted;
            seen.push(change);
            if is_wanted {
                return;
            }
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    assert!(waited.is_ok(), "{wanted:?} is not seen: {seen:?}");
    seen
}

async fn write(sandbox: &TestSandbox, path: &str, content: &'static str) {
    sandbox.client.write_file(path, Bytes::from_static(content.as_bytes())).await.expect("writes");
}

/// What commands do is seen, also in folders that are new.
pub async fn changes_by_commands_are_seen(subject: &Subject) {
    use ChangeKind::{Created, Modified, Removed, Renamed};
    let sandbox = subject.sandbox().await;
    sandbox.sh("mkdir -p src/deep").await;
    let mut watch = sandbox.client.watch(&sandbox.path("src"), true).await.expect("watches");
    let path = |name: &str| sandbox.path(&format!("src/{name}"));
    sandbox.sh("echo one > src/deep/file").await;
    until(&mut watch, (Created, &path("deep/file"))).await;
    sandbox.sh("echo two >> src/deep/file").await;
    until(&mut watch, (Modified, &path("deep/file"))).await;
    sandbox.sh("mv src/deep/file src/moved").await;
    let renamed = until(&mut watch, (Renamed, &path("moved"))).await;
    assert_eq!(renamed.last().and_then(|change| change.old_path.clone()), Some(path("deep/file")));
    sandbox.sh("rm src/moved").await;
    until(&mut watch, (Removed, &path("moved"))).await;
    sandbox.sh("mkdir -p src/new/er && touch src/new/er/file").await;
    until(&mut watch, (Created, &path("new/er/file"))).await;
    // What is outside is not seen: the next change that is, comes next.
    sandbox.sh("touch elsewhere; rm -r src/new; touch src/last").await;
    let seen = until(&mut watch, (Created, &path("last"))).await;
    assert!(seen.iter().all(|change| change.path.starts_with(&sandbox.path("src"))), "{seen:?}");
}

/// A write or an edit is one change, and nothing of how it is done is seen.
pub async fn changes_by_tools_are_one_each(subject: &Subject) {
    use ChangeKind::{Created, Modified};
    let sandbox = subject.sandbox().await;
    sandbox.sh("mkdir src").await;
    let mut watch = sandbox.client.watch("src", true).await.expect("watches");
    let file = sandbox.path("src/file");
    write(&sandbox, "src/file", "one\n").await;
    let kinds =
        |seen: Vec<Change>| seen.into_iter().map(|change| (change.kind, change.path)).collect::<Vec<_>>();
    assert_eq!(kinds(until(&mut watch, (Created, &file)).await), [(Created, file.clone())]);
    write(&sandbox, "src/file", "two\n").await;
    assert_eq!(kinds(until(&mut watch, (Modified, &file)).await), [(Modified, file.clone())]);
    let edit = EditSpec {
        path: "src/file".to_owned(),
        old_string: "two".to_owned(),
        new_string: "three".to_owned(),
        ..EditSpec::default()
    };
    sandbox.client.edit(&edit).await.expect("edits");
    assert_eq!(kinds(until(&mut watch, (Modified, &file)).await), [(Modified, file.clone())]);
    sandbox.sh("touch src/last").await;
    let last = sandbox.path("src/last");
    let rest = kinds(until(&mut watch, (Created, &last)).await);
    assert_eq!(rest, [(Created, last)], "more was seen than was done");
}

/// However the folder was named, a change has one name.
pub async fn paths_of_changes_are_plain(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("mkdir src").await;
    for (number, path) in [".", "./", "src/..", "./src//../.", ""].into_iter().enumerate() {
        let mut watch = sandbox.client.watch(path, true).await.expect("watches");
        let name = format!("src/{number}");
        write(&sandbox, &name, "x").await;
        let seen = until(&mut watch, (ChangeKind::Created, &sandbox.path(&name))).await;
        assert_eq!(seen.len(), 1, "{path:?}: {seen:?}");
    }
    let mut watch = sandbox.client.watch("src/.././src/0", false).await.expect("watches");
    write(&sandbox, "src/0", "y").await;
    until(&mut watch, (ChangeKind::Modified, &sandbox.path("src/0"))).await;
}

/// A single file is watched whatever replaces it, and the watch ends with it.
pub async fn a_single_file_is_watched(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let missing = sandbox.client.watch("missing", false).await.err();
    assert!(
        matches!(&missing, Some(AgentError::Failed { code, .. }) if code.as_str() == "file_not_found"),
        "{missing:?}"
    );
    write(&sandbox, "file", "one\n").await;
    let file = sandbox.path("file");
    let mut watch = sandbox.client.watch("file", false).await.expect("watches");
    write(&sandbox, "other", "x").await;
    write(&sandbox, "file", "two\n").await;
    let seen = until(&mut watch, (ChangeKind::Modified, &file)).await;
    assert_eq!(seen.len(), 1, "{seen:?}");
    sandbox.sh("rm file").await;
    until(&mut watch, (ChangeKind::Removed, &file)).await;
    let end = tokio::time::timeout(Duration::from_secs(20), watch.next()).await;
    assert_eq!(end.expect("it ends").expect("no failure"), None);
}
