//! Code in workspaces: what is left of a token, and of a server that is killed.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use emergent_client::{BashRequest, CreateWorkspace, GitCommitRequest, GitPlace};
use emergent_test_support::{
    GitBehaviour, GitServer, Sandbox, TestServer, TestServerOptions, eventually, files_below,
};
use emergent_types::{ByteSize, NetworkMode, WorkspaceStatus};

use crate::support::{sh, small};

/// `git:` and the canary in base64, without what depends on their end.
const SENT: &str = "Z2l0OmNhbmFyeS00ZjFkOWMyN2I4NWU0YTNjOWU2";

/// Long enough to be found nowhere by chance.
const CANARY: &str = "canary-4f1d9c27b85e4a3c9e6d";

fn with_code(url: String) -> CreateWorkspace {
    let mut request =
        CreateWorkspace { repository_url: Some(url), network: Some(NetworkMode::Isolated), ..small() };
    if let Some(limits) = &mut request.resource_limits {
        limits.disk = Some(ByteSize::from_mib(256));
    }
    request
}

async fn start(git: &GitServer) -> TestServer {
    let options = TestServerOptions::default()
        .with("CHECKOUT_ALLOWED_HOSTS", git.origin())
        .with("EMERGENT_LOG", "trace")
        // Their disks would have to be looked through as well.
        .with("WORKSPACE_WARM_POOL_SIZE", 0);
    let server = options.start().await;
    let stored = server.command_with_input(&["git-host", "set", &git.origin()], CANARY.as_bytes()).await;
    assert_eq!(stored.code, Some(0), "{stored:?}");
    server
}

/// The token, as it is and as it is sent.
fn needles() -> Vec<Vec<u8>> {
    vec![CANARY.as_bytes().to_vec(), SENT.as_bytes().to_vec()]
}

fn has_needle(bytes: &[u8]) -> bool {
    needles().iter().any(|needle| bytes.windows(needle.len()).any(|window| window == needle.as_slice()))
}

/// Every process of this machine whose environment or arguments have the token, looked at all the while.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<(BTreeSet<String>, u64)>,
}

impl Watch {
    fn begin() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut found, mut looks) = (BTreeSet::new(), 0);
            while !stopped.load(Ordering::Relaxed) {
                for entry in fs::read_dir("/proc").unwrap().flatten() {
                    for part in ["environ", "cmdline"] {
                        let path = entry.path().join(part);
                        if fs::read(&path).is_ok_and(|bytes| has_needle(&bytes)) {
                            found.insert(path.display().to_string());
                        }
                    }
                }
                looks += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            (found, looks)
        });
        Self { stop, thread }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        let (found, looks) = self.thread.join().unwrap();
        assert!(looks > 20, "it was looked {looks} times");
        assert_eq!(found, BTreeSet::new());
    }
}

