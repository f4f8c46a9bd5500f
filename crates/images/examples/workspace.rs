//! Makes the workspace image from the host's package sources and writes it to a file:
//!
//! ```sh
//! cargo run -p emergent-images --example workspace /var/tmp/workspace.tar
//! docker import /var/tmp/workspace.tar emergent/workspace:latest
//! ```

use std::path::PathBuf;

use emergent_images::debian::{BuildError, Options, build};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BuildError> {
    let target = std::env::args_os().nth(1).map_or_else(|| "workspace.tar".into(), PathBuf::from);
    let work_folder = std::env::var_os("TMPDIR").unwrap_or_else(|| "/var/tmp".into()).into();
    let options = Options { work_folder, ..Options::default() };
    let built = build(options, &target, |line| eprintln!("{line}"), std::future::pending()).await?;
    eprintln!("{}: {} MiB in {:?}", target.display(), built.bytes >> 20, built.took);
    Ok(())
}
