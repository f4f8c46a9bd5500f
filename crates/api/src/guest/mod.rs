//! What the server offers to programs inside sandboxes.

mod info;

pub use info::WorkspaceInfo;
