//! The process that starts a bare container. It has one thread: a process with more cannot
//! enter a user namespace, which is why the product starts its sandboxes from such a process
//! too.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use emergent_types::ResourceLimits;
use libcontainer::container::builder::ContainerBuilder;
use libcontainer::oci_spec::runtime::{
    Linux, LinuxCpuBuilder, LinuxIdMappingBuilder, LinuxMemoryBuilder, LinuxNamespaceBuilder,
    LinuxNamespaceType, LinuxPidsBuilder, LinuxResourcesBuilder, Mount, MountBuilder, Process, RootBuilder,
    Spec,
};
use libcontainer::syscall::syscall::SyscallType;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use super::container::Launched;
use super::disk::SYSTEM;

/// The host id that is root in the container, and how many ids it has.
pub(super) const FIRST_ID: u32 = 0x7FFD_0000;
const IDS: u32 = 1 << 16;

/// One period of the processor quota, in microseconds.
const CPU_PERIOD: u64 = 100_000;

const MAX_PIDS: i64 = 4096;

/// Starts a container, says so, and removes it when standard input ends. Its arguments are a
/// folder of its own, the container's root and the container's name.
pub(crate) fn main(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let mut next = || arguments.next().unwrap_or_default();
    let (folder, root, name) = (PathBuf::from(next()), PathBuf::from(next()), next());
    match run(&folder, &root, &name) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

fn run(folder: &Path, root: &Path, name: &str) -> Result<()> {
    let state = folder.join("state");
    fs::create_dir(&state)?;
    let building = Instant::now();
    spec(root, name)?.save(folder.join("config.json"))?;
    let null = || File::options().read(true).write(true).open("/dev/null");
    // Held open by the container's first process until it executes the program.
    let (executed, held) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut container = ContainerBuilder::new(name.to_owned(), SyscallType::Linux)
        .with_root_path(&state)?
        .with_stdin(null()?)
        .with_stdout(null()?)
        .with_stderr(null()?)
        .validate_id()?
        .as_init(folder)
        .with_systemd(false)
        .with_detach(true)
        .build()?;
    drop(held);
    let build_micros = building.elapsed().as_micros() as u64;

    let starting = Instant::now();
    let started = container.start().map_err(anyhow::Error::from).and_then(|()| {
        let fd = executed.as_fd();
        let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
        ensure!(
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit))? == 1,
            "the program was not executed"
        );
        Ok(())
    });
    if started.is_ok() {
        let launched = Launched { build_micros, start_micros: starting.elapsed().as_micros() as u64 };
        writeln!(io::stdout(), "{}", serde_json::to_string(&launched)?)?;
        io::stdin().read_to_end(&mut Vec::new())?;
    }
    container.delete(true).context("the container could not be removed")?;
    started
}

/// `libcontainer`'s own default, with the namespaces and limits of a workspace.
fn spec(root: &Path, name: &str) -> Result<Spec> {
    let mut spec = Spec::default();
    let mut process = Process::default();
    process.set_args(Some(vec!["sleep".to_owned(), "3600".to_owned()]));
    spec.set_root(Some(RootBuilder::default().path(root).readonly(false).build()?));
    spec.set_process(Some(process));
    spec.set_mounts(Some(mounts(spec.mounts().clone().unwrap_or_default())?));
    spec.set_linux(Some(linux(name)?));
    Ok(spec)
}

/// The default ones, and the host's system, read-only.
fn mounts(mut mounts: Vec<Mount>) -> Result<Vec<Mount>> {
    // Cannot be mounted from a user namespace where there is a hierarchy per controller.
    mounts.retain(|mount| mount.typ().as_deref() != Some("cgroup"));
    for name in SYSTEM {
        let path = Path::new("/").join(name);
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
            let options = ["bind", "ro", "nosuid", "nodev"].map(str::to_owned);
            let mount = MountBuilder::default().typ("bind").source(&path).destination(&path).options(options);
            mounts.push(mount.build()?);
        }
    }
    Ok(mounts)
}

fn linux(name: &str) -> Result<Linux> {
    let limits = ResourceLimits::WORKSPACE_DEFAULT;
    let memory = LinuxMemoryBuilder::default().limit(i64::try_from(limits.memory.bytes())?).build()?;
    let quota = i64::try_from(u64::from(limits.cpu.millis()) * CPU_PERIOD / 1000)?;
    let cpu = LinuxCpuBuilder::default().period(CPU_PERIOD).quota(quota).build()?;
    let pids = LinuxPidsBuilder::default().limit(MAX_PIDS).build()?;
    let ids = vec![LinuxIdMappingBuilder::default().container_id(0u32).host_id(FIRST_ID).size(IDS).build()?];

    let mut linux = Linux::default();
    let mut namespaces = linux.namespaces().clone().unwrap_or_default();
    namespaces.push(LinuxNamespaceBuilder::default().typ(LinuxNamespaceType::User).build()?);
    linux
        .set_namespaces(Some(namespaces))
        .set_uid_mappings(Some(ids.clone()))
        .set_gid_mappings(Some(ids))
        .set_cgroups_path(Some(Path::new("/").join(name)))
        .set_resources(Some(LinuxResourcesBuilder::default().memory(memory).cpu(cpu).pids(pids).build()?));
    Ok(linux)
}
