//! Unpacks a root from standard input into a folder that is not there yet, as root:
//!
//! ```sh
//! docker export CONTAINER | cargo run -p emergent-images --example unpack /var/tmp/images/root
//! ```

use std::io::stdin;
use std::path::PathBuf;

use emergent_images::unpack::{Limits, UnpackError, unpack};

fn main() -> Result<(), UnpackError> {
    let folder = std::env::args_os().nth(1).map_or_else(|| "images/root".into(), PathBuf::from);
    let unpacked = unpack(stdin().lock(), &folder, &Limits::default())?;
    println!("{}: {unpacked:?}", folder.display());
    Ok(())
}
