//! A disk has an end, and it is found through the merged root.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;

use crate::support::{Place, SIZE};

#[test]
fn what_is_written_ends_at_the_size() {
    let place = Place::new();
    let disk = place.mounted("a");
    let fresh = disk.usage().unwrap();
    assert!(fresh.bytes_total > SIZE / 2 && fresh.bytes_total <= SIZE, "{fresh:?}");

    let fill = |name: &str| {
        let mut file = File::create(disk.root().join(name)).unwrap();
        let mut written = 0;
        loop {
            assert!(written <= SIZE, "there is no end");
            match file.write_all(&[1; 1 << 16]).and_then(|()| file.sync_data()) {
                Ok(()) => written += 1 << 16,
                Err(error) => break (written, error.kind()),
            }
        }
    };
    let (written, end) = fill("big");
    assert_eq!(end, ErrorKind::StorageFull);
    assert!(written > SIZE / 2, "{written}");
    let full = disk.usage().unwrap();
    assert!(full.bytes_used - fresh.bytes_used >= written, "{full:?}");
    assert_eq!(full.bytes_total, fresh.bytes_total);
    let image = fs::metadata(disk.folder().join("disk.img")).unwrap();
    assert!(image.len() == SIZE && image.blocks() * 512 <= SIZE + (1 << 20), "{} blocks", image.blocks());

    fs::remove_file(disk.root().join("big")).unwrap();
    let (again, end) = fill("again");
    assert_eq!(end, ErrorKind::StorageFull);
    assert!(again > SIZE / 2, "{again}");
    disk.remove().unwrap();
}

#[test]
fn changing_a_file_of_the_lower_layer_counts() {
    let place = Place::new();
    let large = File::create(place.lower().join("large")).unwrap();
    large.set_len(2 * SIZE).unwrap();
    // Not a hole, so that a copy of it takes space.
    (&large).write_all(&vec![1; SIZE as usize]).unwrap();
    let disk = place.mounted("a");
    let changed = OpenOptions::new().append(true).open(disk.root().join("large"));
    assert_eq!(changed.unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(fs::metadata(place.lower().join("large")).unwrap().len(), 2 * SIZE);
    disk.remove().unwrap();
}

#[test]
fn files_without_content_end_too() {
    let place = Place::new();
    let disk = place.mounted("a");
    let inodes = disk.usage().unwrap().inodes_total;
    assert_eq!(inodes, 4096);
    let folder = disk.root().join("many");
    fs::create_dir(&folder).unwrap();
    let made = (0..=inodes).map(|number| File::create(folder.join(number.to_string())).map(drop));
    let ends = made.enumerate().find_map(|(number, made)| made.err().map(|error| (number, error)));
    let (number, error) = ends.expect("there is no end");
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(number > 4000, "{number}");
    let full = disk.usage().unwrap();
    assert!(full.inodes_total - full.inodes_used <= 1, "{full:?}");
    disk.remove().unwrap();
}
