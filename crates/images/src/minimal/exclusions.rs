//! What of a system is of no use in a workspace, or too large for what it is worth there.

use std::path::Path;

/// Below `/usr`, or below the root where `/lib` and the like are folders of their own. A `*` at the
/// end stands for the rest of the last name.
const EXCLUDED: &[&str] = &[
    // Reading matter and languages.
    "share/doc",
    "share/doc-base",
    "share/man",
    "share/info",
    "share/help",
    "share/gtk-doc",
    "share/javadoc",
    "share/locale",
    "share/locale-langpack",
    "share/i18n",
    "share/lintian",
    "share/groff",
    "lib/locale/locale-archive",
    // What belongs to the machine, not to its programs.
    "src",
    "local",
    "games",
    "lib/modules",
    "lib/firmware",
    "lib/debug",
    "lib/udev/hwdb*",
    // Desktops.
    "share/applications",
    "share/backgrounds",
    "share/icons",
    "share/sounds",
    "share/themes",
    "share/wallpapers",
    "lib/chromium*",
    "lib/firefox*",
    "lib/libreoffice",
    "lib/thunderbird*",
    "lib/snapd",
    "share/chromium",
    // Toolchains and suites by the hundred megabytes.
    "lib/dotnet*",
    "lib/erlang",
    "lib/ghc*",
    "lib/go-*",
    "lib/google-cloud-sdk",
    "lib/jvm*",
    "lib/llvm*",
    "lib/mono",
    "lib/ocaml",
    "lib/oracle",
    "lib/postgresql",
    "lib/R",
    "lib/rustlib",
    "lib/rust-*",
    "share/dotnet",
    "share/go-*",
    "share/google-cloud-sdk",
    "share/java",
    "share/maven*",
    "share/R",
    "share/texlive",
    "share/texmf*",
    // Other machines and containers.
    "lib/qemu",
    "lib/xen*",
    "share/OVMF",
    "share/qemu*",
    "bin/containerd*",
    "bin/ctr",
    "bin/docker*",
    "bin/podman",
    "bin/qemu-*",
    "bin/runc",
    "bin/runsc",
    "libexec/docker",
    "libexec/podman",
    "sbin/dockerd",
];

/// Languages every program can count on.
const LOCALES: &[&str] = &["C.utf8", "C.UTF-8"];

/// Whether a path from the root is left out, with all below it.
pub(super) fn is_excluded(path: &Path) -> bool {
    let path = path.strip_prefix("usr").unwrap_or(path);
    if let Ok(locale) = path.strip_prefix("lib/locale") {
        return locale.iter().next().is_some_and(|name| LOCALES.iter().all(|kept| name != *kept));
    }
    // Made again when a program is first run, by whoever may.
    if path.iter().any(|name| name == "__pycache__") {
        return true;
    }
    EXCLUDED.iter().any(|excluded| matches(path, excluded))
}

fn matches(path: &Path, excluded: &str) -> bool {
    let Some(beginning) = excluded.strip_suffix('*') else { return path.starts_with(excluded) };
    let (folder, beginning) = beginning.rsplit_once('/').unwrap_or(("", beginning));
    path.strip_prefix(folder)
        .ok()
        .and_then(|rest| rest.iter().next())
        .is_some_and(|name| name.to_string_lossy().starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, excluded: bool) {
        assert_eq!(is_excluded(Path::new(path)), excluded, "{path}");
    }

    #[test]
    fn what_is_left_out() {
        check("usr/share/doc", true);
        check("usr/share/doc/git/copyright", true);
        check("usr/share/docs-of-mine", false);
        check("lib/modules/6.1/kernel", true);
        check("usr/lib/llvm-14/bin", true);
        check("usr/lib/jvm", true);
        check("usr/lib/go-1.19/src", true);
        check("usr/lib/git-core", false);
        check("usr/local/bin/tool", true);
        check("usr/lib/locale", false);
        check("usr/lib/locale/C.utf8/LC_CTYPE", false);
        check("usr/lib/locale/de_DE.utf8", true);
        check("usr/lib/locale/locale-archive", true);
        check("usr/lib/python3.11/__pycache__/os.pyc", true);
        check("usr/bin/bash", false);
        check("usr/bin/qemu-img", true);
    }

    #[test]
    fn the_list_has_no_slips() {
        for excluded in EXCLUDED {
            assert!(!excluded.starts_with('/') && !excluded.starts_with("usr/"), "{excluded}");
            assert!(!excluded.trim_end_matches('*').contains('*'), "{excluded}");
        }
    }
}
