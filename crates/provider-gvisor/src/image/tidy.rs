//! Removing what was kept of images that nobody needs any more.
//!
//! ```text
//!  unpacked root: no workspace's volume names its image ─► Docker has no such image ─► renamed
//!                     ─► looked at once more: named or mounted by now? ─► removed, else put back
//!  minimal image: not the one of today, days old, named by no workspace's volume ─► removed
//! ```
//!
//! Volumes say of every workspace which image it was made over, also while it is stopped. Those of all
//! installations count: they may share an engine. So do the copies of disks of all providers of this
//! installation, which share its roots. Roots are only ever looked for in this installation's own folder.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::query_parameters::{
    ListImagesOptionsBuilder, ListVolumesOptionsBuilder, RemoveImageOptionsBuilder,
};
use emergent_host_disk::LayeredDisk;
use emergent_images::unpack::remove_leftovers;

use super::{minimal, present, root, start};
use crate::containers::{self, is_older};
use crate::disk::layered::{folder_name, settings_of};
use crate::engine::EngineError;
use crate::host::Host;
use crate::names;

/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(3600);

/// Roots that are removed at a time: each may have a hundred thousand files.
const AT_A_TIME: usize = 8;

/// How old a minimal image of another time is at least, so that no server removes what another one is
/// about to use.
const MINIMAL_KEPT: Duration = Duration::from_secs(24 * 3600);

/// How old a container is at least whose root nobody can still be exporting.
const EXPORT_LIMIT: Duration = Duration::from_secs(3600);

/// What a root is called while it is decided on for the last time.
const LEAVING: &str = ".leaving";

/// When it was last looked at.
#[derive(Default)]
pub(crate) struct Tidying(Mutex<Option<Instant>>);

impl Tidying {
    fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last.elapsed() < EVERY) {
            return false;
        }
        *last = Some(Instant::now());
        true
    }
}

