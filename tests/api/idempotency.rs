//! A create that is sent twice is done once.

use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{Api, WORKSPACES};

const TOKENS: &str = "/api/v1/tokens";

impl Api {
    async fn create_keyed(&self, key: &str, body: &Value) -> emergent_test_support::Answer {
        self.post_keyed(WORKSPACES, key, body).await
    }

    async fn post_keyed(&self, path: &str, key: &str, body: &Value) -> emergent_test_support::Answer {
        let request = self.probe().request(Method::POST, path).header("idempotency-key", key).json(body);
        self.call(Method::POST, path, request).await
    }
}

#[tokio::test]
async fn the_same_key_is_the_same_workspace() {
    let mut api = Api::start().await;
    let body = json!({"resource_limits": {"cpu": "1", "memory": "256M", "disk": "128M"}});
    let (one, other) = tokio::join!(api.create_keyed("k", &body), api.create_keyed("k", &body));
    assert_eq!((one.status / 100, other.status / 100), (2, 2), "{} {}", one.body, other.body);
    assert_eq!(one.body["id"], other.body["id"]);
    api.server.kill();
    api.restart().await;
    let again = api.create_keyed("k", &body).await;
    assert_eq!((again.status / 100, &again.body["id"]), (2, &one.body["id"]));
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(api.count().await, 1);

    let changed = api.create_keyed("k", &json!({})).await;
    assert_eq!(changed.failure(), (409, "idempotency_conflict"));
    assert_eq!(api.create_keyed(&"k".repeat(1000), &body).await.status, 400);

    // A workspace that is gone does not come back by itself.
    api.delete(&format!("{WORKSPACES}/{}", one.body["id"].as_str().unwrap())).await;
    assert_eq!(api.create_keyed("k", &body).await.status, 409);
    assert_eq!(api.count().await, 0);

    // What failed can be tried again with the same key.
    let impossible = json!({"provider": "firecracker"});
    assert_eq!(api.create_keyed("f", &impossible).await.status, 503);
    assert_eq!(api.create_keyed("f", &impossible).await.status, 503);
    api.finish().await;
}

