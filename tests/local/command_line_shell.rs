//! A workspace, and `emergent workspace …` for it.

use emergent_test_support::{CommandOutput, TestServer};
use serde_json::Value;

/// A server with one workspace, and commands for it.
pub(crate) struct Shell {
    pub(crate) server: TestServer,
    pub(crate) id: String,
}

impl Shell {
    pub(crate) async fn start() -> Self {
        let server = TestServer::start().await;
        let limits = ["--cpu", "1", "--memory", "256M", "--disk", "128M"];
        let created = server.command(&[&["workspace", "create", "-q"], &limits[..]].concat()).await;
        assert_eq!(created.code, Some(0), "{}", created.stderr);
        Self { id: created.stdout.trim().to_owned(), server }
    }

    /// `emergent workspace TOOL ID …`
    pub(crate) async fn run(&self, tool: &str, arguments: &[&str]) -> CommandOutput {
        self.server.command(&[&["workspace", tool, &self.id], arguments].concat()).await
    }

    /// What a command prints that succeeds without a word beside it.
    pub(crate) async fn out(&self, tool: &str, arguments: &[&str]) -> String {
        let output = self.run(tool, arguments).await;
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{tool} {arguments:?}");
        output.stdout
    }

    /// What a command has to say beside its result, which is nothing.
    pub(crate) async fn note(&self, tool: &str, arguments: &[&str]) -> String {
        let output = self.run(tool, arguments).await;
        assert_eq!((output.code, output.stdout.as_str()), (Some(0), ""), "{tool} {arguments:?}");
        output.stderr
    }

    /// What programs read.
    pub(crate) async fn json(&self, tool: &str, arguments: &[&str]) -> Value {
        let text = self.out(tool, &[&["--json"], arguments].concat()).await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{tool}: {error}: {text}"))
    }

    /// Why a command fails, for programs; people get the same as a sentence.
    pub(crate) async fn failure(&self, tool: &str, arguments: &[&str]) -> Value {
        let told = self.run(tool, arguments).await;
        assert_eq!((told.code, told.stdout.as_str()), (Some(1), ""), "{tool} {arguments:?}");
        assert!(told.stderr.starts_with("error: "), "{}", told.stderr);
        let output = self.run(tool, &[&["--json"], arguments].concat()).await;
        assert_eq!(output.code, Some(1));
        serde_json::from_str::<Value>(&output.stderr).unwrap()["error"].clone()
    }

    /// The same with this on standard input.
    pub(crate) async fn run_with(&self, tool: &str, arguments: &[&str], input: &[u8]) -> CommandOutput {
        self.server.command_with_input(&[&["workspace", tool, &self.id], arguments].concat(), input).await
    }

    /// Runs a command inside that succeeds and says nothing about errors; answers what it printed.
    pub(crate) async fn sh(&self, command: &str) -> String {
        self.out("exec", &["--", command]).await
    }

    /// What is refused, with the server's code; every row is a line and what is expected.
    pub(crate) async fn refused(&self, rows: &[(&str, &[&str], &str)]) {
        for (tool, arguments, code) in rows {
            assert_eq!(self.failure(tool, arguments).await["code"], *code, "{tool} {arguments:?}");
        }
    }

    /// Lines that make no sense, which no server is asked about.
    pub(crate) async fn misused(&self, rows: &[(&str, &[&str])]) {
        for (tool, arguments) in rows {
            let output = self.run(tool, arguments).await;
            assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{tool} {arguments:?}");
            assert!(output.stderr.contains("error: "), "{tool} {arguments:?}: {}", output.stderr);
        }
    }
}