/// Sampled all the while: every environment and argument list of this machine.
#[tokio::test]
async fn a_token_is_nowhere_but_at_its_host() {
    let git = GitServer::start(Some(CANARY));
    git.create_repository("org/repo.git");
    git.run("org/repo.git", "cd \"$1\" && head -c 3000000 /dev/urandom > /tmp/blob-$$ && \
        id=$(git hash-object -w /tmp/blob-$$) && rm /tmp/blob-$$ && \
        tree=$(printf '100644 blob %s\\tblob\\n' $id | git mktree) && \
        commit=$(GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b git commit-tree -m large $tree) && \
        git update-ref refs/heads/large $commit");
    let server = start(&git).await;
    let client = server.client();
    let watch = Watch::begin();
    let workspace = client.create(&with_code(git.url("org/repo.git"))).await.unwrap();
    assert_eq!(workspace.checkout.status, "done", "{workspace:?}");
    let (id, here) = (workspace.id, GitPlace::default());
    let mut told = vec![format!("{workspace:?}")];
    sh(&client, id, "echo x >> README").await;
    let commit = GitCommitRequest { message: "x".to_owned(), files: vec!["README".to_owned()], all: false };
    told.push(format!("{:?}", client.git_commit(id, here, &commit).await.unwrap()));
    told.push(format!("{:?}", client.git_push(id, here, None, false).await.unwrap()));
    told.push(format!("{:?}", client.git_fetch(id, here, Some("large"), None).await.unwrap()));
    told.push(format!("{:?}", client.git_pull(id, here, None).await.unwrap()));
    told.push(
        sh(
            &client,
            id,
            "GIT_TRACE=1 GIT_CURL_VERBOSE=1 GIT_TRACE_CURL=1 git push 2>&1; env; git config --list",
        )
        .await,
    );
    git.behave(&[GitBehaviour::Answer(401)]);
    let refused = client.git_push(id, here, None, false).await;
    told.push(format!("{refused:?}"));
    git.behave(&[GitBehaviour::BreakOff]);
    told.push(format!("{:?}", client.git_fetch(id, here, None, None).await));
    git.behave(&[]);
    // A push and a fetch that are cut in the middle.
    git.behave(&[GitBehaviour::Serve, GitBehaviour::Drip]);
    let cut = BashRequest {
        timeout_ms: Some(1500),
        ..BashRequest::new("git fetch --depth=1 origin large:again 2>&1")
    };
    told.push(format!("{:?}", client.bash(id, &cut).await));
    git.behave(&[]);
    watch.end();

    assert!(
        git.seen().iter().all(|request| request.authorization.is_some()),
        "the host is shown it each time"
    );
    for (number, text) in told.iter().enumerate() {
        assert!(!has_needle(text.as_bytes()), "answer {number}");
    }
    // All that the sandbox can write: the rest is the host's own, and read-only. In two pieces, or the log and the database had it from here.
    let ((one, two), (three, four)) = (CANARY.split_at(7), SENT.split_at(7));
    let search = format!(
        "grep -rlaF -D skip -e {one}''{two} -e {three}''{four} /workspace /home /root /etc /tmp /var /run 2>/dev/null; true"
    );
    let hits = sh(&client, id, &search).await;
    assert_eq!(hits, "", "files of the sandbox");
    let audit = server.probe().get("/api/v1/audit?limit=500").await;
    assert!(!has_needle(audit.body.to_string().as_bytes()));
    let folder = server.data_dir().parent().unwrap().to_owned();
    let found = std::process::Command::new("grep")
        .args(["-rlaF", "-e", CANARY, "-e", SENT])
        .arg(&folder)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "database, log and disks");
    assert!(files_below(&folder).len() > 5, "there was something to look at");
    assert!(server.log().contains("TRACE"), "the log has everything");
    server.finish().await;
}

/// A sandbox that was there before is nobody's workspace until its code is there.
#[tokio::test]
async fn code_comes_into_what_waited_in_a_pool_and_again_after_a_kill() {
    let git = GitServer::start(None);
    git.create_repository("repo");
    let options = TestServerOptions::default()
        .with("CHECKOUT_ALLOWED_HOSTS", git.origin())
        .with("WORKSPACE_WARM_POOL_SIZE", 2);
    let mut server = options.start().await;
    let client = server.client();
    eventually("the pool is full", Duration::from_secs(60), async || {
        (client.warm_pool().await.unwrap().ready == 2).then_some(())
    })
    .await;
    let request = CreateWorkspace { repository_url: Some(git.url("repo")), ..CreateWorkspace::default() };
    let made = client.create(&request).await.unwrap();
    assert_eq!((made.status, made.checkout.status.as_str()), (WorkspaceStatus::Ready, "done"), "{made:?}");
    sh(&client, made.id, "echo x > x && git add x && git commit -qm x && git push -q 2>&1").await;

    git.behave(&[GitBehaviour::Serve, GitBehaviour::Hold]);
    let before = git.seen().len();
    let promised = client.create_without_waiting(&request).await.unwrap();
    eventually("it is being cloned", Duration::from_secs(30), async || {
        (git.seen().len() >= before + 2).then_some(())
    })
    .await;
    assert_eq!(client.warm_pool().await.unwrap().hits, 2);
    let refused = client.bash(promised.id, &BashRequest::new("true")).await;
    assert!(refused.is_err(), "it is not ready: {refused:?}");
    server.kill();
    git.behave(&[]);
    server.start_again().await;
    let client = server.client();
    let (workspace, _) = eventually("it is ready", Duration::from_secs(60), async || {
        let workspace = client.workspace(promised.id).await.unwrap();
        (workspace.status == WorkspaceStatus::Ready).then_some(workspace)
    })
    .await;
    assert_eq!(workspace.checkout.status, "done", "{workspace:?}");
    assert_eq!(sh(&client, promised.id, "cat x; git status --porcelain").await, "x\n");
    server.finish().await;
}

