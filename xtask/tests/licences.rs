//! The documents that licences ask for are there and say what they must.

use std::fs;
use std::path::Path;

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Proves: DESIGN-11.1, DESIGN-11.3, MIGR-4.6
#[test]
fn every_project_the_isolation_rests_on_is_credited() {
    let (attributions, notice) = (read("docs/licenses/AGENT_WORKSPACE.md"), read("NOTICE"));
    let projects =
        [("Firecracker", "Amazon"), ("E2B", "E2B"), ("gVisor", "Google"), ("youki", "youki contributors")];
    for (project, holder) in projects {
        let row = attributions.lines().find(|line| line.starts_with(&format!("| {project}")));
        let row = row.unwrap_or_else(|| panic!("{project} has no row"));
        assert!(row.contains(holder) && row.contains("Apache-2.0"), "{row}");

        let credit = notice.lines().find(|line| line.trim_start().starts_with(project));
        let credit = credit.unwrap_or_else(|| panic!("{project} is not in NOTICE"));
        assert!(credit.contains(holder) && credit.contains("Apache-2.0"), "{credit}");
    }
}

/// Proves: DESIGN-11.2
#[test]
fn the_licence_texts_are_distributed() {
    for (file, words) in [
        ("LICENSE", "Apache License\n                           Version 2.0"),
        ("licenses/Apache-2.0.txt", "Apache License\n                           Version 2.0"),
        ("licenses/MIT.txt", "Permission is hereby granted, free of charge"),
        ("licenses/BSD-3-Clause.txt", "Redistribution and use in source and binary forms"),
    ] {
        assert!(read(file).contains(words), "{file}");
    }
}

/// The list itself; cargo-deny compares the dependencies with it.
#[test]
fn only_permissive_licences_are_allowed() {
    const PERMISSIVE: &[&str] =
        &["Apache-2.0", "BSD-", "ISC", "MIT", "Unicode-3.0", "Zlib", "0BSD", "CC0-1.0"];
    let rules = read("deny.toml");
    let (_, after) = rules.split_once("\nallow = [").expect("deny.toml has a list of licences");
    let (list, _) = after.split_once(']').expect("the list ends");
    let licences: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    assert!(!licences.is_empty());
    for licence in licences {
        assert!(PERMISSIVE.iter().any(|known| licence.starts_with(known)), "{licence}");
    }
    assert!(!rules.contains("exceptions"), "an exception would go around the list");
}
