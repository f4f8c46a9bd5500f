//! Every route with every kind of token, for a workspace of the caller's own, for a stranger's
//! and for one that never was.

use emergent_orchestrator::Orchestrator;
use emergent_provider::WorkspaceProvider;
use emergent_provider::fake::FakeProvider;
use emergent_store::SessionScope;
use emergent_types::{IsolationLevel, ProviderKind, SnapshotId, WorkspaceId, WorkspaceStatus};
use emergent_workspaces::{NewWorkspace, Service};

use super::*;
use crate::access::{Access, TABLE};

/// A server with workspaces that belong to several.
struct Matrix {
    server: Server,
    store: Arc<dyn Store>,
    workspaces: Service,
    /// Whose the strangers' workspaces are.
    somebody: TokenId,
    /// A stranger's workspace.
    foreign: WorkspaceId,
    /// None.
    missing: WorkspaceId,
}

/// What somebody gets to see of an answer, but for the id that they asked for themselves, and
/// what is different every time.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Seen {
    fn code(&self) -> Option<String> {
        let body: Value = serde_json::from_str(&self.body).ok()?;
        body["error"]["code"].as_str().map(str::to_owned)
    }

    fn refusal(&self) -> Option<(u16, String)> {
        self.code().map(|code| (self.status, code))
    }
}

impl Matrix {
    async fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let store = open_store(&folder).await;
        let fake: Arc<dyn WorkspaceProvider> =
            Arc::new(FakeProvider::new(ProviderKind::Local, IsolationLevel::Container));
        let orchestrator = Orchestrator::start(vec![fake]).await;
        let options = emergent_workspaces::Options { max_concurrent: 1000, ..Default::default() };
        let workspaces = Service::start(options, Arc::clone(&store), orchestrator).await.unwrap();
        let server = Server::around(Arc::clone(&store), Some(workspaces.handle()), folder);
        let somebody = insert(store.as_ref(), TokenKind::User, None).await.0;
        let mut matrix = Self {
            server,
            store,
            workspaces,
            somebody,
            foreign: WorkspaceId::generate(),
            missing: WorkspaceId::generate(),
        };
        matrix.foreign = matrix.workspace_of(somebody).await;
        matrix
    }

    async fn workspace_of(&self, owner: TokenId) -> WorkspaceId {
        let new = NewWorkspace { owner: Some(owner), ..NewWorkspace::default() };
        self.workspaces.handle().create(new, true).await.unwrap().id
    }

    /// A token of this kind, with a workspace that it may use.
    async fn caller(&self, kind: TokenKind) -> (String, WorkspaceId) {
        if kind == TokenKind::Session {
            // Lent for a workspace that belongs to somebody else.
            let own = self.workspace_of(self.somebody).await;
            let (_, token) = insert(self.store.as_ref(), kind, Some(own)).await;
            return (token, own);
        }
        let (id, token) = insert(self.store.as_ref(), kind, None).await;
        (token, self.workspace_of(id).await)
    }

    async fn see(&self, method: &str, path: &str, about: WorkspaceId, token: &str, body: &Value) -> Seen {
        // What would go on for ever is asked for in a way that makes no sense.
        let path = match method {
            "GET" | "HEAD" => format!("{path}?nonsense=1"),
            _ => path.to_owned(),
        };
        let path =
            path.replace("{id}", &about.to_string()).replace("{process_id}", "1").replace("{port}", "80");
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost:8585")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        let (parts, body) = self.server.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let headers = parts.headers.iter().filter(|(name, _)| *name != "x-request-id");
        Seen {
            status: parts.status.as_u16(),
            headers: headers.map(|(name, value)| (name.to_string(), format!("{value:?}"))).collect(),
            body: String::from_utf8_lossy(&body).replace(&about.to_string(), "ID"),
        }
    }

    async fn end(self) {
        self.workspaces.shutdown(std::time::Duration::ZERO).await;
    }
}

async fn insert(store: &dyn Store, kind: TokenKind, of: Option<WorkspaceId>) -> (TokenId, String) {
    let token = BearerToken::generate().unwrap();
    let session = of.map(|workspace_id| SessionScope { workspace_id, tools: None });
    let row = ApiToken { session, ..known(kind, &token) };
    store.insert_token(&row, None).await.unwrap();
    (row.id, token.expose().to_owned())
}

