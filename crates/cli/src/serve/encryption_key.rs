//! The key that encrypts secrets in the database.

use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use emergent_store::SecretKey;

use crate::private_file;
use crate::settings::environment::{Environment, GITHUB_APP_ENCRYPTION_KEY};

/// The key from the environment, else the one in `path`, which is made where there is none.
pub(super) fn load(path: &Path, environment: &Environment) -> Result<SecretKey> {
    if let Some(text) = environment.text(GITHUB_APP_ENCRYPTION_KEY) {
        return parse(text).context(GITHUB_APP_ENCRYPTION_KEY);
    }
    if let Some(text) = private_file::read(path)? {
        return parse(&text).with_context(|| path.display().to_string());
    }
    let key = SecretKey::generate().context("no random bytes for a key")?;
    if private_file::create(path, &STANDARD.encode(key.expose()))? {
        return Ok(key);
    }
    // Another server was quicker. Which of the two goes on, the database's lock decides.
    let text = private_file::read(path)?.with_context(|| format!("{} has vanished", path.display()))?;
    parse(&text).with_context(|| path.display().to_string())
}

/// Says what is wrong without showing what was given.
fn parse(text: &str) -> Result<SecretKey> {
    let bytes = STANDARD.decode(text.trim()).ok().context("not base64")?;
    Ok(SecretKey::try_from(bytes.as_slice())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.key");
        let none = Environment::default();
        let made = load(&path, &none).unwrap();
        assert_eq!(load(&path, &none).unwrap(), made);
    }

    #[test]
    fn the_environment_wins_and_must_make_sense() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.key");
        let given = |text: &str| load(&path, &Environment::of(&[(GITHUB_APP_ENCRYPTION_KEY, text)]));
        assert_eq!(given(&STANDARD.encode([7; 32])).unwrap(), SecretKey::from([7; 32]));
        assert!(!path.exists());
        for bad in ["short", &STANDARD.encode([7; 31]), "%%%"] {
            let error = format!("{:#}", given(bad).unwrap_err());
            assert!(error.contains(GITHUB_APP_ENCRYPTION_KEY) && !error.contains(bad), "{error}");
        }
    }
}
