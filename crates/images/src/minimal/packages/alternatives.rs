//! Links that choose among programs of one kind: `/usr/bin/awk` to `/etc/alternatives/awk` to the
//! `awk` that is installed. No package owns them.

use std::fs;
use std::path::Path;

use super::super::error::MinimalError;
use super::super::host::Host;
use super::super::items::Items;

/// Takes the links whose choice is in the image.
pub(super) fn take(host: &Host, items: &mut Items) -> Result<(), MinimalError> {
    let records = Path::new("var/lib/dpkg/alternatives");
    for name in host.names(records)? {
        let record = records.join(&name);
        let Some(text) = host.read(&record) else { continue };
        for (name, link) in links(&name.to_string_lossy(), &text) {
            let choice = Path::new("etc/alternatives").join(name);
            let Ok(target) = fs::read_link(host.root().join(&choice)) else { continue };
            let is_here = host.place(&target).is_some_and(|target| items.has(&target));
            if let Some(link) = host.place(Path::new(link)).filter(|_| is_here) {
                host.take(&choice, items)?;
                host.take(&link, items)?;
                host.take(&record, items)?;
            }
        }
    }
    Ok(())
}

/// The names and links of one record: how it was chosen, the main link, then a name and a link for
/// each one that follows it, up to an empty line.
fn links<'a>(name: &'a str, record: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut lines = record.lines().skip(1).take_while(|line| !line.is_empty());
    let mut links: Vec<(&str, &str)> = lines.next().map(|link| (name, link)).into_iter().collect();
    while let (Some(name), Some(link)) = (lines.next(), lines.next()) {
        // A name is no path.
        if !name.contains('/') {
            links.push((name, link));
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::links;

    #[test]
    fn the_main_link_and_those_that_follow_it() {
        let record = "auto\n/usr/bin/awk\nawk.1.gz\n/usr/share/man/man1/awk.1.gz\nnawk\n/usr/bin/nawk\n\n/usr/bin/mawk\n5\n";
        assert_eq!(
            links("awk", record),
            [
                ("awk", "/usr/bin/awk"),
                ("awk.1.gz", "/usr/share/man/man1/awk.1.gz"),
                ("nawk", "/usr/bin/nawk")
            ]
        );
        assert_eq!(links("x", ""), []);
    }
}
