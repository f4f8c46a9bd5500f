//! An MCP server as a child process, with nothing in between.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{check, echo_call, hello, initialized};

/// Ends with the value.
pub(crate) struct BareServer {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl BareServer {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().context("a bare MCP server cannot be started")?;
        let (input, output) = process.stdin.take().zip(process.stdout.take()).context("no pipes")?;
        let mut server = Self { process, input, output: BufReader::new(output) };
        server.say(&hello())?;
        server.hear()?;
        server.say(&initialized())?;
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn echo(&mut self, number: usize) -> Result<()> {
        self.say(&echo_call(number))?;
        // What it says unasked is not the answer.
        loop {
            let heard = self.hear()?;
            if heard.get("method").is_none() {
                return check(&heard, number);
            }
        }
    }

    fn say(&mut self, message: &Value) -> Result<()> {
        Ok(self.input.write_all(format!("{message}\n").as_bytes())?)
    }

    fn hear(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("not JSON: {line}"))
    }
}

impl Drop for BareServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
