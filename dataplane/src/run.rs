//! The life of the process: start, serve, drain, stop.
//!
//! ```text
//! settings -> assessments -> inference -> engine -> listeners -> ready
//! SIGTERM -> not ready -> stop accepting -> finish what is in flight -> stop asking -> leave the group -> exit
//! ```
//! A second signal ends the process at once.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use jevmetrics_api::MAX_DOCUMENT_BYTES;
use jevmetrics_api::settings::{self, DataPlaneSettings};
use jevmetrics_otlp::Keys;
use prometheus_client::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::{Args, told};
use crate::clock::Clock;
use crate::cluster::{self, Beats, Observer, ObserverParts, Peers};
use crate::coordinate::presence::Presence;
use crate::export;
use crate::export_headers::ExportHeaders;
use crate::following::Following;
use crate::infer::Inference;
use crate::listeners::Listeners;
use crate::live::{Live, LiveState};
use crate::member::{Member, hostname};
use crate::observe::admin::{self, Admin};
use crate::observe::flow::Flow;
use crate::observe::health::{self, Observed, Readiness};
use crate::observe::levels::Levels;
use crate::observe::{log, pages};
use crate::outcomes::StoredOutcomes;
use crate::peer::heartbeat::{Heartbeat, Identity};
use crate::peer::serve::serve as serve_peers;
use crate::pipeline::Pipeline;
use crate::receive::in_flight::BytesInFlight;
use crate::receive::serve::Server;
use crate::receive::{self, SizeLimits};
use crate::retain::engine::{Engine, EngineParts};
use crate::room::Room;
use crate::routing::Routing;
use crate::secret::WatchedSecret;
use crate::setup;
use crate::signals::Signals;
use crate::start_error::StartError;

/// Requests in flight at the signal may take as long as any other, and a little more to be answered.
const DRAIN_MARGIN: Duration = Duration::from_secs(1);

/// What giving leases back and leaving the group may take beyond the drain. What is not given back ends by itself.
const GIVING_BACK: Duration = Duration::from_secs(5);

/// Leases that take longer do not hold up the leave, which has its own bound.
const LEASES_FIRST: Duration = Duration::from_millis(1_500);

/// Runs the process to its end.
pub fn run(args: &Args) -> ExitCode {
    let mut random = [0; 12];
    let seeded = getrandom::fill(&mut random);
    let member = Member::new(&hostname(), random);
    log::start(&member.id);
    let done = seeded.map_err(StartError::Randomness).and_then(|()| {
        let (settings, digest) = read_settings(&args.settings)?;
        if args.check {
            tracing::info!(path = %args.settings.display(), "the settings are valid");
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(StartError::Runtime)?;
        let identity = identity(args, &settings, digest, &member);
        let policy_uid = told(args.policy_uid.as_deref());
        let room = BytesInFlight::of_memory(args.memory_limit);
        let served = runtime.block_on(serve(&settings, member, identity, policy_uid, room));
        runtime.shutdown_background();
        served
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if tracing::enabled!(tracing::Level::ERROR) {
                tracing::error!("{error}");
            } else {
                // Whatever the filter, a process that does not start says why.
                let _ = writeln!(io::stderr(), "{error}");
            }
            ExitCode::FAILURE
        }
    }
}

/// The settings, and the digest of their text.
fn read_settings(path: &Path) -> Result<(DataPlaneSettings, String), StartError> {
    let named = || path.display().to_string();
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_DOCUMENT_BYTES as u64 + 1).read_to_string(&mut text))
        .map_err(|source| StartError::ReadSettings {
            path: named(),
            source,
        })?;
    let settings = DataPlaneSettings::from_yaml(&text).map_err(|source| StartError::Settings {
        path: named(),
        source,
    })?;
    Ok((settings, settings::settings_digest(&text)))
}

fn identity(args: &Args, settings: &DataPlaneSettings, digest: String, member: &Member) -> Identity {
    Identity {
        id: member.id.clone(),
        hostname: member.hostname.clone(),
        pod: args.pod.told(),
        settings_digest: digest,
        revision: settings.revision().to_owned(),
        endpoint: settings.inference().base_url().to_owned(),
    }
}

