//! Takes out of a text what looks like a secret. What does is a matter of its form: a value behind
//! a name that says so, a part of a URL, the shape of a well-known token. The rest stays readable.
//!
//! Commands carry other languages in quotes, so names and values may be in quotes that are escaped
//! any number of times: `curl -d "{\"password\": \"x\"}"`.

use super::secret_names::{holds_a_secret, holds_a_whole_line};
use super::token_shapes;

/// What stands for what was taken out.
const HIDDEN: &str = "[hidden]";

/// Words before a secret that are none.
const SCHEMES: [&str; 6] = ["bearer", "basic", "token", "digest", "negotiate", "apikey"];

/// The shortest word behind `Bearer` that is taken for a token.
const MIN_BEARER: usize = 8;

/// The text without secrets.
pub(super) fn hidden(text: &str) -> String {
    let mut scrubber = Scrubber { rest: text, shown: String::with_capacity(text.len()) };
    while !scrubber.rest.is_empty() {
        scrubber.step();
    }
    scrubber.shown
}

struct Scrubber<'a> {
    rest: &'a str,
    shown: String,
}

impl<'a> Scrubber<'a> {
    /// Deals with the next word, or with one character that is part of none.
    fn step(&mut self) {
        if self.private_key() {
            return;
        }
        let word = self.word();
        if word.is_empty() {
            self.show(self.rest.chars().next().map_or(0, char::len_utf8));
            return;
        }
        if let Some((begin, end)) = token_shapes::find(word, &self.rest[word.len()..]) {
            self.show(begin);
            self.hide(end - begin);
            return;
        }
        if self.rest[word.len()..].starts_with("://") {
            self.show(word.len() + "://".len());
            self.user_of_url();
            return;
        }
        self.show(word.len());
        if holds_a_secret(word) {
            self.value(word);
        } else if is_flag_of_user(word) {
            self.behind_colon();
        } else if word.eq_ignore_ascii_case("bearer") {
            self.show(blanks(self.rest));
            let value = bare(self.rest, false);
            if value >= MIN_BEARER {
                self.hide(value);
            }
        }
    }

    /// What a name can consist of, from here on.
    fn word(&self) -> &'a str {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        &self.rest[..self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len())]
    }

    fn show(&mut self, bytes: usize) {
        let (shown, rest) = self.rest.split_at(bytes);
        self.shown.push_str(shown);
        self.rest = rest;
    }

    fn hide(&mut self, bytes: usize) {
        if bytes > 0 {
            self.shown.push_str(HIDDEN);
            self.rest = &self.rest[bytes..];
        }
    }

    /// The value that belongs to a name that was just shown, if one follows.
    fn value(&mut self, name: &str) {
        let is_flag = name.starts_with('-');
        let after_quote = quote(self.rest).map_or(0, str::len);
        let join = join(&self.rest[after_quote..]);
        let with_colon = join.trim().starts_with(':');
        match (join.len(), is_flag) {
            (0, false) => return,
            // A flag and its value are two words, and another flag is no value.
            (0, true) => {
                let blanks = blanks(self.rest);
                if blanks == 0 || self.rest[blanks..].starts_with('-') {
                    return;
                }
                self.show(blanks);
            }
            (joined, _) => self.show(after_quote + joined),
        }
        if is_count(name, self.rest) || is_working_folder(name, self.rest) || is_reference(self.rest) {
            return;
        }
        self.scheme();
        let whole_line = with_colon && holds_a_whole_line(name);
        match quote(self.rest) {
            Some(quote) => self.hide(quoted(self.rest, quote)),
            None if whole_line => self.hide(line(self.rest)),
            None if self.rest.starts_with('[') => self.hide(list(self.rest)),
            None => self.hide(bare(self.rest, with_colon)),
        }
    }

    /// `Bearer ` and its like.
    fn scheme(&mut self) {
        let opening = quote(self.rest).map_or(0, str::len);
        let word = self.rest[opening..].split(char::is_whitespace).next().unwrap_or_default();
        let blanks = blanks(&self.rest[opening + word.len()..]);
        if blanks > 0 && SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme)) {
            // A quote that was open stays open, and what is hidden ends with it.
            self.show(opening + word.len() + blanks);
        }
    }

    /// `-u me:password`. Numbers are an account and a group.
    fn behind_colon(&mut self) {
        let blanks = blanks(self.rest);
        let opening = quote(&self.rest[blanks..]).map_or(0, str::len);
        let value = &self.rest[blanks + opening..];
        let value = &value[..bare(value, false)];
        let Some((user, password)) = value.split_once(':') else { return };
        if blanks > 0 && !password.is_empty() && !password.bytes().all(|byte| byte.is_ascii_digit()) {
            self.show(blanks + opening + user.len() + 1);
            self.hide(password.len());
        }
    }

    /// What comes before the host of a URL. `git` alone tells nothing.
    fn user_of_url(&mut self) {
        let word = &self.rest[..bare(self.rest, false)];
        let authority = &word[..word.find(['/', '?', '#']).unwrap_or(word.len())];
        let end = match authority.rfind('@') {
            Some(end) => Some(end),
            // A password that should have been escaped: what looks like a port is none.
            None => authority
                .split_once(':')
                .filter(|(_, port)| !port.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|_| word.rfind('@')),
        };
        match end {
            Some(end) if &word[..end] != "git" => self.hide(end),
            _ => {}
        }
    }

    /// A private key in PEM, to its last line or to the end.
    fn private_key(&mut self) -> bool {
        let Some(label) = self.rest.strip_prefix("-----BEGIN ") else { return false };
        if !label.split("-----").next().is_some_and(|label| label.contains("PRIVATE KEY")) {
            return false;
        }
        let end = label.find("-----END ").map(|end| end + "-----END ".len());
        let end = end.and_then(|begin| label[begin..].find("-----").map(|end| begin + end + "-----".len()));
        self.hide(self.rest.len() - label.len() + end.unwrap_or(label.len()));
        true
    }
}

