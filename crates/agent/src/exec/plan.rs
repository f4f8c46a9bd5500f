//! From a request to something that can be executed.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use emergent_protocol::v1;
use rustix::fs::{Access, MemfdFlags, SeekFrom, access, memfd_create, seek};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use crate::accounts::Account;
use crate::agent::Shared;
use crate::environment;
use crate::error::CallError;
use crate::workspace::Workspace;

use super::child::SCRIPT_FD;
use super::image::{Identity, Image};
use super::report::Step;

/// The kernel's bound for a single argument, its end included (`MAX_ARG_STRLEN`).
const MAX_ARGUMENT_BYTES: usize = 128 << 10;

/// A checked request: what will be executed, and how it is called in lists and errors.
pub(crate) struct Plan {
    pub(super) image: Arc<Image>,
    /// It goes on when its caller is gone.
    pub(super) is_lasting: bool,
    /// A command text too long to be an argument.
    pub(super) script: Option<OwnedFd>,
    /// What it reads; nothing when there is none.
    pub(super) input: Option<OwnedFd>,
    /// The workspace, where the request names no other folder to start in.
    pub(super) default_folder: Option<Arc<Workspace>>,
    /// As whom, for errors.
    pub(super) user: String,
    /// For people: the text or the words.
    pub(crate) title: String,
    /// It is the sandbox's shell that is executed, and not a program of the request's choice.
    is_shell: bool,
}

/// What the agent's own programs need and requests cannot ask for.
#[derive(Default)]
pub(crate) struct Extras {
    /// What it reads from standard input.
    pub(crate) input: Option<Vec<u8>>,
    /// What it finds at [`Extras::FILE`].
    pub(crate) file: Option<Vec<u8>>,
    /// Which variables of the sandbox's environment it must not see.
    pub(crate) hidden: Option<fn(&str) -> bool>,
}

impl Extras {
    /// Where a program finds [`Extras::file`].
    pub(crate) const FILE: &str = "/proc/self/fd/3";
}

impl Plan {
    /// Checks a request. Reads the sandbox's account files and looks for its shell, and does
    /// nothing else.
    pub(crate) fn new(shared: &Shared, command: Option<v1::Command>) -> Result<Self, CallError> {
        Self::with(shared, command, Extras::default())
    }

    /// The same, for a program of the agent's own choice.
    pub(crate) fn with(
        shared: &Shared,
        command: Option<v1::Command>,
        extras: Extras,
    ) -> Result<Self, CallError> {
        let command = command.ok_or_else(|| CallError::invalid("no command is given"))?;
        let program = command.program.ok_or_else(|| CallError::invalid("no command is given"))?;
        let account =
            if command.user.is_empty() { Account::current() } else { Account::find(&command.user)? };
        let own = command.environment.clone();
        let mut variables = shared.environment.of_command(&account, command.environment)?;
        if let Some(hidden) = extras.hidden {
            variables.retain(|name, _| own.contains_key(name) || !hidden(name));
        }
        let (folder, default_folder) = match command.workdir.as_str() {
            "" => (shared.config.workspace.clone(), Some(shared.workspace.clone())),
            workdir => (shared.config.workspace.join(workdir), None),
        };
        let folder = c_string("the working folder", folder.into_os_string().into_encoded_bytes())?;
        let is_shell = matches!(program, v1::command::Program::Shell(_));
        let resolved = match program {
            v1::command::Program::Shell(text) => {
                let resolved = shell(text, &shared.environment.search_path())?;
                // Else bash would look it up among the accounts before it does anything, and twenty
                // system calls take a millisecond under gVisor.
                if let Some(shell) = resolved.candidates.first() {
                    let shell = shell.to_string_lossy().into_owned();
                    variables.entry("SHELL".to_owned()).or_insert(shell);
                }
                resolved
            }
            v1::command::Program::Argv(argv) => {
                let path = variables.get("PATH").map_or("", String::as_str);
                words(argv.words, path)?
            }
        };
        Ok(Self {
            image: Arc::new(Image {
                candidates: resolved.candidates,
                arguments: resolved.arguments,
                environment: environment::to_strings(&variables)?,
                folder,
                identity: identity(&account),
                process_limit: shared.config.limits.processes,
            }),
            is_lasting: false,
            script: match extras.file {
                Some(content) => Some(memory_file(&content)?),
                None => resolved.script,
            },
            input: extras.input.map(|content| memory_file(&content)).transpose()?,
            default_folder,
            user: command.user,
            title: resolved.title,
            is_shell,
        })
    }

