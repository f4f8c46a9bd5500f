//! An image with next to nothing in it: the agent brings itself.

use bytes::Bytes;

/// An archive of one file; whoever wants another image has another text in it.
pub(crate) fn archive(text: &str) -> Bytes {
    let mut header = tar::Header::new_ustar();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    header.set_entry_type(tar::EntryType::Regular);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, "etc/of-the-image", text.as_bytes()).expect("memory can be written to");
    archive.into_inner().expect("memory can be written to").into()
}
