//! `cargo xtask openapi`: the API's description, committed so that a change of the API shows in
//! review and so that clients can be generated without building the server.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::repository::Repository;

const DOCUMENT: &str = "openapi/v1.json";

pub(crate) fn run(repository: &Repository, check: bool) -> Result<bool> {
    let generated = generate(repository)?;
    let path = repository.path(DOCUMENT);
    let committed = fs::read_to_string(&path).unwrap_or_default();

    if committed == generated {
        println!("{DOCUMENT} is what the code says");
        return Ok(true);
    }
    if check {
        let line = first_difference(&committed, &generated);
        eprintln!("{DOCUMENT} differs from the code, first in line {line}; run `cargo xtask openapi`");
        return Ok(false);
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::write(&path, generated).with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote {DOCUMENT}");
    Ok(true)
}

/// What `emergent openapi` prints, with one newline at the end.
fn generate(repository: &Repository) -> Result<String> {
    repository.build_programs()?;
    let program = repository.metadata()?.target_directory.join("debug/emergent");
    let output = Command::new(&program)
        .arg("openapi")
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        bail!("`emergent openapi` failed: {}", output.status);
    }
    let text = String::from_utf8(output.stdout).context("`emergent openapi` printed no UTF-8")?;
    serde_json::from_str::<serde_json::Value>(&text).context("`emergent openapi` printed no JSON")?;
    Ok(format!("{}\n", text.trim_end()))
}

/// The number of the first line that is not the same.
fn first_difference(left: &str, right: &str) -> usize {
    left.lines().zip(right.lines()).take_while(|(left, right)| left == right).count() + 1
}

#[cfg(test)]
mod tests {
    use super::first_difference;

    #[test]
    fn difference_is_found_in_the_middle_and_at_the_end() {
        let check = |left, right, expect| assert_eq!(first_difference(left, right), expect);
        check("a\nb\nc", "a\nB\nc", 2);
        check("a\nb", "a\nb\nc", 3);
        check("", "a", 1);
    }
}
