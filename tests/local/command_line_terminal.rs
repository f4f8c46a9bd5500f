//! What a terminal is shown.

use std::process::Stdio;

use crate::command_line_shell::Shell;

/// A file's content does not command the terminal of whoever looks at it.
#[tokio::test]
async fn a_file_is_no_command_to_a_terminal() {
    let shell = Shell::start().await;
    assert_eq!(
        shell.run_with("write", &["evil"], b"a\x1b]0;mine\x07b\tc and some more text\n").await.code,
        Some(0)
    );
    let line = "1: a\\u{1b}]0;mine\\u{7}b\tc and some more text";
    // The tests are beside the folder that has the program.
    let own = std::env::current_exe().unwrap();
    let found = own.ancestors().map(|folder| folder.join("emergent")).find(|path| path.is_file());
    let program = std::env::var_os("EMERGENT_BIN").map(Into::into).or(found).unwrap();
    for (arguments, expect) in [("read ID evil", line), ("grep ID mine", line.trim_start_matches("1: "))] {
        let command = format!("{} workspace {}", program.display(), arguments.replace("ID", &shell.id));
        // `script` runs it on a terminal, and passes on what that would show.
        let shown = tokio::process::Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .env("EMERGENT_DATA_DIR", shell.server.data_dir())
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains(expect) && !shown.contains('\u{1b}'), "{arguments}: {shown:?}");
    }
    shell.server.finish().await;
}
