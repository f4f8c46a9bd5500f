//! Limits: each is reached from inside, and the sandbox goes on.

use std::time::{Duration, Instant};

use bytes::Bytes;
use emergent_agent_client::{
    AgentError, EditSpec, GitAction, GitAnswer, GitCheckoutRequest, GitCommitRequest, GitCommitScope,
};
use emergent_types::{AdjustableLimits, ByteSize, Cpu, Enforcement, WorkspaceId};

use super::{Subject, TestSandbox};
use crate::{ProviderError, SandboxSpec};

/// Allocates and touches far more than the limit.
const HOG: &str = "python3 -c 'x = bytearray(1 << 30); print(len(x))'";

/// Proves: LIFE-17
pub async fn memory_beyond_the_limit_kills_the_process_only(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox
        .client
        .start_process(&emergent_agent_client::CommandSpec::shell("sleep 600"))
        .await
        .expect("starts");
    let outcome = sandbox.run(HOG).await;
    assert_ne!(outcome.exit.code, 0, "{outcome:?}");
    assert!(outcome.exit.oom_killed, "{outcome:?}");
    assert_eq!(sandbox.sh("echo alive").await, "alive");
    let processes = sandbox.client.list_processes().await.expect("lists");
    assert!(processes.iter().all(|process| process.exit.is_none()), "a bystander died: {processes:?}");
    assert!(!sandbox.run("true").await.exit.oom_killed, "an old event is not a new one");
}

/// Of calls that run at once only the one is told so whose process was killed.
pub async fn an_oom_kill_is_told_of_the_call_that_it_hit(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    for hog in [HOG.to_owned(), format!("{HOG}; echo goes on; exit 3")] {
        let (hit, spared) = tokio::join!(sandbox.run(&hog), sandbox.run("sleep 4; echo spared"));
        assert!(hit.exit.code != 0 && hit.exit.oom_killed, "{hit:?}");
        assert!(spared.exit.code == 0 && !spared.exit.oom_killed, "beside {hog}: {spared:?}");
    }
}

/// A file in /tmp is memory, and so is one in every other folder that is not on the disk.
pub async fn memory_on_tmpfs_counts(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    for folder in ["/tmp", "/dev/shm", "/run", "/dev"] {
        let outcome = sandbox.run(&format!("head -c 1G /dev/zero > {folder}/big")).await;
        assert_ne!(outcome.exit.code, 0, "1 GiB fits into {folder}: {outcome:?}");
        sandbox.sh(&format!("rm -f {folder}/big; echo fine")).await;
    }
}

/// What a sandbox may take on the host beyond its disk: the host's own list of where the pieces of the disk are,
/// and what is written down about the sandbox.
const HOST_OVERHEAD: u64 = 1 << 20;

async fn fill(sandbox: &TestSandbox, folder: &str) {
    let limit = sandbox.spec.limits.disk.bytes();
    let outcome = sandbox.run(&format!("mkdir -p {folder} && cat /dev/zero > {folder}/filler")).await;
    assert_ne!(outcome.exit.code, 0);
    assert!(outcome.stderr.to_text().contains("No space left"), "{folder}: {}", outcome.stderr.to_text());
    let size: u64 = sandbox.sh(&format!("stat -c %s {folder}/filler")).await.parse().expect("a number");
    assert!(size < limit && size > limit / 3, "{folder}: {size} of {limit}");
}

/// Proves: LIFE-18
pub async fn a_full_disk_is_enospc_everywhere(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("echo readable > before").await;
    let elsewhere = ["/root/full", "/home/full", "/var/full", "/var/tmp/full", "/opt/full"];
    let mut folders = elsewhere.map(str::to_owned).to_vec();
    folders.push(sandbox.path("full"));
    for folder in &folders {
        fill(&sandbox, folder).await;
        assert_eq!(sandbox.sh("cat before").await, "readable");
        sandbox.sh(&format!("rm -r {folder}")).await;
    }
    takes_no_more_of_the_host(subject, &sandbox, &folders).await;
    sandbox.sh("echo writable > after").await;
}

/// Whatever was written and removed before, and with every place filled at once.
async fn takes_no_more_of_the_host(subject: &Subject, sandbox: &TestSandbox, folders: &[String]) {
    let all = folders.join(" ");
    let outcome = sandbox
        .run(&format!("mkdir -p {all}; for folder in {all}; do cat /dev/zero > $folder/filler; done"))
        .await;
    let complaints = outcome.stderr.to_text();
    assert_eq!(complaints.matches("No space left").count(), folders.len(), "{complaints}");
    if let Some(taken) = subject.host_bytes(sandbox.id()) {
        let limit = sandbox.spec.limits.disk.bytes();
        // Next to nothing would mean that somebody looked in the wrong place.
        assert!(
            taken > limit / 3 && taken <= limit + HOST_OVERHEAD,
            "a full disk of {limit} takes {taken} on the host"
        );
    }
    sandbox.sh(&format!("rm -r {all}")).await;
}

