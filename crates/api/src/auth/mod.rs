//! Who is asking, and whether they may.

mod admit;
mod bounded_life;
mod caller;
mod credentials;
mod directory;
mod token;

pub(crate) use admit::{AdmittedTool, admit, admit_known};
pub(crate) use caller::Caller;
pub(crate) use directory::TokenDirectory;
pub use token::{BearerToken, NoRandomness};
