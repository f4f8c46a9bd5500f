//! Root in a sandbox, without most of root's powers.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// What installing packages, switching accounts and serving on low ports need. Docker's
/// defaults without MKNOD (devices), NET_RAW (forged packets), SETFCAP and SETPCAP (nothing may
/// gain privileges here anyway) and AUDIT_WRITE (there is nothing to audit to).
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT);

/// Numbers the kernel has reserved for capabilities; those it does not know it says so.
const NUMBERS: std::ops::Range<u32> = 0..64;

/// Drops everything else from every set of this process, and so of all that it starts.
pub(super) fn drop_most() -> io::Result<()> {
    for capability in NUMBERS.map(|number| CapabilitySet::from_bits_retain(1 << number)) {
        match capability_is_in_bounding_set(capability) {
            Ok(true) if !KEPT.contains(capability) => remove_capability_from_bounding_set(capability)?,
            Ok(_) => {}
            // Beyond the last one this kernel knows.
            Err(_) => break,
        }
    }
    // A kernel without ambient capabilities has none to clear.
    let _ = clear_ambient_capability_set();
    let permitted = capabilities(None)?.permitted & KEPT;
    set_capabilities(
        None,
        CapabilitySets { effective: permitted, permitted, inheritable: CapabilitySet::empty() },
    )?;
    Ok(())
}
