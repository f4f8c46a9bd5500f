//! Files with what commands print.

use emergent_agent_client::{CommandSpec, ExecOptions, ExecOutcome};

use super::{Subject, TestSandbox};

async fn read(sandbox: &TestSandbox, path: &str) -> Vec<u8> {
    let mut stream = sandbox.client.read_file(path, 0, 0).await.expect("opens");
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await.expect("reads") {
        bytes.extend_from_slice(&chunk);
    }
    bytes
}

/// What an answer has no room for is in a file, whole, and not among the caller's own.
pub async fn long_output_is_kept_whole(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let ExecOutcome { exit, stdout, output_file, .. } =
        sandbox.run("seq 1 100000; echo complaint >&2; exit 3").await;
    assert_eq!((exit.code, stdout.total_bytes, stdout.is_truncated()), (3, 588_895, true));
    let file = output_file.expect("a file");
    assert!(!file.truncated && !file.path.starts_with(&sandbox.path("")), "{file:?}");
    let whole = read(&sandbox, &file.path).await;
    let numbers: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    // The two streams are told apart nowhere, and each is in order.
    let text = String::from_utf8(whole).expect("text");
    assert_eq!(text.replacen("complaint\n", "", 1), numbers);
    assert_eq!(text.len(), numbers.len() + "complaint\n".len());
    assert_eq!(sandbox.sh(&format!("wc -c < {}; ls -A", file.path)).await, text.len().to_string());
}

/// What the answer holds is in no file, and each command has a file of its own.
pub async fn short_output_is_in_no_file(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let outcome = sandbox.run("seq 1 1000; seq 1 1000 >&2").await;
    assert_eq!((outcome.output_file, outcome.stdout.is_truncated()), (None, false));
    let (one, two) =
        tokio::join!(sandbox.run("yes one | head -c 100000"), sandbox.run("yes two | head -c 100000"));
    let [one, two] = [one, two].map(|outcome| outcome.output_file.expect("a file").path);
    assert_ne!(one, two);
    assert!(read(&sandbox, &one).await.starts_with(b"one\none\n"));
    assert!(read(&sandbox, &two).await.starts_with(b"two\ntwo\n"));
}

/// Where the middle of an output is left out, no character is cut in two.
pub async fn characters_are_not_cut(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    for lead in ["", "x", "xx"] {
        let command = format!("printf '{lead}'; yes '日本語🦀' | head -c 200000");
        let ExecOutcome { stdout, .. } = sandbox.run(&command).await;
        assert!(stdout.is_truncated() && stdout.head.len() + stdout.tail.len() <= 50 << 10);
        let head = std::str::from_utf8(&stdout.head).expect("whole characters");
        assert!(head.starts_with(lead) && head.len() > 25_000);
        // The end of the output itself is where the command stopped.
        let tail = stdout.to_text();
        let (_, tail) = tail.split_once(" bytes omitted …]\n").expect("says what is missing");
        assert!(!tail.trim_end_matches('\u{fffd}').contains('\u{fffd}'), "{lead:?}: a character is cut");
    }
    // What is no text is nobody's to leave out.
    let stdout = sandbox.run("head -c 200000 /dev/zero | tr '\\0' '\\200'").await.stdout;
    assert_eq!((stdout.head.len(), stdout.tail.len()), (25 << 10, 25 << 10));
}

/// What an account puts where output files are does not keep others from having theirs.
pub async fn accounts_cannot_spoil_output_files(subject: &Subject) {
    const FOLDER: &str = "/var/tmp/emergent-output";
    let sandbox = subject.sandbox().await;
    let as_account = |command: &str| CommandSpec {
        user: (!subject.one_account).then(|| "65534".to_owned()),
        workdir: Some("/".to_owned()),
        ..CommandSpec::shell(command)
    };
    let run = async |command: &CommandSpec| {
        sandbox.client.exec(command, ExecOptions::default()).await.expect("runs")
    };
    let first = run(&as_account("seq 1 100000")).await.output_file.expect("a file").path;
    let rest = sandbox.run("seq 1 100000").await.output_file.expect("a file").path;
    assert!(read(&sandbox, &first).await.ends_with(b"\n100000\n"));
    // A fake keeps them where no account gets at.
    if !rest.starts_with(FOLDER) || subject.one_account {
        return;
    }
    let outcome =
        run(&as_account(&format!("cat {first} | tail -n 1; cat {rest}; ls {FOLDER}; touch {FOLDER}/x")))
            .await;
    assert_eq!((outcome.stdout.to_text().as_str(), outcome.exit.code), ("100000\n", 1), "{outcome:?}");
    for trap in [
        format!("mkdir -m 777 {FOLDER}; mkdir -m 777 {FOLDER}/0; touch {FOLDER}/precious"),
        format!("mkdir /var/tmp/elsewhere; ln -s /var/tmp/elsewhere {FOLDER}"),
        format!("echo precious > {FOLDER}"),
    ] {
        sandbox.sh(&format!("rm -rf {FOLDER}*")).await;
        assert_eq!(run(&as_account(&trap)).await.exit.code, 0, "{trap}");
        let file =
            sandbox.run("seq 1 100000").await.output_file.unwrap_or_else(|| panic!("no file after {trap}"));
        assert!(read(&sandbox, &file.path).await.ends_with(b"\n100000\n") && !file.truncated);
        assert_eq!(sandbox.sh(&format!("stat -c '%F %u %a' {FOLDER}")).await, "directory 0 711");
        assert_eq!(
            run(&as_account(&format!("rm -rf {FOLDER}; mv {FOLDER} /var/tmp/other"))).await.exit.code,
            1
        );
        assert_eq!(sandbox.sh(&format!("cat {} | tail -n 1", file.path)).await, "100000");
    }
    // What was there is still there, and nothing came to where the link led.
    assert_eq!(
        sandbox.sh("cat /var/tmp/emergent-output.not-ours-*; ls -A /var/tmp/elsewhere").await,
        "precious"
    );
}
