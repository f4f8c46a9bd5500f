//! Which provider serves a request.
//!
//! Selection is a pure function from a [`Demand`] to an ordered chain of providers; the
//! [`Orchestrator`] walks the chain, skips what is unhealthy or too weak, and records why.
//! It knows the provider trait, never a concrete provider.

mod attempt;
mod demand;
mod health;
mod orchestrator;
mod selection;

pub use attempt::{Attempt, NoProvider, Refusal};
pub use demand::Demand;
pub use health::{ProviderState, ProviderStatus};
pub use orchestrator::{Orchestrator, Placement};
