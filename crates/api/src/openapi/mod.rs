//! The OpenAPI document: what surrounds the paths, which come from the router.

pub(crate) mod get;
mod vocabulary;

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::errors::ErrorBody;

/// The document without its paths.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Emergent Workspaces",
        description = "Isolated workspaces for AI agents.\n\nEvery answer that is not a success has the body \
            `ErrorBody`; `docs/errors.md` describes the codes. Every answer has the header `x-request-id`.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    servers((url = "/", description = "This server.")),
    components(schemas(ErrorBody)),
    modifiers(&BearerToken),
    security(("bearer" = [])),
    tags(
        (name = "workspaces", description = "The life of workspaces."),
        (name = "snapshots", description = "Copies of workspaces' files, and workspaces made from them."),
        (name = "warm pool", description = "Sandboxes that are made ahead of time."),
        (name = "tools", description = "What an agent does in a workspace."),
        (name = "files", description = "Files of any size, and their changes."),
        (name = "processes", description = "Commands that run in the background."),
        (name = "tokens", description = "Who may use this server."),
        (name = "audit", description = "What was done, by whom, and what came of it."),
        (name = "health", description = "Whether the server lives, and whether it works."),
        (name = "document", description = "This document."),
    ),
)]
pub(crate) struct Frame;

struct BearerToken;

impl Modify for BearerToken {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("An API token. The first one is in `admin.token` in the server's data folder."))
            .build();
        document
            .components
            .get_or_insert_default()
            .add_security_scheme("bearer", SecurityScheme::Http(scheme));
    }
}

/// The OpenAPI document of this version, as JSON for people.
pub fn openapi_json() -> Result<String, serde_json::Error> {
    let (_, mut document) = crate::router::endpoints().split_for_parts();
    vocabulary::Vocabulary.modify(&mut document);
    serde_json::to_string_pretty(&document)
}
