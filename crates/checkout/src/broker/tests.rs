//! The broker between a guest that says what it likes and a host that answers what it likes.

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use emergent_store::sqlite::SqliteStore;
use emergent_store::{
    AuditFilter, Environment, Repository, RepositoryState, SecretKey, SecretText, Store, Vault,
};
use emergent_test_support::GitServer;
use emergent_types::{
    ContainerType, DeploymentMode, IsolationLevel, Lifecycle, NetworkMode, ProviderChoice, ProviderKind,
    ResourceLimits, WorkspaceId, WorkspaceStatus,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::{Handle, Hosts, Limits, Options, Origin, Service};

const TOKEN: &str = "t0ken";

/// The host's own address, in its answers.
const HERE: &str = "{here}";

/// `git:t0ken`
const SHOWN: &str = "Basic Z2l0OnQwa2Vu";

/// A host that answers what it was told to, and what it was asked.
struct Host {
    origin: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Host {
    async fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Self::converse(stream, answer, kept.clone()));
            }
        });
        Self { origin, asked }
    }

    async fn converse(mut stream: TcpStream, answer: &'static str, asked: Arc<Mutex<Vec<String>>>) {
        let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
        while !heard.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(count) => heard.extend_from_slice(&buffer[..count]),
            }
        }
        asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(String::from_utf8_lossy(&heard).into_owned());
        let here = stream.local_addr().map(|here| here.to_string()).unwrap_or_default();
        let _ = stream.write_all(answer.replace(HERE, &here).as_bytes()).await;
        // Until whoever asked has gone.
        while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where the broker has it.
    fn path(&self) -> String {
        self.origin.replace("://", "/")
    }
}

struct Setup {
    broker: Arc<GitBroker>,
    handle: Handle,
    store: Arc<dyn Store>,
    row: WorkspaceRow,
    _folder: TempDir,
}

impl Setup {
    async fn new(origin: &str, limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::new(&SecretKey::from([7; 32]));
        let store: Arc<dyn Store> =
            Arc::new(SqliteStore::open(&folder.path().join("emergent.db"), vault).await.unwrap());
        let origin: Origin = origin.parse().unwrap();
        let service =
            Service::start(Options { hosts: Hosts::new(None, vec![origin.clone()]), limits }, store.clone());
        let handle = service.handle();
        let token = SecretText::from(TOKEN.to_owned());
        handle.set_host_token(&origin, "git".to_owned(), token, None).await.unwrap();
        let broker = Arc::new(GitBroker { shared: service.shared.clone() });
        let row = workspace(&format!("{origin}/org/mine"));
        Self { broker, handle, store, row, _folder: folder }
    }

    /// What a guest gets that says this, until the broker closes the connection.
    async fn say(&self, words: &[u8]) -> String {
        let (mut guest, stream) = duplex(1 << 16);
        let (broker, row) = (self.broker.clone(), self.row.clone());
        let serving = tokio::spawn(async move { broker.converse(row, stream).await });
        let _ = guest.write_all(words).await;
        let mut heard = Vec::new();
        let reading = tokio::time::timeout(Duration::from_secs(20), guest.read_to_end(&mut heard)).await;
        assert!(reading.is_ok(), "the broker says no more: {}", String::from_utf8_lossy(&heard));
        let _ = serving.await;
        String::from_utf8_lossy(&heard).into_owned()
    }

    async fn get(&self, path: &str) -> String {
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        self.say(head.as_bytes()).await
    }

    fn refused(&self) -> Option<Refusal> {
        self.broker
            .shared
            .refusals
            .since(self.row.id, Instant::now().checked_sub(Duration::from_secs(60)).unwrap())
    }

