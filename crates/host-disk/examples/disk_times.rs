//! How long a layered disk takes to come and to go, in this folder's file system: 50 times, after
//! the first. `cargo run --release -p emergent-host-disk --example disk_times [FOLDER] [GiB]`, as root.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use emergent_host_disk::{DiskError, Geometry, LayeredDisk};

const ROUNDS: usize = 50;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let parent = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let gib: u64 = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let base = tempfile::tempdir_in(parent)?;
    let (folder, lower) = (base.path().join("disk"), base.path().join("lower"));
    let templates = base.path().join("templates");
    std::fs::create_dir_all(lower.join("etc"))?;

    let mut times: [Vec<Duration>; 5] = Default::default();
    for round in 0..=ROUNDS {
        let mut disk = None;
        let mut took = [Duration::ZERO; 5];
        took[0] = timed(|| {
            disk = Some(LayeredDisk::create(&folder, Geometry::for_size(gib << 30), &templates)?);
            Ok(())
        })?;
        let disk = disk.ok_or("no disk")?;
        took[1] = timed(|| disk.mount(&lower))?;
        took[2] = timed(|| disk.top_folders(&["workspace", "home"]).map(drop))?;
        std::fs::write(disk.root().join("workspace/file"), vec![1; 100_000])?;
        took[3] = timed(|| disk.unmount().map(|_| ()))?;
        took[4] = timed(|| disk.remove())?;
        // The first one makes the template.
        if round > 0 {
            for (all, one) in times.iter_mut().zip(took) {
                all.push(one);
            }
        }
    }
    let sums = |from: usize, to: usize| -> Vec<Duration> {
        (0..ROUNDS).map(|round| times[from..=to].iter().map(|step| step[round]).sum()).collect()
    };
    println!("{gib} GiB, {ROUNDS} rounds              p50        p95");
    for (name, durations) in [
        ("create", times[0].clone()),
        ("mount", times[1].clone()),
        ("create+mount", sums(0, 1)),
        ("top_folders", times[2].clone()),
        ("unmount", times[3].clone()),
        ("remove", times[4].clone()),
        ("unmount+remove", sums(3, 4)),
    ] {
        report(name, durations);
    }
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<(), DiskError>) -> Result<Duration, DiskError> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed())
}

fn report(name: &str, mut durations: Vec<Duration>) {
    durations.sort();
    let at = |percent: usize| durations[durations.len() * percent / 100].as_secs_f64() * 1000.0;
    println!("{name:<20} {:>8.2} ms {:>8.2} ms", at(50), at(95));
}
