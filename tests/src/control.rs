//! Asks a stand-in that runs in a process of its own, over its control port.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::http_client;

/// A control port.
#[derive(Debug, Clone)]
pub struct Control {
    client: reqwest::Client,
    url: String,
}

/// It did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// There was no answer.
    #[error("{url} cannot be asked: {cause}")]
    Unreachable {
        /// What was asked.
        url: String,
        /// Why not.
        cause: reqwest::Error,
    },
    /// It said no.
    #[error("{url} answered {status}: {body}")]
    Refused {
        /// What was asked.
        url: String,
        /// The status.
        status: u16,
        /// Its words.
        body: String,
    },
    /// Its answer is not what was expected.
    #[error("the answer of {url} cannot be read: {cause}")]
    Unreadable {
        /// What was asked.
        url: String,
        /// Why not.
        cause: serde_json::Error,
    },
}

impl Control {
    /// Of the stand-in whose control port is at `url`: `http://HOST:PORT`.
    ///
    /// # Errors
    /// No client can be built.
    pub fn new(url: &str) -> Result<Self, ControlError> {
        let url = url.to_owned();
        match http_client::build() {
            Ok(client) => Ok(Self { client, url }),
            Err(cause) => Err(ControlError::Unreachable { url, cause }),
        }
    }

    /// What `GET path` answers.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ControlError> {
        self.ask(path, |url| self.client.get(url)).await
    }

    /// What `POST path` answers.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn post<T: DeserializeOwned>(&self, path: &str) -> Result<T, ControlError> {
        self.ask(path, |url| self.client.post(url)).await
    }

    /// What `POST path` with a body answers.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn post_json<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T, ControlError> {
        self.ask(path, |url| self.client.post(url).json(body)).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        request: impl FnOnce(&str) -> reqwest::RequestBuilder,
    ) -> Result<T, ControlError> {
        let url = format!("{}{path}", self.url);
        let unreachable = |cause| ControlError::Unreachable {
            url: url.clone(),
            cause,
        };
        let answer = request(&url).send().await.map_err(unreachable)?;
        let status = answer.status();
        let body = answer.text().await.map_err(unreachable)?;
        if !status.is_success() {
            let status = status.as_u16();
            return Err(ControlError::Refused { url, status, body });
        }
        serde_json::from_str(&body).map_err(|cause| ControlError::Unreadable { url, cause })
    }
}
