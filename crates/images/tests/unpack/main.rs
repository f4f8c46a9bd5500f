//! Archives, friendly and hostile, and what becomes of them. No root is needed: everything in them
//! belongs to whoever runs the tests.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod archives;
mod friendly;
mod hostile;
mod leftovers;
mod limits;
mod streams;
