//! Where everything is kept, and under which names.

use std::path::{Path, PathBuf};

use super::SettingsError;
use super::environment::{self, Environment};

/// The data folder of the system's own server.
const SYSTEM: &str = "/var/lib/emergent";

/// The folder where nobody said which: in the person's own state where there is one, in the
/// system's for root.
pub(super) fn default(environment: &Environment) -> Result<PathBuf, SettingsError> {
    default_for(environment, rustix::process::geteuid().is_root())
}

fn default_for(environment: &Environment, is_root: bool) -> Result<PathBuf, SettingsError> {
    if let Some(state) = environment.text(environment::XDG_STATE_HOME) {
        return Ok(Path::new(state).join("emergent"));
    }
    if is_root {
        return Ok(SYSTEM.into());
    }
    let home = environment.text(environment::HOME).ok_or_else(|| {
        SettingsError::new("data folder", "there is no home folder to put it in; name one with --data-dir")
    })?;
    Ok(Path::new(home).join(".local/state/emergent"))
}

/// The database.
pub(crate) fn database(data_dir: &Path) -> PathBuf {
    data_dir.join("emergent.db")
}

/// The first admin token.
pub(crate) fn admin_token(data_dir: &Path) -> PathBuf {
    data_dir.join("admin.token")
}

/// The key that encrypts secrets in the database.
pub(crate) fn secret_key(data_dir: &Path) -> PathBuf {
    data_dir.join("secret.key")
}

/// Where the server that uses this folder can be reached.
pub(crate) fn listen(data_dir: &Path) -> PathBuf {
    data_dir.join("listen")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_depends_on_who_asks() {
        let check = |variables: &[(&'static str, &str)], is_root, expect: Option<&str>| {
            let found = default_for(&Environment::of(variables), is_root).ok();
            assert_eq!(found, expect.map(PathBuf::from), "{variables:?}");
        };
        check(&[(environment::HOME, "/home/a")], false, Some("/home/a/.local/state/emergent"));
        check(&[(environment::HOME, "/root")], true, Some("/var/lib/emergent"));
        let both = [(environment::HOME, "/home/a"), (environment::XDG_STATE_HOME, "/state")];
        check(&both, false, Some("/state/emergent"));
        check(&both, true, Some("/state/emergent"));
        check(&[], false, None);
    }
}
