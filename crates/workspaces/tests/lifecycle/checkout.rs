//! Code that a workspace starts with. Who brings it here knows nothing of git.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use emergent_agent_client::{AgentClient, CommandSpec, ExecOptions};
use emergent_provider::WorkspaceProvider;
use emergent_store::{Repository, RepositoryState, WorkspaceFilter, WorkspaceRow};
use emergent_types::{WorkspaceId, WorkspaceStatus};
use emergent_workspaces::{CodeCheckout, NewWorkspace, Options, PoolSpec, ToolError};
use tokio::sync::Semaphore;

use crate::setup::{Installation, eventually};

/// Brings a file, when it may.
struct Bringer {
    gate: Semaphore,
    begun: AtomicU32,
    dropped: AtomicU32,
}

impl Bringer {
    fn new(gates: usize) -> Arc<Self> {
        let (begun, dropped) = (AtomicU32::new(0), AtomicU32::new(0));
        Arc::new(Self { gate: Semaphore::new(gates), begun, dropped })
    }

    async fn until_begun(&self, times: u32) {
        eventually("it has begun", || async { self.begun.load(Ordering::SeqCst) >= times }).await;
    }
}

struct NotedDrop<'a>(&'a AtomicU32);

impl Drop for NotedDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl CodeCheckout for Bringer {
    async fn check_out(
        &self,
        _: &WorkspaceRow,
        repository: &Repository,
        agent: &AgentClient,
    ) -> RepositoryState {
        let noted = NotedDrop(&self.dropped);
        self.begun.fetch_add(1, Ordering::SeqCst);
        match self.gate.acquire().await {
            Ok(permit) => permit.forget(),
            Err(_) => return RepositoryState::Failed { reason: "its server is gone".to_owned(), hint: None },
        }
        std::mem::forget(noted);
        if repository.url.ends_with("/none") {
            return RepositoryState::Failed { reason: "there is none".to_owned(), hint: None };
        }
        let command =
            CommandSpec::shell(format!("mkdir -p ./{0} && echo code > ./{0}/code", repository.path));
        let made = agent.exec(&command, ExecOptions::default()).await.unwrap();
        assert_eq!(made.exit.code, 0, "{made:?}");
        RepositoryState::Done { commit: Some("c0de".to_owned()) }
    }

    fn progress(&self, _: WorkspaceId) -> Option<String> {
        Some("half of it".to_owned())
    }
}

fn repository(name: &str, path: &str) -> Repository {
    Repository {
        url: format!("https://git.example/{name}"),
        branch: None,
        path: path.to_owned(),
        depth: 1,
        state: RepositoryState::Pending,
    }
}

fn with_code(repositories: &[(&str, &str)]) -> NewWorkspace {
    let repositories = repositories.iter().map(|(name, path)| repository(name, path)).collect();
    NewWorkspace { repositories, ..NewWorkspace::default() }
}

async fn start(bringer: &Arc<Bringer>, adjust: impl FnOnce(&mut Options)) -> Installation {
    let bringer = bringer.clone();
    Installation::start_with(|options| {
        options.checkout = Some(bringer);
        adjust(options);
    })
    .await
}

fn done() -> RepositoryState {
    RepositoryState::Done { commit: Some("c0de".to_owned()) }
}

fn states(row: &WorkspaceRow) -> Vec<(&str, &RepositoryState)> {
    row.repositories.iter().map(|one| (one.path.as_str(), &one.state)).collect()
}

