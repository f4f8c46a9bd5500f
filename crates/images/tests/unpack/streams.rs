//! Archives that arrive in chunks.

use std::convert::Infallible;
use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use emergent_images::unpack::{Limits, UnpackError, unpack_stream};
use futures::{StreamExt, stream};

use crate::archives::{Archive, Ground, names};

fn chunks(archive: &[u8], size: usize) -> Vec<Result<Bytes, io::Error>> {
    archive.chunks(size).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect()
}

#[tokio::test]
async fn chunks_of_any_size() {
    let content: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    let archive = Archive::default().folder("a").file("a/b", &content).bytes();
    for size in [1000, 4096, 1 << 20] {
        let ground = Ground::new();
        let stream = stream::iter(chunks(&archive, size));
        unpack_stream(stream, ground.root(), Limits::default()).await.unwrap();
        assert_eq!(std::fs::read(ground.root().join("a/b")).unwrap(), content);
    }
}

#[tokio::test]
async fn a_stream_that_ends_early_or_fails_leaves_nothing() {
    let archive = Archive::default().file("a", vec![7; 100_000]).bytes();
    let ground = Ground::new();
    let answer =
        unpack_stream(stream::iter(chunks(&archive[..50_000], 1000)), ground.root(), Limits::default()).await;
    assert!(matches!(answer, Err(UnpackError::CutOff { bytes: 50_000 })), "{answer:?}");

    let mut broken = chunks(&archive[..50_000], 1000);
    broken.push(Err(io::Error::other("the daemon went away")));
    let answer = unpack_stream(stream::iter(broken), ground.root(), Limits::default()).await.unwrap_err();
    assert!(answer.to_string().contains("the daemon went away") && answer.is_retryable(), "{answer}");
    assert_eq!(names(&ground.images()), [""; 0]);
}

#[tokio::test]
async fn a_refusal_does_not_wait_for_the_rest() {
    let ground = Ground::new();
    let start = chunks(&Archive::default().file("../a", "x").bytes(), 512);
    let endless = stream::iter(start).chain(stream::pending());
    let answer = unpack_stream(endless, ground.root(), Limits::default()).await;
    assert!(matches!(answer, Err(UnpackError::Outside { .. })), "{answer:?}");
}

#[tokio::test]
async fn silence_runs_out_of_time() {
    let ground = Ground::new();
    let start = chunks(&Archive::default().file("a", vec![7; 100_000]).bytes()[..50_000], 1000);
    let silent = stream::iter(start).chain(stream::pending());
    let limits = Limits { time: Duration::from_millis(300), ..Limits::default() };
    let started = Instant::now();
    let answer = unpack_stream(silent, ground.root(), limits).await;
    assert!(matches!(answer, Err(UnpackError::TimedOut { .. })), "{answer:?}");
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(names(&ground.images()), [""; 0]);
}

#[tokio::test]
async fn dropped_in_the_middle_it_cleans_up() {
    let ground = Ground::new();
    let start = chunks(&Archive::default().file("a", vec![7; 100_000]).bytes()[..50_000], 1000);
    let silent = stream::iter(start).chain(stream::pending());
    let unpacking = unpack_stream(silent, ground.root(), Limits::default());
    assert!(tokio::time::timeout(Duration::from_millis(300), unpacking).await.is_err());
    for _ in 0..500 {
        if names(&ground.images()).is_empty() {
            let whole = Archive::default().file("a", "x").bytes();
            let stream = stream::iter([Ok::<_, Infallible>(Bytes::from(whole))]);
            unpack_stream(stream, ground.root(), Limits::default()).await.unwrap();
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("still there: {:?}", names(&ground.images()));
}
