//! Who is asking.

mod directory;
mod require;
mod token;

pub(crate) use directory::TokenDirectory;
pub(crate) use require::{Caller, require_token};
pub use token::{BearerToken, NoRandomness};
