//! Answers of the right shape whose content is as odd as can be.

use bytes::Bytes;
use emergent_protocol::v1;
use prost::Message;

/// What would do harm in a terminal, a log or a stream of events that takes it as it is.
pub(super) const ODD: &str = "\0\u{1b}[2J\r\n\r\nevent: exit\r\ndata: {}\r\n\r\n../../\u{202e}";

/// The messages for a call of this name.
pub(super) fn of(method: &str) -> Vec<Vec<u8>> {
    let odd = ODD.to_owned();
    let bytes = Bytes::from_static(b"\xff\xfe\0\x1b[2J");
    let exit = Some(v1::Exit { code: i32::MIN, signal: u32::MAX, oom_killed: true });
    match method {
        "Exec" => {
            let capture = v1::Capture { head: bytes.clone(), tail: bytes, total_bytes: u64::MAX };
            let exited = v1::Exited {
                exit,
                stdout: Some(capture.clone()),
                stderr: Some(capture),
                duration_ms: u64::MAX,
                output_file: format!("/{odd}"),
                ..Default::default()
            };
            let exited = v1::exec_event::Event::Exited(exited);
            vec![v1::ExecEvent { event: Some(exited) }.encode_to_vec()]
        }
        "StartProcess" => {
            vec![v1::StartProcessResponse { process_id: u64::MAX, pid: u32::MAX }.encode_to_vec()]
        }
        "ListProcesses" => {
            let process = v1::Process {
                process_id: 1,
                pid: u32::MAX,
                command: odd,
                started_unix_ms: u64::MAX,
                exit,
                stdout_bytes: u64::MAX,
                stderr_bytes: u64::MAX,
            };
            vec![v1::ListProcessesResponse { processes: vec![process] }.encode_to_vec()]
        }
        "ProcessOutput" => {
            vec![v1::ProcessOutputChunk { offset: u64::MAX, data: bytes }.encode_to_vec()]
        }
        "SignalProcess" => vec![v1::SignalProcessResponse { delivered: u32::MAX }.encode_to_vec()],
        "ReadPage" => {
            let page =
                v1::TextPage { content: odd, total_lines: u64::MAX, truncated: true, next_offset: u64::MAX };
            let content = Some(v1::read_page_response::Content::Text(page));
            vec![v1::ReadPageResponse { content }.encode_to_vec()]
        }
        "ReadFile" => {
            let chunk = v1::FileChunk { data: bytes, size: u64::MAX, modified_unix_ms: i64::MIN };
            vec![chunk.encode_to_vec()]
        }
        "Stat" => {
            let stat = v1::StatResponse {
                kind: v1::FileKind::File.into(),
                size: u64::MAX,
                mode: u32::MAX,
                modified_unix_ms: i64::MIN,
                target: odd,
                ..Default::default()
            };
            vec![stat.encode_to_vec()]
        }
        "WriteFile" => {
            vec![v1::WriteFileResponse { bytes_written: u64::MAX, created: true }.encode_to_vec()]
        }
        "Edit" => {
            let edited = v1::EditResponse {
                lines_changed: u64::MAX,
                replacements: u64::MAX,
                diff: odd,
                rule: v1::MatchRule::Exact.into(),
                ..Default::default()
            };
            vec![edited.encode_to_vec()]
        }
        "Glob" => vec![v1::GlobResponse { files: vec![odd], truncated: true }.encode_to_vec()],
        "Grep" => {
            let found = v1::GrepMatch { file: odd.clone(), line: u64::MAX, text: odd, ..Default::default() };
            vec![v1::GrepResponse { matches: vec![found], ..Default::default() }.encode_to_vec()]
        }
        "Git" => {
            let status = v1::GitStatusResponse {
                branch: odd.clone(),
                ahead: u64::MAX,
                untracked: vec![odd],
                ..Default::default()
            };
            let answer = Some(v1::git_response::Answer::Status(status));
            vec![v1::GitResponse { answer }.encode_to_vec()]
        }
        "Watch" => {
            let watching = v1::WatchEvent { kind: v1::ChangeKind::Watching.into(), ..Default::default() };
            let created =
                v1::WatchEvent { kind: v1::ChangeKind::Created.into(), path: odd, ..Default::default() };
            vec![watching.encode_to_vec(), created.encode_to_vec()]
        }
        "Terminal" => {
            let exit = exit.map(v1::terminal_output::Output::Exit);
            vec![v1::TerminalOutput { output: exit }.encode_to_vec()]
        }
        "Tunnel" => {
            let opened = v1::tunnel_output::Output::Opened(v1::TunnelOpened {});
            let data = v1::tunnel_output::Output::Data(bytes);
            [opened, data].map(|output| v1::TunnelOutput { output: Some(output) }.encode_to_vec()).to_vec()
        }
        _ => Vec::new(),
    }
}

/// The same, with what is no UTF-8 in every text that has [`ODD`] in it.
pub(super) fn without_text(method: &str) -> Vec<Vec<u8>> {
    let mut messages = of(method);
    for message in &mut messages {
        let places: Vec<_> = message
            .windows(ODD.len())
            .enumerate()
            .filter_map(|(place, part)| (part == ODD.as_bytes()).then_some(place))
            .collect();
        for place in places {
            message[place] = 0xff;
        }
    }
    messages
}

/// A failure that tells of a file.
pub(super) fn failure() -> v1::Failure {
    v1::Failure {
        message: ODD.to_owned(),
        path: ODD.to_owned(),
        suggestions: vec![ODD.to_owned(); 60],
        lines: vec![u64::MAX; 200],
        position: u64::MAX,
        has_position: true,
        field: ODD.to_owned(),
        ..Default::default()
    }
}
