//! Data planes that share a Redis, as pods of two nodes and three zones would.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jevmetrics_api::routing::{Affinity, ClusterIdentity, Header, KeySource, Owner, RoutingTable};
use jevmetrics_testkit::mock_jev::{Behaviour, MockJev};
use jevmetrics_testkit::process::{Budget, DataPlane, LiveFile, Mode, Options, SettingsFile, find_binary};
use jevmetrics_testkit::redis::{self, Redis};
use jevmetrics_testkit::sink::Sink;
use jevmetrics_testkit::source::{GrpcOptions, GrpcSender, gauges};
use prost::Message as _;
use serde_json::Value;
use tempfile::TempDir;

use crate::Failure;

/// Pods, with node and zone.
const PODS: [(&str, &str, &str); 4] = [
    ("metrics-6f7d9c5b8-x2x4z", "node-1", "eu-1a"),
    ("metrics-6f7d9c5b8-9kqtm", "node-2", "eu-1b"),
    ("metrics-6f7d9c5b8-p7wnd", "node-3", "eu-1c"),
    ("metrics-6f7d9c5b8-j5rcv", "node-2", "eu-1b"),
];
/// Of the pod that asks, and of the one that is not on the newest table.
const ASKS: usize = 1;
const BEHIND: usize = 2;
/// Longer than all of this takes: the lock is to be seen at its end.
const QUESTION_MILLISECONDS: u32 = 100_000;

/// See the head of the module.
pub(crate) struct Group {
    planes: Vec<DataPlane>,
    _redis: Redis,
    _jev: MockJev,
    _sink: Sink,
    _wrappers: TempDir,
}

impl Group {
    /// Starts all of it; all pods are known to each other then, and one asks.
    pub(crate) async fn start() -> Result<Self, Failure> {
        let redis = Redis::start(redis::Options {
            namespace: "shop/metrics".to_owned(),
            tls: false,
            ..redis::Options::default()
        })
        .await?;
        let (jev, sink) = (MockJev::start().await?, Sink::start().await?);
        jev.script().always(Behaviour::Silent);
        let wrappers = tempfile::tempdir()?;
        let mut settings = SettingsFile::new(&sink.endpoint(), &jev.base_url());
        settings.coordination = Some(redis.coordination(redis.entrance()));
        "4".clone_into(&mut settings.revision);
        settings.inference.timeout_milliseconds = Some(QUESTION_MILLISECONDS);
        let mut planes = Vec::new();
        for (index, (name, node, _)) in PODS.into_iter().enumerate() {
            let mut options = Options::new(settings.clone(), Mode::Reduce);
            let epoch = if index == BEHIND { 11 } else { 12 };
            options.live = Some(live(epoch)?);
            options.binary = Some(wrapper(wrappers.path(), name)?);
            for (variable, value) in [
                ("JEVMETRICS_POD_NAME", name),
                ("JEVMETRICS_POD_UID", name),
                ("JEVMETRICS_NODE_NAME", node),
            ] {
                options.environment.push((variable.to_owned(), value.to_owned()));
            }
            planes.push(DataPlane::start(options).await?);
        }
        let asked = gauges(&["checkout.cart.debug"], 1, "").encode_to_vec();
        let sender = GrpcSender::lazy(&planes[ASKS].grpc_endpoint())?;
        sender.send(asked.into(), &GrpcOptions::default()).await;
        Ok(Self {
            planes,
            _redis: redis,
            _jev: jev,
            _sink: sink,
            _wrappers: wrappers,
        })
    }

    /// Kills one: nothing is given back.
    pub(crate) async fn kill_the_last(&mut self) -> Result<(), Failure> {
        let last = self.planes.last_mut().ok_or("no data plane")?;
        Ok(last.kill().await?)
    }

    /// The page of the first.
    pub(crate) fn page(&self) -> String {
        format!("http://{}/cluster", self.planes[0].listen().admin)
    }

    /// Whether the first shows what is to be seen; else what it shows.
    pub(crate) async fn shows(&self) -> Result<(), String> {
        let asked = self.planes[0].get_admin("/api/admin/cluster").await;
        let (_, body) = asked.map_err(|error| error.to_string())?;
        let list: Value = serde_json::from_str(&body).map_err(|error| error.to_string())?;
        let members = list["members"].as_array().ok_or("no members")?;
        let is = |index: usize, field: &str, value: Value| {
            let mut rows = members.iter().filter(|row| row["hostname"] == PODS[index].0);
            rows.next().is_some_and(|row| row[field] == value)
        };
        let holds = members.iter().any(|row| {
            let locks = row["leaderLocks"].as_array();
            row["hostname"] == PODS[ASKS].0 && locks.is_some_and(|locks| locks.len() == 1)
        });
        let all = is(0, "isThisPod", true.into())
            && is(BEHIND, "epochStanding", "Behind".into())
            && is(PODS.len() - 1, "isStale", true.into())
            && holds;
        if all { Ok(()) } else { Err(body) }
    }
}

/// The live file at this epoch.
fn live(epoch: u64) -> Result<LiveFile, Failure> {
    let owners = PODS.iter().zip(0..).map(|((name, _, zone), slot)| Owner {
        slot,
        uid: (*name).to_owned(),
        name: (*name).to_owned(),
        // Nobody is asked where a list is kept.
        address: SocketAddr::from(([127, 0, 0, 1], 4319)),
        zone: Some((*zone).to_owned()),
    });
    let header = Header {
        cluster: ClusterIdentity {
            namespace: "shop".to_owned(),
            policy: "metrics".to_owned(),
        },
        affinity: Affinity::Forward,
        key: KeySource::Source,
    };
    let table = RoutingTable::new(epoch, header, owners.collect())?;
    let mut live = LiveFile::new(Mode::Reduce).with_table(&table)?;
    let seconds = Duration::from_millis(QUESTION_MILLISECONDS.into()).as_secs() + 60;
    live.policy.coordination = Some(Budget {
        generation: 1,
        lease_ttl_seconds: u32::try_from(seconds)?,
        max_in_flight: 4,
        requests_per_second: 10,
    });
    Ok(live)
}

/// A program that is the data plane under another hostname.
fn wrapper(folder: &Path, name: &str) -> Result<PathBuf, Failure> {
    let binary = find_binary()?;
    let program = folder.join(name);
    let script = format!(
        "#!/bin/sh\nexec unshare --map-root-user --uts sh -c 'hostname {name} && exec \"$0\" \"$@\"' '{}' \"$@\"\n",
        binary.display()
    );
    std::fs::write(&program, script)?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    Ok(program)
}
