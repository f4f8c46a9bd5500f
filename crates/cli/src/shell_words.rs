//! Words of a command line, as a shell reads them back.

/// One string that a shell splits into exactly these words. A single word is a whole command
/// already and stays as it is.
pub(crate) fn to_command(words: &[String]) -> String {
    match words {
        [command] => command.clone(),
        words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    }
}

fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], expect: &str) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(to_command(&words), expect);
    }

    #[test]
    fn a_single_word_is_a_command() {
        check(&["echo $HOME | wc -c"], "echo $HOME | wc -c");
    }

    #[test]
    fn several_words_stay_what_they_are() {
        check(&["ls", "-l", "/tmp"], "ls -l /tmp");
        check(&["echo", "$HOME", "a b", ""], "echo '$HOME' 'a b' ''");
        check(&["echo", "it's"], r"echo 'it'\''s'");
        check(&["echo", "a;b", "~", "*", "ä"], "echo 'a;b' '~' '*' 'ä'");
    }
}
