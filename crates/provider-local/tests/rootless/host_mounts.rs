//! What is mounted below the host's system folders comes along, since an ordinary account cannot
//! leave it out. It must be as closed as they are.

use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::fs::chown;
use std::process::{Command, Stdio};

use crate::account::ACCOUNT;
use crate::support::{program, provider_in, run};
use emergent_provider::WorkspaceProvider;
use emergent_types::{InstallationId, WorkspaceId};

/// On a host where `/usr/local` is a file system of its own in which everybody may write.
const HOST: &str = r#"
    mount -t tmpfs -o mode=0777 tmpfs /usr/local
    echo kept > /usr/local/file
    chmod 0666 /usr/local/file
    exec setpriv --reuid "$1" --regid "$1" --clear-groups "$2" server "$3" "$4" "$5"
"#;

#[tokio::test]
async fn a_mount_below_usr_is_read_only_too() {
    assert!(rustix::process::geteuid().is_root(), "only root can make such a host");
    let data_dir = tempfile::tempdir().unwrap();
    chown(data_dir.path(), Some(ACCOUNT), Some(ACCOUNT)).unwrap();
    let (installation, id) = (InstallationId::generate(), WorkspaceId::generate());
    // The way to it may be closed to that account, so it is left open for what is started.
    let own = std::fs::File::open(program()).unwrap();
    rustix::io::fcntl_setfd(&own, rustix::io::FdFlags::empty()).unwrap();
    let mut server = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-ec", HOST, "sh", &ACCOUNT.to_string()])
        .arg(format!("/proc/self/fd/{}", own.as_raw_fd()))
        .arg(data_dir.path())
        .args([installation.to_string(), id.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut made = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut made).unwrap();
    assert_eq!(made.trim(), id.to_string());
    let provider = provider_in(data_dir.path().to_owned(), installation, &[]);
    let script = "cat /usr/local/file; echo x > /usr/local/file; touch /usr/local/new; \
                  grep -c ' /usr/local ro,' /proc/self/mountinfo; cat /usr/local/file; ls /usr/local";
    let ran = run(&provider, id, script).await;
    let said: Vec<&str> = ran.text.lines().take(4).collect();
    assert_eq!(said, ["kept", "1", "kept", "file"], "{ran:?}");
    server.kill().unwrap();
    server.wait().unwrap();
    provider.destroy(id).await.unwrap();
    assert_eq!(provider.list().await.unwrap(), []);
}
