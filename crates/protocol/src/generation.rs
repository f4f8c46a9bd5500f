//! Which protocol generations understand each other.

/// The generation this build speaks. Raised when a message changes its meaning.
pub const GENERATION: u32 = 1;

/// The oldest generation still served: live workspaces hold older agents after an upgrade
/// of the server, and older servers may be rolled back to under newer agents.
const OLDEST: u32 = if GENERATION > 1 { GENERATION - 1 } else { 1 };

/// The peer speaks a generation that is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedGeneration {
    /// What the peer speaks.
    pub theirs: u32,
}

impl std::fmt::Display for UnsupportedGeneration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "protocol generation {} is not served; this side speaks {OLDEST} to {GENERATION}",
            self.theirs
        )
    }
}

impl std::error::Error for UnsupportedGeneration {}

/// The generation to speak with a peer: the lower of the two, if it is still served. Both
/// ends compute this from the other's number and come to the same answer.
pub fn agree(theirs: u32) -> Result<u32, UnsupportedGeneration> {
    agree_between(GENERATION, OLDEST, theirs)
}

fn agree_between(ours: u32, oldest: u32, theirs: u32) -> Result<u32, UnsupportedGeneration> {
    let common = ours.min(theirs);
    // A newer peer decides by its own rule whether it still serves ours.
    if common >= oldest { Ok(common) } else { Err(UnsupportedGeneration { theirs }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generation_before_is_served_and_no_older() {
        assert_eq!(agree_between(5, 4, 5), Ok(5));
        assert_eq!(agree_between(5, 4, 4), Ok(4));
        assert_eq!(agree_between(5, 4, 3), Err(UnsupportedGeneration { theirs: 3 }));
    }

    #[test]
    fn a_newer_peer_is_met_at_our_own_generation() {
        assert_eq!(agree_between(5, 4, 6), Ok(5));
    }

    #[test]
    fn zero_is_no_generation() {
        assert!(agree(0).is_err());
        assert_eq!(agree(GENERATION), Ok(GENERATION));
    }
}
