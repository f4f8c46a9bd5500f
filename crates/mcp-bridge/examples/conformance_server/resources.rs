use serde_json::{Value, json};

use crate::wire::{Failure, Request};

/// One red pixel.
pub(crate) const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

pub(crate) fn list() -> Value {
    let resource = |uri: &str, name: &str, media: &str| json!({"uri": uri, "name": name, "description": format!("{name}, for the conformance suite"), "mimeType": media});
    json!([
        resource("test://static-text", "Static text", "text/plain"),
        resource("test://static-binary", "Static binary", "image/png"),
        resource("test://watched-resource", "Watched resource", "text/plain"),
    ])
}

pub(crate) fn templates() -> Value {
    json!([{
        "uriTemplate": "test://template/{id}/data",
        "name": "Template",
        "description": "A template, for the conformance suite",
        "mimeType": "application/json",
    }])
}

pub(crate) fn read(request: &Request) -> Result<Value, Failure> {
    let uri = request.params["uri"].as_str().unwrap_or_default();
    let content = match uri {
        "test://static-text" => {
            json!({"mimeType": "text/plain", "text": "This is the content of the static text resource."})
        }
        "test://static-binary" => json!({"mimeType": "image/png", "blob": PIXEL}),
        "test://watched-resource" => json!({"mimeType": "text/plain", "text": "Watched resource content."}),
        _ => {
            let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
            let Some(id) = id else {
                return Err(Failure::Refused {
                    code: if request.modern { -32602 } else { -32002 },
                    text: "Resource not found".to_owned(),
                    data: json!({"uri": uri}),
                });
            };
            let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"mimeType": "application/json", "text": data.to_string()})
        }
    };
    let mut content = content;
    content["uri"] = json!(uri);
    Ok(json!({"contents": [content]}))
}
