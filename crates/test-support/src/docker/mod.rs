//! A real Docker with a real gVisor, for tests.

mod daemon;
mod image;
mod programs;
mod remains;
mod remote;

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub use daemon::{DaemonOptions, DockerDaemon};
pub use image::TEST_IMAGE;

/// Where the daemon listens that a run of the suites has started for all its tests, and the folder
/// it shares with them.
const ADDRESS: &str = "EMERGENT_TEST_DOCKER";
const SHARED: &str = "EMERGENT_TEST_DOCKER_SHARED";

/// A Docker that has [`TEST_IMAGE`].
pub struct TestDocker {
    address: String,
    shared: PathBuf,
    /// The test's own, where there is none for all.
    own: Option<DockerDaemon>,
}

impl TestDocker {
    /// The one for all tests, or one of this test's own.
    pub fn get() -> Self {
        if let (Ok(address), Some(shared)) = (std::env::var(ADDRESS), std::env::var_os(SHARED)) {
            return Self { address, shared: shared.into(), own: None };
        }
        Self::own()
    }

    /// Where the one for all tests listens, if there is one.
    pub fn address_for_all() -> Option<String> {
        std::env::var(ADDRESS).ok()
    }

    /// One that nobody else uses.
    pub fn own() -> Self {
        Self::own_with(DaemonOptions::default())
    }

    /// One that nobody else uses, and that does not know gVisor.
    pub fn own_without_runsc() -> Self {
        Self::own_with(DaemonOptions { runsc: false, ..DaemonOptions::default() })
    }

    /// Its daemon. Only of one that nobody else uses.
    pub fn daemon(&self) -> &DockerDaemon {
        self.own.as_ref().expect("a daemon of this test's own")
    }

    /// Makes the image where it is not made yet. For tests that go into a network namespace of their own, where
    /// packages cannot be had: to be called before that.
    pub fn prepare() {
        image::archive();
    }

    /// The archive of the image's root, for whoever can do without Docker. Made where it is not made yet.
    pub fn image_archive() -> PathBuf {
        image::archive()
    }

    /// One that nobody else uses, in the network namespace of the calling thread, which must be one of the
    /// test's own.
    pub fn own_in_this_network() -> Self {
        Self::own_with(DaemonOptions { own_network: false, ..DaemonOptions::default() })
    }

    /// One that nobody else uses, started so.
    pub fn own_with(options: DaemonOptions) -> Self {
        let daemon = DockerDaemon::start(options);
        image::import(&daemon.address());
        Self { address: daemon.address(), shared: daemon.shared_folder(), own: Some(daemon) }
    }

    /// One that nobody else uses, and that has no image at all.
    pub fn without_images() -> Self {
        let daemon = DockerDaemon::start(DaemonOptions::default());
        Self { address: daemon.address(), shared: daemon.shared_folder(), own: Some(daemon) }
    }

    /// Does something with Docker's own client; answers what it printed.
    pub fn docker(&self, arguments: &[&str]) -> String {
        let mut docker = Command::new(programs::find("docker", "Debian's docker.io"));
        docker.args(["--host", &self.address]).args(arguments);
        let output = docker.stdin(Stdio::null()).output().expect("docker can be started");
        let printed = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        assert!(output.status.success(), "docker {arguments:?}: {}", printed(&output.stderr));
        printed(&output.stdout)
    }

    /// Listens where the daemon finds it on its loopback interface, which is not the host's. Only of one
    /// that nobody else uses.
    pub fn listen_inside(&self) -> std::net::TcpListener {
        self.daemon().listen_inside()
    }

    /// As `DOCKER_HOST` has it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The same by TCP on loopback, for as long as this process lives.
    pub fn address_by_tcp(&self) -> String {
        let socket = self.address.strip_prefix("unix://").expect("it listens on a socket");
        remote::forward(socket.into())
    }

    /// A folder of which the daemon sees what is mounted there.
    pub fn shared(&self) -> &std::path::Path {
        &self.shared
    }

    /// A new folder of which the daemon sees what is mounted there.
    pub fn folder(&self) -> tempfile::TempDir {
        tempfile::Builder::new()
            .prefix("data-")
            .tempdir_in(&self.shared)
            .expect("a temporary folder can be made")
    }

    /// The data folder of a new server that finds images unpacked by earlier ones: unpacking takes
    /// longer than most tests.
    pub fn data_folder(&self) -> tempfile::TempDir {
        let folder = self.folder();
        let (own, all) = (folder.path().join("containers"), self.images());
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&own)
            .and_then(|()| std::os::unix::fs::symlink(&all, own.join("images")))
            .expect("a temporary folder can be written to");
        folder
    }

    /// A folder for images of this Docker's that are unpacked once for all who look there.
    pub fn images(&self) -> PathBuf {
        let images = self.shared.join("images");
        let mut private = std::fs::DirBuilder::new();
        private.mode(0o700).recursive(true).create(&images).expect("a temporary folder can be written to");
        images
    }

    /// For whoever starts tests that are to use this one: what they must find in their environment.
    pub fn variables(&self) -> [(&'static str, String); 2] {
        [(ADDRESS, self.address.clone()), (SHARED, self.shared.display().to_string())]
    }
}
