//! Lists the migrations, which become part of the program: one constant for each database.
//!
//! `sqlx::migrate!` does the same, but as a procedural macro it brings a second build of both database drivers, for
//! the compiler's own use.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let mut code = String::new();
    for database in ["sqlite", "postgres"] {
        let folder = manifest.join("../../migrations").join(database);
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut files: Vec<PathBuf> = fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.expect("a folder can be read").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
            .collect();
        files.sort();
        let name = database.to_uppercase();
        writeln!(code, "pub(crate) const {name}: &[Script] = &[").expect("memory");
        for file in files {
            let (version, description) = name_of(&file);
            writeln!(code, "    ({version}, {description:?}, include_str!({file:?})),").expect("memory");
        }
        writeln!(code, "];").expect("memory");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("migrations.rs");
    fs::write(&out, code).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
}

/// `0003_agent_workspaces.sql` is the third, "agent workspaces".
fn name_of(file: &Path) -> (i64, String) {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let named = stem.split_once('_').and_then(|(number, words)| Some((number.parse().ok()?, words)));
    let (version, words) =
        named.unwrap_or_else(|| panic!("{} is not called NUMBER_WORDS.sql", file.display()));
    (version, words.replace('_', " "))
}
