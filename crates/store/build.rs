//! Rebuilds the crate when a migration is added: `sqlx::migrate!` reads the folder while
//! compiling, and the compiler only notices changes to files it already knows.

fn main() {
    println!("cargo::rerun-if-changed=../../migrations/sqlite");
    println!("cargo::rerun-if-changed=../../migrations/postgres");
}
