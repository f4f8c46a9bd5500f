//! Programs that are spoken to through their standard streams.

use std::time::Duration;

use bytes::Bytes;
use emergent_agent_client::{AgentError, Exit, Stdio, StdioEvent, StdioSpec, StreamKind};

use super::Subject;
use super::subject::eventually;

/// How long a program may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// All that a program says until its end: standard output, standard error, and how it ended.
async fn heard_from(stdio: &mut Stdio) -> (Vec<u8>, Vec<u8>, Exit) {
    let (mut out, mut complaints) = (Vec::new(), Vec::new());
    let hearing = async {
        loop {
            match stdio.output.next().await.expect("no failure").expect("no end without a status") {
                StdioEvent::Output { stream: StreamKind::Stdout, data } => out.extend_from_slice(&data),
                StdioEvent::Output { stream: StreamKind::Stderr, data } => {
                    complaints.extend_from_slice(&data);
                }
                StdioEvent::Exited(exit) => return exit,
            }
        }
    };
    let exit = tokio::time::timeout(PATIENCE, hearing).await.expect("it ends");
    assert_eq!(stdio.output.next().await.expect("no failure"), None, "something comes after the end");
    (out, complaints, exit)
}

/// Waits for one line.
async fn line_from(stdio: &mut Stdio) -> String {
    let mut line = Vec::new();
    let hearing = async {
        while !line.ends_with(b"\n") {
            match stdio.output.next().await.expect("no failure") {
                Some(StdioEvent::Output { stream: StreamKind::Stdout, data }) => {
                    line.extend_from_slice(&data);
                }
                other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&line)),
            }
        }
    };
    tokio::time::timeout(PATIENCE, hearing).await.expect("it says a line");
    String::from_utf8_lossy(&line).trim_end().to_owned()
}

/// Requests and answers go to and fro on streams that stay open; the end of input is an end.
pub async fn requests_are_answered_one_by_one(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let script = "import sys\nfor line in sys.stdin: print(line.strip().upper(), flush=True)\n\
                  print('done', file=sys.stderr); sys.exit(7)\n";
    let mut stdio = sandbox.client.stdio(&StdioSpec::new(["python3", "-c", script])).await.expect("starts");
    for word in ["one", "two", "three"] {
        stdio.input.send(Bytes::from(format!("{word}\n"))).await.expect("is taken");
        assert_eq!(line_from(&mut stdio).await, word.to_uppercase());
    }
    stdio.input.close();
    let (out, complaints, exit) = heard_from(&mut stdio).await;
    assert_eq!((&out[..], &complaints[..], exit.code), (&b""[..], &b"done\n"[..], 7));
    assert!(stdio.input.send(Bytes::from_static(b"late")).await.is_err());
}

/// Every byte goes through unchanged, both ways at once, and more than any buffer holds.
pub async fn bytes_are_not_changed(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let mut stdio = sandbox.client.stdio(&StdioSpec::new(["cat"])).await.expect("starts");
    let said: Bytes = (0..3_000_000_u32).map(|number| (number * 7 % 251) as u8).collect::<Vec<_>>().into();
    let input = stdio.input.clone();
    let saying = said.clone();
    let speaker = tokio::spawn(async move {
        input.send(saying).await.expect("is taken");
        input.close();
    });
    let (out, complaints, exit) = heard_from(&mut stdio).await;
    speaker.await.expect("no panic");
    assert!(out == said, "{} bytes came back of {}", out.len(), said.len());
    assert!(complaints.is_empty() && exit.code == 0, "{exit:?}");
}

