//! What becomes of a build when the program that makes it behaves in all sorts of ways. The real
//! program is run by the suite `host`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::fs;
use std::future::pending;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use emergent_images::debian::{BuildError, Built, Options, build};

/// A program in place of the real one. `$target` is where it is to write.
struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        let program = folder.path().join("program");
        // A suite and no mirror are given, so the target is the last argument.
        let text = format!("#!/bin/sh\nfor target; do :; done\necho $$ >\"$TMPDIR/../../pid\"\n{script}");
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    fn options(&self) -> Options {
        Options {
            suite: Some("suite".into()),
            packages: vec!["git".into()],
            work_folder: self.folder.path().join("work"),
            program: self.folder.path().join("program"),
            ..Options::default()
        }
    }

    fn target(&self) -> PathBuf {
        self.folder.path().join("image.tar")
    }

    async fn build(&self, options: Options, cancel: impl Future<Output = ()>) -> Result<Built, BuildError> {
        build(options, &self.target(), |_| {}, cancel).await
    }

    /// Nothing runs, and nothing lies around.
    fn assert_nothing_is_left(&self) {
        assert_eq!(fs::read_dir(self.folder.path().join("work")).unwrap().count(), 0);
        assert!(!self.folder.path().join("image.tar.partial").exists());
        if let Ok(pid) = fs::read_to_string(self.folder.path().join("pid")) {
            assert!(!self.is_alive(pid.trim()), "it is still there");
        }
    }

    fn is_alive(&self, pid: &str) -> bool {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains("program"))
    }
}

#[tokio::test]
async fn lines_arrive_and_the_image_is_there_in_the_end() {
    let stage = Stage::new("echo one >&2; printf 'two\\rthree' >&2; echo >&2; printf image >\"$target\"");
    let mut lines = Vec::new();
    let built = build(stage.options(), &stage.target(), |line| lines.push(line.to_owned()), pending()).await;
    assert_eq!(built.unwrap().bytes, 5);
    assert_eq!(lines, ["one", "two", "three"]);
    assert_eq!(fs::read_to_string(stage.target()).unwrap(), "image");
    stage.assert_nothing_is_left();
}

#[tokio::test]
async fn a_failure_says_what_was_said_last() {
    let stage = Stage::new("for n in $(seq 50); do echo line $n >&2; done; echo half >\"$target\"; exit 3");
    match stage.build(stage.options(), pending()).await {
        Err(BuildError::Failed { status, last_lines, .. }) => {
            assert_eq!(status.code(), Some(3));
            assert_eq!((last_lines.len(), last_lines.last().unwrap().as_str()), (20, "line 50"));
        }
        other => panic!("{other:?}"),
    }
    assert!(!stage.target().exists());
    stage.assert_nothing_is_left();
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let stage = Stage::new("");
    let options = Options { program: "no-such-program-anywhere".into(), ..stage.options() };
    let error = stage.build(options, pending()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`mmdebstrap` is not installed; on Debian and Ubuntu: apt-get install mmdebstrap"
    );
    stage.assert_nothing_is_left();
}

/// Tidies up after itself when it is asked to end, as the real one does.
const PATIENT: &str = "\
trap 'echo tidying >&2; rm -rf \"$TMPDIR/root\"; exit 1' TERM
mkdir \"$TMPDIR/root\"; echo half >\"$target\"; echo started >&2
while :; do sleep 0.1; done";

#[tokio::test]
async fn cancelling_waits_until_everything_is_removed() {
    let stage = Stage::new(PATIENT);
    let (started, wait) = tokio::sync::oneshot::channel();
    let mut started = Some(started);
    let target = stage.target();
    let building = build(
        stage.options(),
        &target,
        |line| {
            if let Some(started) = started.take_if(|_| line == "started") {
                started.send(()).unwrap();
            }
        },
        async {
            wait.await.unwrap();
        },
    );
    let begun = Instant::now();
    assert!(matches!(building.await, Err(BuildError::Cancelled)));
    assert!(begun.elapsed() < Duration::from_secs(20));
    stage.assert_nothing_is_left();
}

#[tokio::test]
async fn the_time_is_limited() {
    let stage = Stage::new(PATIENT);
    let options = Options { time: Duration::from_millis(500), ..stage.options() };
    match stage.build(options, pending()).await {
        Err(BuildError::TimedOut { last_line, .. }) => assert_eq!(last_line, "started"),
        other => panic!("{other:?}"),
    }
    stage.assert_nothing_is_left();
}

#[tokio::test]
async fn dropping_ends_it_as_well() {
    let stage = Stage::new(PATIENT);
    let building = stage.build(stage.options(), pending());
    assert!(tokio::time::timeout(Duration::from_millis(500), building).await.is_err());
    let pid = fs::read_to_string(stage.folder.path().join("pid")).unwrap();
    let begun = Instant::now();
    let is_left = || {
        stage.is_alive(pid.trim())
            || fs::read_dir(stage.folder.path().join("work")).unwrap().count() > 0
            || stage.folder.path().join("image.tar.partial").exists()
    };
    while is_left() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it goes on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stage.assert_nothing_is_left();
}

#[tokio::test]
async fn an_endless_line_is_no_endless_memory() {
    let stage = Stage::new("yes | tr -d '\\n' | head -c 20000000 >&2; printf image >\"$target\"");
    let mut longest = 0;
    build(stage.options(), &stage.target(), |line| longest = longest.max(line.len()), pending())
        .await
        .unwrap();
    assert_eq!(longest, 4096);
}