/// Empty files cannot fill the host either.
pub async fn inodes_run_out_too(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let outcome = sandbox
        .run("python3 -c 'import os\nos.mkdir(\"many\")\nfor i in range(10**6): open(f\"many/{i}\", \"w\").close()'")
        .await;
    assert_ne!(outcome.exit.code, 0);
    assert!(outcome.stderr.to_text().contains("No space left"), "{}", outcome.stderr.to_text());
    sandbox.sh("rm -r many && touch again").await;
}

/// A write that does not fit changes nothing.
pub async fn a_full_disk_leaves_the_old_content(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.client.write_file("kept", Bytes::from_static(b"old")).await.expect("fits");
    sandbox.run("cat /dev/zero > filler").await;
    let big = Bytes::from(vec![b'n'; 4 << 20]);
    let error = sandbox.client.write_file("kept", big).await.expect_err("does not fit");
    assert!(matches!(&error, AgentError::Failed { code, .. } if code.as_str() == "no_space"), "{error}");
    assert_eq!(sandbox.sh("cat kept; ls -A").await, "oldfiller\nkept");
}

/// Whatever has to write says the same of a full disk, and leaves what was there.
pub async fn a_full_disk_is_no_space_for_git_and_edit_too(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox
        .sh("git init -q -b main .; git config user.name T; git config user.email t@example.org; \
             echo one > file; git add file; git commit -qm first; git checkout -qb other; seq 1 500000 > large; \
             git add large; git commit -qm second; git checkout -q main; echo two > file; seq 1 300000 > new")
        .await;
    // Nothing but the size is in the way: it is filled to the last byte, in pieces that get smaller.
    sandbox
        .run("cat /dev/zero > filler; for i in 1 2 3 4 5 6 7 8 9; do head -c 3000 /dev/zero > filler$i; done")
        .await;
    let refused = async |action: GitAction| match sandbox.client.git(None, None, &action).await {
        Err(AgentError::Failed { code, .. }) => code.as_str(),
        other => panic!("{action:?}: {other:?}"),
    };
    let commit =
        |what| GitAction::Commit(GitCommitRequest { message: "third".to_owned(), what, author: None });
    let before =
        sandbox.sh("git rev-parse HEAD main; cat file; git status --porcelain | grep -v filler").await;
    let named = GitCommitScope::Files(vec!["file".to_owned(), "new".to_owned()]);
    assert_eq!(refused(commit(GitCommitScope::All)).await, "no_space");
    assert_eq!(refused(commit(named)).await, "no_space");
    let checkout = GitCheckoutRequest { reference: "other".to_owned(), create: false };
    assert_eq!(refused(GitAction::Checkout(checkout)).await, "no_space");
    let edit =
        EditSpec { path: "large-edit".to_owned(), new_string: "x".repeat(1 << 20), ..EditSpec::default() };
    let error = sandbox.client.edit(&edit).await.expect_err("does not fit");
    assert!(matches!(&error, AgentError::Failed { code, .. } if code.as_str() == "no_space"), "{error}");
    sandbox.sh("rm -f filler* large; git checkout -qf main; echo two > file").await;
    assert_eq!(sandbox.sh("git rev-parse HEAD main; cat file; git status --porcelain").await, before);
    let GitAnswer::Commit(committed) =
        sandbox.client.git(None, None, &commit(GitCommitScope::All)).await.expect("fits")
    else {
        panic!("another answer")
    };
    assert_eq!(committed.files_changed, 2);
}

