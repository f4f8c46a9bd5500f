//! What an image's author has set, kept beside the unpacked root: Docker may lose the image while
//! workspaces are still made over it.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bollard::models::ImageConfig;
use emergent_provider::ImageDefaults;
use serde::{Deserialize, Serialize};

/// What an image's author has set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageSettings {
    pub(crate) defaults: ImageDefaults,
    /// `NAME=value`.
    pub(crate) environment: Vec<String>,
}

impl ImageSettings {
    /// From Docker's word for it.
    pub(super) fn of(config: Option<ImageConfig>) -> Self {
        let config = config.unwrap_or_default();
        let said = |text: Option<String>| text.filter(|text| !text.is_empty());
        Self {
            defaults: ImageDefaults {
                // One empty word is how an entrypoint is taken back.
                entrypoint: config.entrypoint.filter(|words| *words != [""]).unwrap_or_default(),
                command: config.cmd.unwrap_or_default(),
                workdir: said(config.working_dir),
                user: said(config.user),
            },
            environment: config.env.unwrap_or_default(),
        }
    }

    /// Keeps them; the name appears when the content is there.
    pub(crate) fn keep(&self, file: &Path) -> io::Result<()> {
        // Several providers share the folder and look at the same image at the same time, and what is
        // not whole yet has one name for all of them, so that a crash leaves nothing that is not found
        // again. There is one server for a data folder, so a lock within it is enough.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let partial = file.with_extension("partial");
        if let Some(folder) = file.parent() {
            // As whoever unpacks images there wants to find it.
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        std::fs::write(&partial, serde_json::to_vec(self)?)?;
        std::fs::rename(partial, file)
    }

    /// What was kept; nothing where nothing was, or what is there cannot be read.
    pub(crate) fn kept(file: &Path) -> Self {
        let content = std::fs::read(file).unwrap_or_default();
        serde_json::from_slice(&content).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_keep_the_same_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.json");
        let settings = ImageSettings { environment: vec!["A=b".to_owned()], ..ImageSettings::default() };
        std::thread::scope(|scope| {
            let keepers: Vec<_> =
                (0..8).map(|_| scope.spawn(|| (0..50).try_for_each(|_| settings.keep(&file)))).collect();
            for keeper in keepers {
                keeper.join().unwrap().unwrap();
            }
        });
        assert_eq!(ImageSettings::kept(&file), settings);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn settings_are_read_as_they_were_kept() {
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        let settings = ImageSettings::of(Some(ImageConfig {
            entrypoint: words(&["/server", "--stdio"]),
            cmd: words(&["a b"]),
            working_dir: Some("/srv".to_owned()),
            user: Some(String::new()),
            env: words(&["A=b c"]),
            ..ImageConfig::default()
        }));
        assert_eq!(settings.defaults.user, None);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deeper/settings.json");
        assert_eq!(ImageSettings::kept(&file), ImageSettings::default());
        settings.keep(&file).unwrap();
        assert_eq!(ImageSettings::kept(&file), settings);
        let reset = ImageConfig { entrypoint: words(&[""]), ..ImageConfig::default() };
        assert_eq!(ImageSettings::of(Some(reset)), ImageSettings::default());
    }
}
