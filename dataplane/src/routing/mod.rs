//! The routing table in force: the last good one that the live object held.
//!
//! ```text
//! live object, key routing -> strict reader -> judge -> Routing -> Self, heartbeat, list of members, metrics
//! ```
//! Invariants:
//! - An epoch never goes back, of one epoch no second table comes into force, and none of another policy.
//! - What is broken, strange, missing or out of reach changes nothing but what is said. The policy beside it has no part
//!   in this, nor this in the policy.
//! - Whoever looks at the table waits for nobody.

mod judge;
mod stats;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use jevmetrics_api::routing::RoutingTable;
use prometheus_client::registry::Registry;

use self::judge::{Refusal, Verdict, judge};
use self::stats::Stats;

// A table is in force only if it counts keys as this program does: readers take no other schema than theirs.
const _: () = assert!(
    jevmetrics_otlp::affinity::SCHEMA == jevmetrics_api::routing::KEY_SCHEMA,
    "keys and tables must be of one schema"
);

/// What the live object says of the table.
#[derive(Debug)]
pub enum Said {
    /// Nothing: the key is absent, or nothing at all could be read.
    Nothing,
    /// This.
    Table(RoutingTable),
    /// What is no table; the reason.
    Broken(String),
}

/// See the head of the module.
#[derive(Debug, Default)]
pub struct Routing {
    /// Uid of the policy that this process works for, if it was told. The first table tells it otherwise, for the life of
    /// the process.
    policy_uid: Option<String>,
    table: ArcSwapOption<RoutingTable>,
    /// Why what the live object holds now is not in force.
    problem: ArcSwapOption<String>,
    stats: Stats,
}

impl Routing {
    /// Without a table yet.
    pub fn new(policy_uid: Option<String>, registry: &mut Registry) -> Self {
        Self {
            policy_uid,
            stats: Stats::register(registry),
            ..Self::default()
        }
    }

    /// The table in force; `None` before the first.
    pub fn table(&self) -> Option<Arc<RoutingTable>> {
        self.table.load_full()
    }

    /// Its epoch.
    pub fn epoch(&self) -> Option<u64> {
        self.table.load().as_ref().map(|table| table.epoch())
    }

    /// Why the table that the live object holds now is not in force, with the object's name.
    pub fn problem(&self) -> Option<Arc<String>> {
        self.problem.load_full()
    }

    /// What there is to say; nothing where no table was ever spoken of.
    pub fn line(&self) -> Option<String> {
        let table = self.table.load();
        let problem = self.problem.load();
        let known = table.as_ref().map(|table| {
            let (epoch, slots) = (table.epoch(), table.owners().len());
            format!("epoch {epoch}, slots {slots}, {}", table.header().affinity.name())
        });
        match (known, problem.as_ref()) {
            (None, None) => None,
            (Some(known), None) => Some(known),
            (None, Some(problem)) => Some(format!("no table yet, {problem}")),
            (Some(known), Some(problem)) => Some(format!("{known}, {problem}")),
        }
    }

    /// Takes in what the live object, named `source`, says now. One caller at a time.
    ///
    /// # Guarantees
    /// One log line and one count a change, however often the same is read.
    pub fn take_in(&self, source: &str, said: Said) {
        let is_given = !matches!(said, Said::Nothing);
        let refused = match said {
            Said::Nothing => None,
            Said::Broken(reason) => Some(Refusal::Broken(reason)),
            Said::Table(table) => {
                let judged = judge(self.table.load().as_deref(), self.policy_uid.as_deref(), &table);
                match judged {
                    Ok(Verdict::New) => {
                        self.put_in_force(source, table);
                        None
                    }
                    Ok(Verdict::InForce) => None,
                    Err(refusal) => Some(refusal),
                }
            }
        };
        self.show(source, is_given, refused.as_ref());
    }

    fn put_in_force(&self, source: &str, table: RoutingTable) {
        let (epoch, slots) = (table.epoch(), table.owners().len());
        let affinity = table.header().affinity.name();
        self.stats.in_force(epoch, slots);
        self.table.store(Some(Arc::new(table)));
        tracing::info!(%source, epoch, slots, affinity, "a new routing table is in force");
    }

    fn show(&self, source: &str, is_given: bool, refused: Option<&Refusal>) {
        let former = self.problem.load_full();
        let problem = refused.map(|refusal| format!("{source}: {refusal}"));
        if former.as_deref() == problem.as_ref() {
            return;
        }
        if let (Some(refusal), Some(problem)) = (refused, &problem) {
            self.stats.count_refused(refusal.kind());
            if let Some(epoch) = self.epoch() {
                tracing::warn!(error = problem, epoch, "the last good routing table stays in use");
            } else {
                tracing::warn!(error = problem, "there is no routing table yet");
            }
        } else if is_given {
            tracing::info!(%source, "nothing is wrong with the routing table any more");
        } else {
            tracing::info!(%source, "the refused routing table is no longer there: there is none to read");
        }
        self.problem.store(problem.map(Arc::new));
    }
}

#[cfg(test)]
mod tests;
