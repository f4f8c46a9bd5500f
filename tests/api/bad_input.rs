//! What is not well-formed is refused, with the part named, and does nothing.

use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{Api, WORKSPACES};

/// Proves: DESIGN-4.12, DESIGN-10.18
#[tokio::test]
async fn a_create_that_makes_no_sense_creates_nothing() {
    let api = Api::start().await;
    let long = "x".repeat(20_000);
    let table: &[(&str, &str)] = &[
        // Not JSON, or not an object.
        ("", "body"),
        ("{", "body"),
        ("nonsense", "body"),
        ("[]", "body"),
        ("null", "body"),
        ("\"x\"", "body"),
        ("7", "body"),
        ("{} {}", "body"),
        ("{\"metadata\": {},}", "body"),
        // Unknown, or twice.
        (r#"{"unknown": 1}"#, "unknown"),
        (r#"{"Provider": "local"}"#, "Provider"),
        (r#"{"resource_limits": {"gpu": "1"}}"#, "resource_limits.gpu"),
        (r#"{"provider": "local", "provider": "auto"}"#, "provider"),
        // Of the wrong type.
        (r#"{"provider": 1}"#, "provider"),
        (r#"{"provider": ["local"]}"#, "provider"),
        (r#"{"container_type": true}"#, "container_type"),
        (r#"{"resource_limits": "2"}"#, "resource_limits"),
        (r#"{"resource_limits": ["2", "4G", "10G"]}"#, "resource_limits"),
        (r#"{"warm_start": "yes"}"#, "warm_start"),
        (r#"{"ttl_seconds": "60"}"#, "ttl_seconds"),
        (r#"{"ttl_seconds": 1.5}"#, "ttl_seconds"),
        (r#"{"env": ["A=b"]}"#, "env"),
        (r#"{"env": {"A": 1}}"#, "env.A"),
        (r#"{"env": {"A": null}}"#, "env.A"),
        (r#"{"env": {"A": "1", "B": "2", "A": "1"}}"#, "env.A"),
        (r#"{"metadata": []}"#, "metadata"),
        (r#"{"metadata": "x"}"#, "metadata"),
        // Not one of the values there are.
        (r#"{"provider": "magic"}"#, "provider"),
        (r#"{"container_type": "vm"}"#, "container_type"),
        (r#"{"deployment_mode": "cloud"}"#, "deployment_mode"),
        (r#"{"min_isolation": "strong"}"#, "min_isolation"),
        (r#"{"network": "lan"}"#, "network"),
        // Out of range.
        (r#"{"resource_limits": {"cpu": "0"}}"#, "resource_limits.cpu"),
        (r#"{"resource_limits": {"cpu": "-1"}}"#, "resource_limits.cpu"),
        (r#"{"resource_limits": {"cpu": "1e9"}}"#, "resource_limits.cpu"),
        (r#"{"resource_limits": {"cpu": 99999999}}"#, "resource_limits.cpu"),
        (r#"{"resource_limits": {"cpu": "9999P"}}"#, "resource_limits.cpu"),
        (r#"{"resource_limits": {"cpu": "abc"}}"#, "resource_limits.cpu"),
        (r#"{"resource_limits": {"memory": "0"}}"#, "resource_limits.memory"),
        (r#"{"resource_limits": {"memory": "-1"}}"#, "resource_limits.memory"),
        (r#"{"resource_limits": {"memory": "9999P"}}"#, "resource_limits.memory"),
        (r#"{"resource_limits": {"memory": "abc"}}"#, "resource_limits.memory"),
        (r#"{"resource_limits": {"disk": "0"}}"#, "resource_limits.disk"),
        (r#"{"resource_limits": {"disk": "-1"}}"#, "resource_limits.disk"),
        (r#"{"resource_limits": {"disk": "9999P"}}"#, "resource_limits.disk"),
        (r#"{"resource_limits": {"disk": "abc"}}"#, "resource_limits.disk"),
        (r#"{"resource_limits": {"memory": "4X"}}"#, "resource_limits.memory"),
        (r#"{"resource_limits": {"memory": -1}}"#, "resource_limits.memory"),
        (r#"{"resource_limits": {"disk": "99999T"}}"#, "resource_limits.disk"),
        (r#"{"ttl_seconds": 0}"#, "ttl_seconds"),
        (r#"{"ttl_seconds": -5}"#, "ttl_seconds"),
        (r#"{"ttl_seconds": 99999999999}"#, "ttl_seconds"),
        (r#"{"ttl_seconds": 99999999999999999999999}"#, "ttl_seconds"),
        (r#"{"env": {"1A": "x"}}"#, "env.1A"),
        (r#"{"env": {"A=B": "x"}}"#, "env.A=B"),
        (r#"{"env": {"A": "a\u0000b"}}"#, "env.A"),
        (r#"{"base_image": ""}"#, "base_image"),
        (r#"{"base_image": "a\u0000b"}"#, "base_image"),
        (&format!(r#"{{"metadata": {{"k": "{long}"}}}}"#), "metadata"),
    ];
    for (body, field) in table {
        let answer = api.post_text(WORKSPACES, body).await;
        let shown = &body[..body.len().min(100)];
        assert_eq!(answer.failure(), (400, "invalid_request"), "{shown}: {}", answer.body);
        assert_eq!(answer.detail("field"), field, "{shown}: {}", answer.body);
    }
    let deep = format!(r#"{{"metadata": {{"k": {}{}}}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(api.post_text(WORKSPACES, &deep).await.failure(), (400, "invalid_request"));
    // What takes a multiple of its size to be read is refused for its size.
    let wide = format!(r#"{{"metadata": {{"k": [{}0]}}}}"#, "0,".repeat(2 << 20));
    let refused = api.post_text(WORKSPACES, &wide).await;
    assert_eq!(
        (refused.failure(), refused.detail("max_bytes")),
        ((413, "payload_too_large"), &json!(2 << 20))
    );

    for (body, field) in [(json!({"container_type": "mcp_server"}), "container_type")] {
        let answer = api.post(WORKSPACES, &body).await;
        assert_eq!(answer.failure(), (400, "not_supported"), "{body}");
        assert_eq!(answer.detail("field"), field);
    }
    for (body, field) in [
        (json!({"repository_url": ""}), "repository_url"),
        (json!({"branch": "main"}), "branch"),
        (json!({"repositories": [{"branch": "main"}]}), "repositories.0.url"),
    ] {
        let answer = api.post(WORKSPACES, &body).await;
        assert_eq!(answer.failure(), (400, "invalid_request"), "{body}");
        assert_eq!(answer.detail("field"), field);
    }
    for (query, field) in [("?wait=maybe", "wait"), ("?wait=", "wait"), ("?what=1", "what")] {
        let answer = api.post(&format!("{WORKSPACES}{query}"), &json!({})).await;
        assert_eq!((answer.failure(), answer.detail("field")), ((400, "invalid_request"), &json!(field)));
    }
    // Not UTF-8, in a string and beside it.
    for (body, field) in [(&b"{\"base_image\": \"\xff\xfe\"}"[..], "base_image"), (b"\xff{}", "body")] {
        let request =
            api.probe().request(Method::POST, WORKSPACES).header("content-type", "application/json");
        let answer = api.call(Method::POST, WORKSPACES, request.body(body.to_vec())).await;
        let expect = ((400, "invalid_request"), &json!(field));
        assert_eq!((answer.failure(), answer.detail("field")), expect, "{body:?}: {}", answer.body);
    }
    assert_eq!(api.count().await, 0);
    let census = api.server.census();
    assert!(census.processes.is_empty() && census.state_folders.is_empty(), "{census}");
    api.finish().await;
}

/// Proves: DESIGN-4.12
#[tokio::test]
async fn a_tool_call_that_makes_no_sense_does_nothing() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let too_long = json!({"command": "x".repeat(15 * 1024 * 1024 + 1)}).to_string();
    let path_too_long = json!({"file_path": "x".repeat(5000)}).to_string();
    let table: &[(&str, &str, &str)] = &[
        ("/bash", "{", "body"),
        ("/bash", "[]", "body"),
        ("/bash", "{}", "command"),
        ("/bash", r#"{"command": null}"#, "command"),
        ("/bash", r#"{"command": ""}"#, "command"),
        ("/bash", r#"{"command": ["ls"]}"#, "command"),
        ("/bash", r#"{"command": "touch x\u0000"}"#, "command"),
        ("/bash", &too_long, "command"),
        ("/bash", r#"{"command": "touch x", "shell": "zsh"}"#, "shell"),
        ("/bash", r#"{"command": "touch x", "timeout_ms": 0}"#, "timeout_ms"),
        ("/bash", r#"{"command": "touch x", "timeout_ms": 600001}"#, "timeout_ms"),
        ("/bash", r#"{"command": "touch x", "timeout": -1}"#, "timeout"),
        ("/bash", r#"{"command": "touch x", "timeout": "5"}"#, "timeout"),
        ("/bash", r#"{"command": "touch x", "timeout": 5, "timeout_ms": 5}"#, "timeout_ms"),
        ("/bash", r#"{"command": "touch x", "workdir": ""}"#, "workdir"),
        ("/bash", r#"{"command": "touch x", "workdir": 5}"#, "workdir"),
        ("/bash", r#"{"command": "touch x", "env": {"A-B": ""}}"#, "env.A-B"),
        ("/bash", r#"{"command": "touch x", "user": ""}"#, "user"),
        ("/bash", r#"{"command": "touch x", "background": 1}"#, "background"),
        ("/bash", r#"{"command": "touch x", "background": true, "timeout_ms": 5}"#, "timeout_ms"),
        ("/exec", "{}", "command"),
        ("/read", "{}", "file_path"),
        ("/read", r#"{"file_path": ""}"#, "file_path"),
        ("/read", r#"{"file_path": "a\u0000"}"#, "file_path"),
        ("/read", &path_too_long, "file_path"),
        ("/read", r#"{"file_path": "a", "path": "a"}"#, "file_path"),
        ("/read", r#"{"path": "a", "filePath": "a"}"#, "file_path"),
        ("/read", r#"{"path": 5}"#, "path"),
        ("/read", r#"{"path": "a", "offset": 0}"#, "offset"),
        ("/read", r#"{"path": "a", "offset": -1}"#, "offset"),
        ("/read", r#"{"path": "a", "limit": 0}"#, "limit"),
        ("/read", r#"{"path": "a", "limit": 1000001}"#, "limit"),
        ("/read", r#"{"path": "a", "encoding": "utf-8"}"#, "encoding"),
        ("/write", "{}", "file_path"),
        ("/write", r#"{"path": "x"}"#, "content"),
        ("/write", r#"{"path": "x", "content": 5}"#, "content"),
        ("/write", r#"{"path": "x", "content_base64": "&"}"#, "content_base64"),
        ("/write", r#"{"path": "x", "content": "a", "content_base64": "YQ=="}"#, "content_base64"),
        ("/write", r#"{"path": "x", "content": "a", "mode": 493}"#, "mode"),
        ("/stop", "[]", "body"),
        ("/stop", r#"{"mode": "freeze"}"#, "mode"),
        ("/stop", r#"{"force": true}"#, "force"),
        ("/resume", r#"{"force": true}"#, "force"),
    ];
    let many = json!({"action": "diff", "paths": vec![""; 10_001]});
    let answer = workspace.post("/git", many).await;
    assert_eq!(answer.failure(), (400, "invalid_request"), "{}", answer.body);
    assert!(answer.detail("field").as_str().unwrap().starts_with("paths"), "{}", answer.body);
    for (endpoint, body, field) in table {
        let answer = api.post_text(&workspace.path(endpoint), body).await;
        let shown = &body[..body.len().min(100)];
        assert_eq!(answer.failure(), (400, "invalid_request"), "{endpoint} {shown}: {}", answer.body);
        assert_eq!(answer.detail("field"), field, "{endpoint} {shown}: {}", answer.body);
    }
    let memory = workspace.post("/stop", json!({"mode": "memory"})).await;
    assert_eq!((memory.failure(), memory.detail("field")), ((400, "not_supported"), &json!("mode")));
    assert_eq!(workspace.sh("ls -A").await, "", "none of them did anything");
    assert_eq!(workspace.status().await, "ready");
    api.finish().await;
}

/// What a body may be.
#[tokio::test]
async fn bodies_are_json_and_of_bounded_size() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let path = workspace.path("/write");
    for content_type in
        [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/jsonp")]
    {
        let mut request = api.probe().request(Method::POST, &path).body(r#"{"path": "x", "content": "a"}"#);
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let answer = api.call(Method::POST, &path, request).await;
        assert_eq!(answer.failure(), (415, "unsupported_media_type"), "{content_type:?}");
    }
    let with_charset =
        api.probe().request(Method::POST, &path).header("content-type", "application/json; charset=utf-8");
    let answer = api.call(Method::POST, &path, with_charset.body(r#"{"path": "x", "content": "a"}"#)).await;
    assert_eq!(answer.status, 200);

    let body = |bytes: usize| json!({"path": "big", "content": "x".repeat(bytes)});
    let largest = (16 << 20) - body(0).to_string().len();
    assert_eq!(api.post(&path, &body(largest)).await.body["bytes_written"], largest);
    let declared = api.post(&path, &body(largest + 1)).await;
    assert_eq!(declared.failure(), (413, "payload_too_large"));
    let chunks = futures::stream::iter((0..20).map(|_| Ok::<_, std::io::Error>(vec![b'x'; 1 << 20])));
    let undeclared = api.probe().request(Method::POST, &path).header("content-type", "application/json");
    let undeclared = api.call(Method::POST, &path, undeclared.body(reqwest::Body::wrap_stream(chunks))).await;
    assert_eq!(undeclared.failure(), (413, "payload_too_large"));
    for refused in [&declared, &undeclared] {
        assert_eq!(refused.headers["connection"], "close", "what was not read stands in the way");
    }
    let whole = api.get(WORKSPACES).await;
    assert!(!whole.headers.contains_key("connection"), "{:?}", whole.headers);
    assert_eq!(workspace.sh("stat -c %s big").await.trim(), largest.to_string(), "the old content is there");
    api.finish().await;
}

#[tokio::test]
async fn what_is_not_there_is_404_and_what_cannot_be_done_405() {
    let api = Api::start().await;
    for path in
        ["/", "/api", "/api/v1", "/api/v2/agent/workspaces", "/api/v1/agent/workspaces/", "/ssh", "/terminal"]
    {
        assert_eq!(api.get(path).await.failure(), (404, "not_found"), "{path}");
    }
    let nowhere = [
        "not-an-id",
        "0199e6a4-0000-7000-8000-000000000000",
        "..",
        "%2e%2e",
        "0199E6A4-0000-7000-8000-000000000000",
    ];
    for id in nowhere {
        let path = format!("{WORKSPACES}/{id}");
        for answer in [
            api.probe().get(&path).await,
            api.probe().delete(&path).await,
            api.probe().post(&format!("{path}/bash"), &json!({"command": "true"})).await,
            api.probe().post(&format!("{path}/read"), &json!({"path": "a"})).await,
            api.probe().post(&format!("{path}/stop"), &json!({})).await,
            api.probe().get(&format!("{path}/processes")).await,
        ] {
            assert_eq!(answer.status, 404, "{id}");
            assert!(["workspace_not_found", "not_found"].contains(&answer.code()), "{id}: {}", answer.body);
        }
    }
    for method in [Method::PUT, Method::PATCH, Method::DELETE] {
        let answer =
            api.call(method.clone(), WORKSPACES, api.probe().request(method.clone(), WORKSPACES)).await;
        assert_eq!(answer.failure(), (405, "method_not_allowed"));
        let allowed = answer.headers["allow"].to_str().unwrap();
        assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
    }
    let Value::Object(document) = api.get("/api/v1/openapi.json").await.body else { panic!("not an object") };
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    api.finish().await;
}

/// What has to be there and is not is named, wherever it is read.
#[tokio::test]
async fn a_field_that_is_missing_is_named() {
    let api = Api::start().await;
    let workspace = api.create().await;
    for (method, path, field) in [
        (Method::POST, format!("{WORKSPACES}/from-snapshot"), "snapshot_id"),
        (Method::POST, workspace.path("/attach"), "session_id"),
        (Method::PUT, "/api/v1/warm-pool".to_owned(), "size"),
        (Method::POST, workspace.path("/bash"), "command"),
    ] {
        let request = api.probe().request(method.clone(), &path).json(&json!({}));
        let answer = api.call(method, &path, request).await;
        let expect = ((400, "invalid_request"), &json!(field));
        assert_eq!((answer.failure(), answer.detail("field")), expect, "{path}: {}", answer.body);
    }
    workspace.destroy().await;
    api.finish().await;
}

/// A header that promises what cannot be kept is refused, and nothing happens.
#[tokio::test]
async fn headers_that_cannot_be_served_are_refused() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let path = workspace.path("/bash");
    let request = api
        .probe()
        .request(Method::POST, &path)
        .header("content-type", "application/json")
        .header("content-encoding", "gzip")
        .body(r#"{"command": "touch ran"}"#);
    assert_eq!(api.call(Method::POST, &path, request).await.failure(), (415, "unsupported_media_type"));
    assert_eq!(workspace.sh("ls -A").await, "");
    api.finish().await;
}
