//! Repositories in a workspace.

use serde_json::{Value, json};

use crate::api::{Api, Workspace};

async fn git(workspace: &Workspace<'_>, body: Value) -> Value {
    let answer = workspace.post("/git", body.clone()).await;
    assert_eq!(answer.status, 200, "{body}: {}", answer.body);
    answer.body
}

/// Names full of what means something to a shell, or to git.
const ODD_FILE: &str = "$(touch ran) ;'\"&\n-x.txt";
const ODD_MESSAGE: &str = "--amend $(touch ran)\n\n`body`; \"quoted\"";

/// Proves: DESIGN-4.9, DESIGN-10.10
#[tokio::test]
async fn changes_are_seen_committed_and_found_again() {
    let api = Api::start().await;
    let workspace = api.create().await;
    assert_eq!(
        workspace.post("/git", json!({"action": "status"})).await.failure(),
        (400, "not_a_repository")
    );
    workspace.sh("git init -q -b main . && echo a > a.txt && echo b > b.txt").await;
    workspace.post("/write", json!({"path": ODD_FILE, "content": "odd\n"})).await;
    let status = git(&workspace, json!({"action": "status"})).await;
    assert_eq!((&status["branch"], &status["staged"]), (&json!("main"), &json!([])));
    assert!(status["untracked"].as_array().unwrap().contains(&json!(ODD_FILE)), "{status}");
    assert!(status.get("upstream").is_none() && status.get("commit").is_none());

    let commit = json!({"action": "commit", "message": ODD_MESSAGE, "files": ["a.txt", ODD_FILE]});
    let made = git(&workspace, commit).await;
    assert_eq!((&made["files_changed"], &made["branch"]), (&json!(2), &json!("main")), "{made}");
    let status = git(&workspace, json!({"action": "status"})).await;
    assert_eq!(status["untracked"], json!(["b.txt"]), "only what was named");
    let log = git(&workspace, json!({"action": "log", "limit": 5})).await;
    assert_eq!(log["commits"].as_array().unwrap().len(), 1);
    assert_eq!(log["commits"][0]["commit"], made["commit"]);
    assert_eq!(log["commits"][0]["subject"], "--amend $(touch ran)");
    assert!(log["commits"][0]["body"].as_str().unwrap().contains("`body`; \"quoted\""), "{log}");

    workspace.sh("echo changed >> a.txt").await;
    let diff = git(&workspace, json!({"action": "diff"})).await;
    assert!(diff["diff"].as_str().unwrap().contains("+changed"), "{diff}");
    assert_eq!(diff["files"], json!([{"path": "a.txt", "added": 1, "deleted": 0, "binary": false}]));
    let none = git(&workspace, json!({"action": "diff", "staged": true})).await;
    assert_eq!((&none["diff"], &none["files"]), (&json!(""), &json!([])));
    let nothing = json!({"action": "commit", "message": "m", "files": [ODD_FILE]});
    assert_eq!(workspace.post("/git", nothing).await.failure(), (409, "nothing_to_commit"));
    assert_eq!(
        git(&workspace, json!({"action": "commit", "message": "all", "all": true})).await["files_changed"],
        2
    );
    assert_eq!(workspace.post("/read", json!({"path": "ran"})).await.status, 404, "nothing was run");
    api.finish().await;
}

#[tokio::test]
async fn branches_are_made_and_switched() {
    let api = Api::start().await;
    let workspace = api.create().await;
    workspace.sh("git init -q -b main . && echo a > a.txt").await;
    git(&workspace, json!({"action": "commit", "message": "first", "all": true})).await;
    let made = git(&workspace, json!({"action": "checkout", "branch": "work", "create": true})).await;
    assert_eq!(made["branch"], "work");
    workspace.sh("echo work > a.txt").await;
    git(&workspace, json!({"action": "commit", "message": "second", "all": true})).await;
    let branches = git(&workspace, json!({"action": "branch"})).await;
    assert_eq!((&branches["branches"], &branches["current"]), (&json!(["main", "work"]), &json!("work")));
    git(&workspace, json!({"action": "checkout", "ref": "main"})).await;
    assert_eq!(workspace.sh("cat a.txt").await, "a\n");
    assert_eq!(
        git(&workspace, json!({"action": "branch", "name": "x"})).await["branches"].as_array().unwrap().len(),
        3
    );
    git(&workspace, json!({"action": "branch", "name": "x", "delete": true})).await;

    workspace.sh("echo local > a.txt").await;
    let lost = workspace.post("/git", json!({"action": "checkout", "ref": "work"})).await;
    assert_eq!(lost.failure(), (409, "would_overwrite"), "{}", lost.body);
    assert_eq!(workspace.sh("cat a.txt").await, "local\n");
    for odd in ["nope", "--orphan", "-b", "$(touch ran)", "a..b", "main:a.txt"] {
        let answer = workspace.post("/git", json!({"action": "checkout", "ref": odd})).await;
        assert!(
            (400..500).contains(&answer.status) && answer.status != 409,
            "{odd}: {} {}",
            answer.status,
            answer.body
        );
    }
    assert_eq!(workspace.post("/read", json!({"path": "ran"})).await.status, 404, "nothing was run");
    api.finish().await;
}

