//! What `cargo xtask test` has installed from npm and PyPI.

use std::path::{Path, PathBuf};

/// Node, as npm has it.
pub fn node() -> PathBuf {
    installed("node/runtime/node_modules/node/bin/node")
}

/// A folder with `node_modules`: `servers` or `clients`.
pub fn node_folder(name: &str) -> PathBuf {
    installed(&format!("node/{name}"))
}

/// A folder with a Python of its own.
pub fn python_folder(name: &str) -> PathBuf {
    installed(&format!("python/{name}"))
}

fn installed(path: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/xtask").join(path);
    assert!(file.exists(), "{} is missing: `cargo xtask test --tier mcp` installs it", file.display());
    file
}
