//! The OOM killer, and the agent's own size.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Binary, BinaryOptions, resident_bytes};

/// A cgroup with a memory limit, of either version. Removed when dropped.
struct MemoryCgroup {
    folder: PathBuf,
}

impl MemoryCgroup {
    fn new(limit: u64) -> Self {
        let name = format!("emergent-agent-test-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (root, files) = if v1.exists() {
            (v1, ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"])
        } else {
            (Path::new("/sys/fs/cgroup"), ["memory.max", "memory.swap.max"])
        };
        let folder = root.join(name);
        fs::create_dir(&folder).expect("a cgroup; run the tests as root");
        fs::write(folder.join(files[0]), limit.to_string()).expect("a memory controller");
        // Not every kernel counts swap.
        let swap = if v1.exists() { limit } else { 0 };
        let _ = fs::write(folder.join(files[1]), swap.to_string());
        Self { folder }
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        eprintln!("{} could not be removed", self.folder.display());
    }
}

#[tokio::test]
async fn the_oom_killer_takes_the_command_and_the_answer_says_so() {
    let cgroup = MemoryCgroup::new(64 << 20);
    let binary = Binary::start(BinaryOptions {
        cgroup: Some(cgroup.folder.join("cgroup.procs")),
        ..Default::default()
    })
    .await;
    let mut client = binary.client().await;
    let agent = binary.agent_pid();
    assert!(!client.run("true").await.exit.expect("an exit").oom_killed);
    // One line that never ends, kept in memory.
    let exit = client.run("tail /dev/zero").await.exit.expect("an exit");
    assert_eq!((exit.code, exit.oom_killed), (137, true));
    assert!(
        !client.run("kill -9 $$").await.exit.expect("an exit").oom_killed,
        "an old event is not a new one"
    );
    assert_eq!(binary.agent_pid(), agent, "the agent was hit");
    drop((client, binary));
    drop(cgroup);
}

/// Small in an idle sandbox, and still small after work.
#[tokio::test]
async fn the_agent_stays_small() {
    let binary = Binary::start(BinaryOptions::default()).await;
    let mut client = binary.client().await;
    for _ in 0..20 {
        client.sh("echo work").await;
        client.write("file", &[b'x'; 100_000]).await.expect("writes");
        client.read("file", 0, 0).await.expect("reads");
    }
    // The test profile's build is bigger than the static one that is shipped.
    let resident = resident_bytes(binary.agent_pid().expect("an agent"));
    assert!(resident < 12 << 20, "the agent has {resident} bytes");
    let resident = resident_bytes(binary.pid());
    assert!(resident < 6 << 20, "init has {resident} bytes");
}
