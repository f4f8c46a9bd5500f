//! Finding files and lines.

use emergent_agent_client::{AgentError, FailureSubject, GlobSpec, GrepOutput, GrepSpec, Grepped};

use super::{Subject, TestSandbox};

fn globbing(pattern: &str) -> GlobSpec {
    GlobSpec { pattern: pattern.to_owned(), ..GlobSpec::default() }
}

/// The files found, below the workspace, and whether there are more.
async fn glob(sandbox: &TestSandbox, spec: GlobSpec) -> (Vec<String>, bool) {
    let found = sandbox.client.glob(&spec).await.unwrap_or_else(|error| panic!("{spec:?}: {error}"));
    (found.files.iter().map(|file| below(sandbox, file)).collect(), found.truncated)
}

fn below(sandbox: &TestSandbox, file: &str) -> String {
    let root = sandbox.path("");
    file.strip_prefix(&root).unwrap_or_else(|| panic!("{file} is not below {root}")).to_owned()
}

fn grepping(pattern: &str) -> GrepSpec {
    GrepSpec { pattern: pattern.to_owned(), ..GrepSpec::default() }
}

async fn grep(sandbox: &TestSandbox, spec: GrepSpec) -> Grepped {
    sandbox.client.grep(&spec).await.unwrap_or_else(|error| panic!("{spec:?}: {error}"))
}

/// `file:line` of what was found.
async fn places(sandbox: &TestSandbox, spec: GrepSpec) -> Vec<String> {
    let found = grep(sandbox, spec).await.matches;
    found.iter().map(|found| format!("{}:{}", below(sandbox, &found.file), found.line)).collect()
}

fn failed<T: std::fmt::Debug>(outcome: Result<T, AgentError>) -> (&'static str, FailureSubject) {
    match outcome {
        Err(AgentError::Failed { code, about, .. }) => (code.as_str(), *about),
        other => panic!("{other:?}"),
    }
}

/// Newest first, with an exact account of whether there are more.
pub async fn globs_find_the_newest_first(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox
        .sh("mkdir -p src/deep; for i in 1 2 3 4; do touch -d \"2020-01-0$i\" src/$i.rs; done; \
             touch -d 2021-01-01 src/deep/new.rs; touch -d 2019-01-01 top.rs; touch x.txt")
        .await;
    let all = ["src/deep/new.rs", "src/4.rs", "src/3.rs", "src/2.rs", "src/1.rs", "top.rs"];
    assert_eq!(glob(&sandbox, globbing("**/*.rs")).await, (all.map(str::to_owned).to_vec(), false));
    for (limit, truncated) in [(5, true), (6, false), (7, false)] {
        let spec = GlobSpec { limit: Some(limit), ..globbing("**/*.rs") };
        let (files, more) = glob(&sandbox, spec).await;
        assert_eq!((files.len(), more), (6.min(limit as usize), truncated));
        assert_eq!(files[0], "src/deep/new.rs");
    }
    let check = |pattern: &str, path: Option<&str>| {
        let spec = GlobSpec { path: path.map(str::to_owned), ..globbing(pattern) };
        let sandbox = &sandbox;
        async move {
            let mut files = glob(sandbox, spec).await.0;
            files.sort();
            files.join(" ")
        }
    };
    assert_eq!(check("*.rs", None).await, "top.rs");
    assert_eq!(check("*.rs", Some("src")).await, "src/1.rs src/2.rs src/3.rs src/4.rs");
    assert_eq!(check("src/[12].{rs,txt}", None).await, "src/1.rs src/2.rs");
    assert_eq!(check("*.rs", Some("src/1.rs")).await, "src/1.rs");
    assert_eq!(check("*.txt", Some("src/1.rs")).await, "");
    assert_eq!(check(&sandbox.path("src/deep/*"), None).await, "src/deep/new.rs");
    assert_eq!(check("nothing/**", None).await, "");
    assert_eq!(check("$(touch pwned)*;`id`", None).await, "");
    assert_eq!(sandbox.run("test -e pwned").await.exit.code, 1);
}

