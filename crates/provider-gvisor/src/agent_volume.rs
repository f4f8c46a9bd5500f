//! The agent's program as a volume: works with an engine on another machine, and with an image
//! that has nothing in it at all.
//!
//! ```text
//!  program ─► scratch container ─► volume ── bound read-only by Docker ─► sealed volume ─► every sandbox
//! ```
//!
//! The volume is named after the program's hash, so a server of another version brings one of its
//! own, and sandboxes that run keep theirs. It is filled through a container that is never
//! started: Docker only copies into containers.
//!
//! Sandboxes get it through a second volume, whose mount is read-only to the kernel of Docker's host. What a
//! container's own mount is called read-only by, gVisor keeps to itself: its gofer opens what it is asked to open,
//! and has truncated the file of all of them before the answer is that it must not be written to.

use std::collections::HashMap;
use std::io;
use std::sync::PoisonError;

use bollard::Docker;
use bollard::models::{
    ContainerCreateBody, HostConfig, Mount, MountType, MountVolumeOptions, VolumeCreateRequest,
};
use bollard::query_parameters::{
    ContainerArchiveInfoOptionsBuilder, CreateContainerOptionsBuilder, ListVolumesOptionsBuilder,
    RemoveContainerOptionsBuilder, RemoveVolumeOptionsBuilder, UploadToContainerOptionsBuilder,
};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use crate::engine::{EngineError, MissingIsFine};
use crate::names::{Names, ROLE};

/// Where the volume is mounted, in every sandbox.
pub(crate) const FOLDER: &str = "/.emergent";
/// The program there.
pub(crate) const PROGRAM: &str = "/.emergent/emergent-agent";
const FILE: &str = "emergent-agent";
const MODE: u32 = 0o755;

/// Marks volumes that hold an agent.
const AGENT: &str = "agent";

/// What follows a volume's name in those of the sealed ones.
const SEALED: &str = "-sealed-";

/// The program, and the volume once it is there.
pub(crate) struct AgentVolume {
    names: Names,
    program: Bytes,
    hash: String,
    /// Whether it was seen to be whole. Locked while somebody looks.
    whole: Mutex<bool>,
    /// The sealed volume of the last look. It stays while another look is due: whoever is about to start a sandbox
    /// has looked before.
    sealed: std::sync::Mutex<Option<String>>,
}

/// One after the other.
static FILLING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

