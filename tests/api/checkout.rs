//! Code in workspaces, from a real git server behind a token.

use emergent_test_support::{GitBehaviour, GitServer, ServerName, TestServerOptions, TlsFront};
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{Api, WORKSPACES, Workspace};

const TOKEN: &str = "t0ken-of-the-git-server";
const HOSTS: &str = "/api/v1/settings/git-hosts";

/// A server of ours that may speak to this git server and has its token.
async fn start(git: &GitServer) -> Api {
    let api = without_token(git).await;
    let answer = put(&api, json!({"host": git.origin(), "token": TOKEN})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    api
}

async fn without_token(git: &GitServer) -> Api {
    Api::start_with(TestServerOptions::default().with("CHECKOUT_ALLOWED_HOSTS", git.origin())).await
}

async fn put(api: &Api, body: Value) -> emergent_test_support::Answer {
    let request = api.probe().request(Method::PUT, HOSTS).header("content-type", "application/json");
    api.call(Method::PUT, HOSTS, request.body(body.to_string())).await
}

async fn git(workspace: &Workspace<'_>, body: Value) -> Value {
    let answer = workspace.post("/git", body.clone()).await;
    assert_eq!(answer.status, 200, "{body}: {}", answer.body);
    answer.body
}

fn isolated(url: &str) -> Value {
    json!({"repository_url": url, "network": "isolated"})
}

/// Proves: DESIGN-4.8, DESIGN-4.14, GOAL-5
#[tokio::test]
async fn code_is_there_when_a_workspace_is_ready_and_goes_back_by_tool_calls_alone() {
    let server = GitServer::start(Some(TOKEN));
    server.create_repository("org/repo.git");
    let api = start(&server).await;
    let url = server.url("org/repo.git");
    let workspace = api.create_with(isolated(&url)).await;
    let shown = workspace.get().await.body;
    let main = server.git("org/repo.git", &["rev-parse", "main"]);
    assert_eq!(
        (&shown["checkout"]["status"], &shown["checkout"]["commit"]),
        (&json!("done"), &json!(main)),
        "{shown}"
    );
    assert_eq!(shown["repositories"][0]["path"], "/workspace");
    let status = git(&workspace, json!({"action": "status"})).await;
    assert_eq!((&status["branch"], &status["upstream"]), (&json!("main"), &json!("origin/main")));
    assert_eq!(workspace.sh("cat README; git rev-list --count HEAD").await, "two\n1\n", "shallow");

    workspace.post("/edit", json!({"path": "README", "old_string": "two", "new_string": "three"})).await;
    let made = git(&workspace, json!({"action": "commit", "message": "third", "files": ["README"]})).await;
    let pushed = git(&workspace, json!({"action": "push"})).await;
    assert_eq!(
        pushed["pushed"],
        json!([{"ref": "refs/heads/main", "from": main, "to": made["commit"]}]),
        "{pushed}"
    );
    assert_eq!(json!(server.git("org/repo.git", &["rev-parse", "main"])), made["commit"]);
    assert_eq!(
        server.git("org/repo.git", &["log", "-1", "--format=%an <%ae>", "main"]),
        "Emergent Agent <agent@emergent.local>"
    );
    assert_eq!(git(&workspace, json!({"action": "push"})).await["pushed"], json!([]), "it has it already");

    // What people type works too, with no network but the broker.
    workspace.sh("echo four >> README && git commit -qam fourth && git push -q 2>&1").await;
    assert_eq!(server.git("org/repo.git", &["show", "main:README"]), "three\nfour");
    workspace.sh("git checkout -q -b topic && git push -q -u origin topic 2>&1 && git fetch -q 2>&1").await;
    assert_eq!(
        server.git("org/repo.git", &["rev-parse", "topic"]),
        server.git("org/repo.git", &["rev-parse", "main"])
    );
    api.finish().await;
}

#[tokio::test]
async fn a_branch_a_tag_or_a_commit_is_checked_out_and_deepened() {
    let server = GitServer::start(Some(TOKEN));
    server.create_repository("repo");
    let api = start(&server).await;
    let url = server.url("repo");
    let first = server.git("repo", &["rev-parse", "v1"]);
    for (branch, file, head) in
        [("feature", "feature.txt", "feature\n"), ("v1", "README", ""), (first.as_str(), "README", "")]
    {
        let workspace =
            api.create_with(json!({"repository_url": url, "branch": branch, "network": "isolated"})).await;
        let shown = workspace.get().await.body;
        assert_eq!(shown["checkout"]["status"], "done", "{branch}: {shown}");
        assert_eq!(workspace.sh("git branch --show-current").await, head, "{branch}");
        workspace.sh(&format!("test -f {file}")).await;
        workspace.destroy().await;
    }
    let workspace = api.create_with(json!({"repository_url": url, "depth": 0})).await;
    assert_eq!(workspace.sh("git rev-list --count HEAD").await, "2\n", "all of it");
    workspace.destroy().await;
    let workspace = api.create_with(json!({"repository_url": url})).await;
    git(&workspace, json!({"action": "fetch", "depth": 0})).await;
    assert_eq!(workspace.sh("git rev-list --count HEAD").await, "2\n", "deepened");
    let fetched = git(&workspace, json!({"action": "fetch", "branch": "feature"})).await;
    assert_eq!(fetched["to"], json!(server.git("repo", &["rev-parse", "feature"])), "{fetched}");
    git(&workspace, json!({"action": "checkout", "ref": "feature"})).await;
    assert_eq!(
        workspace.post("/git", json!({"action": "fetch", "branch": "none"})).await.failure(),
        (404, "ref_not_found")
    );

    let gone = api.create_with(json!({"repository_url": url, "branch": "no-such-branch"})).await;
    let shown = gone.get().await.body;
    assert_eq!(
        (&shown["status"], &shown["checkout"]["status"]),
        (&json!("ready"), &json!("failed")),
        "{shown}"
    );
    assert!(shown["checkout"]["reason"].as_str().unwrap().contains("no-such-branch"), "{shown}");
    api.finish().await;
}

/// Proves: RISK-CHECKOUT-3, RISK-CHECKOUT-4, RISK-CHECKOUT-5
#[tokio::test]
async fn a_network_that_fails_is_tried_again_and_an_authorisation_that_fails_is_not() {
    let server = GitServer::start(Some(TOKEN));
    server.create_repository("repo");
    let api = without_token(&server).await;
    let refused = api.create_with(isolated(&server.url("repo"))).await;
    let shown = refused.get().await.body;
    assert_eq!(
        (&shown["status"], &shown["checkout"]["status"]),
        (&json!("ready"), &json!("failed")),
        "{shown}"
    );
    let reason = shown["checkout"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("Repository authentication failed"), "{reason}");
    assert!(shown["checkout"]["hint"].as_str().unwrap().contains("git-host set"), "{shown}");
    assert_eq!(server.seen().len(), 1, "asked once");
    assert_eq!(refused.sh("ls -A").await, "", "nothing is left of it");

    put(&api, json!({"host": server.origin(), "token": TOKEN})).await;
    server.behave(&[GitBehaviour::BreakOff, GitBehaviour::Answer(503), GitBehaviour::Serve]);
    let started = std::time::Instant::now();
    let workspace = api.create_with(isolated(&server.url("repo"))).await;
    let waited = started.elapsed().as_secs_f64();
    assert_eq!(workspace.get().await.body["checkout"]["status"], "done");
    assert!((4.5..60.0).contains(&waited), "2 s and 4 s, a fifth more or less: {waited}");

    server.behave(&[GitBehaviour::BreakOff]);
    let before = server.seen().len();
    let workspace = api.create_with(isolated(&server.url("repo"))).await;
    let shown = workspace.get().await.body;
    assert_eq!(
        (&shown["status"], &shown["checkout"]["status"]),
        (&json!("ready"), &json!("failed")),
        "{shown}"
    );
    assert_eq!(server.seen().len() - before, 3, "three attempts in all");
    server.behave(&[]);
    let cloned =
        git(&workspace, json!({"action": "clone", "repository_url": server.url("repo"), "path": "."})).await;
    assert_eq!(cloned["path"], "/workspace", "the agent can do it later: {cloned}");
    api.finish().await;
}

#[tokio::test]
async fn pull_never_overwrites_and_push_says_why_it_was_refused() {
    let server = GitServer::start(Some(TOKEN));
    server.create_repository("repo");
    let api = start(&server).await;
    let workspace = api.create_with(isolated(&server.url("repo"))).await;
    server.commit("repo", "main", "theirs.txt", "theirs");
    let pulled = git(&workspace, json!({"action": "pull"})).await;
    assert_eq!(pulled["fast_forward"], true, "{pulled}");
    assert_eq!(pulled["to"], json!(server.git("repo", &["rev-parse", "main"])));
    assert_eq!(workspace.sh("cat theirs.txt").await, "theirs");
    let again = git(&workspace, json!({"action": "pull"})).await;
    assert_eq!(again["from"], again["to"]);

    server.commit("repo", "main", "README", "changed by somebody");
    workspace.sh("echo precious > README").await;
    let refused = workspace.post("/git", json!({"action": "pull"})).await;
    assert_eq!(refused.failure(), (409, "would_overwrite"), "{}", refused.body);
    assert_eq!(refused.detail("suggestions"), &json!(["README"]));
    assert_eq!(workspace.sh("cat README").await, "precious\n");

    git(&workspace, json!({"action": "commit", "message": "mine", "files": ["README"]})).await;
    let rejected = git(&workspace, json!({"action": "push"})).await;
    assert_eq!(rejected["pushed"], json!([]));
    assert!(rejected["rejected_reason"].as_str().unwrap().contains("pull first"), "{rejected}");
    let conflict = workspace.post("/git", json!({"action": "pull"})).await;
    assert_eq!(conflict.failure(), (409, "git_failed"), "{}", conflict.body);
    assert_eq!(workspace.sh("cat README; git status --porcelain").await, "precious\n", "as it was");
    let forced = git(&workspace, json!({"action": "push", "force_with_lease": true})).await;
    assert_eq!(forced["pushed"][0]["ref"], "refs/heads/main", "{forced}");

    server.run("repo", "printf '#!/bin/sh\necho no secrets please >&2; exit 1\n' > \"$1/hooks/pre-receive\"; chmod +x \"$1/hooks/pre-receive\"");
    workspace.sh("echo more >> README").await;
    git(&workspace, json!({"action": "commit", "message": "more", "all": true})).await;
    let rejected = git(&workspace, json!({"action": "push"})).await;
    assert!(rejected["rejected_reason"].as_str().unwrap().contains("no secrets please"), "{rejected}");
    api.finish().await;
}

#[tokio::test]
async fn only_the_workspaces_repositories_are_reached() {
    let server = GitServer::start(Some(TOKEN));
    let elsewhere = GitServer::start(None);
    for name in ["mine", "theirs"] {
        server.create_repository(name);
    }
    let api = start(&server).await;
    let workspace = api.create_with(isolated(&server.url("mine"))).await;
    let before = server.seen().len();
    let broker = server.origin().replace("://", "/");
    let tried = workspace
        .sh(&format!(
            "git ls-remote http://127.0.0.1:9418/{broker}/theirs 2>&1; git ls-remote {} 2>&1;
             curl -s http://127.0.0.1:9418/{broker}/mine/HEAD; curl -s http://127.0.0.1:9418/; true",
            server.url("theirs")
        ))
        .await;
    assert!(tried.contains("none of this workspace's"), "{tried}");
    assert_eq!(server.seen().len(), before, "nothing of it got out: {tried}");

    let session = api
        .post("/api/v1/tokens", &json!({"name": "agent", "kind": "session", "workspace_id": workspace.id}))
        .await;
    assert_eq!(session.status, 201, "{}", session.body);
    let secret = session.body["token"].as_str().unwrap();
    let path = workspace.path("/git");
    let clone = |url: String| {
        let body = json!({"action": "clone", "repository_url": url}).to_string();
        let request = api.probe().anonymous(Method::POST, &path).bearer_auth(secret);
        request.header("content-type", "application/json").body(body)
    };
    let refused = api.call(Method::POST, &path, clone(server.url("theirs"))).await;
    assert_eq!(refused.failure(), (403, "repository_not_allowed"), "{}", refused.body);
    let own = api.call(Method::POST, &path, clone(server.url("mine"))).await;
    assert_eq!(own.status, 200, "a session may clone what the workspace has: {}", own.body);
    let added = git(&workspace, json!({"action": "clone", "repository_url": server.url("theirs")})).await;
    assert_eq!(added["path"], "/workspace/theirs");
    assert_eq!(
        workspace.sh("cd theirs && git fetch -q 2>&1 && git rev-parse --abbrev-ref @{u}").await,
        "origin/main\n"
    );

    // A host that nobody allowed, and one that leads there.
    let refused = api.post(WORKSPACES, &json!({"repository_url": elsewhere.url("x")})).await;
    assert_eq!(refused.failure(), (403, "repository_not_allowed"), "{}", refused.body);
    let before = (server.seen().len(), elsewhere.seen().len());
    server.behave(&[GitBehaviour::Redirect(elsewhere.url("mine/info/refs?service=git-upload-pack"))]);
    let moved = workspace.post("/git", json!({"action": "fetch", "path": "theirs"})).await;
    assert_eq!(moved.failure(), (404, "repository_not_found"), "{}", moved.body);
    assert_eq!((server.seen().len(), elsewhere.seen().len()), (before.0 + 1, before.1), "it is not followed");
    api.finish().await;
}

#[tokio::test]
async fn several_repositories_and_each_use_in_the_audit_log() {
    let server = GitServer::start(Some(TOKEN));
    for name in ["one", "two.git"] {
        server.create_repository(name);
    }
    let api = start(&server).await;
    let workspace = api
        .create_with(json!({"network": "isolated", "repositories": [
            {"url": server.url("one")},
            {"url": server.url("two.git"), "branch": "feature", "path": "lib/two"},
            {"url": server.url("none"), "path": "none"},
        ]}))
        .await;
    let shown = workspace.get().await.body;
    let states: Vec<&Value> =
        shown["repositories"].as_array().unwrap().iter().map(|one| &one["status"]).collect();
    assert_eq!(states, [&json!("done"), &json!("done"), &json!("failed")], "{shown}");
    assert_eq!(shown["checkout"]["status"], "failed");
    workspace.sh("test -f one/README && test -f lib/two/feature.txt && ! test -e none").await;
    git(&workspace, json!({"action": "pull", "path": "lib/two"})).await;
    let audit = format!("/api/v1/audit?workspace_id={}&tool=git_fetch", workspace.id);
    let mut items = Vec::new();
    for _ in 0..50 {
        items = api.get(&audit).await.body["items"].as_array().unwrap().clone();
        if items.len() >= 6 {
            break;
        }
        crate::api::moment(100).await;
    }
    assert!(items.iter().any(|one| one["summary"]["repository"] == json!(server.url("two.git")) && one["outcome"] == "ok"), "{items:?}");
    assert!(items.iter().any(|one| one["error_code"] == "repository_not_found"), "{items:?}");
    api.finish().await;
}

/// A host that cannot say who it is gets no token, and neither does one that is somebody else.
#[tokio::test]
async fn over_tls_a_host_must_be_who_it_is() {
    let server = GitServer::start(Some(TOKEN));
    server.create_repository("repo");
    let own = TlsFront::start(server.address(), ServerName::Loopback);
    let others = TlsFront::start(server.address(), ServerName::Elsewhere);
    let hosts = format!("{},{}", own.origin(), others.origin());
    let authority = TlsFront::authority().display().to_string();
    let options = TestServerOptions::default().with("CHECKOUT_ALLOWED_HOSTS", hosts);
    let api = Api::start_with(options.with("SSL_CERT_FILE", authority)).await;
    for host in [own.origin(), others.origin()] {
        assert_eq!(put(&api, json!({"host": host, "token": TOKEN})).await.status, 200, "{host}");
    }
    let workspace = api.create_with(isolated(&format!("{}/repo", own.origin()))).await;
    let shown = workspace.get().await.body;
    assert_eq!(shown["checkout"]["status"], "done", "{shown}");
    workspace.sh("echo x > x && git add x && git commit -qm x && git push -q 2>&1").await;
    assert_eq!(server.git("repo", &["show", "main:x"]), "x");
    let before = server.seen().len();
    let body = json!({"action": "clone", "repository_url": format!("{}/repo", others.origin())});
    let refused = workspace.post("/git", body).await;
    assert_eq!(refused.failure(), (502, "repository_unreachable"), "{}", refused.body);
    assert_eq!(server.seen().len(), before, "it was asked for nothing");
    api.finish().await;
}

/// What comes of a clone is in the workspace's row, and of one that fails nothing is.
#[tokio::test]
async fn a_clone_that_fails_leaves_nothing_behind() {
    let server = GitServer::start(Some(TOKEN));
    for name in ["mine", "theirs"] {
        server.create_repository(name);
    }
    let api = start(&server).await;
    let workspace = api.create_with(isolated(&server.url("mine"))).await;
    let urls = async || {
        let shown = workspace.get().await.body;
        let all = shown["repositories"].as_array().unwrap().iter();
        all.map(|one| format!("{} {}", one["url"].as_str().unwrap(), one["path"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    let mine = format!("{} /workspace", server.url("mine"));
    let clone =
        |name: &str, path: &str| json!({"action": "clone", "repository_url": server.url(name), "path": path});
    let taken = workspace.post("/git", clone("theirs", ".")).await;
    assert_eq!(taken.failure(), (409, "already_exists"), "{}", taken.body);
    let gone = workspace.post("/git", clone("none", "x")).await;
    assert_eq!(gone.failure(), (404, "repository_not_found"), "{}", gone.body);
    assert_eq!(urls().await, [mine]);
    workspace.sh("test ! -e x && git fetch -q 2>&1").await;
    let refused = workspace
        .sh(&format!(
            "git ls-remote http://127.0.0.1:9418/{}/theirs 2>&1; true",
            server.origin().replace("://", "/")
        ))
        .await;
    assert!(refused.contains("none of this workspace's"), "the grant has ended: {refused}");

    let missing = api.create_with(isolated(&server.url("none"))).await;
    assert_eq!(missing.get().await.body["checkout"]["status"], "failed");
    git(&missing, clone("theirs", ".")).await;
    let shown = missing.get().await.body;
    assert_eq!(shown["checkout"]["status"], "done", "what never came is forgotten: {shown}");
    api.finish().await;
}

/// Proves: RISK-CHECKOUT-4
#[tokio::test]
async fn what_is_hostile_runs_nothing() {
    let server = GitServer::start(Some(TOKEN));
    server.create_repository("repo");
    server.run("repo", "set -eu
        work=$(mktemp -d); git clone -q \"$1\" \"$work\"; cd \"$work\"
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        mkdir -p hooks .githooks; for f in hooks/post-checkout .githooks/post-checkout .githooks/post-merge; do
          printf '#!/bin/sh\ntouch /tmp/ran\n' > $f; chmod +x $f; done
        printf '* filter=evil diff=evil merge=evil\n' > .gitattributes
        printf '[filter \"evil\"]\nsmudge=touch /tmp/ran\nclean=touch /tmp/ran\n[core]\nfsmonitor=touch /tmp/ran\n' > .gitconfig
        printf '[submodule \"x\"]\npath = x\nurl = ext::sh -c touch%% /tmp/ran\nupdate = !touch /tmp/ran\n' > .gitmodules
        git add -A .; git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),x; git commit -qm evil
        git branch '$(touch${IFS}/tmp/ran)'; git push -q origin HEAD '$(touch${IFS}/tmp/ran)'; rm -rf \"$work\"");
    let api = start(&server).await;
    let url = server.url("repo");
    let workspace = api.create_with(isolated(&url)).await;
    assert_eq!(workspace.get().await.body["checkout"]["status"], "done");
    git(&workspace, json!({"action": "fetch"})).await;
    git(&workspace, json!({"action": "checkout", "ref": "$(touch${IFS}/tmp/ran)"})).await;
    git(&workspace, json!({"action": "pull"})).await;
    git(&workspace, json!({"action": "push"})).await;
    let named = api.create_with(json!({"repository_url": url, "branch": "$(touch${IFS}/tmp/ran)"})).await;
    assert_eq!(named.get().await.body["checkout"]["status"], "done");
    for one in [&workspace, &named] {
        one.sh("! test -e /tmp/ran").await;
    }
    for odd in [
        "--upload-pack=touch /tmp/ran",
        "ext::sh -c touch% /tmp/ran",
        "file:///etc",
        "ssh://-oProxyCommand=x/y",
        "https:///x/y",
        "https://u:p@github.com/a/b",
        "git@github.com:a/b",
        "https://github.com/a/b\n",
        "../x",
    ] {
        let answer = api.post(WORKSPACES, &json!({"repository_url": odd})).await;
        assert_eq!(
            (answer.failure(), answer.detail("field")),
            ((400, "invalid_request"), &json!("repository_url")),
            "{odd}"
        );
    }
    for odd in ["-x", "--upload-pack=touch", "a\u{3000}b", "a\r\nb", "a..b", "a:b", ""] {
        let answer = api.post(WORKSPACES, &json!({"repository_url": url, "branch": odd})).await;
        assert_eq!(
            (answer.failure(), answer.detail("field")),
            ((400, "invalid_request"), &json!("branch")),
            "{odd:?}"
        );
    }
    api.finish().await;
}

#[tokio::test]
async fn tokens_of_hosts_are_kept_and_never_shown() {
    let server = GitServer::start(Some(TOKEN));
    let api = start(&server).await;
    let listed = api.get(HOSTS).await;
    assert_eq!(listed.body["items"][0]["host"], json!(server.origin()), "{}", listed.body);
    assert!(!listed.body.to_string().contains(TOKEN));
    assert_eq!(
        put(&api, json!({"host": "https://gitlab.com", "token": "x"})).await.failure(),
        (403, "repository_not_allowed")
    );
    assert_eq!(
        put(&api, json!({"host": "https://github.com", "token": "x"})).await.failure(),
        (400, "invalid_request")
    );
    assert_eq!(
        put(&api, json!({"host": "gitlab.com", "token": "x"})).await.failure(),
        (400, "invalid_request")
    );
    let path = format!("{HOSTS}?host={}", server.origin());
    assert_eq!(api.delete(&path).await.status, 200);
    assert_eq!(api.delete(&path).await.failure(), (404, "git_host_not_found"));
    let user = api.post("/api/v1/tokens", &json!({"name": "u", "kind": "user"})).await;
    let secret = user.body["token"].as_str().unwrap().to_owned();
    let request = api.probe().anonymous(Method::GET, HOSTS).bearer_auth(secret);
    assert_eq!(api.call(Method::GET, HOSTS, request).await.failure(), (403, "forbidden"));
    api.finish().await;
}
