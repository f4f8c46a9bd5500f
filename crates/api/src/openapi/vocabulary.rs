//! Closed vocabularies in the document: the names that really go over the wire.

use emergent_types::{
    ContainerType, DeploymentMode, DiskEnforcement, Lifecycle, NetworkMode, Persistence, ProviderKind,
    RestartPolicy, ServerHealth, ServerMode, StopMode, WorkspaceStatus,
};
use serde_json::Value;
use utoipa::Modify;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{OpenApi, RefOr};

/// Gives each vocabulary its names, from the same table that writes and reads them. What
/// utoipa derives has the names of the Rust variants instead.
pub(super) struct Vocabulary;

impl Modify for Vocabulary {
    fn modify(&self, document: &mut OpenApi) {
        set(document, "ContainerType", ContainerType::ALL, ContainerType::as_str);
        set(document, "DeploymentMode", DeploymentMode::ALL, DeploymentMode::as_str);
        set(document, "DiskEnforcement", DiskEnforcement::ALL, DiskEnforcement::as_str);
        set(document, "Lifecycle", Lifecycle::ALL, Lifecycle::as_str);
        set(document, "NetworkMode", NetworkMode::ALL, NetworkMode::as_str);
        set(document, "Persistence", Persistence::ALL, Persistence::as_str);
        set(document, "ProviderKind", ProviderKind::ALL, ProviderKind::as_str);
        set(document, "RestartPolicy", RestartPolicy::ALL, RestartPolicy::as_str);
        set(document, "ServerHealth", ServerHealth::ALL, ServerHealth::as_str);
        set(document, "ServerMode", ServerMode::ALL, ServerMode::as_str);
        set(document, "StopMode", StopMode::ALL, StopMode::as_str);
        set(document, "WorkspaceStatus", WorkspaceStatus::ALL, WorkspaceStatus::as_str);
    }
}

fn set<T: Copy>(document: &mut OpenApi, name: &str, all: &[T], text: fn(T) -> &'static str) {
    let schemas = document.components.as_mut().map(|components| &mut components.schemas);
    if let Some(RefOr::T(Schema::Object(object))) = schemas.and_then(|schemas| schemas.get_mut(name)) {
        object.enum_values = Some(all.iter().map(|value| Value::from(text(*value))).collect());
    }
}