/// Copies too: of a disk, and of a whole workspace, from a snapshot and from a workspace.
#[tokio::test]
async fn the_same_key_is_the_same_snapshot_and_the_same_forks() {
    let mut api = Api::start().await;
    let small = json!({"resource_limits": {"cpu": "1", "memory": "256M", "disk": "64M"}});
    let made = api.post(WORKSPACES, &small).await;
    let other = api.post(WORKSPACES, &small).await;
    let path = |of: &emergent_test_support::Answer, what: &str| {
        format!("{WORKSPACES}/{}/{what}", of.body["id"].as_str().unwrap())
    };

    let (snapshot, named) = (path(&made, "snapshot"), json!({"name": "one"}));
    let (one, two) =
        tokio::join!(api.post_keyed(&snapshot, "k", &named), api.post_keyed(&snapshot, "k", &named));
    assert_eq!((one.status, two.status), (201, 201), "{} {}", one.body, two.body);
    assert_eq!(one.body["id"], two.body["id"]);
    let replays =
        [&one, &two].iter().filter(|answer| answer.headers.contains_key("idempotency-replayed")).count();
    assert_eq!(replays, 1);
    assert_eq!(api.post_keyed(&snapshot, "k", &json!({})).await.failure(), (409, "idempotency_conflict"));
    let elsewhere = api.post_keyed(&path(&other, "snapshot"), "k", &named).await;
    assert_eq!(elsewhere.failure(), (409, "idempotency_conflict"), "another workspace is another request");

    let (fork, two_of_them) = (path(&made, "fork"), json!({"count": 2}));
    let forks = api.post_keyed(&fork, "k", &two_of_them).await;
    assert_eq!(forks.status, 201, "{}", forks.body);
    api.server.kill();
    api.restart().await;
    let again = api.post_keyed(&fork, "k", &two_of_them).await;
    let ids = |answer: &emergent_test_support::Answer| {
        let items = answer.body["items"].as_array().unwrap().iter();
        items.map(|item| item["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((again.status, ids(&again)), (201, ids(&forks)), "{}", again.body);
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(
        api.post_keyed(&fork, "k", &json!({"count": 1})).await.failure(),
        (409, "idempotency_conflict")
    );
    assert_eq!(api.count().await, 4);
    assert_eq!(api.post_keyed(&snapshot, "k", &named).await.body["id"], one.body["id"]);

    let restore = json!({"snapshot_id": one.body["id"]});
    let from = format!("{WORKSPACES}/from-snapshot");
    let restored = api.post_keyed(&from, "r", &restore).await;
    assert_eq!(restored.status, 201, "{}", restored.body);
    assert_eq!(api.post_keyed(&from, "r", &restore).await.body["id"], restored.body["id"]);
    assert_eq!(api.count().await, 5);

    // What is gone does not come back by itself.
    api.delete(&format!("{WORKSPACES}/{}", ids(&forks)[0])).await;
    assert_eq!(api.post_keyed(&fork, "k", &two_of_them).await.failure(), (409, "idempotency_conflict"));
    api.delete(&format!("/api/v1/agent/snapshots/{}", one.body["id"].as_str().unwrap())).await;
    assert_eq!(api.post_keyed(&snapshot, "k", &named).await.failure(), (409, "idempotency_conflict"));
    api.finish().await;
}

/// What makes it a token is shown once, so a repeat names it and shows nothing.
#[tokio::test]
async fn the_same_key_is_the_same_token() {
    let mut api = Api::start().await;
    let count = async |api: &Api| api.get(TOKENS).await.body["items"].as_array().unwrap().len();
    let before = count(&api).await;
    let body = json!({"name": "n", "kind": "user", "expires_in_seconds": 600});
    let (one, other) = tokio::join!(api.post_keyed(TOKENS, "k", &body), api.post_keyed(TOKENS, "k", &body));
    let (made, repeat) = if one.status == 201 { (one, other) } else { (other, one) };
    assert_eq!((made.status, repeat.failure()), (201, (409, "idempotency_replayed")), "{}", repeat.body);
    assert_eq!(repeat.body["error"]["details"]["token_id"], made.body["id"]);
    let token = made.body["token"].as_str().unwrap();
    assert!(!repeat.body.to_string().contains(token));
    api.server.kill();
    api.restart().await;
    assert_eq!(api.post_keyed(TOKENS, "k", &body).await.failure(), (409, "idempotency_replayed"));
    assert_eq!(count(&api).await, before + 1, "one was made");
    let spaced = "{ \"kind\": \"user\", \"expires_in_seconds\": 600, \"name\": \"n\" }";
    let same = api.post_keyed(TOKENS, "k", &serde_json::from_str(spaced).unwrap()).await;
    assert_eq!(same.failure(), (409, "idempotency_replayed"), "order makes no other request");

    let changed = api.post_keyed(TOKENS, "k", &json!({"name": "n", "kind": "admin"})).await;
    assert_eq!(changed.failure(), (409, "idempotency_conflict"));
    assert_eq!(changed.body["error"]["details"]["token_id"], made.body["id"]);
    assert_eq!(api.post_keyed(TOKENS, &"k".repeat(256), &body).await.failure(), (400, "invalid_request"));
    // What is refused takes no key.
    let refused = json!({"name": "n", "kind": "session", "workspace_id": uuid_of_nobody()});
    assert_eq!(api.post_keyed(TOKENS, "r", &refused).await.failure(), (404, "workspace_not_found"));
    assert_eq!(api.post_keyed(TOKENS, "r", &body).await.status, 201);
    // Without a key everything is new.
    assert_eq!(api.post(TOKENS, &body).await.status, 201);
    assert_eq!(count(&api).await, before + 3);
    api.finish().await;
}

fn uuid_of_nobody() -> String {
    emergent_types::WorkspaceId::generate().to_string()
}
