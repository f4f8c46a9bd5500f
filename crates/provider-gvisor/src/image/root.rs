//! The root of an image as a folder of the host's.

use std::path::Path;

use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::CreateContainerOptionsBuilder;
use futures::TryStreamExt;

use crate::disk::layered::RootError;
use crate::engine::EngineError;
use crate::names::Names;
use crate::remains::Remains;

/// Marks containers that are exported.
pub(super) const ROLE: &str = "root";

/// Unpacks an image. Through a container that is never started, because Docker exports containers:
/// nothing of an image is run, and how Docker keeps it is Docker's business.
pub(crate) async fn unpack_root(
    docker: &Docker,
    names: &Names,
    remains: &Remains,
    image: &str,
    folder: &Path,
) -> Result<(), RootError> {
    let container = names.scratch_container(ROLE);
    let mut labels = names.own_labels();
    labels.insert(crate::names::ROLE.to_owned(), ROLE.to_owned());
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        labels: Some(labels),
        // An image may have no command, and a container must.
        entrypoint: Some(vec!["/never-started".to_owned()]),
        host_config: Some(HostConfig { network_mode: Some("none".to_owned()), ..HostConfig::default() }),
        ..ContainerCreateBody::default()
    };
    let named = CreateContainerOptionsBuilder::new().name(&container).build();
    let unpacked = async {
        docker.create_container(Some(named), body).await.map_err(EngineError::from)?;
        let exported = docker.export_container(&container).map_err(std::io::Error::other);
        let limits = emergent_images::unpack::Limits::default();
        Ok::<_, RootError>(emergent_images::unpack::unpack_stream(exported, folder.to_owned(), limits).await?)
    };
    let unpacked = unpacked.await;
    // Also one of which was never heard that it was made.
    let removed = remains.remove_scratch(docker, &container).await;
    let unpacked = unpacked?;
    removed?;
    tracing::info!(
        image,
        bytes = unpacked.bytes,
        duration_ms = unpacked.took.as_millis(),
        "unpacked image {image}"
    );
    Ok(())
}
