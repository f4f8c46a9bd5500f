//! What may be asked of a workspace in which state. Pure and total.

use emergent_types::{StopMode, WorkspaceStatus};

/// What somebody wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Stop(StopMode),
    Resume,
    Destroy,
    /// Make its sandbox anew, where there is none that could be repaired.
    Remake,
}

/// What to do about a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Do it.
    Begin,
    /// It is so already: succeed without doing anything.
    AlreadySo,
    /// It is being done already: share the outcome.
    Join,
    /// Not in this state.
    Refuse,
}

/// The verdict on a wish in a state.
pub(crate) fn judge(status: WorkspaceStatus, wish: Wish) -> Verdict {
    use Verdict::{AlreadySo, Begin, Join, Refuse};
    use WorkspaceStatus::{Creating, Destroying, Failed, Ready, Resuming, Stopped, Stopping};
    match (wish, status) {
        (Wish::Stop(_), Ready) => Begin,
        (Wish::Stop(_), Stopped) => AlreadySo,
        (Wish::Stop(_), Stopping) => Join,
        (Wish::Stop(_), Creating | Resuming | Destroying | Failed) => Refuse,
        (Wish::Resume, Stopped) => Begin,
        (Wish::Resume, Ready) => AlreadySo,
        (Wish::Resume, Resuming) => Join,
        (Wish::Resume, Creating | Stopping | Destroying | Failed) => Refuse,
        (Wish::Remake, Failed) => Begin,
        (Wish::Remake, Ready) => AlreadySo,
        (Wish::Remake, Creating | Resuming | Stopping | Stopped | Destroying) => Refuse,
        (Wish::Destroy, Destroying) => Join,
        // A destroy of something half made cancels the making.
        (Wish::Destroy, _) => Begin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destroy_is_always_possible() {
        for status in WorkspaceStatus::ALL {
            assert_ne!(judge(*status, Wish::Destroy), Verdict::Refuse, "{status}");
        }
    }

    #[test]
    fn stop_and_resume_are_no_ops_where_they_lead() {
        assert_eq!(judge(WorkspaceStatus::Stopped, Wish::Stop(StopMode::Disk)), Verdict::AlreadySo);
        assert_eq!(judge(WorkspaceStatus::Ready, Wish::Resume), Verdict::AlreadySo);
    }

    #[test]
    fn nothing_but_destroy_is_possible_while_destroying_or_failed() {
        for status in [WorkspaceStatus::Destroying, WorkspaceStatus::Failed] {
            assert_eq!(judge(status, Wish::Stop(StopMode::Memory)), Verdict::Refuse);
            assert_eq!(judge(status, Wish::Resume), Verdict::Refuse);
        }
    }
}
