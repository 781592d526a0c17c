//! Looks who is there, when somebody asks.
//!
//! ```text
//! Redis, if replicas share --else--> peers of the routing table, if one was read --else--> this process alone
//! ```
//! Invariants: one look at a time, and its result serves all who ask until a second after it; a look ends in bounded time;
//! what cannot be found out is said, not guessed; no thread that serves requests reads a list.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jevmetrics_api::member::Member;
use jevmetrics_api::routing::RoutingTable;
use tokio::sync::Mutex as Turn;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use super::beats::Beats;
use super::found::Found;
use super::peers::{self, Peers};
use super::stats::Stats;
use super::view::{Own, Source, View};
use crate::accept::jittered;
use crate::coordinate::presence::Presence;
use crate::routing::Routing;

/// How long a look serves all who ask.
const REUSE: Duration = Duration::from_secs(1);
/// People do not wait longer for a list in Redis, whatever the timeout of its commands.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks for the metrics.
const PACE: Duration = Duration::from_secs(10);
/// But so long for each member: whatever the size of the group, a process reads two documents a second.
const PACE_PER_MEMBER: Duration = Duration::from_millis(500);
/// What pods said when somebody asked them is shown in metrics for so long.
const ANSWERS_SHOWN_FOR: Duration = Duration::from_secs(15);

/// What it takes to look.
pub(crate) struct ObserverParts {
    /// The document of this process.
    pub(crate) own: Box<dyn Fn() -> Member + Send + Sync>,
    /// The list in Redis with the namespace's name, and the own heartbeats there.
    pub(crate) shared: Option<(String, Arc<dyn Presence>, Arc<Beats>)>,
    /// The routing table.
    pub(crate) routing: Arc<Routing>,
    /// Asks other pods.
    pub(crate) peers: Peers,
    /// Where results are shown.
    pub(crate) stats: Stats,
}

/// See the head of the module.
pub(crate) struct Observer {
    parts: ObserverParts,
    looking: Turn<()>,
    latest: ArcSwapOption<Look>,
}

/// The latest look.
struct Look {
    view: Arc<View>,
    /// When it was over. Who waited for it meanwhile is served by it, however long it took.
    over_at: Instant,
}

impl Observer {
    pub(crate) fn new(parts: ObserverParts) -> Self {
        Self {
            parts,
            looking: Turn::new(()),
            latest: ArcSwapOption::empty(),
        }
    }

    /// Who is there now.
    pub(crate) async fn look(&self) -> Arc<View> {
        let _turn = self.looking.lock().await;
        if let Some(latest) = self.latest.load_full()
            && latest.over_at.elapsed() < REUSE
        {
            return Arc::clone(&latest.view);
        }
        let view = Arc::new(self.view().await);
        self.latest.store(Some(Arc::new(Look {
            view: Arc::clone(&view),
            over_at: Instant::now(),
        })));
        view
    }

    async fn view(&self) -> View {
        let table = self.parts.routing.table();
        // Ages in a list are as of a moment within the call, which may take seconds: nobody is younger than it is shown.
        let (mut member, mut read_at) = ((self.parts.own)(), Instant::now());
        let (source, found) = match (&self.parts.shared, &table) {
            (Some((namespace, presence, _)), _) => {
                let (state, found) = list(presence.as_ref()).await;
                (Source::Redis(namespace.clone(), state), found)
            }
            (None, Some(table)) => {
                let found = self.ask(table, member.uid.as_deref()).await;
                // Their ages are as of now.
                (member, read_at) = ((self.parts.own)(), Instant::now());
                (Source::Peers, found)
            }
            (None, None) => (Source::Alone, Found::default()),
        };
        let own = Own {
            member,
            beat: self
                .parts
                .shared
                .as_ref()
                .and_then(|(_, _, beats)| beats.trouble()),
            table,
            refused: self.parts.routing.problem(),
            read_at,
        };
        View::new(own, source, found)
    }

    async fn ask(&self, table: &RoutingTable, own: Option<&str>) -> Found {
        let asking = self.parts.peers.ask_all(table, own);
        // Each question is bounded: only a process that has no time itself gets here.
        timeout(peers::longest(table.owners().len()), asking)
            .await
            .unwrap_or_else(|_| peers::nobody_in_time(table, own))
    }

    /// Looks again and again, so that metrics have something to show. Peers are asked only if a person looks: two hundred
    /// pods that ask each other would be forty thousand connections.
    pub(crate) async fn follow(&self) {
        loop {
            let known = if self.parts.shared.is_none() && self.parts.routing.table().is_some() {
                0
            } else {
                self.look().await.rows.len()
            };
            sleep(jittered(pause(known), getrandom::u32().unwrap_or(u32::MAX / 2))).await;
        }
    }

    /// Brings the metrics up to date.
    pub(crate) fn refresh(&self) {
        let now = Instant::now();
        let latest = self.latest.load_full();
        let latest = latest.as_ref().map(|latest| &latest.view);
        let shown = latest.filter(|latest| latest.elapsed(now) < shown_for(latest));
        self.parts.stats.show(shown.and_then(|latest| latest.counts()));
    }
}

async fn list(presence: &dyn Presence) -> (Result<(), String>, Found) {
    match timeout(PATIENCE, presence.members()).await {
        // A thousand documents take milliseconds.
        Ok(Ok(listed)) => match spawn_blocking(move || Found::listed(listed)).await {
            Ok(found) => (Ok(()), found),
            Err(_) => (Err("the list could not be read".to_owned()), Found::default()),
        },
        Ok(Err(trouble)) => (Err(trouble.to_string()), Found::default()),
        Err(_) => (Err("no answer in time".to_owned()), Found::default()),
    }
}

/// How long a list is shown in metrics: until there must be another one, if there is to be one.
fn shown_for(view: &View) -> Duration {
    match view.source {
        Source::Peers => ANSWERS_SHOWN_FOR,
        // The longest pause, and the longest look.
        Source::Redis(..) | Source::Alone => pause(view.rows.len()) * 11 / 10 + PATIENCE,
    }
}

/// Until the next look for the metrics, in a group of `members`.
fn pause(members: usize) -> Duration {
    (PACE_PER_MEMBER * u32::try_from(members).unwrap_or(u32::MAX)).max(PACE)
}

#[cfg(test)]
#[path = "observer_tests.rs"]
mod tests;
