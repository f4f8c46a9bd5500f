//! Sends requests and reads answers.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ApiFailure, ClientError};

/// How long to wait for a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How long a call may take that does not say so itself: as long as the slowest create.
const CALL_LIMIT: Duration = Duration::from_secs(300);

/// A query without parameters.
pub(crate) const NO_QUERY: [(&str, &str); 0] = [];

/// Talks to one server. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    /// Marked sensitive: it does not show when headers are printed.
    authorization: HeaderValue,
}

/// The body of an answer that is not a success.
#[derive(Deserialize)]
pub(crate) struct ErrorBody {
    pub(crate) error: ErrorContent,
}

/// What went wrong, as the server says it.
#[derive(Deserialize)]
pub(crate) struct ErrorContent {
    code: String,
    message: String,
    #[serde(default)]
    details: Map<String, Value>,
}

impl ErrorContent {
    /// An error of an answer with this status.
    pub(crate) fn into_failure(self, status: u16) -> ApiFailure {
        ApiFailure {
            status,
            code: self.code,
            message: self.message,
            details: self.details,
            retry_after_seconds: None,
            request_id: None,
        }
    }
}

impl Client {
    /// A client for the server at `url`, with a token.
    pub fn new(url: &str, token: &str) -> Result<Self, ClientError> {
        let invalid =
            |reason: &str| ClientError::InvalidUrl { url: url.to_owned(), reason: reason.to_owned() };
        let base: Url = url.parse().map_err(|_| invalid("expected http://HOST:PORT"))?;
        match base.scheme() {
            "http" => {}
            "https" => {
                return Err(invalid("TLS is not supported yet; use http, over a tunnel where it must be"));
            }
            _ => return Err(invalid("expected http://HOST:PORT")),
        }
        if base.cannot_be_a_base() || !base.has_host() {
            return Err(invalid("it names no host"));
        }
        let mut authorization =
            HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| ClientError::InvalidToken)?;
        authorization.set_sensitive(true);
        // A proxy of the environment has no business between this program and its server.
        let http = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(CONNECT_LIMIT)
            .tcp_nodelay(true)
            .build()
            .map_err(|error| invalid(&error.to_string()))?;
        Ok(Self { http, base, authorization })
    }

    /// The server's address.
    pub fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.send(self.request(Method::GET, path).query(query)).await
    }

    pub(crate) async fn delete<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.send(self.request(Method::DELETE, path).query(query)).await
    }

    pub(crate) async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.send(self.request(Method::PUT, path).json(body)).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// A post that may take as long as what it asks for.
    pub(crate) async fn post_long<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        limit: Duration,
    ) -> Result<T, ClientError> {
        self.send(self.request(Method::POST, path).json(body).timeout(limit)).await
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.unbounded(method, path).timeout(CALL_LIMIT)
    }

    /// A request whose answer may take as long as it needs.
    pub(crate) fn unbounded(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.url());
        self.http.request(method, url).header(AUTHORIZATION, self.authorization.clone())
    }

    /// Sends a request and gives the answer as soon as its head is there.
    pub(crate) async fn open(&self, request: reqwest::RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() { Ok(response) } else { Err(self.failure(response).await) }
    }

    /// What proves who is asking.
    pub(crate) fn authorization(&self) -> HeaderValue {
        self.authorization.clone()
    }

    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<T, ClientError> {
        let response = self.open(request).await?;
        let status = response.status().as_u16();
        let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        serde_json::from_slice(&body).map_err(|error| self.unexpected(status, &error))
    }

    async fn failure(&self, response: Response) -> ClientError {
        let status = response.status().as_u16();
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let retry_after_seconds = header(RETRY_AFTER.as_str()).and_then(|text| text.parse().ok());
        let request_id = header("x-request-id");
        let body = match response.bytes().await {
            Ok(body) => body,
            Err(error) => return self.unreachable(&error),
        };
        match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(ErrorBody { error }) => {
                ClientError::Api(ApiFailure { retry_after_seconds, request_id, ..error.into_failure(status) })
            }
            Err(error) => self.unexpected(status, &error),
        }
    }

    pub(crate) fn unreachable(&self, error: &dyn std::error::Error) -> ClientError {
        // The outermost text names the address again; what happened is at the bottom.
        let mut cause = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        ClientError::Unreachable { url: self.url().to_owned(), reason: cause.to_string() }
    }

    pub(crate) fn unexpected(&self, status: u16, error: &dyn std::fmt::Display) -> ClientError {
        ClientError::UnexpectedAnswer { url: self.url().to_owned(), status, reason: error.to_string() }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("url", &self.url()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for good in ["http://127.0.0.1:8585", "http://localhost:1/", "http://[::1]:8585"] {
            assert!(Client::new(good, "token").is_ok(), "{good}");
        }
        for bad in ["", "127.0.0.1:8585", "ftp://x", "unix:/x", "http://"] {
            assert!(matches!(Client::new(bad, "token"), Err(ClientError::InvalidUrl { .. })), "{bad}");
        }
        let error = Client::new("https://example.org", "token").unwrap_err();
        assert!(error.to_string().contains("TLS is not supported yet"), "{error}");
    }

    #[test]
    fn the_token_does_not_print() {
        let client = Client::new("http://127.0.0.1:1", "hunter2").unwrap();
        assert!(!format!("{client:?} {:?}", client.authorization).contains("hunter2"));
        assert!(matches!(Client::new("http://127.0.0.1:1", "a\nb"), Err(ClientError::InvalidToken)));
    }
}
