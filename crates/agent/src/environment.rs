//! The environment commands start with.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, OsString};
use std::sync::Mutex;

use crate::accounts::Account;
use crate::error::CallError;

/// Where programs are looked for unless the environment says otherwise.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables by name.
pub(crate) type Variables = BTreeMap<String, String>;

/// What an image does not decide: they depend on the account and the command, or on the container.
const NEVER_THE_IMAGES: [&str; 8] =
    ["HOME", "USER", "LOGNAME", "TERM", "HOSTNAME", "PWD", "OLDPWD", emergent_protocol::KEY_VARIABLE];

/// What the control plane wants every command to see. The agent's own environment is not
/// passed on, unless it is known to be the image's: else it says how the agent was started, which
/// is no business of a command's.
#[derive(Default)]
pub(crate) struct Environment {
    image: Variables,
    greeted: Mutex<Variables>,
}

/// What an image's author has set, out of all variables that a process was started with.
pub(crate) fn of_image(all: impl Iterator<Item = (OsString, OsString)>) -> Variables {
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, value)| !NEVER_THE_IMAGES.contains(&name.as_str()) && check((name, value)).is_ok())
        .collect()
}

impl Environment {
    /// Begins with what the image's author has set.
    pub(crate) fn of(image: Variables) -> Self {
        Self { image, greeted: Mutex::default() }
    }

    /// Adds to what every command sees from now on.
    pub(crate) fn extend(&self, added: HashMap<String, String>) -> Result<(), CallError> {
        added.iter().try_for_each(check)?;
        self.lock().extend(added);
        Ok(())
    }

    /// The variables of one command: defaults, then the image's, the control plane's, its own.
    pub(crate) fn of_command(
        &self,
        account: &Account,
        own: HashMap<String, String>,
    ) -> Result<Variables, CallError> {
        own.iter().try_for_each(check)?;
        let home = account.home.to_string_lossy().into_owned();
        let defaults = [
            ("PATH", PATH.to_owned()),
            ("HOME", home),
            ("USER", account.name.clone()),
            ("LOGNAME", account.name.clone()),
            ("LANG", "C.UTF-8".to_owned()),
            // No terminal: programs neither draw nor page.
            ("TERM", "dumb".to_owned()),
        ];
        let mut variables: Variables =
            defaults.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        variables.extend(self.image.clone());
        variables.extend(self.lock().iter().map(|(name, value)| (name.clone(), value.clone())));
        variables.extend(own);
        Ok(variables)
    }

    /// Where the sandbox's own programs are, whatever a single command says.
    pub(crate) fn search_path(&self) -> String {
        let greeted = self.lock().get("PATH").cloned();
        greeted.or_else(|| self.image.get("PATH").cloned()).unwrap_or_else(|| PATH.to_owned())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Variables> {
        self.greeted.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn check((name, value): (&String, &String)) -> Result<(), CallError> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(CallError::invalid(format!("{name:?} cannot be the name of an environment variable")));
    }
    if value.contains('\0') {
        return Err(CallError::invalid(format!("the environment variable {name} has a NUL byte")));
    }
    Ok(())
}

/// `NAME=value`, as the kernel wants it. Names and values have been checked.
pub(crate) fn to_strings(variables: &Variables) -> Result<Vec<CString>, CallError> {
    variables
        .iter()
        .map(|(name, value)| {
            CString::new(format!("{name}={value}"))
                .map_err(|_| CallError::invalid(format!("the environment variable {name} has a NUL byte")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_more_special_wins() {
        let environment = Environment::default();
        environment.extend(map(&[("A", "greeting"), ("B", "greeting"), ("HOME", "/greeted")])).unwrap();
        environment.extend(map(&[("C", "later")])).unwrap();
        let variables = environment.of_command(&Account::current(), map(&[("B", "command")])).unwrap();
        let check = |name: &str, expect: &str| assert_eq!(variables[name], expect, "{name}");
        check("A", "greeting");
        check("B", "command");
        check("C", "later");
        check("HOME", "/greeted");
        check("LANG", "C.UTF-8");
        assert!(!variables.contains_key("CARGO_MANIFEST_DIR"), "the agent's own environment leaks");
    }

    #[test]
    fn an_image_sets_what_is_its_own() {
        let started_with = [
            ("PATH", "/opt/tool/bin:/usr/bin"),
            ("LANG", "de_DE.UTF-8"),
            ("GOPATH", "/go"),
            ("A", "image"),
            ("HOME", "/root"),
            ("HOSTNAME", "ws-1"),
            ("TERM", "xterm"),
            ("", "nameless"),
        ];
        let image = of_image(started_with.into_iter().map(|(name, value)| (name.into(), value.into())));
        let environment = Environment::of(image);
        assert_eq!(environment.search_path(), "/opt/tool/bin:/usr/bin");
        environment.extend(map(&[("A", "greeting")])).unwrap();
        let account = Account::current();
        let variables = environment.of_command(&account, map(&[("GOPATH", "/own")])).unwrap();
        let check = |name: &str, expect: &str| assert_eq!(variables[name], expect, "{name}");
        check("PATH", "/opt/tool/bin:/usr/bin");
        check("LANG", "de_DE.UTF-8");
        check("GOPATH", "/own");
        check("A", "greeting");
        check("HOME", &account.home.to_string_lossy());
        check("TERM", "dumb");
        assert!(!variables.contains_key("HOSTNAME") && !variables.contains_key(""), "{variables:?}");
        environment.extend(map(&[("PATH", "/greeted")])).unwrap();
        assert_eq!(environment.search_path(), "/greeted");
    }

    #[test]
    fn what_the_kernel_cannot_hold_is_refused() {
        for bad in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "\0")] {
            assert!(Environment::default().extend(map(&[bad])).is_err(), "{bad:?}");
            assert!(Environment::default().of_command(&Account::current(), map(&[bad])).is_err(), "{bad:?}");
        }
    }
}
