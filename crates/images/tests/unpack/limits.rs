//! Archives that want too much: of the disk, of memory, of time.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use emergent_images::unpack::{Limit, Limits, UnpackError, unpack};
use tar::EntryType;

use crate::archives::{Archive, Ground, header, names};

fn too_much(archive: &[u8], limits: &Limits, expect: Limit) {
    match Ground::new().unpack_within(archive, limits) {
        Err(UnpackError::TooMuch { what, .. }) => assert_eq!(what, expect),
        other => panic!("{other:?}"),
    }
}

#[test]
fn entries_are_counted() {
    let limits = Limits { entries: 10, ..Limits::default() };
    let mut archive = Archive::default();
    for number in 0..10 {
        archive = archive.file(number.to_string(), "");
    }
    Ground::new().unpack_within(&archive.clone().bytes(), &limits).unwrap();
    too_much(&archive.file("one more", "").bytes(), &limits, Limit::Entries);
}

#[test]
fn folders_nobody_names_are_counted() {
    let limits = Limits { entries: 10, ..Limits::default() };
    too_much(&Archive::default().file("1/2/3/4/5/6/7/8/9/10/11", "").bytes(), &limits, Limit::Entries);
}

#[test]
fn descriptions_of_nothing_are_counted() {
    let limits = Limits { entries: 10, ..Limits::default() };
    let mut archive = Archive::default();
    for _ in 0..11 {
        archive = archive.entry(EntryType::XGlobalHeader, "g", "", "");
    }
    too_much(&archive.bytes(), &limits, Limit::Entries);
}

#[test]
fn a_size_beyond_the_limit_is_refused_before_anything_is_written() {
    let mut enormous = header(EntryType::Regular, b"big", b"", 0);
    // Beyond eight octal digits, as GNU writes it.
    enormous.set_size(1 << 62);
    too_much(&Archive::default().raw(&enormous, b"").bytes(), &Limits::default(), Limit::Bytes);
    let by_record = Archive::default()
        .records(&[("size", u64::MAX.to_string().as_bytes())])
        .raw(&header(EntryType::Regular, b"big", b"", 0), b"");
    let no_limit = Limits { bytes: u64::MAX, ..Limits::default() };
    too_much(&by_record.bytes(), &no_limit, Limit::Bytes);
}

#[test]
fn bytes_are_counted_over_all_files() {
    let limits = Limits { bytes: 1 << 20, ..Limits::default() };
    let mut archive = Archive::default();
    for number in 0..4 {
        archive = archive.file(number.to_string(), vec![7; 300 << 10]);
    }
    too_much(&archive.bytes(), &limits, Limit::Bytes);
}

#[test]
fn descriptions_are_not_held_in_memory_in_any_size() {
    for kind in [EntryType::XHeader, EntryType::XGlobalHeader, EntryType::GNULongName, EntryType::GNULongLink]
    {
        let mut enormous = header(kind, b"x", b"", 0);
        enormous.set_size(8 << 30);
        too_much(&Archive::default().raw(&enormous, b"").bytes(), &Limits::default(), Limit::HeaderBytes);
    }
}

#[test]
fn depth_and_length_of_paths_are_bounded() {
    let deep = "d/".repeat(200);
    let archive = Archive::default().records(&[("path", deep.as_bytes())]).folder("x");
    too_much(&archive.bytes(), &Limits::default(), Limit::Depth);
    let long = "d".repeat(5000);
    let archive = Archive::default().records(&[("path", long.as_bytes())]).file("x", "");
    too_much(&archive.bytes(), &Limits::default(), Limit::PathBytes);
    let archive = Archive::default().records(&[("linkpath", long.as_bytes())]).link("x", "y");
    too_much(&archive.bytes(), &Limits::default(), Limit::PathBytes);
    let name = "d".repeat(256);
    let archive = Archive::default().records(&[("path", name.as_bytes())]).file("x", "");
    assert!(matches!(Ground::new().unpack(&archive.bytes()), Err(UnpackError::Io { .. })));
}

#[test]
fn the_deepest_path_that_is_allowed_is_made_and_removed() {
    let deep = format!("{}file", "d/".repeat(127));
    let ground = Ground::new();
    let archive = Archive::default().records(&[("path", deep.as_bytes())]).file("x", "down here");
    ground.unpack(&archive.clone().bytes()).unwrap();
    assert_eq!(ground.read(&deep), "down here");
    // And again, where the end is missing.
    assert!(Ground::new().unpack(&archive.cut_off()).is_err());
}

/// The same entry again and again.
struct Endless {
    block: Vec<u8>,
    at: usize,
    pause: Duration,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        std::thread::sleep(self.pause);
        let length = buffer.len().min(self.block.len() - self.at);
        buffer[..length].copy_from_slice(&self.block[self.at..self.at + length]);
        self.at = (self.at + length) % self.block.len();
        Ok(length)
    }
}

#[test]
fn an_archive_without_end_ends() {
    let ground = Ground::new();
    let block = Archive::default().file("again", vec![7; 64 << 10]).cut_off();
    let limits = Limits { bytes: 32 << 20, ..Limits::default() };
    let endless = Endless { block, at: 0, pause: Duration::ZERO };
    let answer = unpack(endless, &ground.root(), &limits);
    assert!(matches!(answer, Err(UnpackError::TooMuch { what: Limit::Bytes, .. })), "{answer:?}");
    assert_eq!(names(&ground.images()), [""; 0]);
}

#[test]
fn a_slow_archive_runs_out_of_time() {
    let ground = Ground::new();
    let block = Archive::default().file("again", "x").cut_off();
    let limits = Limits { time: Duration::from_millis(200), ..Limits::default() };
    let started = Instant::now();
    let slow = Endless { block, at: 0, pause: Duration::from_millis(20) };
    let answer = unpack(slow, &ground.root(), &limits);
    assert!(matches!(answer, Err(UnpackError::TimedOut { .. })), "{answer:?}");
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(names(&ground.images()), [""; 0]);
}
