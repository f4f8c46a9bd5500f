//! A container on the engine's host that does for this process what it cannot do itself there: it has
//! the host's network and may change its rules, runs one script, and is removed.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::models::{ContainerCreateBody, HostConfig, HostConfigLogConfig};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, StartContainerOptions,
};
use emergent_host_net::bridge::{HelperFailure, UnreadableSurvey};
use futures::StreamExt;

use crate::engine::EngineError;
use crate::host::Host;
use crate::image;
use crate::names;

/// Marks helpers.
pub(crate) const HELPER: &str = "helper";

/// How long a script may take, and how much it may print.
const LIMIT: Duration = Duration::from_secs(30);
const MAX_PRINTED: usize = 1 << 20;

/// Why a helper was of no help.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HelperError {
    #[error("Docker does not let it run: {0}")]
    Engine(#[from] EngineError),
    #[error("the image {0}, which has its programs, is not there; `emergent image build` makes it")]
    NoImage(String),
    #[error("it took longer than {LIMIT:?}")]
    TimedOut,
    #[error(transparent)]
    Failed(#[from] HelperFailure),
    #[error(transparent)]
    Survey(#[from] UnreadableSurvey),
}

impl Host {
    /// Runs a script with `sh` and returns what it printed. The image is the administrator's, never
    /// one that a request names; it runs under Docker's own runtime, because it is to reach the host.
    pub(super) async fn ask_helper(&self, docker: &Docker, script: &str) -> Result<String, HelperError> {
        let name = self.make_helper(docker, &["-c", script], &["NET_ADMIN"]).await?;
        let printed = tokio::time::timeout(LIMIT, run(docker, &name)).await;
        self.remove_scratch(docker, &name).await?;
        Ok(printed.map_err(|_| HelperError::TimedOut)??)
    }

    /// Makes a helper that runs `sh` with these arguments and has these capabilities; answers its name. It is
    /// not started yet.
    pub(super) async fn make_helper(
        &self,
        docker: &Docker,
        arguments: &[&str],
        capabilities: &[&str],
    ) -> Result<String, HelperError> {
        let wanted = &self.options.default_image;
        let image = image::present(docker, wanted).await?;
        let image = image.ok_or_else(|| HelperError::NoImage(wanted.clone()))?;
        let name = self.names.scratch_container(HELPER);
        let named = CreateContainerOptionsBuilder::new().name(&name).build();
        let mut labels = self.names.own_labels();
        labels.insert(names::ROLE.to_owned(), HELPER.to_owned());
        let body = body(&image.id, arguments, capabilities, labels);
        match docker.create_container(Some(named), body).await {
            Ok(_) => Ok(name),
            Err(error) => {
                // Docker may have made it and not lived to say so.
                let _ = self.remove_scratch(docker, &name).await;
                Err(EngineError::from(error).into())
            }
        }
    }
}

fn body(
    image: &str,
    arguments: &[&str],
    capabilities: &[&str],
    labels: HashMap<String, String>,
) -> ContainerCreateBody {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    ContainerCreateBody {
        image: Some(image.to_owned()),
        labels: Some(labels),
        user: Some("0:0".to_owned()),
        entrypoint: Some(owned(&["/bin/sh"])),
        cmd: Some(owned(arguments)),
        working_dir: Some("/".to_owned()),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        host_config: Some(HostConfig {
            network_mode: Some("host".to_owned()),
            cap_drop: Some(owned(&["ALL"])),
            cap_add: Some(owned(capabilities)),
            security_opt: Some(owned(&["no-new-privileges"])),
            readonly_rootfs: Some(true),
            // `iptables` keeps a lock there.
            tmpfs: Some([("/run".to_owned(), "size=1m".to_owned())].into()),
            memory: Some(128 << 20),
            memory_swap: Some(128 << 20),
            pids_limit: Some(64),
            log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
            // Nothing is read of it but what it prints, so it need not outlive a server that is killed.
            auto_remove: Some(true),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

async fn run(docker: &Docker, name: &str) -> Result<String, EngineError> {
    let all = AttachContainerOptionsBuilder::new().stream(true).stdout(true).stderr(true).build();
    let mut attached = docker.attach_container(name, Some(all)).await?;
    docker.start_container(name, None::<StartContainerOptions>).await?;
    let mut printed = Vec::new();
    while let Some(piece) = attached.output.next().await {
        if let LogOutput::StdOut { message } = piece? {
            printed.extend_from_slice(&message);
        }
        if printed.len() > MAX_PRINTED {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&printed).into_owned())
}
