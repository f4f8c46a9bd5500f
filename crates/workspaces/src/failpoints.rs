//! Places where a test can end a server: before and after every durable step.
//!
//! [`Place::ALL`] is the one table of them. Suites that kill a server take it as their list, so a new step
//! that has a place is tried on every provider, and one that no suite can reach fails them.
//!
//! Nothing is armed in a server that people run, and a place that is not armed costs a look at an `Option`.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

macro_rules! places {
    ($($place:ident = $name:literal,)*) => {
        /// A place before or after a durable step.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Place {
            $(#[doc = $name] $place,)*
        }

        impl Place {
            /// Every place, in the order of a workspace's life.
            pub const ALL: &[Self] = &[$(Self::$place,)*];

            /// What it is called: the operation, and how far it has come.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$place => $name,)*
                }
            }
        }
    };
}

places! {
    CreateBeforeTheRow = "create: before the row",
    CreateRowWritten = "create: row written",
    CreateSandboxMade = "create: sandbox made",
    CreateSandboxRecorded = "create: sandbox recorded",
    CreateAgentGreeted = "create: agent greeted",
    CreateReady = "create: ready",
    RefillBeforeTheRow = "refill: before the row",
    RefillRowWritten = "refill: row written",
    ClaimBeforeTheRow = "claim: before the row",
    ClaimRowWritten = "claim: row written",
    ClaimLimitsAdjusted = "claim: limits adjusted",
    ClaimAgentTold = "claim: agent told",
    StopBeforeTheIntent = "stop: before the intent",
    StopIntentWritten = "stop: intent written",
    StopSandboxStopped = "stop: sandbox stopped",
    StopWritten = "stop: written",
    ResumeBeforeTheIntent = "resume: before the intent",
    ResumeIntentWritten = "resume: intent written",
    ResumeSandboxStarted = "resume: sandbox started",
    ResumeWritten = "resume: written",
    DestroyBeforeTheIntent = "destroy: before the intent",
    DestroyIntentWritten = "destroy: intent written",
    DestroySandboxRemoved = "destroy: sandbox removed",
    DestroyRowRemoved = "destroy: row removed",
    SnapshotBeforeTheRow = "snapshot: before the row",
    SnapshotRowWritten = "snapshot: row written",
    SnapshotCopied = "snapshot: copied",
    SnapshotWritten = "snapshot: written",
    DeletionBeforeTheIntent = "deletion: before the intent",
    DeletionIntentWritten = "deletion: intent written",
    DeletionCopyRemoved = "deletion: copy removed",
    AdoptBefore = "adopt: before",
    AdoptAllHaveOwners = "adopt: all have owners",
}

impl Place {
    /// The place of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|place| place.name() == name)
    }
}

/// Which of the places ends a server, and how.
#[derive(Clone, Default)]
pub struct Failpoints(Option<Arc<Armed>>);

struct Armed {
    /// The next place that matters.
    at: Mutex<Option<Place>>,
    how: Ending,
}

enum Ending {
    /// Who comes there stays there until they are let fall.
    Held { reached: watch::Sender<bool>, fallen: watch::Sender<bool> },
    /// The whole process ends.
    Killed,
}

impl Failpoints {
    /// Kills the process where this is reached.
    pub fn killing_at(place: Place) -> Self {
        Self(Some(Arc::new(Armed { at: Mutex::new(Some(place)), how: Ending::Killed })))
    }

    /// Holds whoever comes to a place that is [armed](Self::arm), so that a test can end the server just there.
    pub fn holding() -> Self {
        let how = Ending::Held { reached: watch::Sender::new(false), fallen: watch::Sender::new(false) };
        Self(Some(Arc::new(Armed { at: Mutex::default(), how })))
    }

    /// The next who comes here is held.
    pub fn arm(&self, place: Place) {
        if let Some(armed) = &self.0 {
            *armed.at.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
        }
    }

    /// Returns when somebody is held.
    pub async fn reached(&self) {
        if let Some(Armed { how: Ending::Held { reached, .. }, .. }) = self.0.as_deref() {
            // The sender is this very object.
            let _ = reached.subscribe().wait_for(|reached| *reached).await;
        }
    }

    /// Whoever is held ends there, as a killed server does: without a further step.
    pub fn let_fall(&self) {
        if let Some(Armed { how: Ending::Held { fallen, .. }, .. }) = self.0.as_deref() {
            fallen.send_replace(true);
        }
    }

    /// The server is at this place now.
    pub(crate) async fn reach(&self, place: Place) {
        let Some(armed) = &self.0 else { return };
        {
            let mut at = armed.at.lock().unwrap_or_else(PoisonError::into_inner);
            if *at != Some(place) {
                return;
            }
            *at = None;
        }
        match &armed.how {
            Ending::Killed => {
                let _ =
                    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
                std::future::pending::<()>().await;
            }
            Ending::Held { reached, fallen } => {
                reached.send_replace(true);
                let _ = fallen.subscribe().wait_for(|fallen| *fallen).await;
                // Ends the task, and says nothing: this is no mistake of anybody's.
                std::panic::resume_unwind(Box::new(place.name()))
            }
        }
    }
}

impl fmt::Debug for Failpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Failpoints(armed)" } else { "Failpoints(none)" })
    }
}
