//! Code in workspaces under gVisor: it comes and goes without a network, and nothing of the token with it.

use emergent_test_support::{GitServer, TestDocker};
use reqwest::Method;
use serde_json::json;

use crate::host::Host;

const CANARY: &str = "canary-7c05e1b2d94f4a86";

/// `git:` and the canary in base64, without what depends on their end.
const SENT: &str = "Z2l0OmNhbmFyeS03YzA1ZTFiMmQ5NGY0YTg2";

#[tokio::test]
async fn code_comes_and_goes_without_a_network_or_a_token() {
    let git = GitServer::start(Some(CANARY));
    git.create_repository("org/repo.git");
    let allowed = vec![("CHECKOUT_ALLOWED_HOSTS", git.origin())];
    let host = Host::start_told(TestDocker::get(), allowed).await;
    let token = json!({"host": git.origin(), "token": CANARY});
    let stored = host.call(Method::PUT, "/api/v1/settings/git-hosts", Some(&token)).await;
    assert_eq!(stored.status, 200, "{}", stored.body);

    let made = host.create(json!({"repository_url": git.url("org/repo.git"), "network": "isolated"})).await;
    assert_eq!(
        (&made["provider"], &made["checkout"]["status"]),
        (&json!("gvisor"), &json!("done")),
        "{made}"
    );
    host.bash(&made, "echo three > README && git commit -qam third").await;
    let pushed = host.tool(&made, "git", json!({"action": "push"})).await;
    assert_eq!(pushed["pushed"][0]["ref"], "refs/heads/main", "{pushed}");
    let traced = host
        .bash(&made, "echo four > README && git commit -qam fourth && GIT_TRACE_CURL=1 git push 2>&1; env")
        .await;
    assert_eq!(git.git("org/repo.git", &["show", "main:README"]), "four");
    assert!(git.seen().iter().all(|request| request.authorization.is_some()));

    // In two pieces, or the command had it.
    let ((one, two), (three, four)) = (CANARY.split_at(7), SENT.split_at(7));
    let found = host
        .bash(
            &made,
            &format!(
                "grep -rlaF -D skip -e {one}''{two} -e {three}''{four} /workspace /home /root /etc /tmp /var /run \
                 2>/dev/null; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -aF \
                 -e {one}''{two} -e {three}''{four}; true"
            ),
        )
        .await;
    assert_eq!(found, "");
    assert!(!traced.contains(CANARY) && !traced.contains(SENT));

    host.post(&made, "stop").await;
    host.post(&made, "resume").await;
    host.bash(&made, "git fetch -q 2>&1").await;
    host.destroy(&made).await;
    host.finish().await;
}
