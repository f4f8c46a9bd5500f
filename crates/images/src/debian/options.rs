//! What an image is to have, and how long making it may take.

use std::path::PathBuf;
use std::time::Duration;

/// How to make an image of packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The release, such as a code name; the host's own release and sources where it is not given.
    pub suite: Option<String>,
    /// Where the suite's packages come from, where that is not obvious.
    pub mirror: Option<String>,
    /// What is installed beyond the smallest system.
    pub packages: Vec<String>,
    /// Where the image takes shape: three times its size, and open to other accounts' programs.
    pub work_folder: PathBuf,
    /// For everything, downloads included.
    pub time: Duration,
    /// The root of the host whose sources are taken over.
    pub host: PathBuf,
    /// `mmdebstrap`: looked for on `PATH`, unless it is a path.
    pub program: PathBuf,
}

impl Default for Options {
    /// The workspace image, of the host's own release.
    fn default() -> Self {
        Self {
            suite: None,
            mirror: None,
            packages: crate::workspace::packages().map(str::to_owned).collect(),
            work_folder: std::env::temp_dir(),
            time: Duration::from_secs(3600),
            host: "/".into(),
            program: super::PROGRAM.into(),
        }
    }
}
