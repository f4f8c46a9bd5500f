//! Whether the server lives, and whether it works.

pub(crate) mod healthz;
pub(crate) mod readyz;
mod recent;

pub(crate) use recent::RecentHealth;
use serde::Serialize;
use utoipa::ToSchema;

/// That all is well.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    #[schema(example = "ok")]
    status: &'static str,
}

impl Health {
    const OK: Self = Self { status: "ok" };
}
