//! The root of every sandbox: a skeleton of folders and accounts, imported as an image without
//! any registry. The programs are the host's own, mounted read-only at start, so that there
//! is nothing to download, copy or keep.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use tokio::process::Command;

use crate::daemon::DockerDaemon;
use crate::docker::finish;
use crate::programs;

/// What the image is called.
pub(crate) const TAG: &str = "emergent-gvisor-test:root";

/// Docker's words for the mount of the host's programs.
pub(crate) const PROGRAMS: &str = "type=bind,source=/usr,target=/usr,readonly";

/// Where the agent's program is mounted.
pub(crate) const AGENT: &str = "/.emergent/agent";

/// Folders of the image: places to mount on, and the homes that a new volume starts with.
const FOLDERS: [&str; 11] =
    [".emergent", "dev", "etc", "home/root", "home/user", "proc", "run", "sys", "tmp", "usr", "workspace"];

/// Of the host's root: links into `/usr`, and what the loader and Debian's alternatives need.
const FROM_THE_HOST: [&str; 8] =
    ["bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc/alternatives", "etc/ld.so.cache"];

/// Root's home is among the others, where a volume is mounted: the root itself is read-only.
const PASSWD: &str = "root:x:0:0:root:/home/root:/bin/bash\n\
                      user:x:1000:1000:user:/home/user:/bin/bash\n\
                      nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n";

/// Makes the image known to a daemon.
pub(crate) async fn import(daemon: &DockerDaemon) {
    for (program, package) in [("bash", "bash"), ("git", "git"), ("python3", "python3")] {
        programs::find(program, &format!("Debian's {package}"));
    }
    let skeleton = daemon.folder().join("root");
    build(&skeleton).unwrap_or_else(|error| panic!("{}: {error}", skeleton.display()));
    let archive = daemon.folder().join("root.tar");
    let mut tar = Command::new(programs::find("tar", "Debian's tar"));
    tar.arg("--create").arg("--file").arg(&archive).arg("--directory").arg(&skeleton).arg(".");
    tar.args(["--directory", "/"])
        .args(FROM_THE_HOST.iter().filter(|path| Path::new("/").join(path).exists()));
    finish(tar).await.expect("the skeleton is packed");
    let archive = archive.to_str().expect("temporary folders have plain names");
    daemon.docker().call(["import", archive, TAG]).await.expect("the image is imported");
}

fn build(skeleton: &Path) -> std::io::Result<()> {
    for folder in FOLDERS {
        fs::create_dir_all(skeleton.join(folder))?;
    }
    chown(skeleton.join("home/user"), Some(1000), Some(1000))?;
    fs::set_permissions(skeleton.join("tmp"), fs::Permissions::from_mode(0o1777))?;
    // A mount needs a place, and nobody can make one on a read-only root.
    fs::write(skeleton.join(AGENT.trim_start_matches('/')), "")?;
    fs::write(skeleton.join("etc/passwd"), PASSWD)?;
    fs::write(skeleton.join("etc/group"), GROUP)
}