/// `.gitignore` counts, `.git` does not, and hidden files come when they are called.
pub async fn globs_leave_out_what_is_ignored_or_hidden(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox
        .sh("mkdir -p .git target/sub .github src; touch .git/config target/sub/a.o .github/ci.yml .env src/a.o src/keep.o src/a.c; \
             printf 'target/\\n*.o\\n!keep.o\\n' > .gitignore; ln -s .. src/loop; ln -s a.c src/link.c")
        .await;
    let sorted = |spec: GlobSpec| {
        let sandbox = &sandbox;
        async move {
            let mut files = glob(sandbox, spec).await.0;
            files.sort();
            files.join(" ")
        }
    };
    assert_eq!(sorted(globbing("**")).await, "src/a.c src/keep.o src/link.c");
    assert_eq!(sorted(globbing(".env*")).await, ".env");
    assert_eq!(sorted(globbing("**/.github/*")).await, ".github/ci.yml");
    let everything = GlobSpec { include_ignored: true, ..globbing("**/*.o") };
    assert_eq!(sorted(everything).await, "src/a.o src/keep.o target/sub/a.o");
    let git = GlobSpec { include_ignored: true, ..globbing(".git/*") };
    assert_eq!(sorted(git).await, ".git/config");
}

/// Lines in order, with what is around them.
pub async fn greps_find_lines_in_order(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox
        .sh("mkdir -p b/c .git .hidden; printf 'one\\ntwo needle\\nthree\\nNeedle\\n' > b/c/x.txt; echo needle > a.rs; \
             echo needle > b/y.rs; echo needle > .git/x; echo needle > .hidden/x; echo needle > ignored; \
             echo ignored > .gitignore; printf 'needle\\0' > binary; mkfifo pipe; ln -s a.rs link; \
             printf 'needle caf\\351\\r\\n' > latin")
        .await;
    let found = places(&sandbox, grepping("needle")).await;
    assert_eq!(found, [".hidden/x:1", "a.rs:1", "b/c/x.txt:2", "b/y.rs:1", "latin:1"]);
    let found = places(&sandbox, GrepSpec { case_insensitive: true, ..grepping("^needle$") }).await;
    assert_eq!(found, [".hidden/x:1", "a.rs:1", "b/c/x.txt:4", "b/y.rs:1"]);
    let include = GrepSpec { include: Some("*.rs".to_owned()), ..grepping("needle") };
    assert_eq!(places(&sandbox, include).await, ["a.rs:1", "b/y.rs:1"]);
    let path = GrepSpec { path: Some("b/c/x.txt".to_owned()), context: 1, ..grepping("two") };
    let found = grep(&sandbox, path).await.matches;
    assert_eq!((found[0].text.as_str(), found[0].line), ("two needle", 2));
    assert_eq!(
        (found[0].before.as_slice(), found[0].after.as_slice()),
        (["one".to_owned()].as_slice(), ["three".to_owned()].as_slice())
    );
    let multiline = GrepSpec { multiline: true, ..grepping("needle\\nthree") };
    let found = grep(&sandbox, multiline).await.matches;
    assert_eq!((found[0].line, found[0].text.as_str()), (2, "two needle\nthree"));
    let ignored = GrepSpec { include_ignored: true, ..grepping("needle") };
    assert_eq!(places(&sandbox, ignored).await.len(), 7);
    let latin = GrepSpec { path: Some("latin".to_owned()), ..grepping("needle") };
    assert_eq!(grep(&sandbox, latin).await.matches[0].text, "needle caf\u{fffd}");
    assert_eq!(places(&sandbox, grepping("no such thing")).await, [""; 0]);
}

