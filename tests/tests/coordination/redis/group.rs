//! Data planes that share: one Redis, one mock Jev, as many replicas as a scenario wants.

use std::collections::BTreeSet;

use bytes::Bytes;
use jevmetrics_testkit::mock_jev::MockJev;
use jevmetrics_testkit::process::{Budget, Inference, LiveFile, Mode, Options, SettingsFile};
use jevmetrics_testkit::redis::{self, Evidence, Proxy, Redis, Watch};
use jevmetrics_testkit::sink::Depth;
use jevmetrics_testkit::source::gauges;
use prost::Message as _;

use super::evidence::assert_kept_to;
use super::replica::{Replica, WITHIN};

/// A lease that no question outlives, and a budget that no test waits for.
pub(crate) const AMPLE: Budget = Budget {
    generation: 1,
    lease_ttl_seconds: 60,
    max_in_flight: 16,
    requests_per_second: 200,
};

/// A lease that is over soon: with [`Setup::hasty`].
pub(crate) const SHORT: Budget = Budget {
    generation: 1,
    lease_ttl_seconds: 2,
    max_in_flight: 1,
    requests_per_second: 100,
};

/// What all replicas of a group have in common.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) mode: Mode,
    pub(crate) budget: Budget,
    /// Deadlines in milliseconds: of a question, of a call of Redis.
    pub(crate) question: u32,
    pub(crate) call: u32,
    pub(crate) lifetime: u32,
    pub(crate) redis: redis::Options,
    /// Whether replicas come to Redis through a proxy.
    pub(crate) through_proxy: bool,
    /// How much sinks look at.
    pub(crate) depth: Depth,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            mode: Mode::Reduce,
            budget: AMPLE,
            question: 10_000,
            call: 2_000,
            lifetime: 900,
            redis: redis::Options::default(),
            through_proxy: false,
            depth: Depth::Count,
        }
    }
}

impl Setup {
    /// With [`SHORT`], and deadlines for which its lease is long enough.
    pub(crate) fn hasty() -> Self {
        Self {
            budget: SHORT,
            question: 1_000,
            call: 400,
            ..Self::default()
        }
    }
}

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) redis: Redis,
    pub(crate) proxy: Option<Proxy>,
    pub(crate) watch: Watch,
    pub(crate) jev: MockJev,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) setup: Setup,
}

impl Group {
    /// So many replicas with the same settings.
    pub(crate) async fn start(replicas: usize, setup: Setup) -> Self {
        let redis = Redis::start(setup.redis.clone()).await.unwrap();
        let proxy = if setup.through_proxy {
            Some(Proxy::before(redis.entrance()).await.unwrap())
        } else {
            None
        };
        let mut group = Self {
            watch: redis.watch().await.unwrap(),
            redis,
            proxy,
            jev: MockJev::start().await.unwrap(),
            replicas: Vec::new(),
            setup,
        };
        for _ in 0..replicas {
            group.add(|_| ()).await;
        }
        group
    }

    /// One more; `adjust` changes what it starts with.
    pub(crate) async fn add(&mut self, adjust: impl FnOnce(&mut Options)) -> &Replica {
        let replica = self.separate(adjust).await;
        self.replicas.push(replica);
        self.replicas.last().unwrap()
    }

    /// One that is not among the replicas; `adjust` changes what it starts with.
    pub(crate) async fn separate(&self, adjust: impl FnOnce(&mut Options)) -> Replica {
        let mut options = self.options();
        adjust(&mut options);
        Replica::start(options, self.setup.depth).await
    }

    fn options(&self) -> Options {
        let entrance = self.proxy.as_ref().map_or(self.redis.entrance(), Proxy::address);
        let mut coordination = self.redis.coordination(entrance);
        coordination.timeout_milliseconds = Some(self.setup.call);
        // The sink is the replica's own.
        let mut settings = SettingsFile::new("http://127.0.0.1:1", &self.jev.base_url());
        settings.coordination = Some(coordination);
        settings.inference = Inference {
            timeout_milliseconds: Some(self.setup.question),
            score_ttl_seconds: Some(self.setup.lifetime),
            workers: Some(8),
            // Not used in a group: whoever falls back to its own budget is seen at once.
            requests_per_second_per_replica: Some(10_000),
            burst: Some(10_000),
            ..settings.inference
        };
        let mut options = Options::new(settings, self.setup.mode);
        options.live = Some(self.live(self.setup.budget));
        options
    }

    /// The live file with another budget.
    pub(crate) fn live(&self, budget: Budget) -> LiveFile {
        let mut live = LiveFile::new(self.setup.mode);
        live.policy.coordination = Some(budget);
        live
    }

    /// Starts a killed Redis again, and watches it from its first moment on: replicas stand still until it is watched.
    pub(crate) async fn restart_redis(&mut self) {
        self.signal("STOP").await;
        self.redis.restart().await.unwrap();
        self.watch = self.redis.watch().await.unwrap();
        self.signal("CONT").await;
    }

    async fn signal(&mut self, name: &str) {
        for replica in &mut self.replicas {
            replica.plane.signal(name).await.unwrap();
        }
    }

    /// Teaches all replicas, one after the other in each round.
    pub(crate) async fn learn(&self, message: &Bytes, instruments: u64) {
        futures_util::future::join_all(
            self.replicas
                .iter()
                .map(|replica| replica.learn(message, instruments)),
        )
        .await;
    }

    /// What Jev was asked so far, whatever became of it.
    pub(crate) fn asked(&self) -> u64 {
        self.jev.counters().received
    }

    /// Names that Jev was asked about, in order.
    pub(crate) fn asked_about(&self) -> Vec<String> {
        self.jev
            .requests()
            .into_iter()
            .filter_map(|request| request.metric)
            .collect()
    }

    /// What has been recorded so far.
    pub(crate) async fn evidence(&self) -> Evidence {
        self.watch.evidence().await.unwrap()
    }

    /// After all: the budget was kept, every key has an end, and none lies elsewhere.
    pub(crate) async fn finish(&self) {
        assert_kept_to(&self.evidence().await, &[self.setup.budget]);
        self.finish_keys().await;
    }

    /// As [`Self::finish`], but for the budget.
    pub(crate) async fn finish_keys(&self) {
        assert_eq!(self.redis.keys_without_expiry().await.unwrap(), [""; 0]);
        assert_eq!(self.redis.keys_outside().await.unwrap(), [""; 0]);
        for replica in &self.replicas {
            replica.settled().await;
        }
    }

    /// Waits until Jev has `questions` under way.
    pub(crate) async fn jev_is_asked(&self, questions: usize) {
        jevmetrics_testkit::poll::until("questions under way", WITHIN, || {
            self.jev.counters().in_flight == questions
        })
        .await
        .unwrap();
    }
}

/// A message of gauges, one point each.
pub(crate) fn message(names: &[impl AsRef<str>]) -> Bytes {
    gauges(names, 1, "").encode_to_vec().into()
}

/// `<stem>.debug.<number>`: to be dropped, if the mock's opinion is the default.
pub(crate) fn droppable(stem: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{stem}.debug.{number}"))
        .collect()
}

/// Without what comes twice.
pub(crate) fn distinct(names: Vec<String>) -> BTreeSet<String> {
    names.into_iter().collect()
}
