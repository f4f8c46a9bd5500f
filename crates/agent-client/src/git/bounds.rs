//! What is taken from an agent's answer about a repository.

use crate::AgentError;

/// The most paths, branches or commits of one list.
const MAX_LISTED: usize = 10_000;

/// The most parents of one commit.
pub(super) const MAX_PARENTS: usize = 256;

/// The longest name or path.
const MAX_NAME: usize = 64 << 10;

/// The longest diff or message. One answer is smaller than this anyway.
pub(super) const MAX_DIFF: usize = 4 << 20;

/// The first of a list, and whether there were more.
pub(super) fn listed<T, U>(
    list: Vec<T>,
    truncated: &mut bool,
    take: impl FnMut(T) -> Result<U, AgentError>,
) -> Result<Vec<U>, AgentError> {
    *truncated |= list.len() > MAX_LISTED;
    list.into_iter().take(MAX_LISTED).map(take).collect()
}

/// A text that is no longer than it may be.
pub(super) fn text(text: String, limit: usize) -> Result<String, AgentError> {
    if text.len() > limit {
        return Err(AgentError::malformed("git", format!("a text of {} bytes", text.len())));
    }
    Ok(text)
}

/// A name or path.
pub(super) fn name(name: String) -> Result<String, AgentError> {
    text(name, MAX_NAME)
}

/// A name that may be missing.
pub(super) fn optional(name: String) -> Result<Option<String>, AgentError> {
    self::name(name).map(|name| (!name.is_empty()).then_some(name))
}

/// The id of a commit.
pub(super) fn commit(id: String) -> Result<String, AgentError> {
    let is_id = (40..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id { Ok(id) } else { Err(AgentError::malformed("git", "no commit id where one belongs")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_are_ids() {
        assert!(commit("0123456789abcdef0123456789abcdef01234567".to_owned()).is_ok());
        assert!(commit("a".repeat(64)).is_ok());
        for odd in ["", "main", "g123456789abcdef0123456789abcdef01234567"] {
            assert!(commit(odd.to_owned()).is_err(), "{odd}");
        }
        assert!(commit("a".repeat(65)).is_err());
    }

    #[test]
    fn what_is_too_much_is_cut_or_refused() {
        let mut truncated = false;
        let list = listed(vec![0u8; MAX_LISTED], &mut truncated, Ok).unwrap();
        assert_eq!((list.len(), truncated), (MAX_LISTED, false));
        let list = listed(vec![0u8; MAX_LISTED + 1], &mut truncated, Ok).unwrap();
        assert_eq!((list.len(), truncated), (MAX_LISTED, true));
        assert!(name("x".repeat(MAX_NAME + 1)).is_err());
        assert_eq!(optional(String::new()).unwrap(), None);
    }
}