/// Files, counts and limits, exactly.
pub async fn greps_count_exactly(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("for f in a b c; do seq 1 100 > $f; done; head -c 100000 /dev/zero | tr '\\0' x > long").await;
    let files = GrepSpec { output: GrepOutput::Files, ..grepping("^1") };
    let found = grep(&sandbox, files).await;
    let names: Vec<_> = found.files.iter().map(|found| below(&sandbox, &found.file)).collect();
    assert_eq!((names, found.truncated), (["a", "b", "c"].map(str::to_owned).to_vec(), false));
    let counts = GrepSpec { output: GrepOutput::Count, limit: Some(2), ..grepping("^1") };
    let found = grep(&sandbox, counts).await;
    let counts: Vec<_> = found.files.iter().map(|found| found.count).collect();
    assert_eq!((counts, found.truncated), (vec![12, 12], true));
    for (limit, expect) in [(35, true), (36, false), (37, false), (12, true)] {
        let found = grep(&sandbox, GrepSpec { limit: Some(limit), ..grepping("^1") }).await;
        assert_eq!((found.matches.len(), found.truncated), (36.min(limit as usize), expect), "{limit}");
    }
    let long = grep(&sandbox, grepping("xxx")).await;
    assert_eq!(long.matches.len(), 1);
    assert!(long.matches[0].text.len() < 3000 && long.matches[0].text.ends_with("[line cut]"));
}

/// Mistakes are named with their place.
pub async fn bad_searches_are_refused(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("mkdir folder").await;
    let check = |outcome: (&'static str, FailureSubject), field: &str, position: Option<u64>| {
        assert_eq!(
            (outcome.0, outcome.1.field.as_deref(), outcome.1.position),
            ("invalid_request", Some(field), position)
        );
    };
    check(failed(sandbox.client.glob(&globbing("a[b")).await), "pattern", Some(1));
    check(failed(sandbox.client.glob(&globbing("a{b")).await), "pattern", Some(1));
    check(failed(sandbox.client.glob(&globbing("")).await), "pattern", None);
    let many = GlobSpec { limit: Some(1_000_000), ..globbing("*") };
    check(failed(sandbox.client.glob(&many).await), "limit", None);
    check(failed(sandbox.client.grep(&grepping("a(b")).await), "pattern", Some(1));
    check(failed(sandbox.client.grep(&grepping("a\\nb")).await), "pattern", Some(1));
    let include = GrepSpec { include: Some("*.rs,[".to_owned()), ..grepping("a") };
    check(failed(sandbox.client.grep(&include).await), "include", Some(5));
    let context = GrepSpec { context: 1_000_000, ..grepping("a") };
    check(failed(sandbox.client.grep(&context).await), "context", None);
    let missing = GlobSpec { path: Some("foldr".to_owned()), ..globbing("*") };
    let (code, about) = failed(sandbox.client.glob(&missing).await);
    assert_eq!((code, about.suggestions), ("file_not_found", vec!["folder".to_owned()]));
    let missing = GrepSpec { path: Some("foldr".to_owned()), ..grepping("a") };
    assert_eq!(failed(sandbox.client.grep(&missing).await).0, "file_not_found");
    let device = GrepSpec { path: Some("/dev/zero".to_owned()), ..grepping("a") };
    assert_eq!(failed(sandbox.client.grep(&device).await).0, "invalid_request");
}

/// What is shown of a long line is the part that matches.
pub async fn greps_show_the_match_of_a_long_line(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox
        .sh("{ head -c 100000 /dev/zero | tr '\\0' x; printf 'needle'; head -c 100000 /dev/zero | tr '\\0' y; echo; } > long; \
             { printf 'needle'; head -c 100000 /dev/zero | tr '\\0' y; } > begins")
        .await;
    let found = grep(&sandbox, grepping("ne+dle")).await.matches;
    let [begins, long] = found.as_slice() else { panic!("{found:?}") };
    assert!(long.text.contains("xxxneedleyyy") && long.text.chars().count() < 2100, "{}", long.text);
    assert!(
        long.text.starts_with("[line cut] … x") && long.text.ends_with("y … [line cut]"),
        "{}",
        long.text
    );
    assert!(
        begins.text.starts_with("needleyyy") && begins.text.ends_with("y … [line cut]"),
        "{}",
        begins.text
    );
}

