use serde_json::{Value, json};

use crate::resources::PIXEL;
use crate::wire::{Failure, Request};

pub(crate) fn list() -> Value {
    let prompt = |name: &str, arguments: &[&str]| {
        let arguments: Vec<Value> =
            arguments.iter().map(|name| json!({"name": name, "required": true})).collect();
        json!({"name": name, "description": format!("{name}, for the conformance suite"), "arguments": arguments})
    };
    json!([
        prompt("test_simple_prompt", &[]),
        prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
        prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
        prompt("test_prompt_with_image", &[]),
        prompt("test_input_required_result_prompt", &[]),
    ])
}

pub(crate) fn get(request: &Request) -> Result<Value, Failure> {
    let argument = |name: &str| request.params["arguments"][name].as_str().unwrap_or_default();
    let name = request.params["name"].as_str().unwrap_or_default();
    let contents = match name {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (one, two) = (argument("arg1"), argument("arg2"));
            vec![text(&format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))]
        }
        "test_prompt_with_embedded_resource" => vec![
            json!({"type": "resource", "resource": {
                "uri": argument("resourceUri"),
                "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            }}),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![
            json!({"type": "image", "data": PIXEL, "mimeType": "image/png"}),
            text("Please analyze the image above."),
        ],
        "test_input_required_result_prompt" => {
            let schema = json!({"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]});
            let asked = json!({"message": "What context should the prompt use?", "requestedSchema": schema});
            let said = request.ask("user_context", "elicitation/create", asked)?;
            vec![text(&format!("Use this context: {}", said["content"]["context"]))]
        }
        other => return Err(Failure::refused(-32602, format!("there is no prompt {other:?}"))),
    };
    let messages: Vec<Value> =
        contents.into_iter().map(|content| json!({"role": "user", "content": content})).collect();
    Ok(json!({"messages": messages}))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}
