//! Images without an engine: roots unpacked once, and names that mean one of them.
//!
//! ```text
//!  images/
//!    names/emergent%2fworkspace%3alatest     which root the name means
//!    roots/<id>/                             a root; the lower layer of all its workspaces
//! ```
//!
//! Nothing is pulled: an image is there because `emergent image build` has put it there, or, in the place
//! of the default one, because it was made of the host's own system. A name that is put again means a new
//! root from then on; workspaces keep the one they were made over.

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use emergent_images::unpack::{Limits, UnpackError, unpack_stream};
use futures::Stream;

use super::layout::{private_folder, write_file};
use crate::image::{ImageReference, MakeError, NotAnImage, minimal_plan, minimal_reference};

/// What the user hears of a name that is not there.
const NOT_PULLED: &str = "without Docker nothing is pulled from a registry; `emergent image build --tag NAME` \
                          makes an image of Debian packages under a name";

/// The image for a workspace, and what its user should know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChosenRoot {
    /// Names the root.
    pub(super) id: String,
    pub(super) warning: Option<String>,
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub(super) enum RootError {
    #[error(transparent)]
    NotAnImage(#[from] NotAnImage),
    #[error("image {reference} is not present: {NOT_PULLED}")]
    NotFound { reference: String },
    #[error(
        "image {reference} is not present, and no minimal one could be made of this host's system: {reason}"
    )]
    NotEvenMinimal { reference: String, reason: String },
    #[error("{}: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
}

impl RootError {
    /// What is said beside the name.
    pub(super) fn reason() -> &'static str {
        NOT_PULLED
    }
}

/// An image was not put in its place. Nothing of it is kept.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// Names no image that could be made.
    #[error("{0:?} cannot be the name of a new image; expected [registry/]name[:tag]")]
    NotAName(String),
    /// Its archive could not be unpacked.
    #[error("image {name} was not unpacked: {source}")]
    Unpack {
        /// Which image.
        name: String,
        /// What is wrong with it, or with the folder.
        source: UnpackError,
    },
    /// The folder of images could not be written to.
    #[error("{}: {source}", path.display())]
    Folder {
        /// Where.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// The images of a server that has no Docker.
#[derive(Debug)]
pub struct DirectImages {
    folder: PathBuf,
    /// One minimal image is made at a time.
    making: tokio::sync::Mutex<()>,
}

impl DirectImages {
    /// Those of the server with this data folder.
    pub fn of(data_dir: &Path) -> Self {
        Self::new(super::layout::Layout::new(data_dir).images())
    }

    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, making: tokio::sync::Mutex::new(()) }
    }

    /// Whether something can be the name of a new image.
    pub fn check_name(name: &str) -> Result<(), PutError> {
        parse_new(name).map(drop)
    }

    /// Whether there is an image of that name.
    pub fn has(&self, name: &str) -> bool {
        name.parse().is_ok_and(|reference| matches!(self.find(&reference), Ok(Some(_))))
    }

    /// Unpacks the archive of a root and gives it a name; returns what names the root.
    pub async fn put<E>(
        &self,
        name: &str,
        content: impl Stream<Item = Result<Bytes, E>>,
    ) -> Result<String, PutError>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let reference = parse_new(name)?;
        let id = uuid::Uuid::now_v7().simple().to_string();
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| PutError::Folder { path, source }
        };
        let (names, roots) = (self.folder.join("names"), self.folder.join("roots"));
        private_folder(&names).map_err(at(&names))?;
        private_folder(&roots).map_err(at(&roots))?;
        let unpacked = unpack_stream(content, roots.join(&id), Limits::default()).await;
        let unpacked = unpacked.map_err(|source| PutError::Unpack { name: name.to_owned(), source })?;
        let file = self.name_file(&reference);
        write_file(&file, id.as_bytes(), 0o600).map_err(at(&file))?;
        tracing::info!(
            image = name,
            bytes = unpacked.bytes,
            duration_ms = unpacked.took.as_millis(),
            "unpacked image {name}"
        );
        Ok(id)
    }

    /// The folder of a root.
    pub(super) fn root(&self, id: &str) -> PathBuf {
        self.folder.join("roots").join(id)
    }

    /// A root with nothing in it: the agent brings itself.
    pub(super) fn empty(&self) -> Result<String, RootError> {
        const EMPTY: &str = "empty";
        let path = self.root(EMPTY);
        let made = private_folder(&self.folder.join("roots")).and_then(|()| {
            private_folder(&path)?;
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        });
        made.map(|()| EMPTY.to_owned()).map_err(|source| RootError::Folder { path, source })
    }

    /// The image that a request names.
    pub(super) async fn named(&self, name: &str) -> Result<ChosenRoot, RootError> {
        match self.find(&name.parse()?)? {
            Some(id) => Ok(ChosenRoot { id, warning: None }),
            None => Err(RootError::NotFound { reference: name.to_owned() }),
        }
    }

    /// The image of a request that names none: that one, or a minimal one in its place. The name of the
    /// default stays free, so that it is used as soon as it is there.
    pub(super) async fn or_minimal(&self, name: &str) -> Result<ChosenRoot, RootError> {
        let reason = match self.named(name).await {
            Err(RootError::NotFound { .. }) => NOT_PULLED,
            other => return other,
        };
        match self.minimal().await {
            Ok(id) => Ok(ChosenRoot { id, warning: Some(crate::image::minimal_warning(name, reason)) }),
            Err(reason) => Err(RootError::NotEvenMinimal { reference: name.to_owned(), reason }),
        }
    }

    /// The image made of the host's own system; made where it is not there.
    async fn minimal(&self) -> Result<String, String> {
        let told = |error: MakeError| error.to_string();
        let reference = minimal_reference().await.map_err(told)?;
        let _alone = self.making.lock().await;
        if let Some(id) = self.find(&reference).map_err(|error| error.to_string())? {
            return Ok(id);
        }
        let plan = minimal_plan().await.map_err(told)?;
        self.put(&reference.to_string(), plan.into_stream()).await.map_err(|error| error.to_string())
    }

    fn find(&self, reference: &ImageReference) -> Result<Option<String>, RootError> {
        let file = self.name_file(reference);
        match std::fs::read_to_string(&file) {
            Ok(id) if is_id(&id) && self.root(&id).is_dir() => Ok(Some(id)),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(RootError::Folder { path: file, source }),
        }
    }

    /// What separates the parts of a name is written so that it can be a file's.
    fn name_file(&self, reference: &ImageReference) -> PathBuf {
        let name = format!("{}:{}", reference.name(), reference.version());
        let name = name.replace('/', "%2f").replace(':', "%3a");
        self.folder.join("names").join(name)
    }
}