/// `kill -9` while a push is under way: what was not taken is still there, and goes when it is pushed again.
#[tokio::test]
async fn a_server_that_is_killed_in_the_middle_of_a_push_loses_nothing() {
    let git = GitServer::start(Some(CANARY));
    git.create_repository("repo");
    let mut server = start(&git).await;
    let client = server.client();
    let id = client.create(&with_code(git.url("repo"))).await.unwrap().id;
    let main = git.git("repo", &["rev-parse", "main"]);
    sh(&client, id, "head -c 2000000 /dev/urandom > large && git add large && git commit -qm large").await;
    git.behave(&[GitBehaviour::Hold]);
    let pushing = {
        let client = client.clone();
        tokio::spawn(async move { client.git_push(id, GitPlace::default(), None, false).await })
    };
    let before = git.seen().len();
    eventually("the push is under way", Duration::from_secs(30), async || {
        let seen = git.seen();
        seen[before.min(seen.len())..].iter().any(|request| request.line.starts_with("POST")).then_some(())
    })
    .await;
    server.kill();
    assert!(pushing.await.unwrap().is_err(), "whoever waited is told");
    assert_eq!(git.git("repo", &["rev-parse", "main"]), main);
    git.behave(&[]);
    server.start_again().await;
    let client = server.client();
    eventually("nothing of it is left", Duration::from_secs(20), async || {
        (!Sandbox::of(id).runs("git-remote-http")).then_some(())
    })
    .await;
    let pushed = client.git_push(id, GitPlace::default(), None, false).await.unwrap();
    assert_eq!(pushed.pushed.len(), 1, "{pushed:?}");
    assert_eq!(git.git("repo", &["cat-file", "-s", "main:large"]), "2000000");
    server.finish().await;
}

/// `kill -9` while a clone is under way: what was promised is made, what was not goes.
#[tokio::test]
async fn a_server_that_is_killed_in_the_middle_of_a_clone_converges() {
    let git = GitServer::start(Some(CANARY));
    git.create_repository("repo");
    git.run("repo", "cd \"$1\" && head -c 4000000 /dev/urandom > /tmp/blob-$$ && id=$(git hash-object -w /tmp/blob-$$) && \
        rm /tmp/blob-$$ && tree=$(printf '100644 blob %s\\tblob\\n' $id | git mktree) && \
        commit=$(GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b git commit-tree -m large $tree) && \
        git update-ref refs/heads/main $commit");
    let mut server = start(&git).await;
    let client = server.client();
    // The announcement at once, and what follows slowly.
    git.behave(&[GitBehaviour::Drip]);
    let promised = client.create_without_waiting(&with_code(git.url("repo"))).await.unwrap();
    let waiting = {
        let (client, request) = (client.clone(), with_code(git.url("repo")));
        tokio::spawn(async move { client.create(&request).await })
    };
    let (progress, _) = eventually("bytes come", Duration::from_secs(60), async || {
        let workspace = client.workspace(promised.id).await.unwrap();
        assert_eq!(workspace.status, WorkspaceStatus::Creating);
        workspace
            .checkout
            .progress
            .filter(|progress| progress.contains("MiB") && !progress.contains(" 0.0 MiB"))
    })
    .await;
    assert!(progress.starts_with("cloning http://"), "{progress}");
    server.kill();
    assert!(waiting.await.unwrap().is_err(), "whoever waited is told");
    git.behave(&[]);
    server.start_again().await;
    let client = server.client();
    let (workspace, _) = eventually("it is ready", Duration::from_secs(60), async || {
        let workspace = client.workspace(promised.id).await.unwrap();
        (workspace.status == WorkspaceStatus::Ready).then_some(workspace)
    })
    .await;
    assert_eq!(workspace.checkout.status, "done", "{workspace:?}");
    assert_eq!(
        sh(&client, promised.id, "git status --porcelain; git fsck 2>&1; stat -c %s blob")
            .await
            .lines()
            .last(),
        Some("4000000")
    );
    let listed = client.list(&emergent_client::ListWorkspaces::default()).await.unwrap().items;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert!(!Sandbox::of(promised.id).runs("git clone"), "no clone is left");
    server.finish().await;
}
