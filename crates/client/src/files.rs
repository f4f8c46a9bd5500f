//! Files of any size, as bytes.

use std::time::Duration;

use bytes::Bytes;
use emergent_types::WorkspaceId;
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Body, Method, Response};
use tokio::io::AsyncRead;
use tokio_util::io::ReaderStream;

use crate::workspaces::WORKSPACES;
use crate::{Client, ClientError, WriteAnswer};

/// How long the server may be silent.
const IDLE_LIMIT: Duration = Duration::from_secs(120);

/// How much is read and sent at once.
const PIECE_BYTES: usize = 256 << 10;

/// A file to upload.
#[derive(Debug, Clone, Default)]
pub struct Upload {
    /// Relative paths start at `/workspace`.
    pub path: String,
    /// Permission bits of a new file.
    pub mode: Option<u32>,
    /// How much is to come, where it is known: exactly so much must.
    pub size: Option<u64>,
}

/// A file that is being downloaded.
pub struct Download {
    client: Client,
    response: Response,
    size: Option<u64>,
}

impl Download {
    /// How much is to come, where the server knows.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// The next bytes; `None` at the end. An answer that breaks off is an error.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        match tokio::time::timeout(IDLE_LIMIT, self.response.chunk()).await {
            Ok(chunk) => chunk.map_err(|error| self.client.unreachable(&error)),
            Err(_) => Err(ClientError::Unreachable {
                url: self.client.url().to_owned(),
                reason: format!("nothing came for {} seconds", IDLE_LIMIT.as_secs()),
            }),
        }
    }
}

impl Client {
    /// Downloads a file.
    pub async fn download(&self, id: WorkspaceId, path: &str) -> Result<Download, ClientError> {
        let request = self.unbounded(Method::GET, &format!("{WORKSPACES}/{id}/files"));
        let response = self.open(request.query(&[("path", path)])).await?;
        let size = response.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        Ok(Download { client: self.clone(), response, size })
    }

    /// Uploads a file. What breaks off leaves what was there.
    pub async fn upload(
        &self,
        id: WorkspaceId,
        upload: &Upload,
        content: impl AsyncRead + Send + 'static,
    ) -> Result<WriteAnswer, ClientError> {
        let mut query = vec![("path", upload.path.clone())];
        query.extend(upload.mode.map(|mode| ("mode", format!("{mode:o}"))));
        let mut request = self.unbounded(Method::PUT, &format!("{WORKSPACES}/{id}/files")).query(&query);
        if let Some(size) = upload.size {
            request = request.header(CONTENT_LENGTH, size);
        }
        let content = ReaderStream::with_capacity(content, PIECE_BYTES);
        self.send(request.body(Body::wrap_stream(content))).await
    }
}
