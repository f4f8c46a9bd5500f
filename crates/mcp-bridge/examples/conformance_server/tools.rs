use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::resources::PIXEL;
use crate::wire::{Failure, Request, needs};

/// A moment of silence, as audio.
const SILENCE: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
const STEP: Duration = Duration::from_millis(50);

pub(crate) fn call(request: &Request) -> Result<Value, Failure> {
    let arguments = &request.params["arguments"];
    match request.params["name"].as_str().unwrap_or_default() {
        "test_simple_text" => said("This is a simple text response for testing."),
        "test_image_content" => content(vec![image()]),
        "test_audio_content" => {
            content(vec![json!({"type": "audio", "data": SILENCE, "mimeType": "audio/wav"})])
        }
        "test_embedded_resource" => content(vec![resource(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content.",
        )]),
        "test_multiple_content_types" => content(vec![
            text("Multiple content types test:"),
            image(),
            resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ]),
        "test_tool_with_logging" | "test_logging_tool" => {
            for step in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                request.log(step);
                sleep(STEP);
            }
            said("Logged.")
        }
        "test_tool_with_progress" => {
            for progress in [0, 50, 100] {
                request.progress(progress);
                sleep(STEP);
            }
            said("Done.")
        }
        "test_reconnection" => {
            sleep(Duration::from_millis(600));
            said("Reconnection test completed.")
        }
        "test_error_handling" => Ok(json!({
            "isError": true,
            "content": [text("This tool intentionally returns an error for testing")],
        })),
        "test_sampling" => {
            let answer =
                request.ask("sampled", "sampling/createMessage", sampling(&arguments["prompt"], 100))?;
            said(&format!("LLM response: {}", answer["content"]["text"].as_str().unwrap_or_default()))
        }
        "test_elicitation" => {
            let fields = [
                ("username", json!({"type": "string", "description": "User's response"})),
                ("email", json!({"type": "string", "description": "User's email address"})),
            ];
            let answer =
                request.ask("asked", "elicitation/create", form(&arguments["message"], fields, true))?;
            said(&format!("User response: {answer}"))
        }
        "test_elicitation_sep1034_defaults" => elicited(request, defaults()),
        "test_elicitation_sep1330_enums" => elicited(request, enums()),
        "test_list_roots" => {
            let roots = request.ask("roots", "roots/list", json!({}))?;
            said(&format!("Roots: {}", roots["roots"]))
        }
        "test_custom_headers" => said("The headers agree."),
        "json_schema_2020_12_tool" => said(&arguments.to_string()),
        "test_missing_capability" if !request.declares("sampling") => Err(Failure::Refused {
            code: -32021,
            text: "sampling is required".to_owned(),
            data: json!({"requiredCapabilities": {"sampling": {}}}),
        }),
        "test_missing_capability" => said("Nothing is missing."),
        "test_trigger_tool_change" => {
            request.wire.changed("tools", request.modern);
            said("The tools changed.")
        }
        "test_trigger_prompt_change" => {
            request.wire.changed("prompts", request.modern);
            said("The prompts changed.")
        }
        "test_streaming_elicitation" => {
            let answer =
                request.ask("user_name", "elicitation/create", name_form("What is your name?", "name"))?;
            said(&format!("Hello, {}!", answer["content"]["name"]))
        }
        other => rounds(request, other),
    }
}