/// Why something stays that could have gone.
#[derive(Debug, thiserror::Error)]
enum TidyError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("{}: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Minimal(#[from] minimal::MakeError),
    #[error("the task has died: {0}")]
    Task(#[from] tokio::task::JoinError),
}

impl Host {
    /// Looks at what there is, if that was not done lately; nobody waits for it.
    pub(crate) fn tidy_when_due(host: &Arc<Self>) {
        if !host.tidying.is_due() {
            return;
        }
        let host = Arc::clone(host);
        tokio::spawn(async move {
            if let Err(error) = host.tidy().await {
                tracing::warn!(provider = %host.kind(), "what is left of old images stays for now: {error}");
            }
        });
    }

    async fn tidy(&self) -> Result<(), TidyError> {
        let docker = self.engine.docker().await?;
        self.remove_forgotten_exports(&docker).await?;
        remove_minimal_images(&docker).await?;
        self.remove_roots(&docker).await?;
        remove_stand_ins(&docker).await
    }

    /// Containers whose root was being exported when a server was killed: they hold their image.
    async fn remove_forgotten_exports(&self, docker: &Docker) -> Result<(), TidyError> {
        containers::remove_forgotten(docker, &self.names.role_filter(root::ROLE), EXPORT_LIMIT).await?;
        Ok(())
    }

    async fn remove_roots(&self, docker: &Docker) -> Result<(), TidyError> {
        let folder = self.layout.images();
        for left in blocking(folder.clone(), remove_unfinished).await? {
            tracing::info!("removed {}, which nobody had finished unpacking", left.display());
        }
        let mut removed = 0;
        let mut named = images_of_volumes(docker).await?;
        named.extend(self.images_of_snapshots().await?);
        for root in blocking(folder, roots_in).await? {
            if removed == AT_A_TIME {
                break;
            }
            match self.remove_root(docker, &root, &named).await {
                Ok(true) => {
                    removed += 1;
                    let image = root.image();
                    tracing::info!(image, "removed the unpacked root of image {image}, which nothing uses");
                }
                Ok(false) => {}
                // One that cannot be removed is no reason to keep the others.
                Err(TidyError::Folder { path, source }) => {
                    tracing::warn!("{} stays for now: {source}", path.display());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes a root unless somebody needs it; says whether it did.
    async fn remove_root(
        &self,
        docker: &Docker,
        root: &Root,
        named: &HashSet<String>,
    ) -> Result<bool, TidyError> {
        let image = root.image();
        if !root.is_leaving && (named.contains(&image) || present(docker, &image).await?.is_some()) {
            return Ok(false);
        }
        // From here on nobody finds it by its name. Whoever found it before has either mounted it or
        // will fail and say so; the volume comes after the mount.
        let leaving = root.leaving();
        if !root.is_leaving {
            let from = root.path.clone();
            let aside = blocking(leaving.clone(), move |to| match to.try_exists()? {
                // An earlier one of the same image, which is still mounted, or not yet removed.
                true => Ok(false),
                false => std::fs::rename(from, to).map(|()| true),
            });
            if !aside.await? {
                return Ok(false);
            }
        }
        let is_mounted =
            blocking(leaving.clone(), |folder| LayeredDisk::is_lower_layer(folder).map_err(io::Error::other));
        let is_mounted = is_mounted.await?;
        // The image was unpacked again since: whoever looks for it by its name finds that one.
        let has_successor = blocking(root.path.clone(), Path::try_exists).await?;
        let is_needed = is_mounted
            || !has_successor
                && (images_of_volumes(docker).await?.contains(&image)
                    || self.images_of_snapshots().await?.contains(&image));
        if is_needed {
            if !has_successor {
                let back = root.path.clone();
                blocking(leaving, move |from| std::fs::rename(from, back)).await?;
            }
            return Ok(false);
        }
        let settings = (!has_successor).then(|| settings_of(&root.path));
        blocking(leaving, move |folder| {
            if let Some(settings) = settings {
                let _ = std::fs::remove_file(settings);
            }
            std::fs::remove_dir_all(folder)
        })
        .await?;
        Ok(true)
    }

    /// The images that copies of disks belong over, whichever provider of the installation has made them. Those
    /// of volumes are volumes themselves.
    async fn images_of_snapshots(&self) -> Result<HashSet<String>, TidyError> {
        let layout = self.layout.clone();
        blocking(self.layout.snapshots().folder().to_owned(), move |_| {
            let mut images = HashSet::new();
            for files in layout.snapshots_of_all()? {
                images.extend(files.images()?);
            }
            Ok(images)
        })
        .await
    }
}

/// An unpacked root.
struct Root {
    hash: String,
    /// Where it is when it is used.
    path: PathBuf,
    /// It was about to be removed when a server was killed.
    is_leaving: bool,
}

impl Root {
    /// The image that it is of, by its content's hash.
    fn image(&self) -> String {
        format!("sha256:{}", self.hash)
    }

    fn leaving(&self) -> PathBuf {
        self.path.with_file_name(format!("{}{LEAVING}", self.hash))
    }
}

/// What was being unpacked when a server was killed.
fn remove_unfinished(folder: &Path) -> io::Result<Vec<PathBuf>> {
    remove_leftovers(folder).map_err(io::Error::other)
}

/// What is being unpacked is none, and neither is what somebody else has put there.
fn roots_in(folder: &Path) -> io::Result<Vec<Root>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut roots = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        let (hash, is_leaving) = match name.strip_suffix(LEAVING) {
            Some(hash) => (hash, true),
            None => (name, false),
        };
        if let Some(hash) = folder_name(&format!("sha256:{hash}")) {
            roots.push(Root { path: folder.join(&hash), hash, is_leaving });
        }
    }
    // What is on its way out first: it is in the way of one that is to go as well. Then by name, so that one pass is
    // like another.
    roots.sort_by(|one, other| (!one.is_leaving, &one.hash).cmp(&(!other.is_leaving, &other.hash)));
    Ok(roots)
}

/// The images that workspaces were made over, by the hashes of their content.
async fn images_of_volumes(docker: &Docker) -> Result<HashSet<String>, EngineError> {
    let filter = HashMap::from([("label".to_owned(), vec![names::IMAGE.to_owned()])]);
    let options = ListVolumesOptionsBuilder::new().filters(&filter).build();
    let volumes = docker.list_volumes(Some(options)).await?.volumes.unwrap_or_default();
    Ok(volumes.into_iter().filter_map(|mut volume| volume.labels.remove(names::IMAGE)).collect())
}

/// Minimal images of another release or recipe.
async fn remove_minimal_images(docker: &Docker) -> Result<(), TidyError> {
    let current = minimal::reference().await?.to_string();
    let filter = HashMap::from([("reference".to_owned(), vec![minimal::REPOSITORY.to_owned()])]);
    let options = ListImagesOptionsBuilder::new().filters(&filter).build();
    let images = docker.list_images(Some(options)).await.map_err(EngineError::from)?;
    let named = images_of_volumes(docker).await?;
    for image in images {
        if named.contains(&image.id) || !is_older(Some(image.created), MINIMAL_KEPT) {
            continue;
        }
        for name in image.repo_tags.iter().filter(|name| **name != current) {
            remove_image(docker, name).await?;
        }
    }
    Ok(())
}

/// Images in the place of lost ones that no workspace needs any more.
async fn remove_stand_ins(docker: &Docker) -> Result<(), TidyError> {
    let filter = HashMap::from([("reference".to_owned(), vec![start::REPOSITORY.to_owned()])]);
    let options = ListImagesOptionsBuilder::new().filters(&filter).build();
    let images = docker.list_images(Some(options)).await.map_err(EngineError::from)?;
    let named = images_of_volumes(docker).await?;
    for name in images.iter().flat_map(|image| &image.repo_tags) {
        let of = name.rsplit_once(':').map_or("", |(_, hash)| hash);
        if !named.contains(&format!("sha256:{of}")) {
            remove_image(docker, name).await?;
        }
    }
    Ok(())
}

async fn remove_image(docker: &Docker, name: &str) -> Result<(), EngineError> {
    let gently = RemoveImageOptionsBuilder::new().force(false).build();
    match docker.remove_image(name, Some(gently), None).await.map_err(EngineError::from) {
        Ok(_) => tracing::info!(image = name, "removed image {name}, which nothing uses"),
        // A container has it, or somebody else was quicker.
        Err(error) if error.is_conflict() || error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, TidyError> {
    let done =
        tokio::task::spawn_blocking(move || work(&path).map_err(|source| TidyError::Folder { path, source }));
    done.await?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_known_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = ("0a".repeat(32), "0b".repeat(32));
        for name in [&one, &format!("{two}.leaving"), &format!("{one}.partial"), "lost+found"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let mut roots = roots_in(folder.path()).unwrap();
        roots.sort_by(|a, b| a.hash.cmp(&b.hash));
        let seen: Vec<_> = roots.iter().map(|root| (root.hash.as_str(), root.is_leaving)).collect();
        assert_eq!(seen, [(one.as_str(), false), (two.as_str(), true)]);
        assert!(roots_in(&folder.path().join("nowhere")).unwrap().is_empty());
    }
}