fn sees_all(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Admin | TokenKind::ReadOnly)
}

/// Every row of the table that is about a workspace; `HEAD` is what `GET` is.
fn rows() -> impl Iterator<Item = (&'static str, &'static str, Access)> {
    TABLE.iter().copied().filter(|(_, _, access)| access.is_about_a_workspace()).flat_map(
        |(method, path, access)| {
            let head = (method == "GET").then_some(("HEAD", path, access));
            head.into_iter().chain([(method, path, access)])
        },
    )
}

#[tokio::test]
async fn a_strangers_workspace_looks_like_none() {
    let matrix = Matrix::start().await;
    let not_found = Some((404, "workspace_not_found".to_owned()));
    let nothing = serde_json::json!({});
    for (method, path, access) in rows() {
        for kind in TokenKind::ALL {
            // A fresh one each time: some routes put an end to it.
            let (token, own) = matrix.caller(kind).await;
            let see = |about| matrix.see(method, path, about, &token, &nothing);
            let name = format!("{method} {path} with {kind}");
            let missing = see(matrix.missing).await;
            if !access.admits(kind) {
                // Of three, nobody can tell which is which.
                assert_eq!(missing.status, 403, "{name}: {missing:?}");
                assert_eq!(see(own).await, missing, "{name}: its own");
                assert_eq!(see(matrix.foreign).await, missing, "{name}: a stranger's");
                continue;
            }
            if sees_all(kind) {
                // Nothing is hidden from these, so what makes no sense may be said first.
                assert!(matches!(missing.status, 400 | 404 | 426), "{name}: {missing:?}");
                if access == Access::ReadWorkspace {
                    let seen = see(matrix.foreign).await;
                    assert_eq!((missing.status, seen.status), (404, 200), "{name}: a stranger's: {seen:?}");
                }
            } else {
                assert_eq!(missing.status, 404, "{name}: {missing:?}");
                assert!(method == "HEAD" || missing.refusal() == not_found, "{name}: {missing:?}");
                assert_eq!(see(matrix.foreign).await, missing, "{name}: a stranger's");
            }
            let seen = see(own).await;
            assert!(![401, 403].contains(&seen.status) && seen.refusal() != not_found, "{name}: {seen:?}");
        }
    }
    let foreign = matrix.workspaces.handle().get(matrix.foreign).await.unwrap();
    assert_eq!(foreign.status, WorkspaceStatus::Ready, "nobody did anything to it");
    matrix.end().await;
}

/// What is not about one workspace says nothing about a stranger's either.
#[tokio::test]
async fn no_list_and_no_other_route_tells_of_a_strangers_workspace() {
    let matrix = Matrix::start().await;
    let foreign = matrix.foreign.to_string();
    for kind in TokenKind::ALL.into_iter().filter(|kind| !sees_all(*kind)) {
        let (token, own) = matrix.caller(kind).await;
        for (method, path, access) in TABLE.iter().filter(|(_, _, access)| !access.is_about_a_workspace()) {
            if *method != "GET" || *access == Access::Public || path.contains('{') {
                continue;
            }
            let headers = [("authorization", &*format!("Bearer {token}"))];
            // What would go on for ever is asked for what there is.
            let path = match *path {
                "/api/v1/events" => "/api/v1/events?follow=false",
                other => other,
            };
            let (status, _, body) = matrix.server.send("GET", path, &headers).await;
            let text = String::from_utf8_lossy(&body);
            assert!(!text.contains(&foreign), "GET {path} with {kind}: {status} {text}");
        }
        let ask = |method, path, about: WorkspaceId, body| {
            let token = &token;
            let matrix = &matrix;
            async move { matrix.see(method, path, about, token, &body).await }
        };
        let session =
            |about: WorkspaceId| serde_json::json!({"name": "a", "kind": "session", "workspace_id": about});
        assert_eq!(
            ask("POST", "/api/v1/tokens", matrix.foreign, session(matrix.foreign)).await,
            ask("POST", "/api/v1/tokens", matrix.missing, session(matrix.missing)).await,
            "a session for a workspace, with {kind}"
        );
        let headers = [("authorization", &*format!("Bearer {token}"))];
        let mut pages = Vec::new();
        for about in [matrix.foreign, matrix.missing] {
            let path = format!("/api/v1/audit?workspace_id={about}&tool=bash");
            let (status, _, body) = matrix.server.send("GET", &path, &headers).await;
            pages.push((status, body));
        }
        assert_eq!(pages[0], pages[1], "the audit log of a workspace, with {kind}");
        assert!(matrix.workspaces.handle().get(own).await.is_ok());
    }
    matrix.end().await;
}

