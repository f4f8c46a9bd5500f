//! The WriteFile call.

use std::sync::Arc;

use emergent_protocol::v1;
use emergent_protocol::v1::write_file_request::Part;
use tonic::{Status, Streaming};

use crate::accounts::Account;
use crate::agent::Shared;
use crate::body::BrokenOff;
use crate::error::CallError;

use super::replace::{NewFile, Replacement};
use super::{blocking, path};

/// Permission bits of a new file unless the request names others.
const DEFAULT_MODE: u32 = 0o644;

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
    while let Some(message) = parts.message().await? {
        let Some(Part::Data(data)) = message.part else {
            return Err(CallError::invalid("after its header a write has only data").into());
        };
        replacement = blocking(move || {
            replacement.append(&data)?;
            Ok(replacement)
        })
        .await?;
    }
    if broken_off.is_set() {
        return Err(Status::cancelled("the write broke off"));
    }
    let (bytes_written, created) = blocking(move || replacement.commit()).await?;
    Ok(v1::WriteFileResponse { bytes_written, created })
}

fn new_file(header: &v1::WriteFileHeader) -> Result<NewFile, CallError> {
    if header.mode & !0o7777 != 0 {
        return Err(CallError::invalid(format!("{:o} is not a file mode", header.mode)));
    }
    let owner = if header.user.is_empty() { None } else { Some(Account::find(&header.user)?) };
    let mode = if header.mode == 0 { DEFAULT_MODE } else { header.mode };
    Ok(NewFile { mode, owner, size_hint: header.size_hint })
}
