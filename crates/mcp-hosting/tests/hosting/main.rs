//! Hosted servers over the fake provider, with a real agent and a real program in each sandbox.

mod calls;
mod lifecycle;
mod setup;
mod supervising;
