//! One measurement: a load on one system for a while, and what it cost.
//!
//! ```text
//! warm-up ─▶ [ measured window ] ─▶ wait for what is in flight ─▶ gate: sink = oracle
//! ```
//! Invariants: the gate covers every request of the measurement, warm-up too; a request that fails ends the
//! run; latency counts from the moment a request was meant to be sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::Failure;
use crate::client::{Client, Frames};
use crate::cpu;
use crate::oracle::Oracle;
use crate::sink::Sink;
use crate::system::System;
use crate::workload::Workload;

/// How requests are offered.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Load {
    /// As fast as answers come, with this many in flight.
    Closed { in_flight: usize },
    /// At fixed times, whatever comes back.
    Open { per_second: u32 },
}

/// How long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

/// What a system has to bear, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trial {
    pub(crate) load: Load,
    pub(crate) frames: Frames,
    pub(crate) window: Window,
}

/// What one measurement found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) nanos_per_point: f64,
    pub(crate) requests_per_second: f64,
    /// Share of its core that the harness used.
    pub(crate) harness_share: f64,
    /// Share of its core that the system used.
    pub(crate) system_share: f64,
    /// What other processes used meanwhile, in cores.
    pub(crate) others: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) resident_mib: f64,
}

struct Progress {
    workload: Arc<Workload>,
    next: AtomicUsize,
    stop: AtomicBool,
    points: AtomicU64,
    requests: AtomicU64,
    answered: Vec<AtomicU64>,
    measuring: AtomicBool,
    latencies: Mutex<Vec<Duration>>,
}

impl Progress {
    fn new(workload: &Arc<Workload>) -> Arc<Self> {
        Arc::new(Self {
            workload: Arc::clone(workload),
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            points: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            answered: workload.inputs.iter().map(|_| AtomicU64::new(0)).collect(),
            measuring: AtomicBool::new(false),
            latencies: Mutex::default(),
        })
    }

