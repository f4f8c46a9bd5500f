//! Builds the static agent and hands its bytes to the crate.
//!
//! ```text
//!  EMERGENT_AGENT_BIN=path ──► that file ─────────────────┐
//!  clippy, EMERGENT_AGENT_STUB=1 ──► nothing, a stub      ├─► is it static? ─► OUT_DIR, SHA-256
//!  otherwise ──► cargo build --profile agent, crt-static ─┘
//! ```
//!
//! The inner cargo is a build of its own, with three traps:
//!
//! - Cargo sets `CARGO_ENCODED_RUSTFLAGS` and more for build scripts, and it overrides the
//!   `RUSTFLAGS` given here: the result would silently be a dynamic binary. So everything of the
//!   outer build is removed from the environment, except where cargo and rustup live and how the
//!   registry is reached; and the result is looked at.
//! - The outer build holds the lock of its target folder: the inner one needs its own. It is a
//!   stable one, shared by all profiles, so that the agent is built once.
//! - Flags for the host would also be given to build scripts and proc macros, which must be
//!   dynamic: with `--target` they are not.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

/// A prebuilt agent to embed.
const PREBUILT: &str = "EMERGENT_AGENT_BIN";

/// Set to embed nothing.
const STUB: &str = "EMERGENT_AGENT_STUB";

/// Set by `cargo clippy` to its driver.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// Variables of the outer build that the inner one must not see.
const FOREIGN: [&str; 8] =
    ["CARGO", "RUSTC", "RUSTDOC", "RUSTFLAGS", "MAKEFLAGS", "NUM_JOBS", "TARGET", "HOST"];

/// Exceptions: where things are, and how the registry is reached.
const KEPT: [&str; 4] = ["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTRIES_"];

fn main() {
    let root = workspace_root();
    watch(&root);
    let agent = match source() {
        Source::Stub => Vec::new(),
        Source::Prebuilt(path) => {
            println!("cargo::rerun-if-changed={}", path.display());
            read(&path)
        }
        Source::Build => read(&build(&root)),
    };
    if !agent.is_empty()
        && let Err(reason) = check_static(&agent)
    {
        panic!("the agent cannot run in every sandbox: {reason}");
    }
    let digest: String = Sha256::digest(&agent).iter().map(|byte| format!("{byte:02x}")).collect();
    let out = PathBuf::from(variable("OUT_DIR")).join("emergent-agent");
    fs::write(&out, &agent).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
    println!("cargo::rustc-env=EMERGENT_AGENT_SHA256={digest}");
}

enum Source {
    /// Nothing will run: the time is better saved.
    Stub,
    Prebuilt(PathBuf),
    Build,
}

fn source() -> Source {
    for name in [PREBUILT, STUB, WRAPPER] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let is_clippy = env::var(WRAPPER).is_ok_and(|wrapper| wrapper.contains("clippy-driver"));
    let is_set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    match is_set(PREBUILT) {
        Some(path) => Source::Prebuilt(path.into()),
        None if is_clippy || is_set(STUB).is_some() => Source::Stub,
        None => Source::Build,
    }
}

fn build(root: &Path) -> PathBuf {
    let target = variable("TARGET");
    let folder = target_folder().join("agent-bundle");
    let mut cargo = Command::new(variable("CARGO"));
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let is_one_of = |prefixes: &[&str]| prefixes.iter().any(|prefix| text.starts_with(prefix));
        if is_one_of(&FOREIGN) && !is_one_of(&KEPT) {
            cargo.env_remove(&name);
        }
    }
    cargo
        .args([
            "build",
            "--locked",
            "--profile",
            "agent",
            "--package",
            "emergent-agent",
            "--bin",
            "emergent-agent",
        ])
        .arg("--manifest-path")
        .arg(root.join("Cargo.toml"))
        .arg("--target")
        .arg(&target)
        .arg("--target-dir")
        .arg(&folder)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .current_dir(root);
    let status = cargo.status().unwrap_or_else(|error| panic!("cargo cannot be started: {error}"));
    assert!(status.success(), "the agent does not build; see the errors above");
    folder.join(target).join("agent/emergent-agent")
}

/// The outer build's target folder. Cargo does not tell, but marks it.
fn target_folder() -> PathBuf {
    let out = PathBuf::from(variable("OUT_DIR"));
    let marked = out.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    marked.map_or_else(|| out.clone(), Path::to_path_buf)
}

fn workspace_root() -> PathBuf {
    let root = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap_or(root)
}

/// Everything the agent is built from.
fn watch(root: &Path) {
    let parts = [
        "Cargo.lock",
        "Cargo.toml",
        "proto",
        "crates/agent/Cargo.toml",
        "crates/agent/src",
        "crates/protocol/Cargo.toml",
        "crates/protocol/build.rs",
        "crates/protocol/src",
    ];
    for part in parts {
        println!("cargo::rerun-if-changed={}", root.join(part).display());
    }
    println!("cargo::rerun-if-changed=build.rs");
}

/// An ELF file without an interpreter: one that names a dynamic loader finds none, or another
/// one, in a foreign root file system.
fn check_static(elf: &[u8]) -> Result<(), String> {
    const INTERPRETER: u32 = 3;
    let number = |at: usize, length: usize| -> Result<usize, String> {
        let bytes = elf.get(at..at + length).ok_or("the file is cut off")?;
        Ok(bytes.iter().rev().fold(0, |number, byte| (number << 8) | usize::from(*byte)))
    };
    // 64 bits, least significant byte first: what we run on.
    if elf.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err("it is not a 64-bit little-endian ELF file".to_owned());
    }
    let (headers, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for header in 0..count {
        if number(headers + header * size, 4)? == INTERPRETER as usize {
            return Err("it is dynamically linked".to_owned());
        }
    }
    Ok(())
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn variable(name: &str) -> String {
    let value: Option<OsString> = env::var_os(name);
    let value = value.and_then(|value| value.into_string().ok());
    value.unwrap_or_else(|| panic!("cargo sets {name}"))
}
