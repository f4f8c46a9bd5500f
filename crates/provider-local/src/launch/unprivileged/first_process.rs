//! The first process of a sandbox, from its first moment until it executes the agent.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use super::{GO, READY, root};
use crate::launch::kernel;
use crate::launch::request::LaunchRequest;
use crate::launch::spec::{self, max_pids};
use crate::means::counts_processes_per_namespace;

/// The same as the first process has where `libcontainer` starts it.
const CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::AUDIT_WRITE);

/// Never returns: becomes the agent, or says why not and ends.
pub(super) fn become_init(request: &LaunchRequest, mut tell: File, mut wait: File) -> ! {
    let error = match prepare(request) {
        Ok(()) => {
            let mut told = [0];
            let _ = tell.write_all(&[READY]);
            match wait.read(&mut told) {
                Ok(1) if told[0] == GO => execute(request),
                // The helper is gone, and with it whoever would know of this process.
                _ => kernel::end_now(),
            }
        }
        Err(error) => error,
    };
    let _ = tell.write_all(error.to_string().as_bytes());
    kernel::end_now()
}

fn prepare(request: &LaunchRequest) -> io::Result<()> {
    // A terminal's Ctrl-C is for the server.
    rustix::process::setsid()?;
    rustix::system::sethostname(request.workspace.hostname().as_bytes())?;
    root::enter(request)?;
    for descriptor in 0..=2 {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        kernel::place_descriptor(null.into(), descriptor)?;
    }
    kernel::close_on_exec_from(spec::LISTEN_FD + 1)?;
    if counts_processes_per_namespace() {
        let most = max_pids(request.limits.memory).unsigned_abs();
        setrlimit(Resource::Nproc, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    rustix::thread::set_no_new_privs(true)?;
    drop_capabilities()
}

fn drop_capabilities() -> io::Result<()> {
    for capability in (0..64).map(|number| CapabilitySet::from_bits_retain(1 << number)) {
        match capability_is_in_bounding_set(capability) {
            Ok(true) if !CAPABILITIES.contains(capability) => {
                remove_capability_from_bounding_set(capability)?;
            }
            Ok(_) => {}
            // Beyond the last one this kernel knows.
            Err(_) => break,
        }
    }
    let _ = clear_ambient_capability_set();
    Ok(set_capabilities(
        None,
        CapabilitySets {
            effective: CAPABILITIES,
            permitted: CAPABILITIES,
            inheritable: CapabilitySet::empty(),
        },
    )?)
}

/// Returns only when it fails.
fn execute(request: &LaunchRequest) -> io::Error {
    let [program, arguments @ ..] = &spec::agent_command()[..] else {
        return io::ErrorKind::InvalidInput.into();
    };
    let environment = spec::agent_environment(&request.agent_key);
    let variables = environment.iter().filter_map(|variable| variable.split_once('='));
    Command::new(program).args(arguments).env_clear().envs(variables).current_dir("/").exec()
}
