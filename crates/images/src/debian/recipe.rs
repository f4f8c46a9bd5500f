//! What to make, checked, as the arguments of the program that makes it. Everything is an argument
//! of its own; the one line that a shell reads is written here and has nothing of the caller's.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::error::BuildError;
use super::options::Options;
use crate::{apt_sources, workspace};

/// Reads the set-up from the environment: no path has to be quoted, and the file system of the
/// working folder need not allow programs.
const CUSTOMIZE: &str = "printf '%s' \"$EMERGENT_IMAGE_SETUP\" | chroot \"$1\" /bin/sh";
pub(super) const SETUP_VARIABLE: &str = "EMERGENT_IMAGE_SETUP";

/// The arguments for an image. Lists of package sources are written into the working folder.
pub(super) fn arguments(options: &Options, work: &Path, target: &Path) -> Result<Vec<OsString>, BuildError> {
    check(options)?;
    let mut arguments: Vec<OsString> = [
        // In namespaces of its own, as root too: when it ends, so does everything in it.
        "--mode=unshare",
        "--variant=minbase",
        "--format=tar",
        "--verbose",
    ]
    .map(OsString::from)
    .to_vec();
    // An empty name is one more that is skipped; a list of none would mean nothing.
    arguments.push(format!("--include=,{}", options.packages.join(",")).into());
    for option in workspace::dpkg_options() {
        arguments.push(format!("--dpkgopt={option}").into());
    }
    arguments.push(format!("--customize-hook={CUSTOMIZE}").into());
    arguments.push("--".into());
    arguments.push(options.suite.clone().unwrap_or_default().into());
    arguments.push(target.into());
    match (&options.suite, &options.mirror) {
        (Some(_), Some(mirror)) => arguments.push(mirror.into()),
        // The program knows where each suite is to be had.
        (Some(_), None) => {}
        (None, _) => arguments.extend(hosts_sources(&options.host, work)?),
    }
    Ok(arguments)
}

/// Writes the host's package sources down, a file each, so that the image gets the same.
fn hosts_sources(host: &Path, work: &Path) -> Result<Vec<OsString>, BuildError> {
    let mut files = Vec::new();
    for (number, source) in apt_sources::of_host(host).into_iter().enumerate() {
        let extension = source.path.extension().unwrap_or_default().to_string_lossy().into_owned();
        let path = work.join(format!("sources-{number}.{extension}"));
        fs::write(&path, source.text).map_err(|error| BuildError::Io {
            action: "writing",
            path: path.clone(),
            source: error,
        })?;
        files.push(path.into());
    }
    if files.is_empty() { Err(BuildError::NoSources) } else { Ok(files) }
}

fn check(options: &Options) -> Result<(), BuildError> {
    let bad = |what, name: &str| Err(BuildError::BadName { what, name: name.to_owned() });
    for package in &options.packages {
        if !is_package_name(package) {
            return bad("package", package);
        }
    }
    if let Some(suite) = &options.suite
        && !is_suite(suite)
    {
        return bad("suite", suite);
    }
    if let Some(mirror) = &options.mirror {
        if options.suite.is_none() {
            return bad("suite, which a mirror needs", "");
        }
        let plain = |letter: char| letter.is_ascii_graphic() && !"\"'\\[]".contains(letter);
        if !mirror.contains("://") || mirror.starts_with('-') || !mirror.chars().all(plain) {
            return bad("mirror", mirror);
        }
        if apt_sources::has_password(mirror) {
            return Err(BuildError::PasswordInMirror);
        }
    }
    Ok(())
}

/// Whether a name can only mean a package: no pattern, version, path or option.
pub fn is_package_name(name: &str) -> bool {
    name.len() > 1
        && name.starts_with(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit())
        // A sign at the end asks apt to remove or to add.
        && !name.ends_with('-')
        && (!name.ends_with('+') || name.ends_with("++"))
        && name.chars().all(|letter| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || "+-.".contains(letter)
        })
}

fn is_suite(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-._/".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(packages: &[&str]) -> Options {
        Options { packages: packages.iter().map(|&name| name.to_owned()).collect(), ..Options::default() }
    }

    fn made(options: &Options) -> Result<Vec<String>, BuildError> {
        let arguments = arguments(options, Path::new("/work"), Path::new("/out.tar"))?;
        Ok(arguments.into_iter().map(|argument| argument.into_string().unwrap()).collect())
    }

    #[test]
    fn a_suite_and_a_mirror() {
        let options = Options {
            suite: Some("bookworm".into()),
            mirror: Some("http://mirror.test/debian".into()),
            ..options(&["git", "g++"])
        };
        let made = made(&options).unwrap();
        assert!(made.contains(&"--include=,git,g++".to_owned()), "{made:?}");
        assert_eq!(made[made.len() - 4..], ["--", "bookworm", "/out.tar", "http://mirror.test/debian"]);
    }

    #[test]
    fn names_that_mean_something_else_are_refused() {
        for name in
            ["", "-y", "git-", "git+", "git=1", "git/sid", "./a.deb", "?essential", "~n", "a b", "GIT"]
        {
            let options = Options { suite: Some("bookworm".into()), ..options(&[name]) };
            assert!(matches!(made(&options), Err(BuildError::BadName { .. })), "{name}");
        }
        for suite in ["", "-x", "a b", "deb http://x", "$(x)"] {
            let options = Options { suite: Some(suite.into()), ..options(&[]) };
            assert!(matches!(made(&options), Err(BuildError::BadName { .. })), "{suite}");
        }
        for mirror in ["", "/etc/passwd", "deb http://x y z", "--setup-hook=x://", "http://x y"] {
            let suite = Some("bookworm".into());
            let options = Options { suite, mirror: Some(mirror.into()), ..options(&[]) };
            assert!(matches!(made(&options), Err(BuildError::BadName { .. })), "{mirror}");
        }
        let alone = Options { mirror: Some("http://mirror.test".into()), ..options(&[]) };
        assert!(matches!(made(&alone), Err(BuildError::BadName { .. })));
    }

    #[test]
    fn a_password_does_not_get_into_an_image() {
        let mirror = Some("https://me:secret@mirror.test/debian".into());
        let options = Options { suite: Some("bookworm".into()), mirror, ..options(&[]) };
        assert!(matches!(made(&options), Err(BuildError::PasswordInMirror)));
    }

    #[test]
    fn a_host_without_sources_needs_a_suite() {
        let host = tempfile::tempdir().unwrap();
        let options = Options { host: host.path().to_owned(), ..options(&[]) };
        assert!(matches!(made(&options), Err(BuildError::NoSources)));
    }
}
