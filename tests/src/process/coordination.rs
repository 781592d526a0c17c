//! The sections of both files that are about sharing over Redis.

use serde::Serialize;

use super::settings::Source;
use super::tls::ClientTls;

/// `coordination`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Coordination {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Number of the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<u32>,
    /// User of the ACL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Its password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Source>,
    /// TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTls>,
    /// Deadline of connecting, and of one command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_milliseconds: Option<u32>,
    /// The name under which replicas share.
    pub namespace: String,
}

/// `policy.coordination`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Which change it is; 0 in a namespace without generations.
    pub generation: u32,
    /// For how long one replica may ask about one instrument.
    #[serde(rename = "leaseTTLSeconds")]
    pub lease_ttl_seconds: u32,
    /// Questions under way at once.
    pub max_in_flight: u32,
    /// Questions begun in one second of Redis.
    pub requests_per_second: u32,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::{Budget, Coordination, Source};

    #[test]
    fn the_sections_have_the_agreed_layout() {
        let coordination = Coordination {
            host: "127.0.0.1".to_owned(),
            port: 6379,
            database: None,
            user: Some("u".to_owned()),
            password: Some(Source::File { file: "/p".into() }),
            tls: None,
            timeout_milliseconds: Some(500),
            namespace: "n".to_owned(),
        };
        let budget = Budget {
            generation: 1,
            lease_ttl_seconds: 2,
            max_in_flight: 3,
            requests_per_second: 4,
        };
        let read = |text: String| serde_yaml::from_str::<Value>(&text).unwrap();
        assert_eq!(
            read(serde_yaml::to_string(&coordination).unwrap()),
            json!({"host": "127.0.0.1", "port": 6379, "user": "u", "password": {"file": "/p"},
                "timeoutMilliseconds": 500, "namespace": "n"})
        );
        assert_eq!(
            read(serde_yaml::to_string(&budget).unwrap()),
            json!({"generation": 1, "leaseTTLSeconds": 2, "maxInFlight": 3, "requestsPerSecond": 4})
        );
    }
}
