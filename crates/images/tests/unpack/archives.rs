//! Makes archives byte by byte, also such as no tool would write, and unpacks them.

use std::path::{Path, PathBuf};

use emergent_images::unpack::{Limits, UnpackError, Unpacked, unpack};
use tar::{EntryType, Header};

/// An archive under construction.
#[derive(Clone, Default)]
pub(crate) struct Archive(Vec<u8>);

impl Archive {
    pub(crate) fn file(self, path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Self {
        self.entry(EntryType::Regular, path, b"", content)
    }

    pub(crate) fn folder(self, path: impl AsRef<[u8]>) -> Self {
        self.entry(EntryType::Directory, path, b"", b"")
    }

    pub(crate) fn link(self, path: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        self.entry(EntryType::Symlink, path, target, b"")
    }

    pub(crate) fn hard_link(self, path: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        self.entry(EntryType::Link, path, target, b"")
    }

    pub(crate) fn entry(
        self,
        kind: EntryType,
        path: impl AsRef<[u8]>,
        link: impl AsRef<[u8]>,
        content: impl AsRef<[u8]>,
    ) -> Self {
        let header = header(kind, path.as_ref(), link.as_ref(), content.as_ref().len() as u64);
        self.raw(&header, content.as_ref())
    }

    /// Records for the next entry.
    pub(crate) fn records(self, records: &[(&str, &[u8])]) -> Self {
        let mut content = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let mut length = rest + rest.to_string().len();
            length = rest + length.to_string().len();
            content.extend_from_slice(format!("{length} {key}=").as_bytes());
            content.extend_from_slice(value);
            content.push(b'\n');
        }
        self.entry(EntryType::XHeader, "records", b"", content)
    }

    /// A header as it is given, content and padding.
    pub(crate) fn raw(mut self, header: &Header, content: &[u8]) -> Self {
        let mut header = header.clone();
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// Without an end.
    pub(crate) fn cut_off(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn bytes(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

pub(crate) fn header(kind: EntryType, path: &[u8], link: &[u8], size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(0o755);
    header.set_uid(rustix::process::geteuid().as_raw().into());
    header.set_gid(rustix::process::getegid().as_raw().into());
    header.set_mtime(1_700_000_000);
    header.set_size(size);
    let fields = header.as_ustar_mut().unwrap();
    assert!(path.len() <= 100 && link.len() <= 100, "a long name needs records");
    fields.name[..path.len()].copy_from_slice(path);
    fields.linkname[..link.len()].copy_from_slice(link);
    header
}

/// A folder with something worth stealing or breaking beside the one that is unpacked into.
pub(crate) struct Ground {
    folder: tempfile::TempDir,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("outside")).unwrap();
        std::fs::write(folder.path().join("outside/secret"), "untouched").unwrap();
        Self { folder }
    }

    pub(crate) fn images(&self) -> PathBuf {
        self.folder.path().join("images")
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.images().join("root")
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    pub(crate) fn unpack(&self, archive: &[u8]) -> Result<Unpacked, UnpackError> {
        self.unpack_within(archive, &Limits::default())
    }

    pub(crate) fn unpack_within(&self, archive: &[u8], limits: &Limits) -> Result<Unpacked, UnpackError> {
        let answer = unpack(archive, &self.root(), limits);
        self.assert_outside_is_untouched();
        match &answer {
            Ok(_) => assert!(self.root().is_dir()),
            Err(_) => assert_eq!(names(&self.images()), [""; 0], "a failure leaves nothing"),
        }
        answer
    }

    pub(crate) fn assert_outside_is_untouched(&self) {
        assert_eq!(names(&self.outside()), ["secret"]);
        assert_eq!(std::fs::read_to_string(self.outside().join("secret")).unwrap(), "untouched");
        let metadata = std::fs::metadata(self.outside().join("secret")).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::nlink(&metadata), 1);
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).unwrap()
    }
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .map(|entries| {
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
        })
        .unwrap_or_default();
    names.sort();
    names
}