/// Proves: RISK-CHECKOUT-5
#[tokio::test]
async fn it_is_ready_when_its_code_is_there_or_is_not_to_be_had() {
    let bringer = Bringer::new(0);
    let installation = start(&bringer, |_| {}).await;
    let handle = installation.handle();
    let new = with_code(&[("a", "in/a"), ("none", "b"), ("c", "")]);
    let creating = tokio::spawn(async move { handle.create(new, true).await });
    bringer.until_begun(1).await;
    let handle = installation.handle();
    let id = installation.provider.list().await.unwrap()[0].id;
    assert_eq!(installation.status(id).await, Some(WorkspaceStatus::Creating));
    assert!(matches!(handle.tool(id).await, Err(ToolError::NotReady { .. })), "nobody uses it before");
    eventually("it is told how far it is", || async {
        handle.progress(id).is_some_and(|said| said == "half of it")
    })
    .await;
    bringer.gate.add_permits(3);
    let row = creating.await.unwrap().unwrap();
    assert_eq!(row.status, WorkspaceStatus::Ready);
    let failed = RepositoryState::Failed { reason: "there is none".to_owned(), hint: None };
    assert_eq!(states(&row), [("in/a", &done()), ("b", &failed), ("", &done())]);
    assert_eq!(installation.sh(id, "cat in/a/code code; ls -A").await, "code\ncode\ncode\nin");
}

#[tokio::test]
async fn a_destroy_in_the_middle_of_it_ends_it() {
    let bringer = Bringer::new(0);
    let installation = start(&bringer, |_| {}).await;
    let id = installation.handle().create(with_code(&[("a", "")]), false).await.unwrap().id;
    bringer.until_begun(1).await;
    tokio::time::timeout(Duration::from_secs(10), installation.handle().destroy(id)).await.unwrap().unwrap();
    assert_eq!(bringer.dropped.load(Ordering::SeqCst), 1);
    assert!(installation.provider.list().await.unwrap().is_empty());
}

/// Cold, and out of a pool.
#[tokio::test]
async fn a_crash_in_the_middle_of_it_is_begun_again_or_leaves_nothing() {
    for (waited, pooled) in [(true, false), (false, false), (true, true), (false, true)] {
        let bringer = Bringer::new(0);
        let mut installation = start(&bringer, |options| {
            options.pools = if pooled { vec![PoolSpec::of_defaults(1)] } else { Vec::new() };
            options.pool_interval = Duration::from_millis(50);
        })
        .await;
        if pooled {
            eventually("a member is ready", || async { installation.handle().pools().pools[0].ready == 1 })
                .await;
        }
        let handle = installation.handle();
        let creating = tokio::spawn(async move { handle.create(with_code(&[("a", "")]), waited).await });
        bringer.until_begun(1).await;
        let page = installation.handle().list(WorkspaceFilter::default(), None, NonZeroU32::MIN).await;
        let listed = page.unwrap().items;
        let id = listed[0].id;
        assert_eq!(listed[0].status, WorkspaceStatus::Creating, "{waited} {pooled}");
        if pooled {
            assert_eq!(installation.handle().pools().hits, 1);
        }
        installation.crash().await;
        // What goes on behind the end of a server is not written down any more.
        bringer.gate.close();
        let _ = creating.await;
        installation.options.checkout = Some(Bringer::new(1));
        installation.start_again().await;
        installation.wait_for(id, (!waited).then_some(WorkspaceStatus::Ready)).await;
        if !waited {
            assert_eq!(states(&installation.handle().get(id).await.unwrap()), [("", &done())]);
            assert_eq!(installation.sh(id, "cat code").await, "code");
        }
    }
}

/// What is known of a repository at a place is replaced, and so is what never came there; what was there stays.
#[tokio::test]
async fn repositories_that_come_later() {
    let bringer = Bringer::new(2);
    let installation = start(&bringer, |_| {}).await;
    let id = installation.handle().create(with_code(&[("a", ""), ("none", "b")]), true).await.unwrap().id;
    let add = async |name: &str, path: &str| {
        let added = Repository { state: RepositoryState::Done { commit: None }, ..repository(name, path) };
        let row = installation.handle().add_repository(id, added).await.unwrap();
        let shown = |one: &Repository| format!("{} {}", one.url.rsplit('/').next().unwrap(), one.path);
        row.repositories.iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(add("c", "b").await, ["a ", "c b"]);
    assert_eq!(add("d", "").await, ["a ", "c b", "d "]);
    assert_eq!(add("c", "b").await, ["a ", "d ", "c b"]);
    assert_eq!(installation.handle().get(id).await.unwrap().repositories.len(), 3);
}
