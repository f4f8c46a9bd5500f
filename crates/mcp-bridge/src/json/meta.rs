use super::{Malformed, Message, Span, Splice, pick, quoted, span_of};

/// A member of `params._meta` that is to be set.
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a str,
    /// JSON.
    pub(crate) value: String,
    /// Whether a value that is there already gives way.
    pub(crate) overwrite: bool,
}

/// Where a member of `params._meta` is in the message.
pub(crate) fn meta_member(message: &Message, key: &str) -> Result<Option<Span>, Malformed> {
    let Some(params) = message.params() else { return Ok(None) };
    let [Some(meta)] = pick(params, ["_meta"])? else { return Ok(None) };
    if !meta.starts_with('{') {
        return Ok(None);
    }
    let [member] = pick(meta, [key])?;
    Ok(member.map(|member| span_of(message.text.as_str(), member)))
}

/// Sets members of `params._meta`, making both objects where they are absent.
pub(crate) fn set_meta(
    splice: &mut Splice<'_>,
    message: &Message,
    entries: &[Entry<'_>],
) -> Result<(), Malformed> {
    let whole = splice.text();
    let all =
        || entries.iter().map(|e| format!("{}:{}", quoted(e.key), e.value)).collect::<Vec<_>>().join(",");
    let Some(params) = message.params() else {
        // A message has a method, so there is always a member after this one.
        splice.insert(after_brace(whole, whole), format!("\"params\":{{\"_meta\":{{{}}}}},", all()));
        return Ok(());
    };
    let inside = &whole[span_of(message.text.as_str(), params)];
    let [meta] = pick(inside, ["_meta"])?;
    let Some(meta) = meta else {
        let comma = if is_empty(inside) { "" } else { "," };
        splice.insert(after_brace(whole, inside), format!("\"_meta\":{{{}}}{comma}", all()));
        return Ok(());
    };
    if !meta.starts_with('{') {
        splice.replace(span_of(whole, meta), format!("{{{}}}", all()));
        return Ok(());
    }
    let mut comma = if is_empty(meta) { "" } else { "," };
    for entry in entries {
        let [present] = pick(meta, [entry.key])?;
        match present {
            Some(value) if entry.overwrite => splice.replace(span_of(whole, value), entry.value.as_str()),
            Some(_) => {}
            None => {
                let member = format!("{}:{}", quoted(entry.key), entry.value);
                let at = after_brace(whole, meta);
                // Insertions at one place keep their order, so in an empty object the comma leads.
                let text =
                    if is_empty(meta) { format!("{comma}{member}") } else { format!("{member}{comma}") };
                splice.insert(at, text);
                comma = ",";
            }
        }
    }
    Ok(())
}

fn is_empty(object: &str) -> bool {
    object[1..].trim_start().starts_with('}')
}

fn after_brace(whole: &str, object: &str) -> usize {
    let start = span_of(whole, object).start;
    start + object.find('{').map_or(0, |brace| brace + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::RawJson;

    fn check(text: &str, expect: &str) {
        let message = Message::read(RawJson::known(text.to_owned())).unwrap();
        let mut splice = Splice::new(message.text.as_str());
        let entries = [
            Entry { key: "a", value: "1".into(), overwrite: true },
            Entry { key: "b", value: "2".into(), overwrite: false },
        ];
        set_meta(&mut splice, &message, &entries).unwrap();
        let set = splice.finish();
        assert_eq!(set.as_str(), expect);
        assert!(RawJson::parse(set.as_str()).is_ok());
    }

    #[test]
    fn members_are_set_wherever_they_belong() {
        check(r#" {"method":"m"}"#, r#" {"params":{"_meta":{"a":1,"b":2}},"method":"m"}"#);
        check(r#"{"method":"m","params":{ }}"#, r#"{"method":"m","params":{"_meta":{"a":1,"b":2} }}"#);
        check(
            r#"{"params":{"x":[]},"method":"m"}"#,
            r#"{"params":{"_meta":{"a":1,"b":2},"x":[]},"method":"m"}"#,
        );
        check(
            r#"{"params":{"_meta":{}},"method":"m"}"#,
            r#"{"params":{"_meta":{"a":1,"b":2}},"method":"m"}"#,
        );
        check(
            r#"{"params":{"_meta":null},"method":"m"}"#,
            r#"{"params":{"_meta":{"a":1,"b":2}},"method":"m"}"#,
        );
        check(
            r#"{"params":{"_meta":{"b" : 7, "a":0}},"method":"m"}"#,
            r#"{"params":{"_meta":{"b" : 7, "a":1}},"method":"m"}"#,
        );
        check(
            r#"{"params":{"_meta":{"c":3}},"method":"m"}"#,
            r#"{"params":{"_meta":{"a":1,"b":2,"c":3}},"method":"m"}"#,
        );
    }
}
