//! Commands on terminals.

use std::time::Duration;

use bytes::Bytes;
use emergent_agent_client::{Exit, Program, Terminal, TerminalEvent, TerminalSpec};

use super::subject::eventually;
use super::{Subject, TestSandbox};

/// A terminal, and what it has shown.
struct Screen {
    terminal: Terminal,
    shown: String,
    exit: Option<Exit>,
}

impl Screen {
    async fn open(sandbox: &TestSandbox, command: &str) -> Self {
        let program = Some(Program::Shell(command.to_owned()));
        let spec = TerminalSpec { program, columns: 100, rows: 30, ..TerminalSpec::default() };
        let terminal = sandbox.client.terminal(&spec).await.expect("starts");
        Self { terminal, shown: String::new(), exit: None }
    }

    async fn type_in(&self, text: &'static str) {
        self.terminal.input.send(Bytes::from_static(text.as_bytes())).await.expect("is taken");
    }

    /// Reads until the text was shown, or the end.
    async fn until(&mut self, text: &str) {
        let reading = async {
            while !self.shown.contains(text) && self.exit.is_none() {
                match self.terminal.output.next().await.expect("no failure").expect("no end yet") {
                    TerminalEvent::Started => {}
                    TerminalEvent::Data(data) => self.shown += &String::from_utf8_lossy(&data),
                    TerminalEvent::Exited(exit) => self.exit = Some(exit),
                }
            }
        };
        let read = tokio::time::timeout(Duration::from_secs(20), reading).await;
        assert!(read.is_ok(), "{text:?} is not shown: {:?}", self.shown);
    }

    async fn exit_code(&mut self) -> i32 {
        self.until("\0never").await;
        self.exit.expect("an exit").code
    }
}

/// It is a real terminal with a size, and the program is told when that changes.
pub async fn a_terminal_has_a_size(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let told = match subject.has_own_kernel().await {
        // gVisor's sends no signal for it; whoever asks is told.
        true => "echo set; while test \"$(stty size)\" = '30 100'; do sleep 0.1; done; stty size; exit 7",
        false => "trap 'stty size; exit 7' WINCH; echo set; while :; do sleep 0.1; done",
    };
    let script = format!("test -t 0 && test -t 1 && test -t 2 && tty; stty size; pwd; {told}");
    let mut screen = Screen::open(&sandbox, &script).await;
    screen.until("set\r\n").await;
    assert!(screen.shown.contains("/dev/pts/"), "{}", screen.shown);
    assert!(screen.shown.contains("30 100\r\n"), "{}", screen.shown);
    assert!(screen.shown.contains(sandbox.path("").trim_end_matches('/')), "{}", screen.shown);
    screen.terminal.input.resize(132, 50).await.expect("is taken");
    screen.until("50 132\r\n").await;
    assert_eq!(screen.exit_code().await, 7);
}

/// What is typed is read and shown, and ^C interrupts what runs.
pub async fn keys_are_typed(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let script = "read -r line; echo \"got: $line\"
        trap 'echo interrupted; exit 5' INT
        echo set; while :; do sleep 0.1; done";
    let mut screen = Screen::open(&sandbox, script).await;
    screen.type_in("hello there\n").await;
    screen.until("got: hello there\r\n").await;
    screen.until("set\r\n").await;
    screen.type_in("\x03").await;
    screen.until("interrupted\r\n").await;
    assert_eq!(screen.exit_code().await, 5);
}

/// Whoever closes a terminal ends what runs on it, and a lot of output does not stop it.
pub async fn a_closed_terminal_ends_its_program(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let marker = format!("marker-{}", sandbox.id());
    let script = format!("sh -c 'exec -a {marker} sleep 1000' & seq 1 20000; echo under''way; wait");
    let script = script.replace("sh -c", "bash -c");
    let mut screen = Screen::open(&sandbox, &script).await;
    screen.until("underway").await;
    assert!(screen.shown.contains("\r\n20000\r\n"));
    let alive = async || {
        let found = sandbox.run(&format!("grep -la '^{marker}' /proc/[0-9]*/cmdline")).await;
        found.exit.code == 0
    };
    assert!(alive().await, "it runs");
    drop(screen);
    eventually("it has ended", || async { !alive().await }).await;
}
