//! What somebody should look at.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::client::NO_QUERY;
use crate::{Client, ClientError};

/// Something that somebody should look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// Names it as long as it lasts.
    pub id: String,
    /// What it is about.
    pub kind: String,
    /// `warning` or `critical`.
    pub severity: String,
    /// For people.
    pub message: String,
    /// When it was raised.
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    /// How much it is now, in per cent.
    pub value: Option<f64>,
    /// From how much on there is an alert.
    pub threshold: Option<f64>,
}

/// What somebody should look at now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AlertList {
    /// Each of them.
    pub items: Vec<Alert>,
}

impl Client {
    /// What somebody should look at now.
    pub async fn alerts(&self) -> Result<AlertList, ClientError> {
        self.get("/api/v1/alerts", &NO_QUERY).await
    }
}
