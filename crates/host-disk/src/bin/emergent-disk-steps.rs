//! One operation on a disk, by a process that may be killed meanwhile. It stops itself when
//! it is about to begin, so that whoever traces it knows what to count.

use std::path::Path;
use std::process::ExitCode;

use emergent_host_disk::{DiskError, Geometry, HiddenDisk, LayeredDisk};
use rustix::process::{Signal, getpid, kill_process};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let Err(error) = kill_process(getpid(), Signal::STOP) {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!(
                "usage: create FOLDER TEMPLATES | mount FOLDER LOWER | remove FOLDER | snapshot FOLDER TO | \
                 snapshot-hidden IMAGE TO"
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Says whether there is such an operation.
fn run(arguments: &[&str]) -> Result<bool, DiskError> {
    match arguments {
        ["create", folder, templates] => {
            LayeredDisk::create(Path::new(folder), Geometry::for_size(16 << 20), Path::new(templates))?;
        }
        ["mount", folder, lower] => LayeredDisk::open(Path::new(folder))?.mount(Path::new(lower))?,
        ["remove", folder] => LayeredDisk::remove_folder(Path::new(folder))?,
        ["snapshot", folder, to] => LayeredDisk::open(Path::new(folder))?.snapshot(Path::new(to))?,
        ["snapshot-hidden", image, to] => HiddenDisk::new(Path::new(image)).snapshot(Path::new(to))?,
        _ => return Ok(false),
    }
    Ok(true)
}