    /// Sends the next request and counts its answer.
    async fn send_next(&self, client: &mut Client, intended: Instant) -> Result<(), Failure> {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.workload.inputs.len();
        let input = &self.workload.inputs[index];
        client.send(input.message.clone()).await?;
        self.answered[index].fetch_add(1, Ordering::Relaxed);
        self.points.fetch_add(input.points, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.measuring.load(Ordering::Relaxed) {
            let taken = intended.elapsed();
            self.latencies
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(taken);
        }
        Ok(())
    }
}

/// Tries `system`.
pub(crate) async fn measure(
    system: &System,
    workload: &Arc<Workload>,
    trial: Trial,
    sink: &Sink,
) -> Result<Measured, Failure> {
    let client = Client::connect(system.address(), trial.frames).await?;
    let oracle = Oracle::new(system.output(), workload, sink);
    let progress = Progress::new(workload);
    let mut running = start(&progress, &client, trial.load);
    let measured = async {
        tokio::time::sleep(trial.window.warm_up).await;
        observe(&progress, system.pid(), trial.window.measured).await
    };
    let measured = tokio::select! {
        measured = measured => measured?,
        Some(ended) = running.join_next() => return Err(ended?.err().unwrap_or_else(|| "the load ended early".into())),
    };
    progress.stop.store(true, Ordering::Relaxed);
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    let answered: Vec<u64> = progress
        .answered
        .iter()
        .map(|count| count.load(Ordering::Relaxed))
        .collect();
    oracle.check(&answered, sink)?;
    Ok(measured)
}

fn start(progress: &Arc<Progress>, client: &Client, load: Load) -> JoinSet<Result<(), Failure>> {
    let mut running = JoinSet::new();
    match load {
        Load::Closed { in_flight } => {
            for _ in 0..in_flight {
                let (progress, mut client) = (Arc::clone(progress), client.clone());
                running.spawn(async move {
                    while !progress.stop.load(Ordering::Relaxed) {
                        progress.send_next(&mut client, Instant::now()).await?;
                    }
                    Ok(())
                });
            }
        }
        Load::Open { per_second } => {
            let (progress, client) = (Arc::clone(progress), client.clone());
            running.spawn(offer(progress, client, per_second));
        }
    }
    running
}

/// Starts a request at each of its times. A thread keeps the time, for the runtime's clock has steps of 1 ms.
async fn offer(progress: Arc<Progress>, client: Client, per_second: u32) -> Result<(), Failure> {
    let (due, mut dues) = mpsc::unbounded_channel();
    let clock = Arc::clone(&progress);
    std::thread::spawn(move || {
        let mut intended = Instant::now();
        while !clock.stop.load(Ordering::Relaxed) && due.send(intended).is_ok() {
            intended += Duration::from_secs(1) / per_second;
            std::thread::sleep(intended.saturating_duration_since(Instant::now()));
        }
    });
    let mut sent = JoinSet::new();
    while let Some(intended) = dues.recv().await {
        let (progress, mut client) = (Arc::clone(&progress), client.clone());
        sent.spawn(async move { progress.send_next(&mut client, intended).await });
        while let Some(ended) = sent.try_join_next() {
            ended??;
        }
    }
    while let Some(ended) = sent.join_next().await {
        ended??;
    }
    Ok(())
}

/// What is known at one moment.
struct Reading {
    at: Instant,
    system: Duration,
    harness: Duration,
    machine: Duration,
    points: u64,
    requests: u64,
}

impl Reading {
    fn take(progress: &Progress, pid: u32) -> Result<Self, Failure> {
        Ok(Self {
            at: Instant::now(),
            system: cpu::cpu_time(pid)?,
            harness: cpu::cpu_time(std::process::id())?,
            machine: cpu::machine_time()?,
            points: progress.points.load(Ordering::Relaxed),
            requests: progress.requests.load(Ordering::Relaxed),
        })
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "seconds in nanoseconds, millions of points"
)]
async fn observe(progress: &Progress, pid: u32, time: Duration) -> Result<Measured, Failure> {
    let before = Reading::take(progress, pid)?;
    progress.measuring.store(true, Ordering::Relaxed);
    tokio::time::sleep(time).await;
    progress.measuring.store(false, Ordering::Relaxed);
    let after = Reading::take(progress, pid)?;
    let wall = (after.at - before.at).as_secs_f64();
    let system = after.system.saturating_sub(before.system);
    let harness = after.harness.saturating_sub(before.harness);
    let machine = after.machine.saturating_sub(before.machine);
    let points = after.points - before.points;
    if points == 0 {
        return Err("no request was answered in the measured window".into());
    }
    let mut latencies =
        std::mem::take(&mut *progress.latencies.lock().unwrap_or_else(PoisonError::into_inner));
    latencies.sort_unstable();
    let quantile = |percent: usize| {
        latencies
            .get(latencies.len() * percent / 100)
            .copied()
            .unwrap_or_default()
    };
    Ok(Measured {
        nanos_per_point: system.as_nanos() as f64 / points as f64,
        requests_per_second: (after.requests - before.requests) as f64 / wall,
        harness_share: harness.as_secs_f64() / wall,
        system_share: system.as_secs_f64() / wall,
        others: machine.saturating_sub(system + harness).as_secs_f64() / wall,
        p50: quantile(50),
        p99: quantile(99),
        resident_mib: cpu::resident_mib(pid)?,
    })
}

/// Sends every request once and checks what comes out.
///
/// # Errors
/// Not what must come out: the inner result, in words.
pub(crate) async fn try_once(
    system: &System,
    workload: &Arc<Workload>,
    sink: &Sink,
) -> Result<Result<(), Failure>, Failure> {
    let mut client = Client::connect(system.address(), Frames::Default).await?;
    let oracle = Oracle::new(system.output(), workload, sink);
    for input in &workload.inputs {
        client.send(input.message.clone()).await?;
    }
    let answered = vec![1; workload.inputs.len()];
    Ok(oracle.check(&answered, sink))
}