/// Tokens of others are none either.
#[tokio::test]
async fn a_strangers_token_looks_like_none() {
    let matrix = Matrix::start().await;
    let absent = TokenId::generate();
    for kind in TokenKind::ALL.into_iter().filter(|kind| !sees_all(*kind)) {
        let (token, _) = matrix.caller(kind).await;
        for method in ["GET", "DELETE"] {
            let mut seen = Vec::new();
            for id in [matrix.somebody, absent] {
                let headers = [("authorization", &*format!("Bearer {token}"))];
                let path = format!("/api/v1/tokens/{id}");
                let (status, _, body) = matrix.server.send(method, &path, &headers).await;
                seen.push((status, String::from_utf8_lossy(&body).replace(&id.to_string(), "ID")));
            }
            assert_eq!(seen[0], seen[1], "{method} with {kind}");
            assert!(matches!(seen[0].0.as_u16(), 403 | 404), "{method} with {kind}: {seen:?}");
        }
    }
    matrix.end().await;
}

/// Snapshots of others are none either, neither to look at, to remove, nor to make a workspace from.
#[tokio::test]
async fn a_strangers_snapshot_looks_like_none() {
    let matrix = Matrix::start().await;
    let handle = matrix.workspaces.handle();
    let taken = handle.snapshot(matrix.foreign, None, Some(matrix.somebody)).await.unwrap().id;
    let absent = SnapshotId::generate();
    let restore = |id: SnapshotId| serde_json::json!({"snapshot_id": id}).to_string();
    let nothing = |_: SnapshotId| String::new();
    type Content<'a> = &'a dyn Fn(SnapshotId) -> String;
    let rows: [(&str, &str, Content<'_>); 3] = [
        ("GET", "/api/v1/agent/snapshots/{snapshot_id}", &nothing),
        ("DELETE", "/api/v1/agent/snapshots/{snapshot_id}", &nothing),
        ("POST", "/api/v1/agent/workspaces/from-snapshot", &restore),
    ];
    let known =
        TABLE.iter().filter(|(_, path, _)| path.contains("{snapshot_id}") || path.contains("from-snapshot"));
    assert_eq!(known.count(), rows.len(), "every route that names a snapshot is here");
    for kind in TokenKind::ALL {
        let (token, _) = matrix.caller(kind).await;
        for (method, path, content) in rows {
            let mut seen = Vec::new();
            for id in [taken, absent] {
                let request = Request::builder()
                    .method(method)
                    .uri(path.replace("{snapshot_id}", &id.to_string()))
                    .header("host", "localhost:8585")
                    .header("authorization", format!("Bearer {token}"))
                    .header("content-type", "application/json")
                    .body(Body::from(content(id)))
                    .unwrap();
                // Administrators do get at it, which must not spoil it for the others.
                if id == taken && sees_all(kind) && method != "GET" {
                    continue;
                }
                let (parts, body) = matrix.server.router.clone().oneshot(request).await.unwrap().into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body = String::from_utf8_lossy(&body).replace(&id.to_string(), "ID");
                seen.push((parts.status.as_u16(), body));
            }
            let name = format!("{method} {path} with {kind}");
            match seen.as_slice() {
                [taken, absent] if sees_all(kind) => assert_eq!((taken.0, absent.0), (200, 404), "{name}"),
                [taken, absent] => {
                    assert_eq!(taken, absent, "{name}");
                    assert!(matches!(absent.0, 403 | 404), "{name}: {absent:?}");
                }
                _ => assert!(matches!(seen[0].0, 403 | 404), "{name}: {seen:?}"),
            }
        }
        if !sees_all(kind) {
            let headers = [("authorization", &*format!("Bearer {token}"))];
            let (_, _, body) = matrix.server.send("GET", "/api/v1/agent/snapshots", &headers).await;
            assert!(!String::from_utf8_lossy(&body).contains(&taken.to_string()), "the list, with {kind}");
        }
    }
    assert_eq!(handle.get_snapshot(taken).await.unwrap().id, taken, "nobody did anything to it");
    matrix.end().await;
}
