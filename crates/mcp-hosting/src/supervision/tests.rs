use proptest::prelude::*;

use super::*;

/// A program on a clock that a test moves.
struct Played {
    supervision: Supervision,
}

impl Played {
    fn new(policy: RestartPolicy) -> Self {
        Self { supervision: Supervision::new(policy) }
    }

    fn on(&mut self, input: Input) -> Action {
        let (next, action) = self.supervision.clone().step(input, Instant::now());
        self.supervision = next;
        action
    }

    /// It ends, and is started again when its time has come. Returns how long that took; `None` where it is
    /// left alone.
    async fn crash(&mut self) -> Option<Duration> {
        let end = Instant::now();
        assert_eq!(self.on(Input::Down { clean: false }), Action::Nothing);
        let State::Waiting { until, backing_off } = self.supervision.state else { return None };
        assert_eq!(backing_off, until > end);
        tokio::time::sleep_until(until).await;
        assert_eq!(self.on(Input::Due), Action::Start);
        assert_eq!(self.on(Input::Up), Action::Nothing);
        Some(until.duration_since(end))
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Proves: LIFE-22
#[tokio::test(start_paused = true)]
async fn a_program_that_ends_is_started_again_within_five_seconds() {
    let mut program = Played::new(RestartPolicy::Always);
    program.on(Input::Up);
    assert!(program.crash().await.is_some_and(|took| took <= 5 * SECOND));
    assert_eq!(program.supervision.restarts, 1);
}

/// Proves: LIFE-23
#[tokio::test(start_paused = true)]
async fn more_than_three_ends_in_a_minute_are_answered_with_patience() {
    let mut program = Played::new(RestartPolicy::Always);
    program.on(Input::Up);
    let mut waited = Vec::new();
    for _ in 0..10 {
        waited.push(program.crash().await.unwrap().as_secs());
        tokio::time::sleep(SECOND).await;
    }
    assert_eq!(waited, [0, 0, 0, 5, 15, 45, 120, 300, 300, 300]);
}

#[tokio::test(start_paused = true)]
async fn only_sustained_uptime_is_forgiven() {
    let mut program = Played::new(RestartPolicy::Always);
    program.on(Input::Up);
    for expect in [0, 0, 0, 5] {
        assert_eq!(program.crash().await.unwrap().as_secs(), expect);
    }
    tokio::time::sleep(SUSTAINED - SECOND).await;
    assert_eq!(program.crash().await.unwrap().as_secs(), 15, "not long enough");
    tokio::time::sleep(SUSTAINED).await;
    for expect in [0, 0, 0, 5] {
        assert_eq!(program.crash().await.unwrap().as_secs(), expect, "forgotten");
    }
}

#[tokio::test(start_paused = true)]
async fn ends_that_lie_far_apart_are_no_loop() {
    let mut program = Played::new(RestartPolicy::Always);
    program.on(Input::Up);
    for _ in 0..20 {
        tokio::time::sleep(21 * SECOND).await;
        assert_eq!(program.crash().await, Some(Duration::ZERO));
    }
}

/// A program that takes a minute to come to nothing never ends twice within one.
#[tokio::test(start_paused = true)]
async fn starts_that_come_to_nothing_are_a_loop_however_long_they_take() {
    let mut program = Played::new(RestartPolicy::Always);
    let mut waited = Vec::new();
    for _ in 0..6 {
        tokio::time::sleep(61 * SECOND).await;
        let end = Instant::now();
        program.on(Input::Down { clean: false });
        let State::Waiting { until, .. } = program.supervision.state else { panic!("it is given up") };
        waited.push(until.duration_since(end).as_secs());
        tokio::time::sleep_until(until).await;
        program.on(Input::Due);
    }
    assert_eq!(waited, [0, 0, 0, 5, 15, 45]);
    program.on(Input::Up);
    tokio::time::sleep(SUSTAINED).await;
    assert_eq!(program.crash().await, Some(Duration::ZERO), "forgotten");
}

#[tokio::test(start_paused = true)]
async fn policies_say_which_end_is_final() {
    let check = |policy, clean, expect| {
        let mut program = Played::new(policy);
        program.on(Input::Up);
        program.on(Input::Down { clean });
        assert_eq!(program.supervision.state == State::Ended, expect, "{policy} {clean}");
        assert_eq!(program.on(Input::Restart), Action::Start, "somebody may always ask");
    };
    check(RestartPolicy::Always, true, false);
    check(RestartPolicy::Always, false, false);
    check(RestartPolicy::OnFailure, true, true);
    check(RestartPolicy::OnFailure, false, false);
    check(RestartPolicy::Never, true, true);
    check(RestartPolicy::Never, false, true);
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_is_asked_for_starts_over() {
    let mut program = Played::new(RestartPolicy::Always);
    program.on(Input::Up);
    for _ in 0..5 {
        program.crash().await;
    }
    assert_eq!(program.on(Input::Restart), Action::End);
    assert_eq!(program.on(Input::Restart), Action::Nothing, "it is under way");
    assert_eq!(program.on(Input::Down { clean: false }), Action::Start);
    assert_eq!(program.supervision.restarts, 0);
    program.on(Input::Up);
    assert_eq!(program.crash().await, Some(Duration::ZERO), "nothing is held against it");
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_answer_is_marked_and_left_alone() {
    let mut program = Played::new(RestartPolicy::Always);
    program.on(Input::Up);
    for (answered, deaf) in [(false, true), (false, true), (true, false)] {
        assert_eq!(program.on(Input::Asked { answered }), Action::Nothing);
        assert!(matches!(program.supervision.state, State::Running { deaf: now, .. } if now == deaf));
    }
}

fn inputs() -> impl Strategy<Value = Input> {
    prop_oneof![
        Just(Input::Up),
        any::<bool>().prop_map(|clean| Input::Down { clean }),
        Just(Input::Due),
        any::<bool>().prop_map(|answered| Input::Asked { answered }),
        Just(Input::Restart),
        Just(Input::Close),
    ]
}

proptest! {
    /// Whatever happens in whatever order: there is one process at most, a process that runs is ended before
    /// the next is started, and nothing is started after the end.
    #[test]
    fn there_is_never_a_second_process(inputs in proptest::collection::vec(inputs(), 0..200)) {
        let mut supervision = Supervision::new(RestartPolicy::Always);
        let (mut alive, mut closed, start) = (true, false, Instant::now());
        for (number, input) in inputs.into_iter().enumerate() {
            // What cannot happen does not: only a process can come up and go down.
            if !alive && matches!(input, Input::Up | Input::Down { .. } | Input::Asked { .. }) {
                continue;
            }
            alive &= !matches!(input, Input::Down { .. });
            closed |= input == Input::Close;
            let now = start + Duration::from_secs(number as u64);
            let (next, action) = supervision.step(input, now);
            supervision = next;
            if action == Action::Start {
                prop_assert!(!alive, "a second process");
                prop_assert!(!closed, "started after the end");
                alive = true;
            }
            prop_assert!(action != Action::End || alive, "nothing to end");
        }
    }
}
