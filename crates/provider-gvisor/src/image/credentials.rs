//! Who to be with a registry: what `docker login` has written down.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bollard::auth::DockerCredentials;
use serde::Deserialize;
use tokio::io::AsyncWriteExt;

/// How long a credential helper may take.
const HELPER_LIMIT: Duration = Duration::from_secs(10);

/// The part of Docker's `config.json` that is about registries.
#[derive(Debug, Default, Deserialize)]
struct Configuration {
    #[serde(default)]
    auths: HashMap<String, Entry>,
    #[serde(default, rename = "credHelpers")]
    helpers: HashMap<String, String>,
    #[serde(default, rename = "credsStore")]
    store: Option<String>,
}

#[derive(Default, Deserialize)]
struct Entry {
    #[serde(default)]
    auth: Option<String>,
    #[serde(default, rename = "identitytoken")]
    identity_token: Option<String>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Entry { .. }")
    }
}

/// What a helper prints.
#[derive(Deserialize)]
struct Stored {
    #[serde(rename = "Username")]
    username: String,
    #[serde(rename = "Secret")]
    secret: String,
}

/// `None` is nobody in particular, which public images are for.
pub(super) async fn of(registry: &str) -> Option<DockerCredentials> {
    let text = tokio::fs::read(configuration_file()?).await.ok()?;
    let configuration: Configuration = match serde_json::from_slice(&text) {
        Ok(configuration) => configuration,
        Err(error) => {
            tracing::warn!("Docker's config.json cannot be read, so images are pulled without it: {error}");
            return None;
        }
    };
    if let Some(helper) = configuration.helper(registry) {
        return ask(&helper, registry).await;
    }
    configuration.entry(registry)
}

fn configuration_file() -> Option<PathBuf> {
    let folder = match std::env::var_os("DOCKER_CONFIG") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".docker"),
    };
    Some(folder.join("config.json"))
}

impl Configuration {
    /// The name of the program that knows, where one does.
    fn helper(&self, registry: &str) -> Option<String> {
        let known =
            self.helpers.iter().find(|(key, _)| is_for(key, registry)).map(|(_, helper)| helper.clone());
        // Becomes part of a program's name.
        known
            .or_else(|| self.store.clone().filter(|_| !self.auths.is_empty()))
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)))
    }

    fn entry(&self, registry: &str) -> Option<DockerCredentials> {
        let (_, entry) = self.auths.iter().find(|(key, _)| is_for(key, registry))?;
        let server = Some(registry.to_owned());
        if let Some(token) = entry.identity_token.clone().filter(|token| !token.is_empty()) {
            return Some(DockerCredentials {
                identitytoken: Some(token),
                serveraddress: server,
                ..DockerCredentials::default()
            });
        }
        let decoded = BASE64_STANDARD.decode(entry.auth.as_deref()?).ok()?;
        let (username, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
        Some(DockerCredentials {
            username: Some(username.to_owned()),
            password: Some(password.trim_end_matches('\0').to_owned()),
            serveraddress: server,
            ..DockerCredentials::default()
        })
    }
}

/// Keys are hosts, or addresses with a scheme and a path.
fn is_for(key: &str, registry: &str) -> bool {
    let host = |text: &str| {
        let text = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or(text);
        text.split('/').next().unwrap_or(text).to_owned()
    };
    host(key) == host(registry)
}

/// Asks a program that `docker login` would ask.
async fn ask(helper: &str, registry: &str) -> Option<DockerCredentials> {
    let program = format!("docker-credential-{helper}");
    let exchange = async {
        let mut child = tokio::process::Command::new(&program)
            .arg("get")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(registry.as_bytes()).await?;
        }
        child.wait_with_output().await
    };
    let output = match tokio::time::timeout(HELPER_LIMIT, exchange).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => {
            tracing::warn!("{program} could not be asked for {registry}: {error}");
            return None;
        }
        Err(_) => {
            tracing::warn!("{program} did not answer within {HELPER_LIMIT:?}");
            return None;
        }
    };
    let stored: Stored = serde_json::from_slice(&output.stdout).ok()?;
    let server = Some(registry.to_owned());
    Some(match stored.username.as_str() {
        "<token>" => DockerCredentials {
            identitytoken: Some(stored.secret),
            serveraddress: server,
            ..DockerCredentials::default()
        },
        _ => DockerCredentials {
            username: Some(stored.username),
            password: Some(stored.secret),
            serveraddress: server,
            ..DockerCredentials::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_docker_login_wrote() {
        let text = r#"{"auths": {"https://index.docker.io/v1/": {"auth": "dTpw"}, "ghcr.io": {"identitytoken": "t"}},
                       "credHelpers": {"r.example": "pass"}}"#;
        let configuration: Configuration = serde_json::from_str(text).unwrap();
        let hub = configuration.entry("https://index.docker.io/v1/").unwrap();
        assert_eq!((hub.username.as_deref(), hub.password.as_deref()), (Some("u"), Some("p")));
        assert_eq!(configuration.entry("ghcr.io").unwrap().identitytoken.as_deref(), Some("t"));
        assert!(configuration.entry("other.example").is_none());
        assert_eq!(configuration.helper("r.example").as_deref(), Some("pass"));
        assert_eq!(configuration.helper("ghcr.io"), None);
        assert!(!format!("{configuration:?}").contains("dTpw"));
    }

    #[test]
    fn a_helper_is_a_plain_name() {
        let text = r#"{"auths": {"a": {}}, "credsStore": "../../bin/sh"}"#;
        let configuration: Configuration = serde_json::from_str(text).unwrap();
        assert_eq!(configuration.helper("a"), None);
    }
}
