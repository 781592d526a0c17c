//! How Jev is asked.

use std::time::Duration;

use super::secret::SecretSource;
use super::tls::ClientTls;
use super::url;
use crate::document::{Fields, Read};

/// How Jev is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inference {
    base_url: String,
    model: String,
    api_key: Option<SecretSource>,
    identity: Identity,
    timeout: Duration,
    workers: usize,
    queue_size: usize,
    cache_size: usize,
    score_ttl: Duration,
    requests_per_second: u32,
    burst: u32,
    context_attributes: Vec<String>,
    tls: Option<ClientTls>,
}

/// What makes two instruments one identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// All resource attributes count.
    Complete,
    /// Of the resource only the context attributes count.
    Context,
}

/// Resource attributes that the model may see unless the settings list others.
const CONTEXT_ATTRIBUTES: [&str; 5] = [
    "service.name",
    "service.namespace",
    "deployment.environment.name",
    "cloud.region",
    "k8s.namespace.name",
];

impl Inference {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Read<Self> {
        let base_url = read_base_url(fields);
        let model = read_model(fields);
        let api_key = match fields.take("apiKey") {
            None => Ok(None),
            Some(node) => SecretSource::read(fields.problems(), &fields.path_of("apiKey"), node).map(Some),
        };
        let identity = fields.choice(
            "identity",
            [("Complete", Identity::Complete), ("Context", Identity::Context)],
        );
        let timeout = fields.integer("timeoutMilliseconds", 3000, 1..=600_000);
        let workers = fields.integer("workers", 2, 1..=64);
        let queue_size = fields.integer("queueSize", 256, 1..=65_536);
        let cache_size = fields.integer("cacheSize", 10_000, 1..=4_000_000);
        let score_ttl = fields.integer("scoreTTLSeconds", 900, 10..=86_400);
        let requests_per_second = fields.integer("requestsPerSecondPerReplica", 10, 1..=10_000);
        let burst = fields.integer("burst", 1, 1..=10_000);
        let context_attributes = read_context_attributes(fields);
        let tls = fields.optional_section("tls", ClientTls::read_roots);
        let (base_url, tls) = (base_url?, tls?);
        if tls.is_some() && !base_url.starts_with("https://") {
            return Err(fields.refuse(
                "tls",
                "must not be given with an http:// baseURL: it would not be used",
            ));
        }
        Ok(Self {
            base_url,
            model: model?,
            api_key: api_key?,
            identity: identity?,
            timeout: Duration::from_millis(timeout?.into()),
            workers: workers? as usize,
            queue_size: queue_size? as usize,
            cache_size: cache_size? as usize,
            score_ttl: Duration::from_secs(score_ttl?.into()),
            requests_per_second: requests_per_second?,
            burst: burst?,
            context_attributes: context_attributes?,
            tls,
        })
    }

    /// The URL below which the API lives: http or https, without a slash at its end.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The model that is asked.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Where the API key is found; some servers need none.
    pub fn api_key(&self) -> Option<&SecretSource> {
        self.api_key.as_ref()
    }

    /// What makes two instruments one identity.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The longest time that one question may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Questions in flight at a time.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Instruments that wait to be asked about, with their summaries.
    pub fn queue_size(&self) -> usize {
        self.queue_size
    }

    /// Assessments held.
    pub fn cache_size(&self) -> usize {
        self.cache_size
    }

    /// How long an assessment counts.
    pub fn score_ttl(&self) -> Duration {
        self.score_ttl
    }

    /// Rate of the local budget, in requests per second.
    pub fn requests_per_second(&self) -> u32 {
        self.requests_per_second
    }

    /// Requests that the local budget lets through at once.
    pub fn burst(&self) -> u32 {
        self.burst
    }

    /// Roots for TLS; only with an `https` base URL, which does without them as well.
    pub fn tls(&self) -> Option<&ClientTls> {
        self.tls.as_ref()
    }

    /// Resource attributes that the model may see, in the order given, none twice.
    pub fn context_attributes(&self) -> &[String] {
        &self.context_attributes
    }
}

fn read_base_url(fields: &mut Fields<'_>) -> Read<String> {
    let text = fields
        .text("baseURL")?
        .unwrap_or_else(|| "https://api.typesafe.ai".to_owned());
    let parts = url::parse(&text).map_err(|rule| fields.refuse("baseURL", rule))?;
    let scheme = if parts.secure { "https" } else { "http" };
    let port = parts.port.map(|port| format!(":{port}")).unwrap_or_default();
    Ok(format!(
        "{scheme}://{}{port}{}",
        parts.host,
        parts.path.trim_end_matches('/')
    ))
}

fn read_model(fields: &mut Fields<'_>) -> Read<String> {
    let model = fields.text("model")?.unwrap_or_else(|| "jev-latest".to_owned());
    if (1..=128).contains(&model.len()) && model.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(model);
    }
    Err(fields.refuse(
        "model",
        "must have 1 to 128 characters of printable ASCII without spaces",
    ))
}

fn read_context_attributes(fields: &mut Fields<'_>) -> Read<Vec<String>> {
    let Some(names) = fields.texts("contextAttributes", 32, 1..=256)? else {
        return Ok(CONTEXT_ATTRIBUTES.map(str::to_owned).to_vec());
    };
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            let item = format!("contextAttributes[{index}]");
            return Err(fields.refuse(&item, "must differ from the names before it"));
        }
    }
    Ok(names)
}
