//! Sieges: a workspace does its worst, and the others must not notice.
//!
//! Each begins with figures of quiet moments on the same server, and ends with a besieger that
//! works again or can be destroyed, and with nothing left of it.

mod field;
mod slow_readers;

use std::time::Duration;

use emergent_client::{BashRequest, FinishedCommand, ReadRequest};
use emergent_types::Cpu;

use crate::support::{sh, write};
use field::Field;

/// How long a siege lasts that has no end of its own.
const SIEGE: Duration = Duration::from_secs(4);

/// What a besieger may use where it need not be quick.
const HALF: Cpu = Cpu::from_millis(500);

/// A command that goes on until its time is up.
fn endless(command: &str) -> BashRequest {
    let timeout_ms = u64::try_from(SIEGE.as_millis()).unwrap();
    BashRequest { timeout_ms: Some(timeout_ms), ..BashRequest::new(command) }
}

async fn besiege(field: &Field, name: &str, command: &BashRequest) -> FinishedCommand {
    let besieger = field.besieger;
    field.during(name, async { field.client.bash(besieger, command).await.unwrap() }).await
}

#[tokio::test]
async fn a_fork_bomb_is_a_matter_of_its_own_workspace() {
    let field = Field::prepare(HALF).await;
    let bomb = endless("bomb() { bomb | bomb & }; bomb 2> /dev/null; while :; do :; done");
    let answer = besiege(&field, "a fork bomb", &bomb).await;
    assert!(answer.timed_out, "{answer:?}");
    field.end().await;
}

#[tokio::test]
async fn a_full_disk_is_a_matter_of_its_own_workspace() {
    let field = Field::prepare(HALF).await;
    let (client, id) = (&field.client, field.besieger);
    let more = endless("while :; do cat /dev/zero > full$((++n)); sync; done 2> /dev/null");
    let (filled, more) = field
        .during("a full disk", async {
            let filled = client.bash(id, &BashRequest::new("cat /dev/zero > full; sync")).await.unwrap();
            (filled, client.bash(id, &more).await.unwrap())
        })
        .await;
    assert!(filled.stderr.contains("No space left"), "{filled:?}");
    assert!(more.timed_out, "{more:?}");
    let refused = write(client, id, "one-more", &"x".repeat(1 << 20)).await.unwrap_err();
    assert_eq!(refused.code(), Some("no_space"), "{refused}");
    // Space that is made can be used.
    sh(client, id, "rm /workspace/full*").await;
    write(client, id, "one-more", "fits").await.unwrap();
    field.end().await;
}

#[tokio::test]
async fn used_up_inodes_are_a_matter_of_their_own_workspace() {
    let field = Field::prepare(HALF).await;
    let (client, id) = (&field.client, field.besieger);
    let command = "mkdir -p /workspace/d; cd /workspace/d; while : > $((n++)); do :; done 2> /dev/null
        while :; do : > $((n++)); done 2> /dev/null";
    let answer = besiege(&field, "no inodes", &endless(command)).await;
    assert!(answer.timed_out, "{answer:?}");
    let refused = write(client, id, "one-more", "x").await.unwrap_err();
    assert_eq!(refused.code(), Some("no_space"), "{refused}");
    let request = ReadRequest { file_path: "/workspace/d".to_owned(), offset: None, limit: Some(10) };
    client.read(id, &request).await.unwrap();
    sh(client, id, "rm -r /workspace/d").await;
    write(client, id, "one-more", "fits").await.unwrap();
    field.end().await;
}

#[tokio::test]
async fn ten_gibibytes_of_output_are_a_matter_of_their_own_workspace() {
    // Half a processor would take half a minute for it.
    let field = Field::prepare(Cpu::from_millis(1000)).await;
    let flood = BashRequest {
        timeout_ms: Some(60_000),
        ..BashRequest::new("head -c 10G /dev/zero; echo end; echo err >&2")
    };
    let answer = besiege(&field, "10 GiB of output", &flood).await;
    assert_eq!(answer.total_bytes.stdout, (10 << 30) + 4, "{}", answer.duration_ms);
    assert!(answer.truncated && answer.stdout.ends_with("end\n") && answer.stderr == "err\n");
    assert!(answer.stdout.len() < 64 << 10, "{} bytes in the answer", answer.stdout.len());
    field.end().await;
}