/// Words are data and variables are the program's alone; where and as whom is the caller's choice.
pub async fn words_and_variables_are_data(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("mkdir -p deep/er").await;
    let odd = "$(touch oops); `touch oops` | \"quoted\" 'too'";
    let mut spec = StdioSpec::new(["sh", "-c", "printf '%s\n' \"$1\" \"$SECRET\" \"$PWD\"", "sh", odd]);
    spec.environment.insert("SECRET".to_owned(), "s3cr3t of one program".to_owned());
    spec.workdir = Some("deep/er".to_owned());
    let (out, ..) = heard_from(&mut sandbox.client.stdio(&spec).await.expect("starts")).await;
    let out = String::from_utf8(out).expect("text");
    assert_eq!(out.lines().collect::<Vec<_>>(), [odd, "s3cr3t of one program", &sandbox.path("deep/er")]);
    assert_eq!(sandbox.sh("ls oops deep/er/oops 2>/dev/null || echo none; echo \"$SECRET\"").await, "none");
}

/// A program that nobody reads from stops, and goes on when somebody does; nothing is lost.
pub async fn a_stalled_reader_stops_the_program(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let script = "import sys\nfor number in range(400):\n  sys.stdout.write('x' * 65536); sys.stdout.flush()\n  \
                  open('written', 'w').write(str(number))\n";
    let mut stdio = sandbox.client.stdio(&StdioSpec::new(["python3", "-c", script])).await.expect("starts");
    eventually("it has begun", || async { sandbox.run("test -s written").await.exit.code == 0 }).await;
    let written = || sandbox.sh("cat written");
    eventually("it stands still", || async {
        let before = written().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        !before.is_empty() && before == written().await
    })
    .await;
    let written: u32 = written().await.parse().expect("a number");
    assert!(written < 200, "{written} pieces of 64 KiB are held somewhere");
    let (out, _, exit) = heard_from(&mut stdio).await;
    assert_eq!((out.len(), exit.code), (400 * 65536, 0));
}

/// What is said to a program that does not read waits outside, and a signal does not wait behind it.
pub async fn a_signal_passes_what_nobody_reads(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let script = "import signal, sys, time\n\
                  signal.signal(signal.SIGUSR1, lambda *_: (print('heard', flush=True), sys.exit(3)))\n\
                  print('ready', flush=True)\nwhile True: time.sleep(60)\n";
    let mut stdio = sandbox.client.stdio(&StdioSpec::new(["python3", "-c", script])).await.expect("starts");
    assert_eq!(line_from(&mut stdio).await, "ready");
    let input = stdio.input.clone();
    let flood = tokio::spawn(async move { input.send(Bytes::from(vec![b'x'; 64 << 20])).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!flood.is_finished(), "64 MiB are held somewhere");
    assert!(stdio.input.signal(10).await.expect("is sent") >= 1);
    assert_eq!(line_from(&mut stdio).await, "heard");
    let (_, _, exit) = heard_from(&mut stdio).await;
    assert_eq!(exit.code, 3);
    let flood = tokio::time::timeout(PATIENCE, flood).await.expect("it is let go").expect("no panic");
    assert!(flood.is_err(), "it was taken by nobody");
    assert_eq!(stdio.input.signal(10).await.expect("is sent"), 0, "nobody is left");
}

/// A caller that goes away takes the program with it, and all that the program started.
pub async fn a_dropped_program_is_ended_with_its_children(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let script = "setsid sh -c 'while :; do echo x >> ticks; sleep 0.05; done' & trap '' TERM; cat";
    let stdio = sandbox.client.stdio(&StdioSpec::new(["sh", "-c", script])).await.expect("starts");
    eventually("it ticks", || async { sandbox.run("test -s ticks").await.exit.code == 0 }).await;
    drop(stdio);
    eventually("nothing ticks any more", || async {
        let before = sandbox.sh("wc -c < ticks").await;
        tokio::time::sleep(Duration::from_millis(400)).await;
        before == sandbox.sh("wc -c < ticks").await
    })
    .await;
}

/// What cannot be started is told as such, and nothing runs.
pub async fn what_cannot_be_started_is_told(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    for spec in [StdioSpec::new(["/nonexistent/program"]), StdioSpec::new(Vec::<String>::new())] {
        let refused = sandbox.client.stdio(&spec).await.err().expect("nothing runs");
        assert!(matches!(refused, AgentError::Failed { .. }), "{refused}");
    }
}
