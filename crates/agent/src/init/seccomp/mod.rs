//! The system calls a sandbox may make.
//!
//! Four filters, all inherited by everything in the sandbox:
//!
//! 1. **Only known calls** ([`allowed`]). Any other number is answered ENOSYS, as by an older
//!    kernel: programs then do without, where EPERM would make them give up. So a system call
//!    added to Linux tomorrow is closed, and `clone3`, whose flags lie in memory where no filter
//!    can see them, makes libc fall back to `clone`.
//! 2. **Known and refused** ([`refused`]): EPERM, the answer that administration tools expect.
//!    This includes allowed calls with arguments that are not.
//! 3. **Sockets of a few families** ([`sockets`]): the others are answered EAFNOSUPPORT, as by a
//!    kernel built without them. Much kernel code that hardly anybody tests is behind them.
//! 4. **No other limit of core dumps** ([`core_dumps`]): answered as if it were done.
//!
//! A program of another architecture (32-bit x86) is killed: its calls have other numbers.

mod allowed;
mod core_dumps;
mod refused;
mod sockets;

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use super::InitError;

/// Rules by system call number. No rules for a number means any arguments.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Installs the filters for this process and all that it starts, for ever.
pub(super) fn install() -> Result<(), InitError> {
    // Of two filters that refuse with an error, the one installed last names it.
    for program in programs()? {
        apply_filter(&program)?;
    }
    Ok(())
}

fn programs() -> Result<[BpfProgram; 4], Error> {
    let refuse = |errno: libc::c_int| SeccompAction::Errno(errno.unsigned_abs());
    let only_known = allowed::calls().map(|call| (call, Vec::new())).collect();
    Ok([
        compile(only_known, refuse(libc::ENOSYS), SeccompAction::Allow)?,
        compile(refused::rules()?, SeccompAction::Allow, refuse(libc::EPERM))?,
        compile(sockets::rules()?, SeccompAction::Allow, refuse(libc::EAFNOSUPPORT))?,
        compile(core_dumps::rules()?, SeccompAction::Allow, refuse(0))?,
    ])
}

fn compile(rules: Rules, otherwise: SeccompAction, on_match: SeccompAction) -> Result<BpfProgram, Error> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, otherwise, on_match, architecture)?.try_into()?)
}

/// Matches when all of these hold: argument number, comparison, value. All arguments that are
/// looked at are `int`s to the kernel, so only their lower half counts.
fn all_of(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, Error> {
    let conditions = conditions
        .iter()
        .map(|(argument, comparison, value)| {
            SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, comparison.clone(), *value)
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(SeccompRule::new(conditions)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_compile() {
        for program in programs().unwrap() {
            // The kernel's bound for one filter.
            assert!(!program.is_empty() && program.len() <= 4096, "{} instructions", program.len());
        }
    }

    #[test]
    fn what_is_refused_as_a_whole_is_not_allowed_either() {
        for (call, rules) in refused::rules().unwrap() {
            assert_eq!(allowed::calls().any(|known| known == call), !rules.is_empty(), "system call {call}");
        }
    }
}
