//! Writes an image of this host's system to standard output, to be looked at or imported:
//!
//! ```sh
//! cargo run -p emergent-images --example minimal | docker import - minimal
//! ```

use std::io::{BufWriter, stdout};

use emergent_images::minimal::{MinimalError, Options, Plan};

fn main() -> Result<(), MinimalError> {
    let plan = Plan::of_host(&Options::default())?;
    eprintln!("{:?}: {} entries, {} MiB", plan.origin(), plan.entries(), plan.bytes() >> 20);
    let written = plan.write_to(&mut BufWriter::new(stdout().lock()))?;
    eprintln!("written in {:?}", written.took);
    Ok(())
}
