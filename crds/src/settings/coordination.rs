//! How replicas share assessments and a budget: where Redis is.

use std::net::Ipv6Addr;
use std::time::Duration;

use super::live_source::is_label;
use super::secret::SecretSource;
use super::tls::ClientTls;
use crate::document::{Fields, Read};
use crate::live::Budget;

/// Where Redis is, and under which name replicas share there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coordination {
    host: String,
    port: u16,
    database: u32,
    user: Option<String>,
    password: Option<SecretSource>,
    tls: Option<ClientTls>,
    timeout: Duration,
    namespace: String,
}

/// Longest namespace: that of Kubernetes, a policy's name and a digest fit.
const NAMESPACE_BYTES: usize = 400;

impl Coordination {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Read<Self> {
        let host = read_host(fields);
        let port = fields.integer("port", 6379, 1..=65_535);
        let database = fields.integer("database", 0, 0..=65_535);
        let user = read_user(fields);
        let password = match fields.take("password") {
            None => Ok(None),
            Some(node) => SecretSource::read(fields.problems(), &fields.path_of("password"), node).map(Some),
        };
        let tls = fields.optional_section("tls", ClientTls::read);
        let timeout = fields.integer("timeoutMilliseconds", 1000, 10..=60_000);
        let namespace = read_namespace(fields);
        let (user, password) = (user?, password?);
        if user.is_some() && password.is_none() {
            return Err(fields.refuse("password", "must be given beside user"));
        }
        Ok(Self {
            host: host?,
            port: u16::try_from(port?).map_err(|_| fields.refuse("port", "must be at most 65535"))?,
            database: database?,
            user,
            password,
            tls: tls?,
            timeout: Duration::from_millis(timeout?.into()),
            namespace: namespace?,
        })
    }

    /// A DNS name or an address; an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Number of the database.
    pub fn database(&self) -> u32 {
        self.database
    }

    /// User of the ACL; without it, the default user.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Where the password is found.
    pub fn password(&self) -> Option<&SecretSource> {
        self.password.as_ref()
    }

    /// For a connection over TLS.
    pub fn tls(&self) -> Option<&ClientTls> {
        self.tls.as_ref()
    }

    /// The longest time for connecting, and for one command.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The name under which replicas share.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// What is wrong with `budget` here, if anything is: a lease must outlast a question, with time to be admitted
    /// before it and to publish the answer after it.
    pub fn refuse_budget(&self, budget: &Budget, question: Duration) -> Option<String> {
        let least = question + 2 * self.timeout;
        (budget.lease() <= least).then(|| {
            format!(
                "coordination.leaseTTLSeconds: must be more than inference.timeoutMilliseconds and twice \
                 coordination.timeoutMilliseconds together ({} ms), is {} s",
                least.as_millis(),
                budget.lease().as_secs()
            )
        })
    }
}

fn read_host(fields: &mut Fields<'_>) -> Read<String> {
    let host = fields.required_text("host")?.to_ascii_lowercase();
    let is_name = host.len() <= 253 && host.split('.').all(|label| label.len() <= 63 && is_label(label));
    if is_name || host.parse::<Ipv6Addr>().is_ok() {
        return Ok(host);
    }
    Err(fields.refuse(
        "host",
        "must be a DNS name of at most 253 bytes or an address, without a port",
    ))
}

/// What Redis takes as a user's name, and what people can tell apart.
fn read_user(fields: &mut Fields<'_>) -> Read<Option<String>> {
    let Some(user) = fields.text("user")? else {
        return Ok(None);
    };
    if (1..=128).contains(&user.len()) && user.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(Some(user));
    }
    let rule = "must have 1 to 128 characters of printable ASCII without spaces";
    Err(fields.refuse("user", rule))
}

/// Fit for a hash tag and for the key pattern of an ACL rule, which has its own signs.
fn read_namespace(fields: &mut Fields<'_>) -> Read<String> {
    let namespace = fields.required_text("namespace")?;
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    if (1..=NAMESPACE_BYTES).contains(&namespace.len()) && namespace.bytes().all(is_fit) {
        return Ok(namespace);
    }
    Err(fields.refuse(
        "namespace",
        "must have 1 to 400 characters of A-Z a-z 0-9 . _ - /",
    ))
}
