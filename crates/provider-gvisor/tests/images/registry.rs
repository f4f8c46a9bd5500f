//! Pulling from a registry that wants to know who asks. The registry is the least that a real Docker
//! pulls from, on the daemon's own loopback interface, which it trusts without encryption.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use emergent_agent_client::{CommandSpec, ExecOptions, Program};
use emergent_provider::conformance::Subject;
use emergent_provider::{ProviderError, SandboxSpec};
use emergent_test_support::TestDocker;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::small_image;

const CREDENTIALS: &str = "ann:secret of hers";
const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

#[test]
#[expect(unsafe_code, reason = "whose credentials are used is said in the environment")]
fn images_are_pulled_with_the_credentials_of_docker_login() {
    let docker = Arc::new(TestDocker::without_images());
    let listener = docker.listen_inside();
    let host = listener.local_addr().expect("it listens").to_string();
    let image = Arc::new(OneImage::new());
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let image = Arc::clone(&image);
            std::thread::spawn(move || image.answer(&connection));
        }
    });
    let login = tempfile::tempdir().expect("a temporary folder can be made");
    // SAFETY: nothing else in this process reads or writes the environment yet; the registry does not.
    unsafe { std::env::set_var("DOCKER_CONFIG", login.path()) };
    let file = login.path().join("config.json");
    Subject::run(
        async || super::subject(&docker),
        move |subject| {
            Box::pin(async move {
                nobody_gets_it(subject, &host).await;
                let auths = json!({ "auths": { &host: { "auth": BASE64_STANDARD.encode(CREDENTIALS) } } });
                std::fs::write(file, auths.to_string()).expect("a file can be written");
                whoever_may_gets_it(subject, &host).await;
            })
        },
    );
}

async fn nobody_gets_it(subject: &Subject, host: &str) {
    let image = format!("{host}/test/small:without");
    let spec = SandboxSpec { base_image: Some(image.clone()), ..subject.spec() };
    let refused = subject.provider.create(&spec).await.expect_err("nobody in particular may not");
    let ProviderError::ImageNotFound { reference, reason, .. } = &refused else { panic!("{refused}") };
    assert_eq!(*reference, image);
    assert!(reason.contains("no basic auth credentials") || reason.contains("unauthorized"), "{reason}");
}

async fn whoever_may_gets_it(subject: &Subject, host: &str) {
    let spec = SandboxSpec { base_image: Some(format!("{host}/test/small:1")), ..subject.spec() };
    let sandbox = subject.provider.create(&spec).await.expect("create pulls");
    assert!(!sandbox.warnings.iter().any(|warning| warning.contains("image")), "{:?}", sandbox.warnings);
    // There is no shell in it.
    let words = ["/.emergent/emergent-agent", "version"].map(str::to_owned);
    let agent = CommandSpec { program: Program::Argv(words.into()), ..CommandSpec::shell("") };
    let client = subject.client(&spec);
    client.greet().await.expect("the agent answers");
    let outcome = client.exec(&agent, ExecOptions::default()).await.expect("it runs");
    assert_eq!(outcome.exit.code, 0);
}

/// All there is to pull: a layer, how it is run, and the list of both.
struct OneImage {
    manifest: Bytes,
    blobs: HashMap<String, Bytes>,
}

impl OneImage {
    fn new() -> Self {
        let layer = small_image::archive("from a registry");
        let config = Bytes::from(
            json!({
                "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
                "os": "linux",
                "config": { "Env": ["FROM=registry"] },
                "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
                "history": [{ "created_by": "a test" }],
            })
            .to_string(),
        );
        let of = |kind: &str, blob: &Bytes| {
            json!({
                "mediaType": format!("application/vnd.docker.{kind}"),
                "size": blob.len(),
                "digest": digest(blob),
            })
        };
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": of("container.image.v1+json", &config),
            // Docker looks itself whether it is compressed.
            "layers": [of("image.rootfs.diff.tar.gzip", &layer)],
        });
        Self {
            manifest: manifest.to_string().into(),
            blobs: [layer, config].map(|blob| (digest(&blob), blob)).into(),
        }
    }

    /// One request of one connection. What is no HTTP (Docker tries TLS first) gets no answer.
    fn answer(&self, connection: &TcpStream) {
        let mut reader = BufReader::new(connection);
        let mut line = String::new();
        let Ok(_) = reader.read_line(&mut line) else { return };
        let mut words = line.split_whitespace();
        let (Some(method), Some(path)) = (words.next(), words.next()) else { return };
        let mut is_known = false;
        let mut header = String::new();
        while reader.read_line(&mut header).is_ok_and(|length| length > 2) {
            let expected = format!("authorization: basic {}", BASE64_STANDARD.encode(CREDENTIALS));
            is_known |= header.trim().eq_ignore_ascii_case(&expected);
            header.clear();
        }
        let blob = path.rsplit_once("/blobs/").and_then(|(_, digest)| self.blobs.get(digest));
        let (status, kind, body) = match (is_known, path) {
            (false, _) => ("401 Unauthorized", "text/plain", Bytes::new()),
            (true, "/v2/") => ("200 OK", "application/json", Bytes::from_static(b"{}")),
            // By its tag, and again by its digest.
            (true, path) if path.starts_with("/v2/test/small/manifests/") => {
                ("200 OK", MANIFEST, self.manifest.clone())
            }
            (true, _) => match blob {
                Some(blob) => ("200 OK", "application/octet-stream", blob.clone()),
                None => ("404 Not Found", "text/plain", Bytes::new()),
            },
        };
        let mut connection = connection;
        let head = format!(
            "HTTP/1.1 {status}\r\nDocker-Distribution-Api-Version: registry/2.0\r\nContent-Type: {kind}\r\n\
             WWW-Authenticate: Basic realm=\"test\"\r\nDocker-Content-Digest: {}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            digest(&body),
            body.len()
        );
        // Whoever has gone needs no answer.
        let _ = connection.write_all(head.as_bytes());
        if method != "HEAD" {
            let _ = connection.write_all(&body);
        }
    }
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