async fn serve(
    settings: &DataPlaneSettings,
    member: Member,
    identity: Identity,
    policy_uid: Option<String>,
    bytes_in_flight: BytesInFlight,
) -> Result<(), StartError> {
    let clock = Clock::start();
    let started_at = clock.unix_nanos();
    let mut signals = Signals::open().map_err(StartError::Runtime)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(StartError::Runtime)?;
    let listeners = Listeners::open(settings.listen()).await?;

    let stop = CancellationToken::new();
    let stop_background = CancellationToken::new();
    let mut background = JoinSet::new();
    let mut registry = Registry::default();
    let received = receive::stats::Stats::register(&mut registry);
    let exported = export::stats::Stats::register(&mut registry);
    let refresh_bytes = bytes_in_flight.register(&mut registry);
    let flow = Flow::register(&mut registry);
    let grouped = cluster::Stats::register(&mut registry);
    let routing = Arc::new(Routing::new(policy_uid, &mut registry));
    let mut following = Following::until(stop_background.clone());

    let assessments = Arc::new(setup::assessments(settings.inference()));
    let key = settings
        .inference()
        .api_key()
        .map(|source| Arc::new(WatchedSecret::load(source.clone())));
    if let Some(key) = &key {
        following.secret(key);
    }
    let room = Room::new(
        settings,
        member.collector_id.clone(),
        &mut registry,
        &mut following,
    )?;
    let stop_asking = CancellationToken::new();
    let (inference, asking) = Inference::start(
        setup::inference_config(settings.inference(), key, &mut following)?,
        Arc::clone(&room.coordinate),
        Arc::new(StoredOutcomes::new(Arc::clone(&assessments), clock)),
        &mut registry,
        stop_asking.clone(),
    )?;
    let engine = Arc::new(Engine::new(EngineParts {
        keys: Keys::new(setup::entropy()?),
        identity: setup::identity_mode(settings.inference()),
        context: setup::context(settings.inference()),
        collector_id: member.collector_id.clone(),
        max_annotated_bytes: settings.export().max_request_bytes(),
        assessments: Arc::clone(&assessments),
        questions: Arc::clone(&inference) as _,
    }));

    let headers = ExportHeaders::load(settings.export().headers())?;
    for secret in headers.secrets() {
        following.secret(&secret);
    }
    let exporter = setup::exporter(settings.export(), headers, exported.clone(), &mut following)?;

    let ingest_tls = setup::ingest_tls(settings.ingest())?;
    if let Some(tls) = &ingest_tls {
        following.tls(tls);
    }
    let peer_tls = setup::peer_tls(settings.peer())?;
    if let Some(tls) = &peer_tls {
        following.tls(tls);
    }

    let peer_client = match &room.shared {
        // With a list in Redis nobody is asked.
        Some(_) => None,
        None => setup::peer_client(settings.peer())?,
    };
    if let Some(client) = &peer_client {
        following.same_tls(client);
    }

    let live = Live::open(settings.live(), Arc::clone(&routing));
    let policies = live.subscribe();
    background.spawn(live.follow(stop_background.clone()));
    // Before the first request, or that one would find no policy.
    let mut followed = policies.clone();
    put_in_force(&mut followed, &engine, &room);
    background.spawn(follow_policy(followed, Arc::clone(&engine), room.clone()));
    let levels = Arc::new(Levels::default());
    let (ttl, asked_in) = (settings.inference().score_ttl(), room.clone());
    let asked = Arc::clone(&inference);
    background.spawn(Arc::clone(&levels).follow(
        flow.clone(),
        Arc::clone(&engine),
        clock,
        move || refreshable(&asked_in, ttl),
        move || asked.is_full(),
    ));

    let readiness = Arc::new(Readiness::default());
    let heartbeat = Arc::new(Heartbeat {
        identity,
        clock,
        started_at,
        readiness: Arc::clone(&readiness),
        live: policies.clone(),
        routing: Arc::clone(&routing),
        inference: Arc::clone(&inference),
        flow: flow.clone(),
        levels: Arc::clone(&levels),
        room,
    });
    let shared = heartbeat.room.shared.as_ref().map(|shared| {
        let presence: Arc<dyn Presence> = Arc::clone(&shared.redis) as _;
        let beats = Arc::new(Beats::new(Arc::clone(&presence), grouped.clone()));
        (shared.namespace().to_owned(), presence, beats)
    });
    let beats = shared.as_ref().map(|(_, _, beats)| Arc::clone(beats));
    let own = Arc::clone(&heartbeat);
    let observer = Arc::new(Observer::new(ObserverParts {
        own: Box::new(move || own.document()),
        shared,
        routing: Arc::clone(&routing),
        peers: Peers::new(peer_client),
        stats: grouped,
    }));
    let refresh_levels = Arc::clone(&levels).register(&mut registry, Arc::clone(&engine));
    let shown = Arc::clone(&observer);
    let observed = Arc::new(Observed {
        readiness: Arc::clone(&readiness),
        refresh: Box::new(move || {
            refresh_levels();
            refresh_bytes();
            shown.refresh();
        }),
        registry,
        inference,
        live: policies,
        routing,
        problems: following.start(&mut background),
    });
    let admin = Arc::new(Admin {
        engine: Arc::clone(&engine),
        flow: flow.clone(),
        received: received.clone(),
        exported,
        levels,
        clock,
        member_id: member.id,
        cluster: Arc::clone(&observer),
    });
    let listeners_log = listeners.log();
    background.spawn(pages::serve(listeners.metrics, health::routes(observed)));
    background.spawn(pages::serve(
        listeners.admin,
        admin::routes(admin, settings.listen().admin().ip().is_loopback()),
    ));
    let asked = CancellationToken::new();
    let leases_back = asked.clone().drop_guard();
    background.spawn(async move {
        let _ = asking.await;
        drop(leases_back);
    });

    let pipeline = Pipeline::new(engine, exporter, flow, clock, settings.export().timeout());
    let ingest = settings.ingest();
    let limits = SizeLimits {
        max_request_bytes: ingest.max_request_bytes(),
        max_unpacked_bytes: ingest.max_unpacked_bytes(),
    };
    let (connections, age) = (ingest.max_connections(), ingest.connection_age());
    if bytes_in_flight.most() < limits.max_unpacked_bytes {
        tracing::warn!(
            bytes_in_flight = bytes_in_flight.most(),
            max_unpacked_bytes = limits.max_unpacked_bytes,
            "a request larger than a quarter of the memory passes only while there is no other"
        );
    }
    let server = Server::new(
        Arc::new(pipeline),
        limits,
        bytes_in_flight,
        connections,
        age,
        received,
    )
    .with_tls(ingest_tls);
    let drain = settings.export().timeout() + DRAIN_MARGIN;
    let mut receiving = JoinSet::new();
    for listener in [listeners.grpc, listeners.http] {
        let (server, stop) = (server.clone(), stop.clone());
        receiving.spawn(async move { server.serve(listener, stop, drain).await });
    }
    let stop_peer = CancellationToken::new();
    let peering = tokio::spawn(serve_peers(
        listeners.peer,
        Arc::clone(&heartbeat),
        peer_tls,
        stop_peer.clone(),
    ));
    readiness.set_serving();
    let leave = CancellationToken::new();
    let beating = tokio::spawn(beat(beats, heartbeat, stop.clone(), leave.clone()));
    background.spawn(async move { observer.follow().await });
    listeners_log.map_err(StartError::Runtime)?;
    tracing::info!(
        revision = settings.revision(),
        collector_id = member.collector_id,
        "ready"
    );

    loop {
        tokio::select! {
            () = signals.next() => break,
            _ = hangup.recv() => tracing::info!("nothing to reload: live object and secrets are followed"),
            Some(_) = background.join_next() => {
                // Traffic goes on with what is known. But only a restart brings the task back.
                readiness.set_broken();
                tracing::error!("a background task has ended early: see liveness");
            }
        }
    }
    readiness.set_draining();
    // Others may ask as soon as the leases are back; what is in flight is decided upon with what is known.
    stop_asking.cancel();
    stop.cancel();
    tracing::info!("draining: no new connections, finishing what is in flight");
    let receiving = async { while receiving.join_next().await.is_some() {} };
    let drained = signals.spared(receiving).await;
    // Until here, who asks is told that this process drains.
    stop_peer.cancel();
    stop_background.cancel();
    if !drained {
        return Err(StartError::Aborted);
    }
    let leaving = async {
        let _ = peering.await;
        let _ = tokio::time::timeout(GIVING_BACK, async {
            let _ = tokio::time::timeout(LEASES_FIRST, asked.cancelled()).await;
            leave.cancel();
            let _ = beating.await;
            asked.cancelled().await;
        })
        .await;
    };
    if !signals.spared(leaving).await {
        return Err(StartError::Aborted);
    }
    tracing::info!("drained");
    Ok(())
}

/// Tells the group of this process until `leave`, if there is a group.
async fn beat(
    beats: Option<Arc<Beats>>,
    heartbeat: Arc<Heartbeat>,
    draining: CancellationToken,
    leave: CancellationToken,
) {
    if let Some(beats) = beats {
        beats.run(|| heartbeat.document(), draining, leave).await;
    }
}

/// Puts each new policy in force.
async fn follow_policy(mut live: watch::Receiver<LiveState>, engine: Arc<Engine>, room: Room) {
    while live.changed().await.is_ok() {
        put_in_force(&mut live, &engine, &room);
    }
}

fn put_in_force(live: &mut watch::Receiver<LiveState>, engine: &Engine, room: &Room) {
    let policy = live.borrow_and_update().policy.clone();
    if let Some(policy) = policy {
        // Before the first question under this policy.
        room.put_in_use(&policy);
        engine.set_policy(&policy);
    }
}

/// How many instruments can be asked about in one lifetime of assessments.
fn refreshable(room: &Room, ttl: Duration) -> u64 {
    u64::from(room.per_second().get()).saturating_mul(ttl.as_secs())
}