/// A name for a new image: by its content's hash one cannot be made.
fn parse_new(name: &str) -> Result<ImageReference, PutError> {
    let reference = name.parse::<ImageReference>().ok().filter(|_| !name.contains('@'));
    reference.ok_or_else(|| PutError::NotAName(name.chars().take(80).collect()))
}

fn is_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(file: &str) -> impl Stream<Item = Result<Bytes, io::Error>> {
        let mut header = tar::Header::new_ustar();
        header.set_size(1);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_entry_type(tar::EntryType::Regular);
        let mut archive = tar::Builder::new(Vec::new());
        archive.append_data(&mut header, file, &b"x"[..]).unwrap();
        futures::stream::iter([Ok(Bytes::from(archive.into_inner().unwrap()))])
    }

    #[tokio::test]
    async fn a_name_means_the_root_that_was_put_last() {
        let folder = tempfile::tempdir().unwrap();
        let images = DirectImages::of(folder.path());
        assert!(matches!(images.named("a/b:1").await, Err(RootError::NotFound { .. })));
        let first = images.put("a/b:1", archive("first")).await.unwrap();
        assert_eq!(images.named("a/b:1").await.unwrap().id, first);
        assert!(images.root(&first).join("first").is_file());
        let second = images.put("a/b:1", archive("second")).await.unwrap();
        assert_eq!(images.named("a/b:1").await.unwrap().id, second);
        assert!(images.root(&first).is_dir(), "workspaces may be laid over it");
        // A tag that nobody names.
        images.put("c", archive("c")).await.unwrap();
        assert_eq!(images.named("c:latest").await.unwrap(), images.named("c").await.unwrap());
    }

    #[tokio::test]
    async fn what_is_no_image_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let images = DirectImages::of(folder.path());
        for bad in ["", "../x", "A", "a@sha256:00", &format!("a@sha256:{}", "0".repeat(64))] {
            assert!(matches!(images.put(bad, archive("x")).await, Err(PutError::NotAName(_))), "{bad}");
        }
        let cut = futures::stream::iter([Ok::<_, io::Error>(Bytes::from_static(b"no archive"))]);
        assert!(matches!(images.put("a", cut).await, Err(PutError::Unpack { .. })));
        assert!(matches!(images.named("a").await, Err(RootError::NotFound { .. })));
    }
}
