//! From settings and the live object to the room in which this process asks: its own, or one shared over Redis.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use jevmetrics_api::live::{Budget, LivePolicy};
use jevmetrics_api::settings::{ClientTls, Coordination, DataPlaneSettings, Identity, Inference};
use prometheus_client::registry::Registry;
use rustls::pki_types::ServerName;

use crate::coordinate::block::Block;
use crate::coordinate::connection::Server;
use crate::coordinate::keys::{Namespace, Version, VersionInputs};
use crate::coordinate::stats::Stats;
use crate::coordinate::{Coordinate, Local, Redis, RedisConfig};
use crate::following::Following;
use crate::secret::WatchedSecret;
use crate::setup::client_files;
use crate::start_error::StartError;
use crate::tls;

/// The room, and what is to be said of it.
#[derive(Clone)]
pub(crate) struct Room {
    /// Where may be asked for admissions.
    pub(crate) coordinate: Arc<dyn Coordinate>,
    /// With whom it is shared.
    pub(crate) shared: Option<SharedRoom>,
    /// Everything that changes an answer.
    pub(crate) version: Version,
    per_second: NonZeroU32,
    question: Duration,
}

/// A room that is shared over Redis.
#[derive(Clone)]
pub(crate) struct SharedRoom {
    pub(crate) redis: Arc<Redis>,
    settings: Coordination,
}

impl Room {
    /// The room that the settings describe. Connects to nothing yet.
    pub(crate) fn new(
        settings: &DataPlaneSettings,
        token_prefix: String,
        registry: &mut Registry,
        following: &mut Following,
    ) -> Result<Self, StartError> {
        let inference = settings.inference();
        let version = version(settings);
        let per_second = NonZeroU32::new(inference.requests_per_second()).unwrap_or(NonZeroU32::MIN);
        let shared = match settings.coordination() {
            None => None,
            Some(coordination) => {
                let config = RedisConfig {
                    server: server(coordination, following)?,
                    timeout: coordination.timeout(),
                    namespace: Namespace::new(coordination.namespace())
                        .map_err(|error| StartError::Coordination(format!("namespace: {error}")))?,
                    version,
                    ttl: inference.score_ttl(),
                    token_prefix,
                    stats: Stats::register(registry),
                };
                Some(SharedRoom {
                    redis: Arc::new(Redis::new(config)),
                    settings: coordination.clone(),
                })
            }
        };
        let coordinate: Arc<dyn Coordinate> = if let Some(shared) = &shared {
            Arc::clone(&shared.redis) as _
        } else {
            let burst = NonZeroU32::new(inference.burst()).unwrap_or(NonZeroU32::MIN);
            Arc::new(Local::new(per_second, burst, inference.score_ttl()))
        };
        Ok(Self {
            coordinate,
            shared,
            version,
            per_second,
            question: inference.timeout(),
        })
    }

    /// Puts the budget of a policy in use. One that cannot work is refused, and nothing is looked up or asked: leases that end before
    /// their answers would waste every question.
    pub(crate) fn put_in_use(&self, policy: &LivePolicy) {
        let Some(SharedRoom { redis, settings }) = &self.shared else {
            return;
        };
        let refused = settings.refuse_budget(policy.budget(), self.question);
        if let Some(reason) = &refused
            && redis.refused().as_ref() != Some(reason)
        {
            tracing::error!("{reason}: nothing is looked up or asked");
        }
        redis.set_block(match refused {
            Some(reason) => Err(reason),
            None => Ok(block(policy.budget())),
        });
    }

    /// Questions that may begin in a second; of all replicas together, if they share.
    pub(crate) fn per_second(&self) -> NonZeroU32 {
        let block = self.shared.as_ref().and_then(|shared| shared.redis.block());
        block.map_or(self.per_second, |block| block.per_second)
    }
}

impl SharedRoom {
    /// Under which name.
    pub(crate) fn namespace(&self) -> &str {
        self.settings.namespace()
    }
}

fn block(budget: &Budget) -> Block {
    Block {
        generation: budget.generation().into(),
        lease: budget.lease(),
        in_flight: budget.max_in_flight(),
        per_second: budget.requests_per_second(),
    }
}

fn version(settings: &DataPlaneSettings) -> Version {
    let inference: &Inference = settings.inference();
    Version::new(VersionInputs {
        endpoint: inference.base_url(),
        model: inference.model(),
        context_attributes: inference.context_attributes(),
        ttl_milliseconds: u64::try_from(inference.score_ttl().as_millis()).unwrap_or(u64::MAX),
        identity: match inference.identity() {
            Identity::Complete => "Complete",
            Identity::Context => "Context",
        },
        revision: settings.revision(),
    })
}

fn server(coordination: &Coordination, following: &mut Following) -> Result<Server, StartError> {
    let password = coordination
        .password()
        .map(|source| Arc::new(WatchedSecret::load(source.clone())));
    if let Some(password) = &password {
        following.secret(password);
    }
    let tls = match coordination.tls() {
        None => None,
        Some(settings) => {
            let client = tls::client::load(client_files("coordination.tls", Some(settings)), &[])?;
            following.tls(&client);
            let name = ClientTls::server_name(settings).unwrap_or_else(|| coordination.host());
            let name = ServerName::try_from(name.to_owned()).map_err(|_| {
                StartError::Coordination("its host must be a DNS name or an address".to_owned())
            })?;
            Some((client, name))
        }
    };
    Ok(Server {
        host: coordination.host().to_owned(),
        port: coordination.port(),
        database: coordination.database(),
        user: coordination.user().map(str::to_owned),
        password,
        tls,
    })
}
