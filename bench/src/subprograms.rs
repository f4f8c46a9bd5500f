//! The other programs in this binary: each is a process of its own with a single thread, so
//! they are reached before anything else is set up.

use std::process::{Command, ExitCode};

/// What this binary can be besides the benchmark.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subprogram {
    /// Starts a bare container.
    BareLauncher,
    /// Starts a sandbox for the provider, as a hidden subcommand of the product does.
    SandboxLauncher,
    /// An MCP server that answers at once.
    EchoServer,
}

impl Subprogram {
    const ALL: [Self; 3] = [Self::BareLauncher, Self::SandboxLauncher, Self::EchoServer];

    /// The first argument that leads to it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::BareLauncher => "launch-bare-container",
            Self::SandboxLauncher => "launch-sandbox",
            Self::EchoServer => "serve-echo",
        }
    }

    /// A command that becomes this program; its own arguments are still to be added.
    pub(crate) fn command(self) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.arg(self.word());
        command
    }

    /// Runs the program that the first argument asks for, if it asks for one.
    pub(crate) fn run_if_asked() -> Option<ExitCode> {
        let mut arguments = std::env::args().skip(1);
        let word = arguments.next()?;
        let asked = Self::ALL.into_iter().find(|program| program.word() == word)?;
        Some(match asked {
            Self::BareLauncher => crate::bare::launcher::main(arguments),
            Self::SandboxLauncher => emergent_provider_local::helper::main(),
            Self::EchoServer => crate::mcp::echo::main(),
        })
    }
}
