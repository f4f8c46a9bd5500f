//! JSON that passes through as it was sent.
//!
//! Nothing here builds a tree. A message is its text plus the places of the few members
//! the bridge must know; a change replaces bytes at such a place and leaves the rest.

mod id;
mod message;
mod meta;
mod pick;
mod raw;
mod splice;

pub(crate) use id::IdKey;
pub(crate) use message::{Kind, Message, Outcome, split_batch};
pub(crate) use meta::{Entry, meta_member, set_meta};
pub(crate) use pick::{Span, folded_names, pick, span_of, text_of};
pub use raw::{Malformed, RawJson};
pub(crate) use splice::Splice;

/// A string as JSON, quotes included.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
