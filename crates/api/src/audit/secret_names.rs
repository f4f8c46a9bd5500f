//! Names whose values are secrets.

/// What such a name has in it, written without anything between its words.
const SECRET: [&str; 15] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "accountkey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "credential",
    "authorization",
    "signature",
];

/// Words that are too short to be looked for inside of others.
const SECRET_LAST_WORDS: [&str; 5] = ["pass", "pwd", "auth", "sig", "cookie"];

/// Last words of names that tell about a secret and are none.
const HARMLESS_LAST_WORDS: [&str; 24] = [
    "stdin", "file", "path", "dir", "url", "uri", "endpoint", "name", "names", "id", "ids", "type", "kind",
    "length", "size", "count", "limit", "ttl", "expiry", "jar", "provider", "version", "policy", "rs",
];

/// Whether what belongs to this name is a secret. The name may be a flag.
pub(super) fn holds_a_secret(name: &str) -> bool {
    let words = words(name);
    let Some(last) = words.last() else { return false };
    if HARMLESS_LAST_WORDS.contains(&last.as_str()) {
        return false;
    }
    let joined = words.concat();
    SECRET_LAST_WORDS.contains(&last.as_str()) || SECRET.iter().any(|part| joined.contains(part))
}

/// Whether its value goes to the end of the line, blanks included.
pub(super) fn holds_a_whole_line(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("authorization") || name.contains("cookie")
}

/// The words of a name: `apiKey`, `api_key`, `--api-key` and `API.KEY` are the same two.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_new = true;
    let mut was_lower = false;
    for character in name.chars() {
        if matches!(character, '_' | '-' | '.') {
            is_new = true;
            continue;
        }
        is_new |= was_lower && character.is_uppercase();
        match words.last_mut() {
            Some(word) if !is_new => word.extend(character.to_lowercase()),
            _ => words.push(character.to_lowercase().collect()),
        }
        is_new = false;
        was_lower = character.is_lowercase();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in [
            "password",
            "PASSWORD",
            "db_password",
            "--password",
            "-password",
            "apiKey",
            "API_KEY",
            "x-api-key",
            "aws_secret_access_key",
            "clientSecret",
            "client.secret",
            "GITHUB_TOKEN",
            "_authToken",
            "Authorization",
            "DB_PASS",
            "Pwd",
            "Cookie",
            "AccountKey",
            "X-Amz-Signature",
            "sig",
        ] {
            assert!(holds_a_secret(name), "{name}");
        }
        for name in [
            "",
            "-",
            "name",
            "key",
            "password-stdin",
            "PASSWORD_FILE",
            "tokenId",
            "secret-name",
            "token_url",
            "bypass",
            "compass",
            "passed",
            "author",
            "auth.rs",
            "design",
            "cookie-jar",
        ] {
            assert!(!holds_a_secret(name), "{name}");
        }
    }
}