    /// What the audit log says of the only use.
    async fn audited(&self) -> (String, Option<String>) {
        for _ in 0..100 {
            let page = self.store.list_audit(&AuditFilter::default(), None, NonZeroU32::MIN).await.unwrap();
            if let Some(entry) = page.items.first() {
                return (entry.outcome.as_str().to_owned(), entry.error_code.clone());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("nothing is in the audit log");
    }
}

fn workspace(url: &str) -> WorkspaceRow {
    let id = WorkspaceId::generate();
    let now = emergent_store::now();
    WorkspaceRow {
        id,
        agent_session_id: None,
        container_type: ContainerType::AgentWorkspace,
        provider: ProviderKind::Local,
        provider_workspace_id: id.to_string(),
        repository_url: None,
        branch: None,
        deployment_mode: DeploymentMode::SelfHosted,
        lifecycle: Lifecycle::Ephemeral,
        status: WorkspaceStatus::Ready,
        created_at: now,
        last_used_at: now,
        expires_at: None,
        resource_limits: ResourceLimits::WORKSPACE_DEFAULT,
        snapshot_id: None,
        mcp_config: None,
        metadata: serde_json::Map::new(),
        requested_provider: ProviderChoice::Auto,
        min_isolation: IsolationLevel::Container,
        network: NetworkMode::Isolated,
        base_image: None,
        ttl_seconds: None,
        environment: Environment::default(),
        owner_id: None,
        isolation: None,
        persistence: None,
        disk_enforcement: None,
        attempts: Vec::new(),
        warnings: Vec::new(),
        error: None,
        resume_attempts: 0,
        acknowledged: true,
        warm_pool: None,
        named_demands: None,
        repositories: vec![Repository {
            url: url.to_owned(),
            branch: None,
            path: String::new(),
            depth: 1,
            state: RepositoryState::Done { commit: None },
        }],
    }
}

/// An answer with this body.
macro_rules! advertised {
    ($headers:literal, $body:literal) => {
        concat!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n",
            $headers,
            "\r\n",
            $body
        )
    };
}

#[tokio::test]
async fn a_host_is_sent_what_was_made_here_and_a_guest_gets_what_is_its_business() {
    let host = Host::start(advertised!(
        "Content-Length: 4\r\nSet-Cookie: a=b\r\nWWW-Authenticate: Basic\r\nX-Secret: c\r\nLocation: http://x\r\n",
        "0000"
    ))
    .await;
    let setup = Setup::new(&host.origin, Limits::default()).await;
    let heard = setup
        .say(
            format!(
                "GET /{}/org/mine/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: evil.example\r\n\
                 Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nCookie: a=b\r\nX-Forwarded-Host: evil.example\r\n\
                 Proxy-Authorization: x\r\nGit-Protocol: version=2\r\nAccept-Encoding: deflate, gzip\r\n\
                 User-Agent: guest\r\nConnection: close\r\n\r\n",
                host.path()
            )
            .as_bytes(),
        )
        .await;
    let heard_low = heard.to_ascii_lowercase();
    assert!(heard.starts_with("HTTP/1.1 200 OK\r\n") && heard.ends_with("\r\n\r\n0000"), "{heard}");
    for kept_here in ["set-cookie", "www-authenticate", "x-secret", "location", "t0ken", "basic"] {
        assert!(!heard_low.contains(kept_here), "{kept_here}: {heard}");
    }
    let asked = host.asked();
    let mut lines: Vec<&str> = asked[0].trim_end().lines().collect();
    lines[1..].sort_unstable();
    let authority = host.origin.trim_start_matches("http://");
    assert_eq!(
        lines,
        [
            "GET /org/mine/info/refs?service=git-upload-pack HTTP/1.1",
            "accept-encoding: gzip",
            "accept: */*",
            &format!("authorization: {SHOWN}"),
            "cache-control: no-cache",
            "git-protocol: version=2",
            &format!("host: {authority}"),
            &format!("user-agent: git/2.47.0 (emergent {})", env!("CARGO_PKG_VERSION")),
        ]
    );
    assert_eq!(setup.audited().await, ("ok".to_owned(), None));
}

#[tokio::test]
async fn what_is_not_the_workspaces_gets_nowhere() {
    let host = Host::start(advertised!("Content-Length: 4\r\n", "0000")).await;
    let setup = Setup::new(&host.origin, Limits::default()).await;
    let (path, query) = (host.path(), "info/refs?service=git-upload-pack");
    for other in [
        format!("/{path}/org/theirs/{query}"),
        format!("/{path}/org/mine/../theirs/{query}"),
        format!("/{path}/org/mine/..%2ftheirs/{query}"),
        format!("/{path}/org//mine/{query}"),
        format!("/{path}/org/mine/{query}&x=y"),
        format!("/{path}/org/mine/HEAD"),
        format!("/{path}/org/mine/info/lfs/objects/batch"),
        format!("/{path}/ORG/mine/{query}"),
        format!("/{path}/org/mine.git/{query}"),
        format!("//{path}/org/mine/{query}"),
        format!("http://evil.example/org/mine/{query}"),
        format!("/https/github.com/org/mine/{query}"),
        "/".to_owned(),
    ] {
        let heard = setup.get(&other).await;
        assert!(heard.starts_with("HTTP/1.1 40"), "{other}: {heard}");
        assert!(!heard.starts_with("HTTP/1.1 401"), "git would ask for a password: {heard}");
    }
    let heard = setup
        .say(b"CONNECT github.com:443 HTTP/1.1\r\nHost: github.com:443\r\nConnection: close\r\n\r\n")
        .await;
    assert!(heard.starts_with("HTTP/1.1 404"), "{heard}");
    assert_eq!(host.asked(), Vec::<String>::new());
    assert_eq!(setup.refused(), Some(Refusal::NotTheWorkspaces));

    // While it is granted, and no longer.
    let theirs = format!("/{path}/org/theirs/{query}");
    let grant = setup.handle.grant(setup.row.id, format!("{}/org/theirs", host.origin).parse().unwrap());
    assert!(setup.get(&theirs).await.starts_with("HTTP/1.1 200"));
    drop(grant);
    assert!(setup.get(&theirs).await.starts_with("HTTP/1.1 403"));
}

#[tokio::test]
async fn answers_that_are_none_of_a_git_server_are_kept_here() {
    for (answer, status, refusal) in [
        (
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
            404,
            Refusal::Moved,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\nsecret",
            404,
            Refusal::NotGit,
        ),
        ("HTTP/1.1 404 No\r\nContent-Length: 6\r\n\r\nsecret", 404, Refusal::NotFound),
    ] {
        let host = Host::start(answer).await;
        let setup = Setup::new(&host.origin, Limits::default()).await;
        let heard = setup.get(&format!("/{}/org/mine/info/refs?service=git-upload-pack", host.path())).await;
        assert!(heard.starts_with(&format!("HTTP/1.1 {status}")), "{heard}");
        assert!(!heard.contains("secret") && !heard.contains("127.0.0.1:1/"), "{heard}");
        assert_eq!(host.asked().len(), 1, "it is not followed");
        assert_eq!(setup.refused(), Some(refusal.clone()));
        assert_eq!(setup.audited().await, ("error".to_owned(), Some(refusal.code().to_owned())));
    }
    let host = Host::start("HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n").await;
    let setup = Setup::new(&host.origin, Limits::default()).await;
    let heard = setup.get(&format!("/{}/org/mine/info/refs?service=git-receive-pack", host.path())).await;
    assert!(heard.starts_with("HTTP/1.1 403"), "{heard}");
    assert!(setup.refused().is_some_and(|refusal| refusal.is_authentication()));
}

/// As GitLab does it.
#[tokio::test]
async fn a_host_may_want_git_behind_the_name_and_nothing_else() {
    const MOVED: &str = "HTTP/1.1 301 Moved\r\nLocation: ";
    let target = "/org/mine.git/info/refs?service=git-upload-pack";
    for (to, is_followed) in [
        (target.to_owned(), true),
        (format!("http://{HERE}{target}"), true),
        (format!("https://{HERE}{target}"), false),
        (format!("http://evil.example{target}"), false),
        (format!("//evil.example{target}"), false),
        ("/org/theirs.git/info/refs?service=git-upload-pack".to_owned(), false),
        ("/org/mine.git/info/refs?service=git-receive-pack".to_owned(), false),
        (format!("http://{HERE}@evil.example{target}"), false),
    ] {
        let answer = format!("{MOVED}{to}\r\nContent-Length: 0\r\n\r\n");
        let host = Host::start(answer.leak()).await;
        let setup = Setup::new(&host.origin, Limits::default()).await;
        let path = format!("/{}/org/mine", host.path());
        let heard = setup.get(&format!("{path}/info/refs?service=git-upload-pack")).await;
        // It answers the same whatever it is asked.
        assert!(heard.starts_with("HTTP/1.1 404"), "{heard}");
        let asked = host.asked();
        assert_eq!(asked.len(), if is_followed { 2 } else { 1 }, "{to}");
        if is_followed {
            assert!(asked[1].starts_with(&format!("GET {target} ")), "{}", asked[1]);
            let post = format!(
                "POST {path}/git-upload-pack HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            setup.say(post.as_bytes()).await;
            assert!(host.asked()[2].starts_with("POST /org/mine.git/git-upload-pack "), "{:?}", host.asked());
        }
    }
}

#[tokio::test]
async fn what_is_too_much_or_too_slow_ends() {
    let limits = Limits {
        received_bytes: 1 << 20,
        sent_bytes: 1 << 20,
        silence: Duration::from_millis(300),
        answer: Duration::from_secs(2),
        ..Limits::default()
    };
    let fetch = |host: &Host| format!("/{}/org/mine/info/refs?service=git-upload-pack", host.path());

    let host = Host::start(advertised!("Content-Length: 100\r\n", "0000")).await;
    let setup = Setup::new(&host.origin, limits.clone()).await;
    setup.get(&fetch(&host)).await;
    assert_eq!(setup.refused(), Some(Refusal::TimedOut), "it says no more in the middle");

    let host = Host::start("").await;
    let setup = Setup::new(&host.origin, limits.clone()).await;
    let heard = setup.get(&fetch(&host)).await;
    assert!(heard.starts_with("HTTP/1.1 504"), "it says nothing: {heard}");
    assert_eq!(setup.refused(), Some(Refusal::TimedOut));

    let host = Host::start(advertised!("Content-Length: 4\r\n", "0000")).await;
    let small = Limits { received_bytes: 3, ..limits.clone() };
    let setup = Setup::new(&host.origin, small).await;
    let heard = setup.get(&fetch(&host)).await;
    assert!(!heard.ends_with("0000"), "{heard}");
    assert_eq!(setup.refused(), Some(Refusal::TooLarge { limit_mib: 0 }));

    // Said beforehand, and not said.
    let setup = Setup::new(&host.origin, limits).await;
    let push = format!(
        "POST /{}/org/mine/git-receive-pack HTTP/1.1\r\nHost: x\r\nConnection: close\r\n",
        host.path()
    );
    let heard = setup.say(format!("{push}Content-Length: 1048577\r\n\r\n").as_bytes()).await;
    assert!(heard.starts_with("HTTP/1.1 413"), "{heard}");
    let silent = Host::start("").await;
    let setup = Setup::new(&silent.origin, Limits { sent_bytes: 1 << 20, ..Limits::default() }).await;
    let push = push.replace(&host.path(), &silent.path());
    let mut words = format!("{push}Transfer-Encoding: chunked\r\n\r\n100001\r\n").into_bytes();
    words.extend(std::iter::repeat_n(b'x', 0x10_0001));
    words.extend(b"\r\n0\r\n\r\n");
    let heard = setup.say(&words).await;
    assert!(heard.starts_with("HTTP/1.1 413") || heard.is_empty(), "{heard}");
    assert_eq!(setup.refused(), Some(Refusal::TooLarge { limit_mib: 1 }));
}

/// A real git against a real git server, with the broker between them.
#[tokio::test(flavor = "multi_thread")]
async fn git_clones_and_pushes_without_a_token() {
    let server = GitServer::start(Some(TOKEN));
    server.create_repository("org/mine");
    let setup = Setup::new(&server.origin(), Limits::default()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address =
        format!("http://{}/{}/org/mine", listener.local_addr().unwrap(), server.origin().replace("://", "/"));
    let (broker, row) = (setup.broker.clone(), setup.row.clone());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (broker, row) = (broker.clone(), row.clone());
            tokio::spawn(async move { broker.converse(row, stream).await });
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let git = async |arguments: &[&str]| {
        let output = tokio::process::Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "http.postBuffer=65536"])
            .args(arguments)
            .current_dir(folder.path())
            .env("GIT_TERMINAL_PROMPT", "0")
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["clone", "-q", &address, "work"]).await;
    // Larger than what git sends in one piece.
    let bytes: Vec<u8> =
        (0..300_000u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    std::fs::write(folder.path().join("work/large"), bytes).unwrap();
    git(&["-C", "work", "add", "large"]).await;
    git(&["-C", "work", "commit", "-qm", "large"]).await;
    git(&["-C", "work", "push", "-q", "origin", "HEAD:large"]).await;
    assert_eq!(server.git("org/mine", &["cat-file", "-s", "large:large"]), "1200000");
    assert!(server.seen().iter().any(|request| request.head.contains("transfer-encoding: chunked")));
    assert!(server.seen().iter().all(|request| request.authorization.is_some()));
}
