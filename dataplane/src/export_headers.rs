//! The configured headers of exports, from secrets that may be rotated.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName, HeaderValue};
use jevmetrics_api::settings::ExportHeader;

use crate::export::HeaderSource;
use crate::secret::{Secret, SecretError, WatchedSecret};

/// A header cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    /// The secret is not there.
    #[error("export.headers[{index}].value: {source}")]
    Secret {
        /// Place in the settings.
        index: usize,
        /// What is wrong with it.
        source: SecretError,
    },
    /// The settings refuse such names; if they ever let one pass, it is said here.
    #[error("export.headers[{index}].name: must be an HTTP header name")]
    Name {
        /// Place in the settings.
        index: usize,
    },
}

/// All headers, with the secrets to follow.
pub struct ExportHeaders {
    entries: Vec<(HeaderName, Arc<WatchedSecret>)>,
}

/// The headers made of these secrets.
struct Made {
    from: Vec<Option<Arc<Secret>>>,
    headers: Arc<HeaderMap>,
}

impl ExportHeaders {
    /// Reads every secret once: exports without them would be refused, so they are required.
    pub fn load(headers: &[ExportHeader]) -> Result<Self, HeaderError> {
        let mut entries = Vec::new();
        for (index, header) in headers.iter().enumerate() {
            let name =
                HeaderName::from_bytes(header.name().as_bytes()).map_err(|_| HeaderError::Name { index })?;
            let secret = WatchedSecret::load_required(header.value().clone())
                .map_err(|source| HeaderError::Secret { index, source })?;
            entries.push((name, Arc::new(secret)));
        }
        Ok(Self { entries })
    }

    /// The secrets, to be followed.
    pub fn secrets(&self) -> impl Iterator<Item = Arc<WatchedSecret>> + '_ {
        self.entries.iter().map(|(_, secret)| Arc::clone(secret))
    }

    /// Makes a new map only when a secret has changed.
    pub fn into_source(self) -> HeaderSource {
        let made = ArcSwap::from_pointee(self.make());
        Arc::new(move || {
            let current = made.load();
            let mut pairs = self.entries.iter().zip(&current.from);
            if pairs.all(|((_, secret), used)| is_same(secret.get().as_ref(), used.as_ref())) {
                return Arc::clone(&current.headers);
            }
            let fresh = Arc::new(self.make());
            let headers = Arc::clone(&fresh.headers);
            made.store(fresh);
            headers
        })
    }

    fn make(&self) -> Made {
        let from: Vec<Option<Arc<Secret>>> = self.entries.iter().map(|(_, secret)| secret.get()).collect();
        let mut headers = HeaderMap::new();
        for ((name, _), secret) in self.entries.iter().zip(&from) {
            // A secret is usable as a header value, or it would not have been read.
            if let Some(mut value) = secret
                .as_ref()
                .and_then(|secret| HeaderValue::from_str(secret.expose()).ok())
            {
                value.set_sensitive(true);
                headers.append(name.clone(), value);
            }
        }
        Made {
            from,
            headers: Arc::new(headers),
        }
    }
}

fn is_same(left: Option<&Arc<Secret>>, right: Option<&Arc<Secret>>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => Arc::ptr_eq(left, right),
        (None, None) => true,
        _ => false,
    }
}
