//! The OpenAPI document as a judge: every answer must be one that it describes.

use emergent_test_support::Answer;
use serde_json::Value;

/// The committed document.
pub(crate) struct Contract {
    document: Value,
}

impl Contract {
    pub(crate) fn committed() -> Self {
        Self { document: serde_json::from_str(include_str!("../../openapi/v1.json")).unwrap() }
    }

    /// Panics where the document does not describe the answer. Paths and methods that it does
    /// not have are answered in the shape that every error has.
    pub(crate) fn check(&self, method: &str, path: &str, answer: &Answer) {
        let name = format!("{method} {path} answered {}", answer.status);
        let Some(operation) = self.operation(method, path) else {
            assert!([401, 404, 405].contains(&answer.status), "{name}");
            answer.code();
            return;
        };
        let response = &operation["responses"][answer.status.to_string()];
        assert!(response.is_object(), "{name}, which is not described: {}", answer.body);
        let schema = &response["content"]["application/json"]["schema"];
        if let Err(reason) = self.fits(schema, &answer.body, "") {
            panic!("{name}, and the body does not fit: {reason}\n{}", answer.body);
        }
        if answer.status >= 400 {
            let described = response["description"].as_str().unwrap();
            assert!(
                described.contains(&format!("`{}`", answer.code())),
                "{name}: {} is not described",
                answer.code()
            );
        }
    }

    fn operation(&self, method: &str, path: &str) -> Option<&Value> {
        let path = path.split('?').next().unwrap_or_default();
        let matching =
            self.document["paths"].as_object()?.iter().filter(|(template, _)| fits_template(template, path));
        // A path without parameters is meant before one with.
        let (_, operations) = matching.min_by_key(|(template, _)| template.matches('{').count())?;
        operations.get(method.to_ascii_lowercase())
    }

    /// Enough of JSON Schema for what the document uses.
    fn fits(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        if let Some(reference) = schema["$ref"].as_str() {
            let target = self.document.pointer(reference.trim_start_matches('#'));
            return self.fits(target.ok_or(format!("{reference} leads nowhere"))?, value, at);
        }
        if let Some(choices) = schema["oneOf"].as_array() {
            let fitting = choices.iter().filter(|choice| self.fits(choice, value, at).is_ok()).count();
            return if fitting == 1 { Ok(()) } else { Err(format!("{at}: fits {fitting} of the choices")) };
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.fits_openly(part, value, at)?;
        }
        if let Some(names) = schema["enum"].as_array() {
            return if names.contains(value) {
                Ok(())
            } else {
                Err(format!("{at}: {value} is none of {names:?}"))
            };
        }
        self.fits_type(schema, value, at)?;
        self.fits_openly(schema, value, at)?;
        self.knows_every_field(schema, value, at)
    }

    fn fits_type(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let types: Vec<&str> = match &schema["type"] {
            Value::String(one) => vec![one],
            Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
            _ => return Ok(()),
        };
        let fits = types.iter().any(|name| match *name {
            "null" => value.is_null(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => false,
        });
        if fits { Ok(()) } else { Err(format!("{at}: {value} is not {types:?}")) }
    }

    /// What is required and what is there, without asking whether there is more.
    fn fits_openly(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        if let Some(reference) = schema["$ref"].as_str() {
            let target = self.document.pointer(reference.trim_start_matches('#'));
            return self.fits_openly(target.ok_or(format!("{reference} leads nowhere"))?, value, at);
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if value.get(name).is_none() {
                return Err(format!("{at}.{name} is missing"));
            }
        }
        for (name, part) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(field) = value.get(name) {
                self.fits(part, field, &format!("{at}.{name}"))?;
            }
        }
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            self.fits(&schema["items"], item, &format!("{at}[{index}]"))?;
        }
        Ok(())
    }

    fn knows_every_field(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let known = self.fields(schema);
        let is_open = schema.get("additionalProperties").is_some() || known.is_empty();
        let unknown =
            value.as_object().into_iter().flatten().find(|(name, _)| !known.contains(&name.as_str()));
        match unknown {
            Some((name, _)) if !is_open => Err(format!("{at}.{name} is not described")),
            _ => Ok(()),
        }
    }

    fn fields<'a>(&'a self, schema: &'a Value) -> Vec<&'a str> {
        if let Some(target) =
            schema["$ref"].as_str().and_then(|path| self.document.pointer(path.trim_start_matches('#')))
        {
            return self.fields(target);
        }
        let own = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        let inherited = schema["allOf"].as_array().into_iter().flatten().flat_map(|part| self.fields(part));
        own.chain(inherited).collect()
    }
}

fn fits_template(template: &str, path: &str) -> bool {
    let (template, path): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
    let fits = |(pattern, segment): (&&str, &&str)| {
        (pattern.starts_with('{') && !segment.is_empty()) || pattern == segment
    };
    template.len() == path.len() && template.iter().zip(&path).all(fits)
}
