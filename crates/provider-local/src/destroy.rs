//! Ending and removing.
//!
//! ```text
//!  record: Removing                        interrupted after here, it is Partial
//!    └► PID 1 killed ─ its whole PID namespace dies with it
//!         └► whatever else is in the control group killed
//!              └► disk unlocked = mount and loop device are gone; link removed
//!                   └► control groups removed
//!                        └► state folder removed, last
//! ```

use std::fs;
use std::io;
use std::path::Path;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use emergent_host_disk::lock_when_detached;
use emergent_provider::{Operation, ProviderError};
use emergent_types::WorkspaceId;

use crate::disk;
use crate::launch::noted_init;
use crate::layout::DISK_IMAGE;
use crate::list::helpers_of;
use crate::prepared::Prepared;
use crate::process::{ProcessHandle, ProcessIdentity};
use crate::provider::{Host, step_error};
use crate::state::{Phase, SandboxRecord};

/// How long processes may take to end after they were killed. One that waits for a disk that
/// does not answer takes longer; the next attempt finds it.
const END_LIMIT: Duration = Duration::from_secs(10);

impl Host {
    pub(crate) fn destroy(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        let prepared = self.prepared()?;
        self.remove(&prepared, Operation::Destroy, id)
    }

    /// Removes whatever there is of a sandbox; nothing at all is success.
    pub(crate) fn remove(
        &self,
        prepared: &Prepared,
        operation: Operation,
        id: WorkspaceId,
    ) -> Result<(), ProviderError> {
        let failed = |step| move |error: io::Error| step_error(operation, id, step, error);
        let folder = self.layout.sandbox(id);
        let record = SandboxRecord::load(&folder);
        if let Some(record) = &record {
            if record.installation != self.layout.installation() {
                let reason = format!("it belongs to installation {}", record.installation);
                return Err(step_error(operation, id, "state folder", reason));
            }
            record.save_removing(&folder).map_err(failed("record"))?;
        }
        let init = record.and_then(|record| match record.phase {
            Phase::Running { init, .. } => Some(init),
            Phase::Creating | Phase::Stopped | Phase::Removing => None,
        });
        if init.is_none() {
            end_helpers(self, id).map_err(failed("launch helper"))?;
        }
        self.end_processes(prepared, operation, id, init.as_ref())?;
        remove_folder(&folder).map_err(failed("state folder"))
    }

    /// Ends every process of a sandbox, waits until its disk is free, and removes its groups.
    pub(crate) fn end_processes(
        &self,
        prepared: &Prepared,
        operation: Operation,
        id: WorkspaceId,
        init: Option<&ProcessIdentity>,
    ) -> Result<(), ProviderError> {
        let failed = |step| move |error: io::Error| step_error(operation, id, step, error);
        let deadline = Instant::now() + END_LIMIT;
        let folder = self.layout.sandbox(id);
        // On record since before it could do anything.
        let noted = noted_init(&folder);
        for process in init.into_iter().chain(&noted).filter_map(ProcessIdentity::open) {
            match process.kill().and_then(|()| process.wait(deadline)).map_err(failed("kill"))? {
                true => {}
                false => return Err(failed("kill")(io::ErrorKind::TimedOut.into())),
            }
        }
        let group = self.layout.group(id);
        prepared.cgroups.kill_everything(&group, deadline).map_err(failed("kill"))?;
        match lock_when_detached(&folder.join(DISK_IMAGE), deadline) {
            Ok(_free) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("disk")(error)),
        }
        self.disconnect(operation, id)?;
        prepared.cgroups.remove(&group, deadline).map_err(failed("control group"))?;
        self.ids.give_back(id);
        // While a launch is under way it may be making its own group in there.
        let launching = self.launching.lock().unwrap_or_else(PoisonError::into_inner);
        if *launching == 0 {
            prepared.cgroups.remove_if_empty(&self.layout.installation_group());
        }
        Ok(())
    }
}

/// Ends launch helpers of a sandbox that an earlier server has left, and what they started.
fn end_helpers(host: &Host, id: WorkspaceId) -> io::Result<()> {
    for pid in helpers_of(host.layout.installation(), id)? {
        let Some(process) = ProcessHandle::of_pid(pid) else { continue };
        // Looked at again now that the handle is there.
        if helpers_of(host.layout.installation(), id)?.contains(&pid) {
            process.kill()?;
            process.wait(Instant::now() + END_LIMIT)?;
        }
    }
    Ok(())
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    disk::folder::remove(folder)?;
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
