//! The WriteFile call.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use emergent_protocol::v1;
use emergent_protocol::v1::write_file_request::Part;
use tokio_stream::Stream;
use tonic::{Status, Streaming};

use crate::accounts::Account;
use crate::agent::Shared;
use crate::body::BrokenOff;
use crate::error::CallError;

use super::replace::{NewFile, Replacement};
use super::turns::in_turn;
use super::{blocking, path};

/// Permission bits of a new file unless the request names others.
const DEFAULT_MODE: u32 = 0o644;

/// What is written at once, so that a thread is not woken for each message.
const BATCH_BYTES: usize = 512 << 10;

/// Replaces a file with what the messages bring. A stream that breaks off changes nothing.
pub(crate) async fn write_file(
    shared: &Arc<Shared>,
    mut parts: Streaming<v1::WriteFileRequest>,
    broken_off: BrokenOff,
) -> Result<v1::WriteFileResponse, Status> {
    let Some(Part::Header(header)) = parts.message().await?.and_then(|message| message.part) else {
        return Err(CallError::invalid("the first message of a write must be its header").into());
    };
    let path = path::resolve(&shared.config.workspace, &header.path)?;
    let new = new_file(&header)?;
    let mut replacement = blocking(move || Replacement::begin(&path, &new)).await?;
    let mut batch = gather(&mut parts).await?;
    while !batch.is_empty() {
        // The next messages come while these are written.
        let writing = async {
            let written = blocking(move || {
                batch.iter().try_for_each(|data| replacement.append(data))?;
                Ok(replacement)
            });
            written.await.map_err(Status::from)
        };
        (replacement, batch) = tokio::try_join!(writing, gather(&mut parts))?;
    }
    if broken_off.is_set() {
        return Err(Status::cancelled("the write broke off"));
    }
    let synced = move || {
        replacement.sync()?;
        Ok(replacement)
    };
    let (bytes_written, created) = in_turn(synced, Replacement::commit_synced).await?;
    Ok(v1::WriteFileResponse { bytes_written, created })
}

/// Waits for data, and takes what else has come already. Empty at the end.
async fn gather(parts: &mut Streaming<v1::WriteFileRequest>) -> Result<Vec<Bytes>, Status> {
    let mut batch = Vec::new();
    let mut size = 0;
    while size < BATCH_BYTES {
        let message = if batch.is_empty() {
            parts.message().await?
        } else {
            match at_once(parts).await {
                Some(message) => message?,
                None => break,
            }
        };
        let Some(message) = message else { break };
        let Some(Part::Data(data)) = message.part else {
            return Err(CallError::invalid("after its header a write has only data").into());
        };
        if !data.is_empty() {
            size += data.len();
            batch.push(data);
        }
    }
    Ok(batch)
}

/// The next message, if it is there.
async fn at_once(
    parts: &mut Streaming<v1::WriteFileRequest>,
) -> Option<Result<Option<v1::WriteFileRequest>, Status>> {
    std::future::poll_fn(|context| {
        Poll::Ready(match Pin::new(&mut *parts).poll_next(context) {
            Poll::Ready(message) => Some(message.transpose()),
            Poll::Pending => None,
        })
    })
    .await
}

fn new_file(header: &v1::WriteFileHeader) -> Result<NewFile, CallError> {
    if header.mode & !0o7777 != 0 {
        return Err(CallError::invalid(format!("{:o} is not a file mode", header.mode)));
    }
    let owner = if header.user.is_empty() { None } else { Some(Account::find(&header.user)?) };
    let mode = if header.mode == 0 { DEFAULT_MODE } else { header.mode };
    Ok(NewFile { mode, owner, size_hint: header.size_hint })
}