#[tokio::test]
async fn what_is_asked_must_make_sense() {
    let api = Api::start().await;
    let workspace = api.create().await;
    for action in ["pull_request"] {
        let answer = workspace.post("/git", json!({"action": action, "branch": "main"})).await;
        assert_eq!(
            (answer.failure(), answer.detail("field")),
            ((400, "not_supported"), &json!("action")),
            "{action}"
        );
    }
    for (body, field) in [
        (json!({}), "action"),
        (json!({"action": "rebase"}), "action"),
        (json!({"action": 5}), "action"),
        (json!({"action": "status", "limit": 5}), "limit"),
        (json!({"action": "log", "limit": 0}), "limit"),
        (json!({"action": "log", "limit": "abc"}), "limit"),
        (json!({"action": "commit", "message": "m"}), "files"),
        (json!({"action": "commit", "message": "", "all": true}), "message"),
        (json!({"action": "checkout"}), "ref"),
        (json!({"action": "checkout", "ref": "a", "branch": "b"}), "ref"),
        (json!({"action": "diff", "paths": ["a\u{0}b"]}), "paths"),
        (json!({"action": "status", "colour": true}), "colour"),
    ] {
        let answer = workspace.post("/git", body.clone()).await;
        assert_eq!(
            (answer.failure(), answer.detail("field")),
            ((400, "invalid_request"), &json!(field)),
            "{body}"
        );
    }
    api.finish().await;
}

/// A remote that is a folder of the sandbox's own: what is ahead, behind and in conflict.
#[tokio::test]
async fn what_a_remote_has_is_compared_and_followed() {
    let api = Api::start().await;
    let workspace = api.create().await;
    workspace
        .sh("set -e; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
             git init -q --bare -b main /tmp/bare; git clone -q /tmp/bare /tmp/other 2>/dev/null
             cd /tmp/other; git checkout -q -b main 2>/dev/null || true
             echo base > a.txt; git add .; git commit -qm base; git push -q origin main
             git checkout -q -b feature; echo f > f.txt; git add .; git commit -qm feature; git push -q origin feature
             git checkout -q main; git clone -q /tmp/bare /workspace/repo
             echo theirs > a.txt; git commit -qam theirs; echo 2 > b.txt; git add .; git commit -qm second; git push -q origin main
             cd /workspace/repo; echo ours > a.txt; git commit -qam ours; git fetch -q")
        .await;
    let status = git(&workspace, json!({"action": "status", "path": "repo"})).await;
    assert_eq!(
        (&status["branch"], &status["upstream"], &status["ahead"], &status["behind"]),
        (&json!("main"), &json!("origin/main"), &json!(1), &json!(2)),
        "{status}"
    );
    workspace.sh("cd repo && ! git -c user.name=a -c user.email=a@b merge -q origin/main").await;
    let status = git(&workspace, json!({"action": "status", "path": "repo"})).await;
    assert_eq!(status["conflicts"], json!(["a.txt"]), "{status}");
    workspace.sh("cd repo && git merge --abort").await;

    let followed = git(&workspace, json!({"action": "checkout", "path": "repo", "ref": "feature"})).await;
    assert_eq!(followed["branch"], "feature");
    assert_eq!(workspace.sh("cat repo/f.txt").await, "f\n");
    let status = git(&workspace, json!({"action": "status", "path": "repo"})).await;
    assert_eq!(
        (&status["upstream"], &status["ahead"], &status["behind"]),
        (&json!("origin/feature"), &json!(0), &json!(0)),
        "{status}"
    );
    api.finish().await;
}
