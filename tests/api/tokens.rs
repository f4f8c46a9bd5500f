//! Kinds of tokens: what each may do, and how they end.

use std::time::Duration;

use emergent_test_support::{Answer, TestServerOptions, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{Api, WORKSPACES};

const TOKENS: &str = "/api/v1/tokens";

impl Api {
    /// Makes a token; gives its id and itself.
    pub(crate) async fn token(&self, body: Value) -> (String, String) {
        let made = self.post(TOKENS, &body).await;
        assert_eq!(made.status, 201, "{}", made.body);
        (made.body["id"].as_str().unwrap().to_owned(), made.body["token"].as_str().unwrap().to_owned())
    }

    pub(crate) async fn call_as(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Answer {
        let mut request = self.probe().anonymous(method.clone(), path).bearer_auth(token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        self.call(method, path, request).await
    }
}

#[tokio::test]
async fn each_kind_may_do_what_it_says() {
    let api = Api::start().await;
    let theirs = api.create().await;
    let (_, user) = api.token(json!({"name": "user", "kind": "user"})).await;
    let (_, reader) = api.token(json!({"name": "reader", "kind": "read_only"})).await;
    let (_, sdk) = api.token(json!({"name": "sdk", "kind": "e2b"})).await;
    let small = json!({"resource_limits": {"cpu": "1", "memory": "256M", "disk": "128M"}});
    let made = api.call_as(&user, Method::POST, WORKSPACES, Some(small)).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let own = format!("{WORKSPACES}/{}", made.body["id"].as_str().unwrap());
    let bash = |command: &str| Some(json!({"command": command}));

    // A user sees and uses its own, and of others not even that they are there.
    let listed = api.call_as(&user, Method::GET, WORKSPACES, None).await;
    assert_eq!(listed.body["items"].as_array().unwrap().len(), 1);
    assert_eq!(api.call_as(&user, Method::POST, &format!("{own}/bash"), bash("true")).await.status, 200);
    for (method, rest, body) in [
        (Method::GET, "", None),
        (Method::DELETE, "", None),
        (Method::POST, "/stop", None),
        (Method::POST, "/bash", bash("touch /workspace/seen")),
        (Method::POST, "/read", Some(json!({"file_path": "/etc/passwd"}))),
        (Method::GET, "/processes", None),
    ] {
        let answer = api.call_as(&user, method.clone(), &theirs.path(rest), body).await;
        assert_eq!(answer.failure(), (404, "workspace_not_found"), "{method} {rest}");
    }
    assert_eq!(theirs.sh("ls /workspace").await, "", "nothing ran");
    let refused = api.call_as(&user, Method::POST, TOKENS, Some(json!({"name": "x", "kind": "admin"}))).await;
    assert_eq!(refused.failure(), (403, "forbidden"));

    // Who reads sees everything and changes nothing.
    let seen = api.call_as(&reader, Method::GET, WORKSPACES, None).await;
    assert_eq!(seen.body["items"].as_array().unwrap().len(), 2);
    for (method, path) in [
        (Method::POST, WORKSPACES.to_owned()),
        (Method::POST, format!("{own}/bash")),
        (Method::DELETE, own.clone()),
    ] {
        let body = (method == Method::POST).then(|| json!({"command": "true"}));
        assert_eq!(api.call_as(&reader, method.clone(), &path, body).await.status, 403, "{method} {path}");
    }

    // A session has one workspace and its tools.
    let session = json!({
        "name": "session", "kind": "session", "workspace_id": theirs.id.to_string(), "tools": ["read", "write"],
    });
    let (_, session) = api.token(session).await;
    let write = Some(json!({"file_path": "a", "content": "x"}));
    assert_eq!(api.call_as(&session, Method::POST, &theirs.path("/write"), write).await.status, 200);
    let refused = api.call_as(&session, Method::POST, &theirs.path("/bash"), bash("true")).await;
    assert_eq!(refused.failure(), (403, "tool_not_allowed"));
    assert!(refused.body["error"]["message"].as_str().unwrap().contains("Tool 'bash' is not enabled"));
    let foreign =
        api.call_as(&session, Method::POST, &format!("{own}/read"), Some(json!({"path": "a"}))).await;
    assert!(matches!(foreign.status, 403 | 404), "{}", foreign.body);

    // The SDKs' form of a user's token, in the SDKs' header.
    assert!(sdk.strip_prefix("e2b_").is_some_and(|rest| rest.len() == 40), "not in the SDKs' form");
    let request = api.probe().anonymous(Method::GET, WORKSPACES).header("x-api-key", &sdk);
    assert_eq!(api.call(Method::GET, WORKSPACES, request).await.status, 200);
    api.finish().await;
}

#[tokio::test]
async fn a_token_ends_at_once_with_what_it_is_used_for() {
    let api = Api::start().await;
    let (id, user) = api.token(json!({"name": "short", "kind": "user"})).await;
    let small = json!({"resource_limits": {"cpu": "1", "memory": "256M", "disk": "128M"}});
    let made = api.call_as(&user, Method::POST, WORKSPACES, Some(small)).await;
    let own = format!("{WORKSPACES}/{}", made.body["id"].as_str().unwrap());
    let running = api
        .probe()
        .anonymous(Method::POST, &format!("{own}/bash"))
        .bearer_auth(&user)
        .header("accept", "text/event-stream")
        .json(&json!({"command": "echo begun; sleep 100"}))
        .send();
    let mut stream = running.await.unwrap();
    assert_eq!(stream.status(), 200);
    stream.chunk().await.unwrap().unwrap();
    assert_eq!(api.delete(&format!("{TOKENS}/{id}")).await.status, 200);
    let ended = tokio::time::timeout(Duration::from_secs(10), async {
        while let Ok(Some(_)) = stream.chunk().await {}
    });
    ended.await.expect("the stream ends with its token");
    let refused = api.call_as(&user, Method::GET, WORKSPACES, None).await;
    assert_eq!(refused.failure(), (401, "unauthorized"));
    let listed = api.get(TOKENS).await;
    let revoked = listed.body["items"].as_array().unwrap().iter().find(|token| token["id"] == id.as_str());
    assert!(revoked.unwrap()["revoked_at"].is_string());
    assert!(!listed.body.to_string().contains(&user), "tokens are shown once");

    let (_, brief) = api.token(json!({"name": "brief", "kind": "user", "expires_in_seconds": 1})).await;
    eventually("it expires", Duration::from_secs(10), async || {
        (api.call_as(&brief, Method::GET, WORKSPACES, None).await.status == 401).then_some(())
    })
    .await;
    let admin =
        listed.body["items"].as_array().unwrap().iter().find(|token| token["kind"] == "admin").unwrap();
    let last = api.delete(&format!("{TOKENS}/{}", admin["id"].as_str().unwrap())).await;
    assert_eq!(last.failure(), (409, "last_admin_token"));
    api.finish().await;
}

/// Who asks too often waits; the administrator and others do not.
#[tokio::test]
async fn requests_of_a_token_are_limited_and_the_administrators_are_not() {
    let api = Api::start_with(TestServerOptions::default().with("EMERGENT_RATE_LIMIT", 2)).await;
    let (_, user) = api.token(json!({"name": "busy", "kind": "user"})).await;
    let (_, other) = api.token(json!({"name": "calm", "kind": "user"})).await;
    let mut refused = None;
    for _ in 0..100 {
        let answer = api.call_as(&user, Method::GET, WORKSPACES, None).await;
        if answer.status != 200 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("nobody was slowed down");
    assert_eq!(refused.failure(), (429, "rate_limited"));
    let seconds: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=2).contains(&seconds), "{seconds}");
    assert_eq!(api.call_as(&other, Method::GET, WORKSPACES, None).await.status, 200);
    for _ in 0..30 {
        assert_eq!(api.get(WORKSPACES).await.status, 200);
    }
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    assert_eq!(api.call_as(&user, Method::GET, WORKSPACES, None).await.status, 200);
    api.finish().await;
}

/// Guesses do not lock out who has a token.
#[tokio::test]
async fn guesses_are_slowed_down_and_the_administrator_is_not() {
    let api = Api::start().await;
    let mut limited = 0;
    for guess in 0..400 {
        let answer = api.call_as(&format!("emergent_{guess:064}"), Method::GET, WORKSPACES, None).await;
        limited += usize::from(answer.status == 429);
        assert!(matches!(answer.status, 401 | 429), "{}", answer.body);
        if answer.status == 429 {
            assert!(answer.headers.contains_key("retry-after"));
        }
    }
    assert!(limited > 0, "nobody was slowed down");
    for _ in 0..20 {
        assert_eq!(api.get(WORKSPACES).await.status, 200);
    }
    api.finish().await;
}
