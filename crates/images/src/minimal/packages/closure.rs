//! Which of the installed packages an image needs.

use std::collections::{BTreeSet, HashMap};

use super::status::Package;

/// The wanted packages, as far as they are installed, what no system works without, and all they
/// need. In the order of their names.
pub(crate) fn closure<'a>(installed: &'a [Package], wanted: &[String]) -> Vec<&'a Package> {
    let by_name: HashMap<&str, &Package> =
        installed.iter().map(|package| (package.name.as_str(), package)).collect();
    let mut providers: HashMap<&str, &Package> = HashMap::new();
    for package in installed {
        for provided in &package.provides {
            providers.entry(provided).or_insert(package);
        }
    }

    let mut selected = BTreeSet::new();
    let mut open: Vec<&Package> = installed.iter().filter(|package| package.basic).collect();
    open.extend(wanted.iter().filter_map(|name| by_name.get(name.as_str())));
    while let Some(package) = open.pop() {
        if !selected.insert(package.name.as_str()) {
            continue;
        }
        for alternatives in &package.needs {
            let names = || alternatives.iter().map(String::as_str);
            if names().any(|name| selected.contains(name)) {
                continue;
            }
            // What is not there was not needed on the host either.
            let found = names()
                .find_map(|name| by_name.get(name))
                .or_else(|| names().find_map(|name| providers.get(name)));
            open.extend(found);
        }
    }
    selected.into_iter().filter_map(|name| by_name.get(name).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::status::parse;
    use super::closure;

    const STATUS: &str = "\
Package: dpkg
Essential: yes
Status: install ok installed
Architecture: amd64
Pre-Depends: libc6 (>= 2.34), tar (>= 1.28-1)

Package: libc6
Status: install ok installed
Architecture: amd64
Multi-Arch: same
Conffiles:
 /etc/ld.so.conf.d/x86_64-linux-gnu.conf d4e7a7b88a71b5ffd9e2644e71a0cfab
 /etc/gone newconffile obsolete

Package: libc6
Status: install ok installed
Architecture: i386
Multi-Arch: same

Package: tar
Status: install ok installed
Architecture: amd64
Priority: required

Package: git
Status: install ok installed
Architecture: amd64
Depends: libcurl3-gnutls (>= 7), perl:any | perl-base, sendmail | pager

Package: less
Status: install ok installed
Architecture: amd64
Provides: pager

Package: libcurl3-gnutls
Status: install ok installed
Architecture: amd64
Depends:
 libc6 (>= 2.34),
 git

Package: perl
Status: install ok installed
Architecture: amd64

Package: removed
Status: deinstall ok config-files
Architecture: amd64

Package: large
Status: install ok installed
Architecture: all
";

    fn check(wanted: &[&str], expect: &[&str]) {
        let installed = parse(STATUS);
        let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        let names: Vec<&str> =
            closure(&installed, &wanted).into_iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, expect);
    }

    #[test]
    fn what_is_wanted_and_what_it_needs() {
        check(&[], &["dpkg", "libc6", "tar"]);
        check(&["git", "missing"], &["dpkg", "git", "less", "libc6", "libcurl3-gnutls", "perl", "tar"]);
        check(&["removed", "large"], &["dpkg", "large", "libc6", "tar"]);
    }

    #[test]
    fn files_of_packages_and_settings() {
        let installed = parse(STATUS);
        let libc = installed.iter().find(|package| package.name == "libc6").unwrap();
        assert_eq!(libc.stem, "libc6:amd64");
        assert_eq!(libc.settings.len(), 2);
        assert_eq!(libc.settings[0].0, "/etc/ld.so.conf.d/x86_64-linux-gnu.conf");
        assert!(libc.stanza.starts_with("Package: libc6\n") && libc.stanza.contains("amd64"));
    }
}
