//! A Docker that is somewhere else, for all the server can see: reached by TCP, with certificates.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use emergent_host_net::Namespace;
use emergent_test_support::{DaemonOptions, TestDocker, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::host::{Host, WORKSPACES};

/// Somebody listens there on Docker's host.
const PORT: u16 = 2222;

/// In a network namespace of its own, because the daemon listens on a port of loopback.
fn with_a_docker_behind_tls<F: Future<Output = ()>>(
    has_certificate: bool,
    test: impl FnOnce(Host) -> F + Send,
) {
    TestDocker::prepare();
    let own = Namespace::make().unwrap();
    own.run(|| {
        let options = DaemonOptions { own_network: false, tls: true, ..DaemonOptions::default() };
        let docker = TestDocker::own_with(options);
        let (address, certificates) = docker.daemon().tls_address();
        let nothing = tempfile::tempdir().unwrap();
        let certificates = if has_certificate { certificates } else { nothing.path().to_owned() };
        let settings = vec![
            ("DOCKER_HOST", address),
            ("DOCKER_TLS_VERIFY", "1".to_owned()),
            ("DOCKER_CERT_PATH", certificates.display().to_string()),
            ("WORKSPACE_DEFAULT_DISK", "64M".to_owned()),
        ];
        // Made here, so that its threads are here too.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async { test(Host::start_told(docker, settings).await).await });
    })
    .unwrap();
}

async fn is_refused(host: &Host, workspace: &Value, size: usize) -> bool {
    let path = format!("{WORKSPACES}/{}/write", workspace["id"].as_str().unwrap());
    let body = json!({"file_path": "/workspace/more", "content": "x".repeat(size)});
    let answer = host.call(Method::POST, &path, Some(&body)).await;
    assert!(answer.status == 200 || answer.code() == "no_space", "{}", answer.body);
    answer.status != 200
}

/// Proves: GVIS-11
#[test]
fn a_docker_behind_tls_serves() {
    with_a_docker_behind_tls(true, |host| async move {
        let unnamed = json!({"provider": "gvisor", "network": "internet",
            "resource_limits": {"cpu": "1", "memory": "256M"}});
        let mut named = unnamed.clone();
        named["resource_limits"]["disk"] = json!("64M");
        let refused = host.call(Method::POST, WORKSPACES, Some(&named)).await;
        assert_eq!(refused.code(), "not_enforceable", "a limit that is only watched: {}", refused.body);

        let made = host.call(Method::POST, WORKSPACES, Some(&unnamed)).await;
        assert_eq!(made.status, 201, "{}", made.body);
        let made = made.body;
        assert_eq!((&made["provider"], &made["network"]), (&json!("gvisor"), &json!("internet")));
        assert_eq!((&made["disk_enforcement"], &made["persistence"]), (&json!("monitored"), &json!("home")));
        host.tool(&made, "write", json!({"file_path": "a.py", "content": "print(6 * 7)\n"})).await;
        assert_eq!(host.bash(&made, "python3 a.py; echo home > /home/user/file").await, "42");

        // It has a network, and does not get at Docker's host by it.
        let listener = TcpListener::bind(("0.0.0.0", PORT)).unwrap();
        TcpStream::connect(("127.0.0.1", PORT)).unwrap();
        let gateway = host.bash(&made, "ip -4 route show default | cut -d ' ' -f 3").await;
        let connect = format!(
            "timeout 4 bash -c 'exec 3<>/dev/tcp/{gateway}/{PORT}' 2>/dev/null && echo reached; true"
        );
        assert_eq!(host.bash(&made, &connect).await, "", "{gateway} was reached");
        drop(listener);

        host.post(&made, "stop").await;
        host.post(&made, "resume").await;
        assert_eq!(host.bash(&made, "python3 a.py; cat /home/user/file").await, "42\nhome");

        // From four fifths of the limit on there is a warning, wherever it was written.
        host.bash(&made, "head -c 57000000 /dev/zero > /opt/big").await;
        eventually("there is a warning", Duration::from_secs(60), async || {
            let warnings = host.look(&made).await["warnings"].to_string();
            warnings.contains("more than 80 % of the disk limit").then_some(())
        })
        .await;
        assert!(!is_refused(&host, &made, 10).await, "there is room still");
        host.bash(&made, "rm /opt/big").await;

        // Nothing stops programs, but tools write nothing more once it is seen, and there is a warning.
        host.bash(&made, "head -c 80000000 /dev/zero > /workspace/big").await;
        eventually("tools write nothing more", Duration::from_secs(30), async || {
            is_refused(&host, &made, 10).await.then_some(())
        })
        .await;
        eventually("there is a warning", Duration::from_secs(10), async || {
            let warnings = host.look(&made).await["warnings"].to_string();
            warnings.contains("tools write nothing more until there is room").then_some(())
        })
        .await;
        host.bash(&made, "rm /workspace/big").await;
        eventually("there is room again", Duration::from_secs(30), async || {
            (!is_refused(&host, &made, 10).await).then_some(())
        })
        .await;
        host.destroy(&made).await;
        eventually("Docker has nothing of it", Duration::from_secs(20), async || {
            host.left_with_docker().is_empty().then_some(())
        })
        .await;
        // Its rules stay for its next start, and are gone with this network namespace.
        drop(host.server);
    });
}

/// Who shows no certificate is not served, and the server says that Docker is not to be had.
#[test]
fn without_a_certificate_there_is_no_docker() {
    with_a_docker_behind_tls(false, |host| async move {
        let provider = host.provider("gvisor").await;
        assert_eq!(provider["status"], "unhealthy", "{provider}");
        assert!(provider["reason"].as_str().unwrap().contains("not reachable"), "{provider}");
        host.finish().await;
    });
}