fn is_flag_of_user(word: &str) -> bool {
    matches!(word, "-u" | "--user" | "--proxy-user" | "-U")
}

/// `max_tokens = 500` is a number of them.
fn is_count(name: &str, value: &str) -> bool {
    name.to_ascii_lowercase().ends_with("tokens") && value.starts_with(|c: char| c.is_ascii_digit())
}

/// `PWD=/workspace` is where a shell is.
fn is_working_folder(name: &str, value: &str) -> bool {
    matches!(name, "PWD" | "OLDPWD") && value.trim_start_matches('"').starts_with('/')
}

/// A value that is somewhere else: `$TOKEN`, `"${TOKEN}"`, `$(cat token)`.
fn is_reference(value: &str) -> bool {
    let inner = match quote(value) {
        // Nothing in these means anything but itself.
        Some(quote) if quote.ends_with('\'') => return false,
        Some(quote) => {
            let whole = &value[quote.len()..quoted(value, quote)];
            whole.strip_suffix(quote).unwrap_or(whole)
        }
        None => &value[..bare(value, false)],
    };
    if inner.starts_with("$(") {
        return true;
    }
    let Some(name) = inner.strip_prefix('$') else { return false };
    let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Blanks at the beginning.
fn blanks(text: &str) -> usize {
    text.len() - text.trim_start_matches([' ', '\t']).len()
}

/// A quote at the beginning, with what escapes it.
fn quote(text: &str) -> Option<&str> {
    let slashes = text.len() - text.trim_start_matches('\\').len();
    text[slashes..].starts_with(['"', '\'']).then(|| &text[..=slashes])
}

/// What joins a name to its value: `=`, `:`, `=>`, with blanks around. Empty where nothing does.
fn join(text: &str) -> &str {
    let before = blanks(text);
    let signs = text[before..].len() - text[before..].trim_start_matches(['=', ':', '>']).len();
    let is_one = text[before..].starts_with(['=', ':']) && signs <= 3 && !text[before..].starts_with("::");
    let after = blanks(&text[before + signs..]);
    if is_one { &text[..before + signs + after] } else { "" }
}

/// How far a value in this quote goes, with both quotes and what is joined to it; to the end where
/// it is not closed. Inside, a quote that is escaped once more is a part of it.
fn quoted(text: &str, quote: &str) -> usize {
    let (depth, mark) = (quote.len() - 1, &quote[quote.len() - 1..]);
    let mut from = quote.len();
    while let Some(found) = text[from..].find(mark).map(|found| from + found) {
        let before = &text[..found];
        let slashes = before.len() - before.trim_end_matches('\\').len();
        let end = found + mark.len();
        if slashes <= depth {
            let joined = text[end..].find(|c: char| !c.is_alphanumeric() && !"-_+./=".contains(c));
            return end + joined.unwrap_or(text.len() - end);
        }
        from = end;
    }
    text.len()
}

/// How far a value without quotes goes. In a language with colons, commas and brackets end it.
fn bare(text: &str, with_colon: bool) -> usize {
    let ends = |c: char| c.is_whitespace() || "\"'`;|&<>".contains(c) || with_colon && ",()[]{}".contains(c);
    let end = text.find(ends).unwrap_or(text.len());
    // What escapes the quote that ends it belongs to the quote.
    if text[end..].starts_with(['"', '\'']) { text[..end].trim_end_matches('\\').len() } else { end }
}

/// How far a value goes that may have blanks in it: to a quote, or to the end of the command.
fn line(text: &str) -> usize {
    let end = text.find(['"', '\'', '\n', '|', '<', '>', '`']).unwrap_or(text.len());
    text[..end].trim_end_matches(['\\', ' ']).len()
}

/// How far a list goes.
fn list(text: &str) -> usize {
    text.find(']').map_or(text.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        assert_eq!(hidden(text), expect, "{text}");
        assert_eq!(hidden(&hidden(text)), expect, "again");
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "",
            "ls -l /workspace",
            "git log --oneline",
            "echo 'a b' | wc -c",
            "src/main.rs",
            "ä🙂",
            "a=b",
            "curl https://example.test/a@b",
            "git clone ssh://git@git.example/x.git",
            "git@git.example:me/x.git",
            "curl http://localhost:8080/x@y",
            "npm i @types/node@20 && PWD=/workspace make",
            "cargo test token::tests",
            "rg 'fn token' src/auth/token.rs",
            "git push -u origin HEAD:main",
            "docker run -u 1000:1000 x",
            "docker login --password-stdin registry.example",
            "PASSWORD_FILE=/run/secrets/db psql",
            "--token-id 5 --secret-name db",
            "{\"max_tokens\": 500, \"b\": 1}",
            "deploy --token \"$TOKEN\" --password ${PASSWORD} --x $(cat secret)",
            "TOKEN=$TOKEN make",
            "git checkout task-management-service-2024",
            "emergent_http_requests_total",
            "kubectl get secret db -o yaml",
            "bypass=1 compass=2 passed: 5",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "the bearer of news",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn urls() {
        check(
            "git clone https://me:hunter2@git.example/x.git",
            "git clone https://[hidden]@git.example/x.git",
        );
        check("https://hunter2@git.example/x", "https://[hidden]@git.example/x");
        check("psql 'postgres://me:hun@ter2@db/x?y=1'", "psql 'postgres://[hidden]@db/x?y=1'");
        check("redis://:hunter2@cache:6379/0", "redis://[hidden]@cache:6379/0");
        check("postgres://me:hun/ter2@db/x", "postgres://[hidden]@db/x");
        check("curl 'https://x.test/?token=hunter2&a=1'", "curl 'https://x.test/?token=[hidden]&a=1'");
        check("https://x.test/b?sv=1&sig=hunter2%3D", "https://x.test/b?sv=1&sig=[hidden]");
    }

    #[test]
    fn headers() {
        check("curl -H 'Authorization: Bearer abc.def' x", "curl -H 'Authorization: Bearer [hidden]' x");
        check("curl -H \"Authorization: Basic YTpi\" x", "curl -H \"Authorization: Basic [hidden]\" x");
        check("curl -H authorization:hunter2 x", "curl -H authorization:[hidden]");
        check("curl -H \"X-Api-Key: abc\" x", "curl -H \"X-Api-Key: [hidden]\" x");
        check("curl -H 'Cookie: a=b; session=hunter2' x", "curl -H 'Cookie: [hidden]' x");
        check(
            "curl -d \"{\\\"Authorization\\\": \\\"Bearer hunter2\\\"}\" x",
            "curl -d \"{\\\"Authorization\\\": \\\"Bearer [hidden]\\\"}\" x",
        );
        check("wscat --auth me:hunter2 x", "wscat --auth [hidden] x");
        check("curl -u me:hunter2 x", "curl -u me:[hidden] x");
        check("curl --user 'me:hunter2' x", "curl --user 'me:[hidden]' x");
        check("http GET x Bearer hunter2hunter2", "http GET x Bearer [hidden]");
    }

    #[test]
    fn names_and_values() {
        check("PASSWORD=hunter2 make", "PASSWORD=[hidden] make");
        check("PASSWORD=hun,ter2 make", "PASSWORD=[hidden] make");
        check("DB_PASSWORD='a b c' make", "DB_PASSWORD=[hidden] make");
        check("DB_PASSWORD=\"a \\\" c\"d make", "DB_PASSWORD=[hidden] make");
        check("DB_PASS=hunter2 dbPwd=hunter2", "DB_PASS=[hidden] dbPwd=[hidden]");
        check("login --token hunter2 --user me", "login --token [hidden] --user me");
        check("login --password=hunter2", "login --password=[hidden]");
        check("login --password 'a b' --x", "login --password [hidden] --x");
        check("login --password --x", "login --password --x");
        check("password = \"hunter2\" # x", "password = [hidden] # x");
        check("password: hunter2\nuser: me", "password: [hidden]\nuser: me");
        check("{password: hunter2, user: me}", "{password: [hidden], user: me}");
        check("'password' => 'hunter2', 'b' => 1", "'password' => [hidden], 'b' => 1");
        check("Server=db;Uid=sa;Pwd=hunter2;X=1", "Server=db;Uid=sa;Pwd=[hidden];X=1");
        check("AccountKey=ab/c+d==;X=1", "AccountKey=[hidden];X=1");
        check("TOKEN='$ecret' x", "TOKEN=[hidden] x");
        check("PASSWORD='not closed", "PASSWORD=[hidden]");
        check("{\"tokens\": [\"a\", \"b\"], \"c\": 1}", "{\"tokens\": [hidden], \"c\": 1}");
    }

    #[test]
    fn json_however_it_is_escaped() {
        check("{\"secret\": \"hunter2\"}", "{\"secret\": [hidden]}");
        check("{'a_token':'hunter2', 'b': 1}", "{'a_token':[hidden], 'b': 1}");
        check("curl -d '{\"password\": \"x y\"}' u", "curl -d '{\"password\": [hidden]}' u");
        check(
            "curl -d \"{\\\"password\\\": \\\"x y\\\", \\\"user\\\": \\\"me\\\"}\" u",
            "curl -d \"{\\\"password\\\": [hidden], \\\"user\\\": \\\"me\\\"}\" u",
        );
        check(
            "sh -c \"curl -d \\\"{\\\\\\\"password\\\\\\\":\\\\\\\"x y\\\\\\\"}\\\" u\"",
            "sh -c \"curl -d \\\"{\\\\\\\"password\\\\\\\":[hidden]}\\\" u\"",
        );
        check("{\\\"password\\\": 12345, \\\"a\\\": 1}", "{\\\"password\\\": [hidden], \\\"a\\\": 1}");
        check("\"{\\\"apiKey\\\":\\\"a\\\\\\\"b\\\"}\" z", "\"{\\\"apiKey\\\":[hidden]}\" z");
    }

    #[test]
    fn tokens_by_their_shape() {
        for token in [
            "ghp_0123456789abcdef0123",
            "github_pat_11ABCDE0123456789_abc",
            "glpat-0123456789abcdefghij",
            "e2b_0123456789abcdef0123456789abcdef01234567",
            "emergent_0123456789abcdef",
            "sk-proj-abcdefghij0123456789",
            "sk-ant-api03-abcdefghij0123456789",
            "xoxb-0123456789-abcdefghij",
            "AKIA0123456789ABCDEF",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
            "eyJhdXRocyI6eyJ4Ijoi+/==",
            "AIzaSyA0123456789abcdefghijklmnopqrstuvw",
            "npm_0123456789abcdefghijABCDEFGHIJ012345",
            "hf_0123456789abcdefghij",
        ] {
            check(&format!("echo {token} > t"), "echo [hidden] > t");
            check(&format!("x=\"{token}\""), "x=\"[hidden]\"");
            check(&format!("\\\"{token}\\\"}}"), "\\\"[hidden]\\\"}");
        }
        check("echo xAKIA0123456789ABCDEF", "echo x[hidden]");
        check(
            "echo '-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb\n-----END OPENSSH PRIVATE KEY-----' > k",
            "echo '[hidden]' > k",
        );
        check("-----BEGIN PRIVATE KEY-----\nMIIE", "[hidden]");
    }

    /// Every mixture of what means something here.
    #[test]
    fn any_text_can_be_read() {
        let parts = [
            "\\",
            "\"",
            "'",
            "password",
            "--token",
            "-u",
            "=",
            ":",
            " ",
            "://",
            "@",
            "ä🙂",
            "$X",
            "${",
            "[",
            "]",
            "\n",
            ",",
            "Bearer",
            "Authorization",
            "ghp_0123456789abcdef0123",
            "-----BEGIN PRIVATE KEY-----",
            "-----END ",
            "AKIA",
            "eyJ",
        ];
        let mut state = 7_u32;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..8 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text.push_str(parts[(state >> 16) as usize % parts.len()]);
            }
            assert!(!hidden(&text).contains("0123456789abcdef0123"), "{text:?}");
        }
    }
}
