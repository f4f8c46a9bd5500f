//! The agent at its boundary: every call over a real HTTP/2 connection, and the binary in every
//! mode.

mod edit;
mod exec;
mod files;
mod git;
mod hello;
mod init;
mod kill;
mod memory;
mod output;
mod processes;
mod quiesce;
mod relay;
mod seccomp;
mod space;
mod streams;
mod support;
mod terminal;
mod tunnel;
