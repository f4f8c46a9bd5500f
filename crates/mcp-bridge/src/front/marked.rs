//! Arguments of tools that are repeated in headers.

use http::HeaderName;
use serde_json::Value;

/// An argument that a header repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Marked {
    /// The way to it through objects.
    pub(crate) path: Vec<String>,
    pub(crate) header: HeaderName,
}

/// What a schema marks with `x-mcp-header`. Only objects in objects count.
pub(crate) fn marked_by(schema: &Value) -> Vec<Marked> {
    let mut marked = Vec::new();
    find(schema, &mut Vec::new(), &mut marked);
    marked
}

fn find(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Marked>) {
    let Some(properties) = schema["properties"].as_object() else { return };
    for (name, property) in properties {
        path.push(name.clone());
        let header = property["x-mcp-header"].as_str().map(|name| format!("mcp-param-{name}"));
        if let Some(header) = header.and_then(|header| HeaderName::try_from(header).ok()) {
            found.push(Marked { path: path.clone(), header });
        }
        find(property, path, found);
        path.pop();
    }
}
