//! Doors for the fuzz targets in `fuzz/`. Not part of the product.

use std::path::Path;

use tokio::io::AsyncWriteExt;

use crate::{Agent, Config};

/// An agent hears these bytes on a connection, and then nothing more. It must not panic.
pub fn converse(bytes: &[u8]) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let (mut ours, theirs) = tokio::io::duplex(64 << 10);
        // A stranger may go away while it is being answered.
        let _ = ours.write_all(bytes.get(..60 << 10).unwrap_or(bytes)).await;
        drop(ours);
        let agent = Agent::new(Config::new("/nonexistent", [7; emergent_protocol::KEY_LENGTH]));
        agent.serve(tokio_stream::once(Ok(theirs))).await;
    });
}

/// A path as it comes in a request. It has no NUL, and begins at the root.
pub fn path(text: &str) {
    if let Ok(path) = crate::files::resolve(Path::new("/workspace"), text) {
        assert!(path.is_absolute() && !path.as_os_str().as_encoded_bytes().contains(&0));
    }
}

/// A glob, matched against a path.
pub fn pattern(pattern: &str, path: &str) {
    crate::search::try_pattern(pattern, path);
}
