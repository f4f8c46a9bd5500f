//! Finding files, and lines in them.

use serde_json::json;

use crate::api::{Api, Workspace};

async fn tree(workspace: &Workspace<'_>) {
    workspace
        .sh("mkdir -p src '$(id)' .hidden build && git init -q . 2>/dev/null; echo build/ > .gitignore
             printf 'one\nTwo\nthree\n' > src/a.rs; printf 'two\n' > 'src/b c.rs'
             printf 'two\n' > '$(id)/x;y.txt'; printf 'two\n' > .hidden/h.txt; printf 'two\n' > build/o.rs
             touch -d '2001-01-01' src/a.rs; touch -d '2002-01-01' 'src/b c.rs'")
        .await;
}

/// Proves: DESIGN-4.6, DESIGN-10.8
#[tokio::test]
async fn files_are_found_newest_first() {
    let api = Api::start().await;
    let workspace = api.create().await;
    tree(&workspace).await;
    let found = workspace.post("/glob", json!({"pattern": "**/*.rs"})).await;
    assert_eq!(found.status, 200, "{}", found.body);
    let expect = json!({"files": ["/workspace/src/b c.rs", "/workspace/src/a.rs"], "truncated": false});
    assert_eq!(found.body, expect);
    let one = workspace.post("/glob", json!({"pattern": "**/*.rs", "limit": 1})).await.body;
    assert_eq!(one, json!({"files": ["/workspace/src/b c.rs"], "truncated": true}));
    let ignored = workspace.post("/glob", json!({"pattern": "**/*.rs", "include_ignored": true})).await.body;
    assert_eq!(ignored["files"].as_array().unwrap().len(), 3);
    let odd = workspace.post("/glob", json!({"pattern": "*;y.txt", "path": "$(id)"})).await.body;
    assert_eq!(odd["files"], json!(["/workspace/$(id)/x;y.txt"]));
    let none = workspace.post("/glob", json!({"pattern": "*; touch /workspace/ran"})).await.body;
    assert_eq!(none, json!({"files": [], "truncated": false}));
    assert_eq!(workspace.post("/read", json!({"path": "ran"})).await.status, 404, "nothing was run");

    let bad = workspace.post("/glob", json!({"pattern": "a[b"})).await;
    assert_eq!((bad.failure(), bad.detail("field")), ((400, "invalid_request"), &json!("pattern")));
    assert!(bad.detail("position").is_u64(), "{}", bad.body);
    let gone = workspace.post("/glob", json!({"pattern": "*", "path": "nope"})).await;
    assert_eq!(gone.failure(), (404, "file_not_found"));
    for (body, field) in [
        (json!({"path": "."}), "pattern"),
        (json!({"pattern": "*", "limit": 0}), "limit"),
        (json!({"pattern": "*", "limit": -1}), "limit"),
        (json!({"pattern": "*", "limit": "9999P"}), "limit"),
        (json!({"pattern": "*", "depth": 1}), "depth"),
    ] {
        let answer = workspace.post("/glob", body.clone()).await;
        assert_eq!(
            (answer.failure(), answer.detail("field")),
            ((400, "invalid_request"), &json!(field)),
            "{body}"
        );
    }
    api.finish().await;
}

/// Proves: DESIGN-4.7, DESIGN-10.9
#[tokio::test]
async fn lines_are_found_with_their_places() {
    let api = Api::start().await;
    let workspace = api.create().await;
    tree(&workspace).await;
    let found =
        workspace.post("/grep", json!({"pattern": "two", "-i": true, "path": "src", "context": 1})).await;
    assert_eq!(found.status, 200, "{}", found.body);
    assert_eq!(
        found.body,
        json!({"matches": [
            {"file": "/workspace/src/a.rs", "line": 2, "text": "Two", "before": ["one"], "after": ["three"]},
            {"file": "/workspace/src/b c.rs", "line": 1, "text": "two"},
        ], "truncated": false})
    );
    let files =
        workspace.post("/grep", json!({"pattern": "^two$", "output_mode": "files_with_matches"})).await;
    let files = files.body["files"].as_array().unwrap().clone();
    assert_eq!(files.len(), 3, "hidden files are searched, ignored ones not: {files:?}");
    let counts = json!({"pattern": "t", "path": "src/a.rs", "output_mode": "count"});
    let counts = workspace.post("/grep", counts).await.body;
    assert_eq!(counts, json!({"counts": [{"file": "/workspace/src/a.rs", "count": 1}], "truncated": false}));
    let one = workspace.post("/grep", json!({"pattern": ".", "include": "*.rs", "limit": 1})).await.body;
    assert_eq!((one["matches"].as_array().unwrap().len(), &one["truncated"]), (1, &json!(true)));
    let across = json!({"pattern": "one\\nTwo", "multiline": true});
    assert_eq!(workspace.post("/grep", across).await.body["matches"][0]["line"], 1);
    let none = workspace.post("/grep", json!({"pattern": "$(touch ran)`;"})).await.body;
    assert_eq!(none, json!({"matches": [], "truncated": false}));

    let bad = workspace.post("/grep", json!({"pattern": "a(b"})).await;
    assert_eq!((bad.failure(), bad.detail("field")), ((400, "invalid_request"), &json!("pattern")));
    assert!(bad.detail("position").is_u64(), "{}", bad.body);
    for (body, field) in [
        (json!({"path": "."}), "pattern"),
        (json!({"pattern": "a", "context": 101}), "context"),
        (json!({"pattern": "a", "output_mode": "lines"}), "output_mode"),
        (json!({"pattern": "a", "limit": 10001}), "limit"),
        (json!({"pattern": "a", "include": "a[b"}), "include"),
        (json!({"pattern": "a", "color": true}), "color"),
    ] {
        let answer = workspace.post("/grep", body.clone()).await;
        assert_eq!(
            (answer.failure(), answer.detail("field")),
            ((400, "invalid_request"), &json!(field)),
            "{body}"
        );
    }
    api.finish().await;
}

#[tokio::test]
async fn a_dot_in_a_pattern_and_a_path_that_is_a_file() {
    let api = Api::start().await;
    let workspace = api.create().await;
    tree(&workspace).await;
    let glob = async |body: serde_json::Value| {
        let answer = workspace.post("/glob", body.clone()).await;
        assert_eq!(answer.status, 200, "{body}: {}", answer.body);
        answer.body["files"].clone()
    };
    assert_eq!(glob(json!({"pattern": "**/h.txt"})).await, json!([]), "hidden");
    assert_eq!(glob(json!({"pattern": ".hidden/*"})).await, json!(["/workspace/.hidden/h.txt"]));
    assert_eq!(glob(json!({"pattern": "**/.gitignore"})).await, json!(["/workspace/.gitignore"]));
    assert_eq!(glob(json!({"pattern": ".git/HEAD"})).await, json!([]), "git's own are not listed");
    let all = json!({"pattern": ".git/HEAD", "include_ignored": true});
    assert_eq!(glob(all).await, json!(["/workspace/.git/HEAD"]));
    assert_eq!(glob(json!({"pattern": "*.rs", "path": "src/a.rs"})).await, json!(["/workspace/src/a.rs"]));
    assert_eq!(glob(json!({"pattern": "*.txt", "path": "src/a.rs"})).await, json!([]));
    api.finish().await;
}
