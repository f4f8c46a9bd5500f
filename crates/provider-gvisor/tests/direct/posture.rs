//! What runsc was told about a sandbox, and what the host's kernel says of it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use emergent_provider::conformance::Subject;
use emergent_provider_gvisor::DirectProvider;
use emergent_types::{ByteSize, Cpu, InstallationId, ResourceLimits};
use serde_json::{Value, json};

const GIB: u64 = 1 << 30;

fn read(path: impl Into<PathBuf>) -> String {
    let path = path.into();
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A limit of a control group, in version 1 or 2.
fn of_group(group: &str, controller: &str, v1: &str, v2: &str) -> String {
    let v1 = PathBuf::from("/sys/fs/cgroup").join(controller).join(group).join(v1);
    let v2 = PathBuf::from("/sys/fs/cgroup").join(group).join(v2);
    read(if v1.exists() { v1 } else { v2 }).trim().to_owned()
}

/// Proves: GVIS-09, GVIS-10
#[test]
fn a_sandbox_is_closed() {
    let data = crate::data_folder();
    let installation = InstallationId::generate();
    let folder = data.path().to_owned();
    let make = async move || {
        let provider = DirectProvider::new(crate::options(data.path(), installation));
        Subject::new(Arc::new(provider), Some("/workspace"), data)
    };
    Subject::run(make, move |subject| {
        Box::pin(async move {
            let mut spec = subject.spec();
            spec.limits = ResourceLimits {
                cpu: Cpu::from_millis(2000),
                memory: ByteSize::from_gib(4),
                disk: ByteSize::from_gib(10),
            };
            let sandbox = subject.sandbox_with(spec.clone()).await;
            let own = folder.join("direct/sandboxes").join(spec.id.to_string());
            let text = read(own.join("config.json"));
            let config: Value = serde_json::from_str(&text).unwrap();

            let process = &config["process"];
            assert_eq!(process["noNewPrivileges"], true);
            let capabilities = &process["capabilities"];
            for set in ["bounding", "effective", "permitted"] {
                let names = capabilities[set].as_array().unwrap();
                assert_eq!(names.len(), 9, "{set}: {names:?}");
                for forbidden in
                    ["CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_PTRACE", "CAP_MKNOD"]
                {
                    assert!(!names.contains(&json!(forbidden)), "{set}: {forbidden}");
                }
            }
            assert_eq!(capabilities["inheritable"], json!([]));
            assert_eq!(capabilities["ambient"], json!([]));

            // Nothing of the host's but the workspace's own folder.
            assert_eq!(config["root"]["path"], json!(own.join("root")));
            let mounts = config["mounts"].as_array().unwrap();
            let bound: Vec<&Value> = mounts.iter().filter(|mount| mount["type"] == "bind").collect();
            assert_eq!(bound.len(), 1, "{bound:?}");
            assert_eq!(bound[0]["source"], json!(own.join("agent")));
            assert!(bound[0]["options"].as_array().unwrap().contains(&json!("ro")));
            // And there by the host's own kernel as well, whatever a runtime lets through.
            let mounted = read("/proc/self/mountinfo");
            let agent = mounted.lines().find(|line| line.contains(&*own.join("agent").to_string_lossy()));
            let options = agent.unwrap().split(' ').nth(5).unwrap();
            assert!(options.split(',').any(|option| option == "ro"), "{options}");
            let refused = fs::write(own.join("agent/emergent-agent"), "x").unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
            for script in
                ["echo x > /.emergent/emergent-agent", "rm /.emergent/emergent-agent", "> /.emergent/new"]
            {
                assert_ne!(sandbox.run(script).await.exit.code, 0, "{script}");
            }

            let kinds: Vec<&Value> = config["linux"]["namespaces"].as_array().unwrap().iter().collect();
            for kind in ["pid", "mount", "ipc", "uts", "network"] {
                assert!(kinds.contains(&&json!({ "type": kind })), "{kind}: {kinds:?}");
            }

            let group = format!("emergent-{}-gvisor-{}", installation.short(), spec.id);
            let wall: u64 =
                of_group(&group, "memory", "memory.limit_in_bytes", "memory.max").parse().unwrap();
            assert!((4 * GIB..5 * GIB).contains(&wall), "{wall}");
            let cpu = of_group(&group, "cpu", "cpu.cfs_quota_us", "cpu.max");
            assert_eq!(cpu.split(' ').next(), Some("200000"));
            assert_eq!(of_group(&group, "pids", "pids.max", "pids.max"), "16384");

            // The sandbox's process is in that group, in namespaces of its own, and knows no secret.
            let pid = read(own.join("sandbox.pid"));
            let pid = pid.trim();
            assert!(read(format!("/proc/{pid}/cgroup")).contains(&group));
            // Not `pid`: systrap looks after its processes from the host's.
            for kind in ["net", "mnt", "ipc", "uts"] {
                let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap();
                assert_ne!(of(pid), of("self"), "{kind}");
            }
            let environment = read(format!("/proc/{pid}/environ"));
            assert!(!environment.contains("CARGO") && !environment.contains("NEXTEST"), "{environment}");
            let key = spec.agent_key.expose_hex();
            for path in
                [own.join("config.json"), format!("/proc/{pid}/cmdline").into(), own.join("workspace.json")]
            {
                assert!(!read(path).contains(&key), "the agent's key can be seen");
            }
            assert!(!text.contains("docker"));
            assert_eq!(subject.provider.capabilities().await.platform_needs, ["runsc"]);
        })
    });
}
