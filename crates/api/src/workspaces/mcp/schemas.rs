//! What each tool takes, from the OpenAPI document: there is one description of them.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value};

use super::toolbox::{TOOLS, route};

const COMPONENTS: &str = "#/components/schemas/";
const DEFINITIONS: &str = "#/$defs/";

/// Every tool, in the order of the contract.
pub(super) fn tools() -> &'static [Tool] {
    static ALL: LazyLock<Vec<Tool>> = LazyLock::new(|| {
        let (_, document) = crate::router::endpoints().split_for_parts();
        let document = serde_json::to_value(&document).unwrap_or_default();
        TOOLS.iter().filter_map(|name| described(&document, name)).collect()
    });
    &ALL
}

fn described(document: &Value, name: &'static str) -> Option<Tool> {
    let operation = document["paths"].get(route(name))?.get("post")?;
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let schema = whole(document, schema)?;
    let hints = ToolAnnotations::new().open_world(false);
    let hints = match name {
        "read" | "glob" | "grep" => hints.read_only(true),
        _ => hints.read_only(false),
    };
    Some(Tool::new(name, description(operation), Arc::new(schema)).with_annotations(hints))
}

/// What it does, in one paragraph, and what is worth knowing, in another. The rest is about HTTP.
fn description(operation: &Value) -> String {
    let summary = operation["summary"].as_str().unwrap_or_default();
    let more = operation["description"].as_str().unwrap_or_default().split("\n\n").next().unwrap_or_default();
    format!("{summary} {}", more.replace('\n', " ")).trim().to_owned()
}

/// A schema that stands for itself: what it refers to comes with it.
fn whole(document: &Value, schema: &Value) -> Option<Map<String, Value>> {
    let named = |name: &str| document["components"]["schemas"].get(name).cloned();
    let mut root = match schema["$ref"].as_str() {
        Some(reference) => named(reference.strip_prefix(COMPONENTS)?)?,
        None => schema.clone(),
    };
    let mut wanted = BTreeSet::new();
    turn(&mut root, &mut wanted);
    let mut definitions = Map::new();
    while let Some(name) = wanted.pop_first() {
        if definitions.contains_key(&name) {
            continue;
        }
        let mut definition = named(&name)?;
        turn(&mut definition, &mut wanted);
        definitions.insert(name, definition);
    }
    let mut root = root.as_object().cloned()?;
    if !definitions.is_empty() {
        root.insert("$defs".to_owned(), definitions.into());
    }
    Some(root)
}

/// Turns references to the document into references to what comes along, and notes them.
fn turn(schema: &mut Value, wanted: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref")
                && let Some(name) = reference.strip_prefix(COMPONENTS).map(str::to_owned)
            {
                *reference = format!("{DEFINITIONS}{name}");
                wanted.insert(name);
            }
            members.values_mut().for_each(|member| turn(member, wanted));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| turn(item, wanted)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_schema_that_stands_for_itself() {
        let all = tools();
        assert_eq!(all.iter().map(|tool| tool.name.as_ref()).collect::<Vec<_>>(), TOOLS);
        for tool in all {
            let schema = Value::Object(tool.input_schema.as_ref().clone());
            assert_eq!(schema["type"], "object", "{}", tool.name);
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            let text = schema.to_string();
            assert!(!text.contains(COMPONENTS), "{text}");
            for reference in text.split(DEFINITIONS).skip(1) {
                let name = reference.split('"').next().unwrap();
                assert!(schema["$defs"][name].is_object(), "{}: {name}", tool.name);
            }
            assert!(
                tool.description.as_ref().is_some_and(|text| !text.is_empty() && !text.contains("Accept:"))
            );
        }
        let edit = all.iter().find(|tool| tool.name == "edit").unwrap();
        assert_eq!(
            edit.input_schema["required"],
            serde_json::json!(["file_path", "old_string", "new_string"])
        );
    }
}
