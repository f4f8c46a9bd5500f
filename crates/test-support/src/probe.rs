//! Requests as they are, well-formed or not.

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Method};
use serde_json::Value;

/// Sends requests as they are. What [`emergent_client::Client`] would not do, this does.
#[derive(Debug, Clone)]
pub struct Probe {
    http: Client,
    url: String,
    token: String,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body; `Null` where it is not JSON.
    pub body: Value,
}

impl Answer {
    /// The code of an answer that is not a success.
    ///
    /// # Panics
    ///
    /// When the body does not have the shape that every error has.
    pub fn code(&self) -> &str {
        let error = &self.body["error"];
        assert!(
            error["message"].is_string() && error["details"].is_object(),
            "status {} with a body that is not an error's: {}",
            self.status,
            self.body
        );
        error["code"].as_str().expect("a code is text")
    }

    /// The status and the code.
    pub fn failure(&self) -> (u16, &str) {
        (self.status, self.code())
    }

    /// One of the details of an answer that is not a success.
    pub fn detail(&self, name: &str) -> &Value {
        &self.body["error"]["details"][name]
    }
}

impl Probe {
    pub(crate) fn new(url: String, token: String) -> Self {
        let http = Client::builder().no_proxy().build().expect("a client without TLS can always be built");
        Self { http, url, token }
    }

    /// The server's address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The admin token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A request with the admin token, to be completed and given to [`send`](Self::send).
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.anonymous(method, path).header(AUTHORIZATION, format!("Bearer {}", self.token))
    }

    /// A request without a token.
    pub fn anonymous(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    /// Sends a request that was put together.
    ///
    /// # Panics
    ///
    /// When there is no answer.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.expect("the server answers");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await.expect("the answer is whole");
        Answer { status, headers, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) }
    }

    /// `GET` with the admin token.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    /// `DELETE` with the admin token.
    pub async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }

    /// `POST` of a JSON value with the admin token.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_text(path, &body.to_string()).await
    }

    /// `POST` of any text, declared as JSON.
    pub async fn post_text(&self, path: &str, body: &str) -> Answer {
        let request = self.request(Method::POST, path).header(CONTENT_TYPE, "application/json");
        self.send(request.body(body.to_owned())).await
    }
}