impl AgentVolume {
    pub(crate) fn new(names: Names, program: &[u8]) -> Self {
        let hash = Sha256::digest(program).iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            names,
            program: Bytes::copy_from_slice(program),
            hash,
            whole: Mutex::new(false),
            sealed: Default::default(),
        }
    }

    /// How it is mounted: nobody inside can change it. To be asked when it was [ensured](Self::ensure).
    pub(crate) fn mount(&self) -> Mount {
        // One of this name has nothing in it, and nothing starts with it.
        let sealed =
            self.known().unwrap_or_else(|| format!("{}{SEALED}0", self.names.agent_volume(&self.hash)));
        Mount { source: Some(sealed), read_only: Some(true), ..self.writable_mount() }
    }

    fn known(&self) -> Option<String> {
        self.sealed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn writable_mount(&self) -> Mount {
        Mount {
            target: Some(FOLDER.to_owned()),
            source: Some(self.names.agent_volume(&self.hash)),
            typ: Some(MountType::VOLUME),
            // What an image has in that place is none of ours.
            volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..MountVolumeOptions::default() }),
            ..Mount::default()
        }
    }

    /// Makes sure that it is there and whole. `image` is any image that Docker has: a container
    /// that is never started needs one too.
    pub(crate) async fn ensure(&self, docker: &Docker, image: &str) -> Result<(), EngineError> {
        let mut whole = self.whole.lock().await;
        if !*whole {
            self.fill(docker, image).await?;
            let sealed = self.seal(docker).await?;
            *self.sealed.lock().unwrap_or_else(PoisonError::into_inner) = Some(sealed);
            *whole = true;
        }
        Ok(())
    }

    /// It is looked at again before the next sandbox: somebody may have removed it.
    pub(crate) async fn doubt(&self) {
        *self.whole.lock().await = false;
    }

    async fn fill(&self, docker: &Docker, image: &str) -> Result<(), EngineError> {
        // Two providers of one server have the same volume, and Docker does not copy a file twice at once.
        let _alone = FILLING.lock().await;
        let labels = self.labels();
        docker
            .create_volume(VolumeCreateRequest {
                name: Some(self.names.agent_volume(&self.hash)),
                labels: Some(labels.clone()),
                ..VolumeCreateRequest::default()
            })
            .await?;
        let container = self.names.scratch_container(AGENT);
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            labels: Some(labels),
            entrypoint: Some(vec![PROGRAM.to_owned()]),
            network_disabled: Some(true),
            host_config: Some(HostConfig {
                mounts: Some(vec![self.writable_mount()]),
                network_mode: Some("none".to_owned()),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        let named = CreateContainerOptionsBuilder::new().name(&container).build();
        docker.create_container(Some(named), body).await?;
        let filled = self.copy_into(docker, &container).await;
        let remove = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
        docker.remove_container(&container, Some(remove)).await.missing_is_fine()?;
        filled
    }

    fn labels(&self) -> HashMap<String, String> {
        let mut labels = self.names.own_labels();
        labels.insert(ROLE.to_owned(), AGENT.to_owned());
        labels
    }

    /// Makes the volume that sandboxes get. Its name says which of its like the filled one is: whoever has removed
    /// that has left what is bound to it behind, with those who use it.
    async fn seal(&self, docker: &Docker) -> Result<String, EngineError> {
        let filled = docker.inspect_volume(&self.names.agent_volume(&self.hash)).await?;
        let since: String =
            filled.created_at.unwrap_or_default().chars().filter(char::is_ascii_alphanumeric).collect();
        let name = format!("{}{SEALED}{since}", filled.name);
        let options = [("type", "none"), ("o", "bind,ro"), ("device", filled.mountpoint.as_str())];
        docker
            .create_volume(VolumeCreateRequest {
                name: Some(name.clone()),
                driver: Some("local".to_owned()),
                driver_opts: Some(options.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
                labels: Some(self.labels()),
                ..VolumeCreateRequest::default()
            })
            .await?;
        Ok(name)
    }

    async fn copy_into(&self, docker: &Docker, container: &str) -> Result<(), EngineError> {
        let at = ContainerArchiveInfoOptionsBuilder::new().path(PROGRAM).build();
        if let Ok(found) = docker.get_container_archive_info(container, Some(at)).await
            && u64::try_from(found.size).ok() == Some(self.program.len() as u64)
            && found.file_mode & 0o777 == MODE
        {
            return Ok(());
        }
        let archive = archive(&self.program).map_err(|err| bollard::errors::Error::IOError { err })?;
        let into = UploadToContainerOptionsBuilder::new().path(FOLDER).build();
        docker.upload_to_container(container, Some(into), bollard::body_full(archive)).await?;
        Ok(())
    }

    /// Removes volumes of earlier agents that no sandbox uses any more, and containers that were to
    /// fill one and stayed when a server was killed.
    pub(crate) async fn prune(&self, docker: &Docker) -> Result<(), EngineError> {
        let filter = self.names.role_filter(AGENT);
        crate::containers::remove_all(docker, &filter).await?;
        let filter = ListVolumesOptionsBuilder::new().filters(&filter).build();
        let listed = docker.list_volumes(Some(filter)).await?.volumes.unwrap_or_default();
        let (sealed, filled): (Vec<_>, Vec<_>) =
            listed.into_iter().map(|volume| volume.name).partition(|name| name.contains(SEALED));
        let (current, in_use) = (self.names.agent_volume(&self.hash), self.known());
        let mut used = vec![current];
        for name in sealed {
            let is_current = in_use.as_ref() == Some(&name);
            if (is_current || !remove_unused(docker, &name).await?)
                && let Some((filled, _)) = name.split_once(SEALED)
            {
                used.push(filled.to_owned());
            }
        }
        // To Docker nobody uses what is only bound.
        for name in filled.into_iter().filter(|name| !used.contains(name)) {
            remove_unused(docker, &name).await?;
        }
        Ok(())
    }
}

/// Whether it is gone: somebody may use it.
async fn remove_unused(docker: &Docker, name: &str) -> Result<bool, EngineError> {
    let gently = RemoveVolumeOptionsBuilder::new().force(false).build();
    match docker.remove_volume(name, Some(gently)).await.missing_is_fine() {
        Err(error) if error.is_conflict() => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// An archive of the one file.
fn archive(program: &[u8]) -> io::Result<Bytes> {
    let mut header = tar::Header::new_ustar();
    header.set_size(program.len() as u64);
    header.set_mode(MODE);
    header.set_entry_type(tar::EntryType::Regular);
    let mut archive = tar::Builder::new(Vec::with_capacity(program.len() + 4096));
    archive.append_data(&mut header, FILE, program)?;
    archive.into_inner().map(Bytes::from)
}
