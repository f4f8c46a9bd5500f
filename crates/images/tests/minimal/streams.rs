//! An image as a stream of chunks.

use std::fs;
use std::pin::pin;

use emergent_images::minimal::MinimalError;
use futures::StreamExt;

use crate::hosts::{Host, Image};

#[tokio::test]
async fn the_stream_is_the_image() {
    let host = Host::new();
    host.file("usr/lib/large", vec![b'x'; 3 << 20], 0o644);
    let mut bytes = Vec::new();
    let mut chunks = pin!(host.plan().unwrap().into_stream());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.unwrap();
        assert!(chunk.len() <= 256 << 10);
        bytes.extend_from_slice(&chunk);
    }
    assert_eq!(Image::read(&bytes).content("usr/lib/large").unwrap().len(), 3 << 20);
}

#[tokio::test]
async fn a_failure_is_the_last_item() {
    let host = Host::new();
    host.file("usr/lib/large", vec![b'x'; 3 << 20], 0o644).file("usr/lib/last", "x", 0o644);
    let plan = host.plan().unwrap();
    fs::remove_file(host.path("usr/lib/last")).unwrap();
    let chunks: Vec<_> = plan.into_stream().collect().await;
    let (last, others) = chunks.split_last().unwrap();
    assert!(matches!(last, Err(MinimalError::Host { .. })));
    assert!(others.iter().all(Result::is_ok));
}

#[tokio::test]
async fn nothing_is_read_ahead_of_who_listens() {
    let host = Host::new();
    for number in 0..40 {
        host.file(&format!("usr/lib/{number}"), vec![b'x'; 1 << 20], 0o644);
    }
    let mut chunks = Box::pin(host.plan().unwrap().into_stream());
    chunks.next().await.unwrap().unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    // It has come as far as a few chunks, so what lies behind has not been opened yet.
    for number in 20..40 {
        fs::remove_file(host.path(&format!("usr/lib/{number}"))).unwrap();
    }
    let rest: Vec<_> = chunks.collect().await;
    assert!(matches!(rest.last(), Some(Err(MinimalError::Host { .. }))));
}