/// Tools that ask for input in the way of the newer era.
fn rounds(request: &Request, tool: &str) -> Result<Value, Failure> {
    let ask_name = || ("user_name", "elicitation/create", name_form("What is your name?", "name"));
    let ask_sampling = |name, prompt: &str| (name, "sampling/createMessage", sampling(&json!(prompt), 100));
    let state = request.wire.unsealed(&request.params["requestState"]);
    let stated = request.params.get("requestState").is_some();
    match tool {
        "test_input_required_result_elicitation" => {
            let name = request
                .input("user_name")
                .and_then(|input| input["content"]["name"].as_str().map(str::to_owned));
            match name {
                Some(name) => said(&format!("Hello, {name}!")),
                None => Err(needs([ask_name()], None)),
            }
        }
        "test_input_required_result_sampling" => match request.input("capital_question") {
            Some(input) => said(&format!("The model says: {}", input["content"]["text"])),
            None => Err(needs([ask_sampling("capital_question", "What is the capital of France?")], None)),
        },
        "test_input_required_result_list_roots" => match request.input("client_roots") {
            Some(input) => said(&format!("Roots: {}", input["roots"])),
            None => Err(needs([("client_roots", "roots/list", json!({}))], None)),
        },
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            match (request.input("confirm"), state) {
                (Some(_), Some(_)) => said("state-ok"),
                (_, None) if stated => Err(Failure::refused(-32602, "the state is not ours")),
                _ => {
                    let fields = [("ok", json!({"type": "boolean"}))];
                    let asked = form(&json!("Please confirm"), fields, true);
                    let state = request.wire.sealed("confirming");
                    Err(needs([("confirm", "elicitation/create", asked)], Some(state)))
                }
            }
        }
        "test_input_required_result_multiple_inputs" => {
            let named = ["user_name", "greeting", "client_roots"];
            if state.is_some() && named.iter().all(|name| request.input(name).is_some()) {
                return said("All inputs are here.");
            }
            let asked = [
                ask_name(),
                ask_sampling("greeting", "Generate a greeting"),
                ("client_roots", "roots/list", json!({})),
            ];
            Err(needs(asked, Some(request.wire.sealed("several"))))
        }
        "test_input_required_result_multi_round" => match state.as_deref() {
            Some("second") if request.input("step2").is_some() => said("Both steps are done."),
            Some("first") if request.input("step1").is_some() => {
                let asked = name_form("Step 2: What is your favorite color?", "color");
                Err(needs([("step2", "elicitation/create", asked)], Some(request.wire.sealed("second"))))
            }
            _ => {
                let asked = name_form("Step 1: What is your name?", "name");
                Err(needs([("step1", "elicitation/create", asked)], Some(request.wire.sealed("first"))))
            }
        },
        "test_input_required_result_capabilities" => {
            let asked =
                [("elicitation", ask_name()), ("sampling", ask_sampling("greeting", "Generate a greeting"))];
            let allowed = asked.into_iter().filter(|(capability, _)| request.declares(capability));
            let allowed: Vec<_> = allowed.map(|(_, asked)| asked).collect();
            if allowed.is_empty() || allowed.iter().all(|(name, ..)| request.input(name).is_some()) {
                return said("There is nothing to ask.");
            }
            Err(needs(allowed, None))
        }
        other => Err(Failure::refused(-32602, format!("Unknown tool: {other}"))),
    }
}

fn elicited(request: &Request, schema: Value) -> Result<Value, Failure> {
    let params = json!({"message": "Please fill in the form", "requestedSchema": schema});
    let answer = request.ask("form", "elicitation/create", params)?;
    let action = answer["action"].as_str().unwrap_or_default();
    said(&format!("Elicitation completed: action={action}, content={}", answer["content"]))
}

fn defaults() -> Value {
    json!({"type": "object", "required": [], "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    }})
}

fn enums() -> Value {
    let plain = json!(["option1", "option2", "option3"]);
    let titled = |word: &str| {
        json!([
            {"const": "value1", "title": format!("First {word}")},
            {"const": "value2", "title": format!("Second {word}")},
            {"const": "value3", "title": format!("Third {word}")},
        ])
    };
    json!({"type": "object", "required": [], "properties": {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    }})
}

fn name_form(message: &str, field: &str) -> Value {
    form(&json!(message), [(field, json!({"type": "string"}))], true)
}

fn form<'a>(message: &Value, fields: impl IntoIterator<Item = (&'a str, Value)>, required: bool) -> Value {
    let properties: serde_json::Map<String, Value> =
        fields.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    let names: Vec<&String> = properties.keys().filter(|_| required).collect();
    let required = json!(names);
    json!({"message": message, "requestedSchema": {"type": "object", "properties": properties, "required": required}})
}

fn sampling(prompt: &Value, most: u64) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
    json!({"messages": [message], "maxTokens": most})
}

fn said(words: &str) -> Result<Value, Failure> {
    content(vec![text(words)])
}

fn content(content: Vec<Value>) -> Result<Value, Failure> {
    Ok(json!({"content": content}))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image() -> Value {
    json!({"type": "image", "data": PIXEL, "mimeType": "image/png"})
}

fn resource(uri: &str, media: &str, text: &str) -> Value {
    json!({"type": "resource", "resource": {"uri": uri, "mimeType": media, "text": text}})
}
