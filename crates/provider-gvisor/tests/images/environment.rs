//! What an image's author wants programs to find.

use std::sync::Arc;

use emergent_provider::SandboxSpec;
use emergent_provider::conformance::Subject;
use emergent_test_support::{TEST_IMAGE, TestDocker};

#[test]
fn commands_find_what_the_image_sets() {
    let docker = Arc::new(TestDocker::get());
    let theirs = Arc::clone(&docker);
    Subject::run(
        async || super::subject(&docker),
        move |subject| Box::pin(async move { check(subject, &theirs).await }),
    );
}

/// The test image with settings, by its hash: names would be seen by other tests.
fn image_with_settings(docker: &TestDocker) -> String {
    let container = docker.docker(&["create", TEST_IMAGE, "true"]);
    let changes = [
        "ENV PATH=/opt/tool/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "ENV GOPATH=/go\\ path",
        "ENV HOME=/nowhere",
        "ENV TERM=xterm",
    ];
    let mut commit = vec!["commit"];
    for change in changes {
        commit.extend(["--change", change]);
    }
    commit.push(&container);
    commit.push("emergent/test-settings:1");
    docker.docker(&commit);
    docker.docker(&["rm", &container]);
    "emergent/test-settings:1".to_owned()
}

async fn check(subject: &Subject, docker: &TestDocker) {
    let image = image_with_settings(docker);
    let sandbox = subject.sandbox_with(SandboxSpec { base_image: Some(image), ..subject.spec() }).await;
    let as_it_should_be = async || {
        let path = "/opt/tool/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        assert_eq!(sandbox.sh("echo \"$PATH\"").await, path);
        assert_eq!(sandbox.sh("echo \"$GOPATH\"").await, "/go path");
        // Ours: they depend on the account and the command.
        assert_eq!(sandbox.sh("echo \"$HOME $TERM\"").await, "/root dumb");
        assert_eq!(sandbox.sh("env | grep -c EMERGENT || true").await, "0");
    };
    as_it_should_be().await;
    sandbox.sh("mkdir -p /opt/tool/bin && printf '#!/bin/sh\\necho found\\n' > /opt/tool/bin/the-tool").await;
    sandbox.sh("chmod +x /opt/tool/bin/the-tool").await;
    assert_eq!(sandbox.sh("the-tool").await, "found");
    subject.provider.stop(sandbox.id()).await.expect("stop works");
    subject.resume(&sandbox).await;
    as_it_should_be().await;
    assert_eq!(sandbox.sh("the-tool").await, "found");
}
