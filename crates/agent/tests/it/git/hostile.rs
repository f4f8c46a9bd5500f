//! Repositories that want to run something, hold git up, or be told too much.

use std::time::{Duration, Instant};

use emergent_protocol::{FailureCode, v1};
use v1::git_request::Action;

use super::{Repository, all, checkout, files};
use crate::support::eventually;

/// No action runs what a repository's configuration names.
#[tokio::test]
async fn nothing_is_run() {
    let mut repository = Repository::with_a_commit().await;
    repository
        .sh(r#"ran="$PWD/ran"; printf '#!/bin/sh\necho "$0 $@" >> %s\nexit 1\n' "$ran" > .git/run; chmod +x .git/run; run="$PWD/.git/run"
             mkdir -p .git/hooks; for hook in pre-commit prepare-commit-msg commit-msg post-commit post-checkout \
               post-index-change reference-transaction pre-auto-gc post-rewrite fsmonitor-watchman; do
               cp .git/run .git/hooks/$hook; done
             for key in core.fsmonitor core.pager core.editor sequence.editor core.sshCommand core.askPass \
               diff.external diff.odd.command diff.odd.textconv gpg.program gpg.ssh.program pager.log pager.diff \
               pager.status core.alternateRefsCommand credential.helper core.gitProxy merge.odd.driver \
               alias.status alias.log alias.commit alias.checkout alias.diff; do git config "$key" "$run"; done
             git config alias.status "!$run"; git config core.hooksPath .git/hooks; git config commit.gpgSign true
             git config log.showSignature true; git config gc.auto 1; git config protocol.ext.allow always
             git config remote.origin.url "ext::$run"; git config remote.origin.promisor true
             git config extensions.partialClone origin; git config core.repositoryFormatVersion 1
             git config diff.submodule log; git config status.submoduleSummary true; git config submodule.recurse true
             echo '* diff=odd merge=odd' > .git/info/attributes; git config core.attributesFile .git/info/attributes"#)
        .await;
    repository.sh("rm -f ran; echo changed > one; echo new > new").await;
    repository.status().await;
    let diff = repository.diff(v1::GitDiffRequest::default()).await;
    assert!(diff.diff.contains("+changed"), "{}", diff.diff);
    repository.log(0, "").await;
    repository.commit(files("one", &["one", "new"])).await;
    repository.sh("echo again > one").await;
    repository.commit(all("two")).await;
    repository.branch("x", false).await;
    repository.checkout("x", false).await;
    repository.checkout("y", true).await;
    repository.checkout("main", false).await;
    repository.branch("x", true).await;
    // An object that only the remote would have is not fetched.
    let missing = "0123456789012345678901234567890123456789";
    repository.refused(checkout(missing, false), FailureCode::RefNotFound).await;
    let ran = std::fs::read_to_string(repository.sandbox.path("ran")).unwrap_or_default();
    assert_eq!(ran, "", "something was run");
}

/// Variables of the sandbox lead git nowhere else.
#[tokio::test]
async fn the_environment_leads_nowhere() {
    let mut repository = Repository::with_a_commit().await;
    let mut hello = Repository::greeting();
    for (name, value) in [
        ("GIT_DIR", "/nonexistent"),
        ("GIT_EXTERNAL_DIFF", "false"),
        ("GIT_TRACE", "/dev/stderr"),
        ("LC_ALL", "de_DE.UTF-8"),
        ("GIT_CONFIG_COUNT", "x"),
    ] {
        hello.environment.insert(name.to_owned(), value.to_owned());
    }
    repository.client.stub.hello(hello).await.expect("greets");
    std::fs::write(repository.sandbox.path("one"), "x").expect("writable");
    assert_eq!(repository.status().await.unstaged.len(), 1);
    assert_eq!(repository.commit(files("m", &["one"])).await.files_changed, 1);
}

/// Filters are run, because without them content would be wrong; one that never ends is ended.
#[tokio::test]
async fn filters_run_and_end_with_the_action() {
    let mut repository = Repository::with_a_commit().await;
    repository
        .sh("git config filter.up.clean 'tr a-z A-Z'; git config filter.up.smudge 'tr A-Z a-z'; \
             echo '*.up filter=up' > .gitattributes; echo text > a.up")
        .await;
    repository.commit(all("filtered")).await;
    assert_eq!(repository.sh("git cat-file blob HEAD:a.up").await, "TEXT");
    assert!(repository.status().await.unstaged.is_empty());
    repository.sh("git config filter.up.clean 'echo $$ > filter.pid; sleep 1000'; echo more > a.up").await;
    let action = Some(Action::Commit(files("m", &["a.up"])));
    let mut stub = repository.client.stub.clone();
    let call = tokio::spawn(async move { stub.git(v1::GitRequest { action, ..Default::default() }).await });
    let pid = crate::support::line_of(&repository.sandbox.path("filter.pid")).await;
    let started = Instant::now();
    call.abort();
    eventually("the filter is ended", || async { !crate::support::is_alive(&pid) }).await;
    assert!(started.elapsed() < Duration::from_secs(10));
    // It was asked first, so it took its locks away.
    repository.sh("git config filter.up.clean cat").await;
    eventually("the next one is served", || async { !repository.sandbox.path(".git/index.lock").exists() })
        .await;
    repository.commit(files("m", &["a.up"])).await;
}

/// What git says is told without what a URL may hold, and bounded.
#[tokio::test]
async fn messages_hold_no_credentials() {
    let mut repository = Repository::with_a_commit().await;
    repository.sh("printf '[include]\\n\\tpath = \"https://user:hunter2@host/x\"\\n[core]\\n\\tbare = https://user:hunter2@host\\n' >> .git/config").await;
    let failure = repository.refused(Action::Status(v1::GitStatusRequest {}), FailureCode::GitFailed).await;
    assert!(failure.message.contains("host") && !failure.message.contains("hunter2"), "{failure:?}");
    repository.sh("rm -rf .git; echo 'gitdir: /nonexistent' > .git").await;
    repository.refused(Action::Status(v1::GitStatusRequest {}), FailureCode::NotARepository).await;
}

/// More files than an answer holds.
#[tokio::test]
async fn a_crowd_is_cut() {
    let mut repository = Repository::fresh().await;
    repository.sh("seq 1 6000 | xargs touch").await;
    let status = repository.status().await;
    assert_eq!((status.untracked.len(), status.truncated), (5000, true));
    assert_eq!(repository.commit(all("crowd")).await.files_changed, 6000);
    assert!(!repository.status().await.truncated);
}
