//! A container that copies volumes: Docker itself cannot, and nothing of a workspace is read on the host.
//! It runs under the same runtime as workspaces do, has no network, and the agent's program does the work.

use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType, MountVolumeOptions,
};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, StartContainerOptions,
};
use emergent_types::SnapshotId;
use futures::StreamExt;

use crate::agent_volume;
use crate::engine::EngineError;
use crate::host::Host;
use crate::means::empty_image;
use crate::names;

/// Marks containers that copy.
pub(crate) const COPIER: &str = "copier";

/// What owners, modes and files of others need.
const CAPABILITIES: [&str; 4] = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"];

const MEMORY: i64 = 512 << 20;

/// More than one word of what it says is not looked at.
const MAX_PRINTED: usize = 4096;

/// Why volumes were not copied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    #[error("the disk of Docker's host is full")]
    Full,
    #[error("it took longer than {0:?}")]
    TimedOut(Duration),
    #[error("the program that copies says: {0}")]
    Failed(String),
    #[error(transparent)]
    Engine(EngineError),
}

impl Host {
    /// Copies the first volume of each pair into the second, which is empty.
    pub(super) async fn copy_between(
        &self,
        docker: &Docker,
        pairs: &[(String, String)],
        snapshot: SnapshotId,
        limit: Duration,
    ) -> Result<(), CopyError> {
        let image = empty_image(docker).await?;
        self.agent.ensure(docker, &image.id).await?;
        let name = self.names.scratch_container(COPIER);
        let named = CreateContainerOptionsBuilder::new().name(&name).build();
        let body = self.copier(&image.id, pairs, snapshot);
        docker.create_container(Some(named), body).await.map_err(EngineError::from)?;
        let printed = tokio::time::timeout(limit, run(docker, &name)).await;
        self.remove_scratch(docker, &name).await?;
        let (said, complained) = printed.map_err(|_| CopyError::TimedOut(limit))??;
        match said.trim() {
            "copied" => Ok(()),
            "full" => Err(CopyError::Full),
            _ => Err(CopyError::Failed(complained.escape_debug().to_string())),
        }
    }

    fn copier(&self, image: &str, pairs: &[(String, String)], snapshot: SnapshotId) -> ContainerCreateBody {
        let mut labels = self.names.own_labels();
        labels.insert(names::ROLE.to_owned(), COPIER.to_owned());
        labels.insert(names::SNAPSHOT.to_owned(), snapshot.to_string());
        let mut mounts = vec![self.agent.mount()];
        let mut arguments = vec!["copy".to_owned()];
        for (number, (from, to)) in pairs.iter().enumerate() {
            let (source, target) = (format!("/from/{number}"), format!("/to/{number}"));
            mounts.extend([mount(from, &source, true), mount(to, &target, false)]);
            arguments.extend([source, target]);
        }
        ContainerCreateBody {
            image: Some(image.to_owned()),
            labels: Some(labels),
            user: Some("0:0".to_owned()),
            entrypoint: Some(vec![agent_volume::PROGRAM.to_owned()]),
            cmd: Some(arguments),
            working_dir: Some("/".to_owned()),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            host_config: Some(HostConfig {
                runtime: self.options.runtime.name().map(str::to_owned),
                mounts: Some(mounts),
                network_mode: Some("none".to_owned()),
                cap_drop: Some(vec!["ALL".to_owned()]),
                cap_add: Some(CAPABILITIES.map(str::to_owned).into()),
                security_opt: Some(vec!["no-new-privileges".to_owned()]),
                readonly_rootfs: Some(true),
                memory: Some(MEMORY),
                memory_swap: Some(MEMORY),
                pids_limit: Some(1024),
                log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        }
    }
}

fn mount(volume: &str, target: &str, read_only: bool) -> Mount {
    Mount {
        target: Some(target.to_owned()),
        source: Some(volume.to_owned()),
        typ: Some(MountType::VOLUME),
        read_only: Some(read_only),
        volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..MountVolumeOptions::default() }),
        ..Mount::default()
    }
}

/// What it says, and what it complains of.
async fn run(docker: &Docker, name: &str) -> Result<(String, String), EngineError> {
    let all = AttachContainerOptionsBuilder::new().stream(true).stdout(true).stderr(true).build();
    let mut attached = docker.attach_container(name, Some(all)).await?;
    docker.start_container(name, None::<StartContainerOptions>).await?;
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    while let Some(piece) = attached.output.next().await {
        match piece? {
            LogOutput::StdOut { message } if said.len() < MAX_PRINTED => said.extend_from_slice(&message),
            LogOutput::StdErr { message } if complained.len() < MAX_PRINTED => {
                complained.extend_from_slice(&message);
            }
            _ => {}
        }
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((text(&said), text(&complained)))
}
