//! A Docker for a whole run of tests: starts it, says where it is, and ends it at the end of input.
//!
//! ```sh
//! emergent-test-docker < some-pipe     # prints NAME=VALUE lines, then `ready`
//! ```

use std::io::{Read, Write};

fn main() -> std::io::Result<()> {
    let docker = emergent_test_support::TestDocker::own();
    let mut output = std::io::stdout().lock();
    for (name, value) in docker.variables() {
        writeln!(output, "{name}={value}")?;
    }
    writeln!(output, "ready")?;
    output.flush()?;
    // Ends with whoever holds the other end.
    std::io::stdin().lock().read_to_end(&mut Vec::new())?;
    Ok(())
}