    /// The same for a command that goes on when its caller is gone.
    pub(crate) fn lasting(mut self) -> Self {
        self.is_lasting = true;
        self
    }

    /// The same for the sandbox's shell, which the request does not name.
    pub(crate) fn of_the_shell(mut self) -> Self {
        self.is_shell = true;
        self
    }

    /// The same for a program whose input comes from this end of a pipe.
    pub(crate) fn reading(mut self, input: OwnedFd) -> Self {
        self.input = Some(input);
        self
    }

    /// As whom the program will run.
    pub(super) fn owner(&self) -> (Uid, Gid) {
        match &self.image.identity {
            Some(identity) => (identity.uid, identity.gid),
            None => (rustix::process::geteuid(), rustix::process::getegid()),
        }
    }

    /// The error for a failure that happened in the command's process.
    pub(super) fn failure(&self, step: Step, errno: Errno) -> CallError {
        // The request names no program, so this is no mistake of its: the shell's own file is there, and what it
        // needs to run is not.
        let is_in_pieces = matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::NOEXEC | Errno::LIBBAD);
        if self.is_shell && step == Step::Execute && is_in_pieces {
            return CallError::ShellBroken { shell: self.image.name().to_string_lossy().into_owned(), errno };
        }
        let subject = match step {
            Step::EnterFolder => self.image.folder.to_string_lossy().into_owned(),
            Step::SwitchUser => self.user.clone(),
            Step::Execute | Step::Fork | Step::Detach => self.image.name().to_string_lossy().into_owned(),
        };
        CallError::Launch { subject, step, errno }
    }
}

struct Resolved {
    candidates: Vec<CString>,
    arguments: Vec<CString>,
    script: Option<OwnedFd>,
    title: String,
}

/// The sandbox's shell: bash, or sh where there is no bash.
pub(crate) fn find_shell(search_path: &str) -> Result<String, CallError> {
    let (path, _) = locate_shell(search_path)?;
    path.into_string().map_err(|_| CallError::invalid("the path of the shell is not UTF-8"))
}

fn locate_shell(search_path: &str) -> Result<(CString, &'static str), CallError> {
    let missing = || CallError::ShellMissing { search_path: search_path.to_owned() };
    let found = ["bash", "sh"].into_iter().find_map(|name| {
        let mut candidates = search(name, search_path).ok()?.into_iter();
        candidates.find(|path| access(path, Access::EXEC_OK).is_ok()).map(|path| (path, name))
    });
    found.ok_or_else(missing)
}

/// `bash -c text`, or `sh -c text` where there is no bash.
fn shell(text: String, search_path: &str) -> Result<Resolved, CallError> {
    let (shell, name) = locate_shell(search_path)?;
    // The bound counts the terminating NUL, and one byte may be put before the text.
    let (text_argument, script) = if text.len() + 2 > MAX_ARGUMENT_BYTES {
        let source = format!(". /proc/self/fd/{SCRIPT_FD}");
        (c_string("the command", source)?, Some(script(&text)?))
    } else if text.starts_with(['-', '+']) {
        // Else the shell would take the text for options. Not all shells know `--` here.
        (c_string("the command", format!(" {text}"))?, None)
    } else {
        (c_string("the command", text.as_str())?, None)
    };
    let arguments = vec![c_string("the shell", name)?, c_string("the option", "-c")?, text_argument];
    Ok(Resolved { candidates: vec![shell], arguments, script, title: text })
}