/// A line ends before its `\r\n`.
pub async fn greps_know_line_ends(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("printf 'foo\\r\\nbar foo\\r\\n\\r\\nlast foo' > dos; printf 'foo\\nfoo bar\\n' > unix").await;
    let text = async |spec: GrepSpec| {
        let found = grep(&sandbox, spec).await.matches;
        let shown = found
            .iter()
            .map(|found| format!("{}:{} {}", below(&sandbox, &found.file), found.line, found.text));
        shown.collect::<Vec<_>>().join("|")
    };
    assert_eq!(text(grepping("foo$")).await, "dos:1 foo|dos:2 bar foo|dos:4 last foo|unix:1 foo");
    assert_eq!(text(grepping("^foo$")).await, "dos:1 foo|unix:1 foo");
    assert_eq!(text(grepping("^$")).await, "dos:3 ");
    assert_eq!(text(grepping("foo.")).await, "unix:2 foo bar");
    assert_eq!(
        text(grepping("foo[^\\r\\n]*$")).await,
        "dos:1 foo|dos:2 bar foo|dos:4 last foo|unix:1 foo|unix:2 foo bar"
    );
    // Who asks for them finds them.
    assert_eq!(text(grepping("foo\\r")).await, "dos:1 foo|dos:2 bar foo");
    let multiline = |pattern: &str| GrepSpec { multiline: true, ..grepping(pattern) };
    assert_eq!(text(multiline("^foo$")).await, "dos:1 foo|unix:1 foo");
    assert_eq!(text(multiline("foo\\s+bar foo")).await, "dos:1 foo\nbar foo");
    let context = GrepSpec { context: 1, ..grepping("^bar") };
    let found = grep(&sandbox, context).await.matches;
    assert_eq!(
        (found[0].before.as_slice(), found[0].after.as_slice()),
        (["foo".to_owned()].as_slice(), [String::new()].as_slice())
    );
}

/// Text that turns out to be something else has matches all the same, and the answer says that
/// there may be more.
pub async fn greps_keep_what_comes_before_a_nul(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox
        .sh("{ echo needle; seq 1 100000; printf 'needle 2\\n\\0needle 3\\n'; } > late; { seq 1 100000; printf '\\0needle'; } > nothing; \
             printf 'needle\\n\\0' > binary; printf '\\377\\376n\\0e\\0e\\0d\\0l\\0e\\0\\n\\0' > utf16")
        .await;
    let found = grep(&sandbox, grepping("needle")).await;
    let seen: Vec<_> = found
        .matches
        .iter()
        .map(|found| format!("{}:{}", below(&sandbox, &found.file), found.line))
        .collect();
    assert_eq!((seen.join(" ").as_str(), found.truncated), ("late:1 late:100002 utf16:1", true));
    let files = grep(&sandbox, GrepSpec { output: GrepOutput::Files, ..grepping("needle") }).await;
    assert_eq!((files.files.len(), files.truncated), (2, false));
    let nothing = GrepSpec { path: Some("nothing".to_owned()), ..grepping("needle") };
    let found = grep(&sandbox, nothing).await;
    assert_eq!((found.matches.len(), found.truncated), (0, false));
}

/// However a folder is named, what is found in it has one name.
pub async fn answers_show_plain_paths(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    sandbox.sh("mkdir src; echo needle > src/file").await;
    for path in [".", "./src/..", "src//", "./src/./", "src/file", "./src/../src/file"] {
        let found = grep(&sandbox, GrepSpec { path: Some(path.to_owned()), ..grepping("needle") }).await;
        assert_eq!(found.matches[0].file, sandbox.path("src/file"), "{path}");
        let spec = GlobSpec { path: Some(path.to_owned()), ..globbing("**") };
        assert_eq!(glob(&sandbox, spec).await.0, ["src/file"], "{path}");
    }
}
