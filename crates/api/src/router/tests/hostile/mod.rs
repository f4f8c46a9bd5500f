//! Root in a sandbox can replace the agent. Whatever stands there, every tool endpoint answers in time and says what
//! is wrong, others are served meanwhile, and nothing piles up.

mod agent;
mod calls;
mod lies;
mod stage;

use std::time::Duration;

use agent::Behaviour;
use calls::{CALLS, Outcome};
use stage::Stage;

/// How long the server may take where the agent does not keep it waiting.
const AT_ONCE: Duration = Duration::from_secs(10);

/// What the server itself may take longer than the agent.
const ALLOWANCE: Duration = Duration::from_secs(5);

/// How much more memory may be in use afterwards, whatever was sent.
const MEMORY: u64 = 64 << 20;

/// What is said of an agent that is not what it should be.
const UNSOUND: [&str; 2] = ["agent_misbehaved", "agent_unreachable"];

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Calls everything, one after the other, while the neighbour is called as well.
async fn all_at_once(stage: &Stage, behaviour: Behaviour, judge: impl Fn(&str, &Outcome)) {
    let (id, _) = stage.workspace(behaviour.clone()).await;
    for call in &CALLS {
        let made = tokio::time::timeout(AT_ONCE, call.make(stage.router(), id));
        let (outcome, ()) = tokio::join!(made, stage.neighbour_is_served());
        let outcome = outcome.unwrap_or_else(|_| panic!("{}: no end with {behaviour:?}", call.name));
        judge(call.name, &outcome);
    }
}

/// Calls everything at the same time under a clock that jumps to whatever is waited for, and says how long each
/// took by that clock. The neighbour is called while the calls wait, and afterwards.
async fn all_in_time(stage: &Stage, behaviour: Behaviour, judge: impl Fn(&str, &Outcome)) {
    let (id, _) = stage.workspace(behaviour.clone()).await;
    let calls: Vec<_> = CALLS
        .iter()
        .map(|call| {
            let router = stage.router().clone();
            tokio::spawn(async move {
                let began = tokio::time::Instant::now();
                let outcome = call.make(&router, id).await;
                (call, outcome, began.elapsed())
            })
        })
        .collect();
    stage.neighbour_is_served().await;
    tokio::time::pause();
    for call in calls {
        let (call, outcome, took) = call.await.unwrap();
        let name = format!("{} with {behaviour:?}", call.name);
        assert!(took <= call.limit + ALLOWANCE, "{name}: {took:?}, {outcome:?}");
        judge(&name, &outcome);
    }
    tokio::time::resume();
    stage.neighbour_is_served().await;
}

#[tokio::test]
async fn answers_that_make_no_sense_are_said_to_make_none() {
    let stage = Stage::set().await;
    all_at_once(&stage, Behaviour::Garbage, |call, outcome| {
        assert_eq!(outcome.code(), Some("agent_misbehaved"), "{call}: {outcome:?}");
    })
    .await;
    for behaviour in [Behaviour::BreaksOff, Behaviour::NoGrpc, Behaviour::HangsUp] {
        all_at_once(&stage, behaviour.clone(), |call, outcome| {
            let is_said = outcome.code().is_some_and(|code| UNSOUND.contains(&code));
            assert!(is_said, "{call} with {behaviour:?}: {outcome:?}");
        })
        .await;
    }
    stage.end().await;
}

/// A message that is too long is refused before it is received.
#[tokio::test]
async fn an_oversized_answer_is_not_received() {
    let stage = Stage::set().await;
    let before = resident_bytes();
    for length in [5 << 20, u32::MAX] {
        let (id, agent) = stage.workspace(Behaviour::Announces(length)).await;
        for call in &CALLS {
            let made = tokio::time::timeout(AT_ONCE, call.make(stage.router(), id));
            let (outcome, ()) = tokio::join!(made, stage.neighbour_is_served());
            let outcome = outcome.unwrap();
            assert_eq!(outcome.code(), Some("agent_misbehaved"), "{}: {outcome:?}", call.name);
        }
        assert!(agent.sent() < MEMORY, "{} bytes went out in all calls together", agent.sent());
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < MEMORY, "{grown} bytes more");
    stage.end().await;
}

/// Whoever waits for an agent that says nothing, or begins and says no more, is told so in the end.
#[tokio::test]
async fn an_agent_that_says_nothing_is_given_up() {
    let stage = Stage::set().await;
    all_in_time(&stage, Behaviour::Silent, |call, outcome| {
        assert_eq!(outcome.code(), Some("timeout"), "{call}: {outcome:?}");
    })
    .await;
    stage.end().await;
}