/// A fork bomb hits the process limit; the agent still answers and can end it.
pub async fn a_fork_bomb_stays_inside(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let bomb = "bomb() { bomb | bomb & }; bomb; sleep 600";
    let outcome = sandbox.run_for(bomb, Duration::from_secs(3)).await;
    assert!(outcome.timed_out || outcome.exit.code != 0, "{outcome:?}");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match sandbox
            .client
            .exec(&emergent_agent_client::CommandSpec::shell("echo alive"), Default::default())
            .await
        {
            Ok(outcome) if outcome.stdout.to_text() == "alive\n" => break,
            other => assert!(Instant::now() < deadline, "the sandbox did not recover: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Proves: LIFE-16
pub async fn cpu_time_is_throttled(subject: &Subject) {
    let mut spec = subject.spec();
    spec.limits.cpu = Cpu::from_millis(250);
    let sandbox = subject.sandbox_with(spec).await;
    let share = busy_share(&sandbox).await;
    assert!(share < 0.40, "used {share:.2} of a CPU with a limit of 0.25");
}

/// How much of a processor a busy loop gets.
async fn busy_share(sandbox: &TestSandbox) -> f64 {
    // Bash counts its own processor time; the wall clock is ours.
    let started = Instant::now();
    let spent = sandbox
        .sh("python3 -c 'import time\nend=time.time()+3\nwhile time.time()<end: pass\nprint(time.process_time())'")
        .await;
    let wall = started.elapsed().as_secs_f64();
    spent.parse::<f64>().expect("a number") / wall
}

/// What the capabilities call adjustable is changed up and down while the sandbox runs, and holds from then on;
/// what they do not is left as it is, or refused where nothing can be. What does not run has no limits to change.
pub async fn limits_can_be_adjusted(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let can = subject.provider.capabilities().await;
    if can.adjustable == AdjustableLimits::NONE {
        let refused = subject.provider.adjust(&sandbox.spec).await.expect_err("nothing is adjustable");
        assert!(matches!(refused, ProviderError::Unsupported { .. }), "{refused}");
        return;
    }
    let folder = if subject.workspace_dir.is_some() { "/tmp" } else { "." };
    sandbox.sh(&format!("echo kept > {folder}/kept")).await;
    if can.adjustable.cpu {
        adjust_cpu(subject, &sandbox, can.limits.cpu == Enforcement::Enforced).await;
    }
    if can.adjustable.memory {
        adjust_memory(subject, &sandbox, can.limits.memory == Enforcement::Enforced).await;
    } else {
        leave_memory(subject, &sandbox, can.limits.memory == Enforcement::Enforced).await;
    }
    assert_eq!(sandbox.sh(&format!("cat {folder}/kept")).await, "kept", "it is the same sandbox");
    subject.provider.stop(sandbox.id()).await.expect("stop works");
    let stopped = subject.provider.adjust(&sandbox.spec).await.expect_err("nothing runs");
    assert!(matches!(stopped, ProviderError::NotRunning { .. }), "{stopped}");
    let nobody = SandboxSpec { id: WorkspaceId::generate(), ..sandbox.spec.clone() };
    let missing = subject.provider.adjust(&nobody).await.expect_err("there is none");
    assert!(matches!(missing, ProviderError::NotFound { .. }), "{missing}");
}

async fn adjust_cpu(subject: &Subject, sandbox: &TestSandbox, is_upheld: bool) {
    let adjust = async |millis| {
        let mut spec = sandbox.spec.clone();
        spec.limits.cpu = Cpu::from_millis(millis);
        subject.provider.adjust(&spec).await.unwrap_or_else(|error| panic!("{millis}: {error}"));
    };
    // Down, and the same again.
    let mut little = 0.0_f64;
    for _ in 0..2 {
        adjust(250).await;
        if is_upheld {
            let share = busy_share(sandbox).await;
            assert!(share < 0.40, "used {share:.2} of a CPU with a limit of 0.25");
            little = little.max(share);
        }
    }
    adjust(1500).await;
    let (enough, mut most) = (little * 1.3, 0.0_f64);
    // Others may want the processors for a while.
    for _ in 0..5 {
        if !is_upheld || most > enough {
            break;
        }
        most = most.max(busy_share(sandbox).await);
    }
    assert!(
        !is_upheld || most > enough,
        "used {most:.2} of a CPU with a limit of 1.5, {little:.2} with 0.25"
    );
    subject.provider.adjust(&sandbox.spec).await.expect("as it was");
}

async fn leave_memory(subject: &Subject, sandbox: &TestSandbox, is_upheld: bool) {
    let mut spec = sandbox.spec.clone();
    spec.limits.memory = ByteSize::from_mib(128);
    subject.provider.adjust(&spec).await.expect("what is not adjustable is no error");
    if is_upheld {
        let outcome = sandbox.run("python3 -c 'x = b\"x\" * (160 << 20); print(len(x))'").await;
        assert_eq!(
            outcome.exit.code, 0,
            "160 MiB with a limit of {}: {outcome:?}",
            sandbox.spec.limits.memory
        );
    }
}

async fn adjust_memory(subject: &Subject, sandbox: &TestSandbox, is_upheld: bool) {
    let mut spec = sandbox.spec.clone();
    // What fits into 256 MiB does not into 128, and again into more.
    for (mib, allocated, fits) in [(128, 160, false), (128, 40, true), (256, 160, true), (512, 320, true)] {
        spec.limits.memory = ByteSize::from_mib(mib);
        subject.provider.adjust(&spec).await.unwrap_or_else(|error| panic!("{mib} MiB: {error}"));
        if !is_upheld {
            continue;
        }
        let command = format!("python3 -c 'x = b\"x\" * ({allocated} << 20); print(len(x))'");
        let outcome = sandbox.run(&command).await;
        let what = format!("{allocated} MiB with a limit of {mib}: {outcome:?}");
        assert_eq!((outcome.exit.code == 0, outcome.exit.oom_killed), (fits, !fits), "{what}");
        // Folders that are memory have their part of the new limit.
        let size: u64 =
            sandbox.sh("df -k --output=size /tmp | tail -n 1").await.trim().parse().expect("a number");
        assert_eq!(size << 10, spec.limits.memory.bytes() / 2, "of /tmp with a limit of {mib}");
    }
    subject.provider.adjust(&sandbox.spec).await.expect("as it was");
}
