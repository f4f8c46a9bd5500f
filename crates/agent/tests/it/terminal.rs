//! Terminals.

use std::time::Duration;

use emergent_protocol::{FailureCode, v1};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::support::{Binary, BinaryOptions, Client, Sandbox, eventually, failure, is_alive, line_of, shell};

struct Terminal {
    input: Option<mpsc::Sender<v1::TerminalInput>>,
    output: Streaming<v1::TerminalOutput>,
    shown: String,
    exit: Option<v1::Exit>,
}

impl Terminal {
    async fn open(client: &mut Client, command: v1::Command) -> Result<Self, Status> {
        let (sender, input) = mpsc::channel(4);
        let size = Some(v1::TerminalSize { columns: 100, rows: 30 });
        let header = v1::TerminalHeader { command: Some(command), size };
        let first = v1::TerminalInput { input: Some(v1::terminal_input::Input::Header(header)) };
        sender.send(first).await.expect("room");
        let output = client.stub.terminal(ReceiverStream::new(input)).await?.into_inner();
        Ok(Self { input: Some(sender), output, shown: String::new(), exit: None })
    }

    async fn put(&self, input: v1::terminal_input::Input) {
        let message = v1::TerminalInput { input: Some(input) };
        self.input.as_ref().expect("open").send(message).await.expect("taken");
    }

    async fn type_in(&self, text: &str) {
        self.put(v1::terminal_input::Input::Data(text.as_bytes().to_vec().into())).await;
    }

    /// Reads until the text was shown, or the end.
    async fn until(&mut self, text: &str) {
        let reading = async {
            while !self.shown.contains(text) && self.exit.is_none() {
                let message = self.output.message().await.expect("no failure").expect("no end yet");
                match message.output.expect("something") {
                    v1::terminal_output::Output::Started(_) => {}
                    v1::terminal_output::Output::Data(data) => self.shown += &String::from_utf8_lossy(&data),
                    v1::terminal_output::Output::Exit(exit) => self.exit = Some(exit),
                }
            }
        };
        if tokio::time::timeout(Duration::from_secs(20), reading).await.is_err() {
            panic!("{text:?} is not shown: {:?}", self.shown);
        }
    }

    async fn exit_code(&mut self) -> i32 {
        self.until("\u{0}never").await;
        assert_eq!(self.output.message().await.expect("no failure"), None, "something comes after the end");
        self.exit.expect("an exit").code
    }
}

/// A session of its own on a terminal that can be resized and interrupted.
#[tokio::test]
async fn a_login_shell_on_a_terminal() {
    let binary =
        Binary::start(BinaryOptions { flags: &["--seccomp"], in_namespace: Some(""), ..Default::default() })
            .await;
    let mut client = binary.client().await;
    let mut terminal = Terminal::open(&mut client, v1::Command::default()).await.expect("starts");
    terminal.type_in("PS1='READY> '; echo $TERM $(tty) $(stty size) $0; shopt login_shell; pwd\n").await;
    terminal.until("/workspace\r\n").await;
    let shown = terminal.shown.clone();
    assert!(shown.contains("xterm-256color /dev/pts/"), "{shown}");
    assert!(shown.contains(" 30 100 "), "{shown}");
    assert!(shown.contains("login_shell    \ton"), "{shown}");

    terminal.type_in("trap 'echo now $(stty size)' WINCH; echo se''t\n").await;
    terminal.until("set\r\n").await;
    terminal.put(v1::terminal_input::Input::Resize(v1::TerminalSize { columns: 132, rows: 50 })).await;
    terminal.type_in("\n").await;
    terminal.until("now 50 132").await;

    // Ctrl-C reaches the program in the foreground, and it only.
    terminal.type_in("sleep 1000\n").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    terminal.type_in("\u{3}").await;
    terminal.type_in("echo interr''upted $?\n").await;
    terminal.until("interrupted 130").await;
    terminal.type_in("exit 7\n").await;
    assert_eq!(terminal.exit_code().await, 7);
}

#[tokio::test]
async fn a_command_another_account_and_a_bad_request() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let mut terminal =
        Terminal::open(&mut client, shell("test -t 0 -a -t 1 -a -t 2; echo it is $?")).await.unwrap();
    terminal.until("it is 0\r\n").await;
    assert_eq!(terminal.exit_code().await, 0);
    let as_nobody =
        v1::Command { user: "nobody".to_owned(), workdir: "/".to_owned(), ..shell("id -un; cat $(tty)") };
    let mut terminal = Terminal::open(&mut client, as_nobody).await.expect("starts");
    terminal.type_in("echoed by cat\n\u{4}").await;
    terminal.until("echoed by cat\r\nechoed by cat").await;
    assert!(terminal.shown.contains("nobody\r\n"), "{}", terminal.shown);
    assert_eq!(terminal.exit_code().await, 0);
    let unknown = v1::Command { user: "no-such-user".to_owned(), ..shell("true") };
    let refused = Terminal::open(&mut client, unknown).await.err().expect("refused");
    assert_eq!(failure(&refused).0, FailureCode::InvalidRequest);
    let refused = client.stub.terminal(tokio_stream::iter(Vec::new())).await.expect_err("no header");
    assert_eq!(failure(&refused).0, FailureCode::InvalidRequest);
    sandbox.end().await;
}

/// Whoever ignores every polite signal, and left the session, goes too.
#[tokio::test]
async fn a_dropped_terminal_ends_everything() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let terminal = Terminal::open(&mut client, v1::Command::default()).await.expect("starts");
    terminal
        .type_in("setsid sleep 1001 & echo $! > away; (trap '' HUP TERM; echo $BASHPID > deaf; sleep 1002) & echo $$ > self\n")
        .await;
    let mut pids = Vec::new();
    for name in ["away", "deaf", "self"] {
        pids.push(line_of(&sandbox.path(name)).await);
    }
    drop(terminal);
    eventually("everything has ended", || async { !pids.iter().any(|pid| is_alive(pid)) }).await;
    sandbox.end().await;
}

/// What nobody reads is not kept: the program stops until somebody does.
#[tokio::test]
async fn a_terminal_nobody_reads_stands_still() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let text = "i=0; while :; do i=$((i+1)); echo $i; echo $i >&3; done 3> progress";
    let mut terminal = Terminal::open(&mut client, shell(text)).await.expect("starts");
    let size = || std::fs::metadata(sandbox.path("progress")).map_or(0, |found| found.len());
    let mut last = 0;
    eventually("it stands still", || {
        let (before, now) = (last, size());
        last = now;
        async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            now > 0 && before == now
        }
    })
    .await;
    let stopped = size();
    assert!(stopped < 8 << 20, "{stopped} bytes were printed for nobody");
    terminal.until("\n200000\r").await;
    assert!(size() > stopped);
    drop(terminal);
    sandbox.end().await;
}
