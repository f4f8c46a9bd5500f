//! The image that a container starts from whose workspace was made before: its own, or, where Docker has
//! lost that one and its root is unpacked here, one in its place.
//!
//! Of a layered workspace everything below the folders at the root comes from its disk and the unpacked
//! image. What Docker's own image gives is the root itself: links like `/bin`, and files that lie there. An
//! image of these alone is as good, and takes next to no room.

use std::io;
use std::path::Path;

use bollard::Docker;
use bytes::Bytes;
use emergent_provider::{Operation, ProviderError, SandboxSpec};

use super::import::import;
use super::settings::ImageSettings;
use super::{PresentImage, present};
use crate::disk::DiskKind;
use crate::host::Host;

/// The name of images in the place of lost ones; the tag is the lost one's hash.
pub(super) const REPOSITORY: &str = "emergent/root";

/// More than all files at the root of an image ever have.
const MAX_BYTES: u64 = 64 << 20;

/// What a container starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StartImage {
    pub(crate) id: String,
    /// What the author of the workspace's image has set, and this one has not.
    pub(crate) environment: Vec<String>,
    pub(crate) settings: ImageSettings,
}

impl From<PresentImage> for StartImage {
    fn from(image: PresentImage) -> Self {
        Self { id: image.id, environment: Vec::new(), settings: image.settings }
    }
}

impl Host {
    /// The image for a workspace that was made from the one with this hash.
    pub(crate) async fn start_image(
        &self,
        docker: &Docker,
        operation: Operation,
        spec: &SandboxSpec,
        disk: DiskKind,
        image: &str,
    ) -> Result<StartImage, ProviderError> {
        let looked = present(docker, image).await;
        if let Some(found) = looked.map_err(self.docker_step(operation, spec.id, "look for its image"))? {
            return Ok(found.into());
        }
        let unpacked = match disk {
            DiskKind::Layered => self.roots.unpacked(image).await,
            DiskKind::Volumes => None,
        };
        let Some((root, settings)) = unpacked else { return Err(self.lost_image(spec, image)) };
        let stand_in = stand_in(docker, image, &root).await;
        let stand_in =
            stand_in.map_err(|error| self.step(operation, spec.id, "image in place of a lost one", error))?;
        tracing::warn!(workspace = %spec.id, image,
            "Docker has lost image {image} of workspace {}; it goes on with what is unpacked", spec.id);
        Ok(StartImage { id: stand_in.id, environment: settings.environment.clone(), settings })
    }

    fn lost_image(&self, spec: &SandboxSpec, image: &str) -> ProviderError {
        let name = spec.base_image.as_ref().unwrap_or(&self.options.default_image);
        ProviderError::ImageNotFound {
            provider: self.kind(),
            reference: name.clone(),
            reason: format!(
                "workspace {} was made from {image}, which Docker has no more; the same content under any name will do",
                spec.id
            ),
        }
    }
}

async fn stand_in(
    docker: &Docker,
    image: &str,
    root: &Path,
) -> Result<PresentImage, Box<dyn std::error::Error + Send + Sync>> {
    let hash = image.strip_prefix("sha256:").unwrap_or(image);
    let name = format!("{REPOSITORY}:{hash}");
    if let Some(image) = present(docker, &name).await? {
        return Ok(image);
    }
    let root = root.to_owned();
    let archive = tokio::task::spawn_blocking(move || archive(&root)).await??;
    let content = futures::stream::iter([Ok::<_, io::Error>(archive)]);
    Ok(import(docker, &name.parse()?, &[], content).await?)
}

/// What is directly at a root: folders without what is in them, links, files. No link is followed.
fn archive(root: &Path) -> io::Result<Bytes> {
    let mut archive = tar::Builder::new(Vec::new());
    archive.follow_symlinks(false);
    let mut bytes = 0_u64;
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        let found = entry.metadata()?;
        if found.is_dir() {
            archive.append_dir(entry.file_name(), entry.path())?;
        } else if found.is_file() || found.is_symlink() {
            bytes = bytes.saturating_add(found.len());
            if bytes > MAX_BYTES {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            archive.append_path_with_name(entry.path(), entry.file_name())?;
        }
    }
    archive.into_inner().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_image_in_place_of_another_has_its_root_and_nothing_below() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("usr/bin")).unwrap();
        std::fs::write(root.path().join("usr/bin/large"), "x").unwrap();
        std::fs::write(root.path().join("start.sh"), "exec true").unwrap();
        symlink("usr/bin", root.path().join("bin")).unwrap();
        symlink("/etc/passwd", root.path().join("away")).unwrap();
        let archive = archive(root.path()).unwrap();
        let mut archive = tar::Archive::new(&archive[..]);
        let entries = archive.entries().unwrap().map(Result::unwrap);
        let mut seen: Vec<_> = entries
            .map(|entry| {
                let link = entry.link_name().unwrap().map(|link| link.display().to_string());
                (entry.path().unwrap().display().to_string(), entry.size(), link)
            })
            .collect();
        seen.sort();
        let link = |to: &str| Some(to.to_owned());
        assert_eq!(
            seen,
            [
                ("away".to_owned(), 0, link("/etc/passwd")),
                ("bin".to_owned(), 0, link("usr/bin")),
                ("start.sh".to_owned(), 9, None),
                ("usr".to_owned(), 0, None),
            ]
        );
    }
}