/// The text as a file that needs no folder and goes away by itself.
fn script(text: &str) -> Result<OwnedFd, CallError> {
    if text.contains('\0') {
        return Err(CallError::invalid("the command has a NUL byte"));
    }
    memory_file(text.as_bytes())
}

fn memory_file(content: &[u8]) -> Result<OwnedFd, CallError> {
    let path = Path::new("the command's text");
    let file = memfd_create(c"command", MemfdFlags::CLOEXEC).map_err(CallError::file(path))?;
    let mut rest = content;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest).map_err(CallError::file(path))?;
        rest = rest.get(written..).unwrap_or_default();
    }
    seek(&file, SeekFrom::Start(0)).map_err(CallError::file(path))?;
    Ok(file)
}

fn words(words: Vec<String>, search_path: &str) -> Result<Resolved, CallError> {
    let program = words.first().filter(|word| !word.is_empty());
    let program = program.ok_or_else(|| CallError::invalid("the command has no words"))?;
    let candidates = search(program, search_path)?;
    let title = words.join(" ");
    let arguments =
        words.into_iter().map(|word| c_string("an argument", word)).collect::<Result<Vec<_>, _>>()?;
    Ok(Resolved { candidates, arguments, script: None, title })
}

/// Where a program may be: its path, or its name in each folder of the search path. An empty
/// folder there means the working folder.
fn search(program: &str, search_path: &str) -> Result<Vec<CString>, CallError> {
    if program.contains('/') {
        return Ok(vec![c_string("the program", program)?]);
    }
    search_path
        .split(':')
        .map(|folder| if folder.is_empty() { "." } else { folder })
        .map(|folder| c_string("the program", format!("{folder}/{program}")))
        .collect()
}

/// `None` when the agent is that account already: switching would need privileges for nothing.
fn identity(account: &Account) -> Option<Identity> {
    if account.uid == rustix::process::geteuid().as_raw() {
        return None;
    }
    Some(Identity {
        uid: Uid::from_raw(account.uid),
        gid: Gid::from_raw(account.gid),
        groups: account.groups.iter().copied().map(Gid::from_raw).collect(),
    })
}

fn c_string(what: &str, bytes: impl Into<Vec<u8>>) -> Result<CString, CallError> {
    CString::new(bytes).map_err(|_| CallError::invalid(format!("{what} has a NUL byte")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_searched_as_shells_do() {
        let check = |program: &str, path: &str, expect: &[&str]| {
            let found = search(program, path).unwrap();
            let found: Vec<_> = found.iter().map(|path| path.to_str().unwrap()).collect();
            assert_eq!(found, expect, "{program} in {path}");
        };
        check("ls", "/usr/bin:/bin", &["/usr/bin/ls", "/bin/ls"]);
        check("ls", "/usr/bin::", &["/usr/bin/ls", "./ls", "./ls"]);
        check("./ls", "/usr/bin", &["./ls"]);
        check("/x/ls", "/usr/bin", &["/x/ls"]);
        assert!(search("l\0s", "/bin").is_err());
    }

    #[test]
    fn the_text_of_a_command_is_never_an_option() {
        let path = "/usr/bin:/bin";
        let argument = |text: &str| {
            let resolved = shell(text.to_owned(), path).unwrap();
            (resolved.arguments[2].to_str().unwrap().to_owned(), resolved.script.is_some())
        };
        assert_eq!(argument("true"), ("true".to_owned(), false));
        assert_eq!(argument("-x"), (" -x".to_owned(), false));
        assert_eq!(argument("+x"), (" +x".to_owned(), false));
        assert_eq!(argument(&"x".repeat(MAX_ARGUMENT_BYTES)), (". /proc/self/fd/3".to_owned(), true));
        assert!(shell("a\0b".to_owned(), path).is_err());
        assert!(shell("a\0".repeat(MAX_ARGUMENT_BYTES), path).is_err());
        assert!(shell("true".to_owned(), "/no/such/folder").is_err());
    }
}
