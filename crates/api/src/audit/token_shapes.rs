//! What well-known tokens look like.

/// How a kind of token begins, what it consists of, and how long it is at least.
struct Shape {
    prefix: &'static str,
    is_part: fn(char) -> bool,
    min_bytes: usize,
    /// Other words have its beginning in them, and names that people give begin like it; but these
    /// seldom have a digit.
    ambiguous: bool,
}

const fn shape(prefix: &'static str, is_part: fn(char) -> bool, min_bytes: usize) -> Shape {
    Shape { prefix, is_part, min_bytes, ambiguous: false }
}

const fn ambiguous(prefix: &'static str, is_part: fn(char) -> bool, min_bytes: usize) -> Shape {
    Shape { prefix, is_part, min_bytes, ambiguous: true }
}

const SHAPES: [Shape; 24] = [
    shape("github_pat_", letter, 24),
    shape("ghp_", letter, 20),
    shape("gho_", letter, 20),
    shape("ghs_", letter, 20),
    shape("ghu_", letter, 20),
    shape("ghr_", letter, 20),
    ambiguous("glpat-", dashed, 20),
    ambiguous("sk-", dashed, 20),
    ambiguous("sk_live_", letter, 20),
    ambiguous("sk_test_", letter, 20),
    ambiguous("rk_live_", letter, 20),
    ambiguous("xoxa-", dashed, 16),
    ambiguous("xoxb-", dashed, 16),
    ambiguous("xoxp-", dashed, 16),
    ambiguous("xoxs-", dashed, 16),
    ambiguous("xapp-", dashed, 16),
    ambiguous("AIza", dashed, 35),
    ambiguous("ya29.", dashed, 20),
    ambiguous("npm_", letter, 36),
    ambiguous("pypi-", dashed, 20),
    ambiguous("hf_", letter, 20),
    ambiguous("eyJ", base64, 16),
    shape("emergent_", hex, 25),
    shape("e2b_", hex, 20),
];

/// The keys of a cloud, which have no mark between them and what comes before.
const ACCESS_KEYS: [&str; 2] = ["AKIA", "ASIA"];
const ACCESS_KEY_BYTES: usize = 20;

/// Where in `word`, which is followed by `after`, a token begins, and how far it goes, perhaps
/// beyond the word.
pub(super) fn find(word: &str, after: &str) -> Option<(usize, usize)> {
    access_key(word).or_else(|| SHAPES.iter().find_map(|shape| shape.find(word, after)))
}

fn access_key(word: &str) -> Option<(usize, usize)> {
    ACCESS_KEYS.iter().find_map(|prefix| {
        let begin = word.find(prefix)?;
        let key = word.get(begin..begin + ACCESS_KEY_BYTES)?;
        let is_key = key.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        is_key.then_some((begin, begin + ACCESS_KEY_BYTES))
    })
}

impl Shape {
    fn find(&self, word: &str, after: &str) -> Option<(usize, usize)> {
        let begin = if self.ambiguous { begins(word, self.prefix)? } else { word.find(self.prefix)? };
        let body = begin + self.prefix.len();
        let token = || word[body..].chars().chain(after.chars()).take_while(|c| (self.is_part)(*c));
        let end = body + token().map(char::len_utf8).sum::<usize>();
        let is_one =
            end - begin >= self.min_bytes && (!self.ambiguous || token().any(|c| c.is_ascii_digit()));
        is_one.then_some((begin, end))
    }
}

/// Where `prefix` begins a word or a part of one.
fn begins(word: &str, prefix: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(found) = word[from..].find(prefix).map(|found| from + found) {
        if !word[..found].ends_with(char::is_alphanumeric) {
            return Some(found);
        }
        from = found + prefix.len();
    }
    None
}

fn letter(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn dashed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '/' | '=')
}

fn hex(c: char) -> bool {
    c.is_ascii_hexdigit()
}