/// A terminal that shows nothing is one; it ends with its client, which is silent too.
#[tokio::test]
async fn an_answer_that_begins_and_goes_no_further_is_given_up() {
    let stage = Stage::set().await;
    let (id, _) = stage.workspace(Behaviour::Begins).await;
    for call in CALLS.iter().filter(|call| call.name != "terminal") {
        tokio::time::pause();
        let began = tokio::time::Instant::now();
        let outcome = call.make(stage.router(), id).await;
        let took = began.elapsed();
        tokio::time::resume();
        assert_eq!(outcome.code(), Some("timeout"), "{}: {outcome:?}", call.name);
        assert!(took <= call.limit + ALLOWANCE, "{}: {took:?}", call.name);
    }
    stage.neighbour_is_served().await;
    stage.end().await;
}

#[tokio::test]
async fn an_answer_without_end_is_broken_off_and_not_kept() {
    let stage = Stage::set().await;
    let before = resident_bytes();
    for behaviour in [Behaviour::Drips, Behaviour::Nothings] {
        all_in_time(&stage, behaviour, |call, outcome| {
            let is_said = outcome.code().is_some_and(|code| code == "timeout" || UNSOUND.contains(&code));
            assert!(is_said, "{call}: {outcome:?}");
        })
        .await;
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < MEMORY, "{grown} bytes more");
    stage.end().await;
}

/// Nothing that an agent says gets out of the place where it belongs, and nothing of it is a failure of ours.
#[tokio::test]
async fn odd_numbers_and_texts_stay_where_they_belong() {
    let stage = Stage::set().await;
    all_at_once(&stage, Behaviour::Lies, |call, outcome| {
        let code = outcome.code();
        assert!(code.is_none_or(|code| code == "agent_misbehaved"), "{call}: {outcome:?}");
        // It names a file in which no file can be, has written what nobody sent, or sends what nobody asked for.
        let is_caught = ["bash", "bash, streamed", "exec", "upload", "download, a part"].contains(&call);
        assert_eq!(code.is_some(), is_caught, "{call}: {outcome:?}");
        // More was promised than came.
        assert_eq!(matches!(outcome, Outcome::CutOff), call == "download", "{call}: {outcome:?}");
        if let Outcome::Answered { status, .. } = outcome {
            assert!([101, 200, 201].contains(status), "{call}: {outcome:?}");
        }
        is_harmless(call, outcome);
    })
    .await;
    all_at_once(&stage, Behaviour::Fails, |call, outcome| {
        assert_eq!(outcome.code(), Some("file_not_found"), "{call}: {outcome:?}");
        assert!(outcome.text().len() < 64 << 10, "{call}: {} bytes", outcome.text().len());
        is_harmless(call, outcome);
    })
    .await;
    stage.end().await;
}

/// No line of a stream of events and no byte that a terminal obeys is the agent's. What a terminal or a tunnel
/// carries is the sandbox's own.
fn is_harmless(call: &str, outcome: &Outcome) {
    let text = outcome.text();
    assert!(!text.lines().any(|line| line == "event: exit"), "{call}: {text:?}");
    let is_socket = call.starts_with("terminal") || call.starts_with("tunnel");
    let is_plain = |character: char| !character.is_control() || character == '\n';
    assert!(is_socket || text.chars().all(is_plain), "{call}: {text:?}");
}

/// What should be text in an answer and is none spoils the answer.
#[tokio::test]
async fn texts_that_are_none_are_no_answers() {
    let stage = Stage::set().await;
    let without_texts =
        ["bash, background", "write", "download", "upload", "process, signal", "process, output"];
    all_at_once(&stage, Behaviour::NoText, |call, outcome| {
        let has_texts = !without_texts.contains(&call) && !call.starts_with("t");
        let expect = has_texts.then_some("agent_misbehaved");
        assert!(!has_texts || outcome.code() == expect, "{call}: {outcome:?}");
        assert_ne!(outcome.code(), Some("internal_error"), "{call}: {outcome:?}");
    })
    .await;
    stage.end().await;
}

/// Where not even the greeting succeeds, the workspace is looked after meanwhile, and is not ready then.
#[tokio::test]
async fn streams_that_are_none_are_said_to_be_none() {
    let stage = Stage::set().await;
    for behaviour in [Behaviour::NeverGreets, Behaviour::NoHttp2, Behaviour::BrokenFrames] {
        all_in_time(&stage, behaviour, |call, outcome| {
            let is_said = outcome.code().is_some_and(|code| {
                UNSOUND.contains(&code) || ["timeout", "workspace_not_ready"].contains(&code)
            });
            assert!(is_said, "{call}: {outcome:?}");
        })
        .await;
    }
    stage.end().await;
}
