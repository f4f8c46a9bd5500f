//! The workspace image: what all ways to make it have in common. The texts are in
//! `images/workspace/`.

/// How the image is to be run, as lines of a Dockerfile: what an import is told besides the files.
pub const IMPORT_CHANGES: [&str; 3] = ["ENV LANG=C.UTF-8", "WORKDIR /workspace", "CMD [\"bash\"]"];

/// Run inside the image, by a shell, once its packages are there.
pub(crate) const SETUP: &str = include_str!("../../../images/workspace/setup.sh");

/// The packages in it, beyond the smallest Debian there is.
pub fn packages() -> impl Iterator<Item = &'static str> {
    lines(include_str!("../../../images/workspace/packages.txt"))
}

/// Settings of its package manager: what is not unpacked.
pub(crate) fn dpkg_options() -> impl Iterator<Item = &'static str> {
    lines(include_str!("../../../images/workspace/dpkg.cfg"))
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCKERFILE: &str = include_str!("../../../images/workspace/Dockerfile");

    #[test]
    fn the_packages_are_names() {
        let names: Vec<&str> = packages().collect();
        assert!(names.contains(&"git") && names.contains(&"python3-venv"), "{names:?}");
        for name in &names {
            assert!(crate::debian::is_package_name(name), "{name}");
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
    }

    #[test]
    fn the_dockerfile_makes_the_same_image() {
        for change in IMPORT_CHANGES {
            assert!(DOCKERFILE.lines().any(|line| line == change), "{change}");
        }
        for file in ["packages.txt", "dpkg.cfg", "setup.sh"] {
            assert!(
                DOCKERFILE.lines().any(|line| line.starts_with("COPY ") && line.contains(file)),
                "{file}"
            );
        }
    }
}
