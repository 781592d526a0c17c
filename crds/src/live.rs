//! The live object: what acts within seconds and changes no answer.
//!
//! A file with the key `policy`, or a `ConfigMap` whose `data.policy` is the text below that key; the key `routing` beside
//! it is read by [`crate::routing`]. Thresholds and lists leave here in the form in which they are compared: sorted,
//! without duplicates.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::document::{self, Fields, Read, SettingsError};
use crate::settings::SCHEMA;

/// What happens to an instrument that the policy drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Everything is passed on; companions and counters say what `Reduce` would do.
    Annotate,
    /// What the policy drops is removed.
    Reduce,
}

/// The validated `policy` of a live object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LivePolicy {
    mode: Mode,
    keep_threshold_percent: u8,
    drop_threshold_percent: u8,
    protected_metrics: Vec<String>,
    protected_prefixes: Vec<String>,
    budget: Budget,
}

/// How much replicas that share a Redis ask together. Unused without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    generation: u32,
    lease_seconds: u32,
    max_in_flight: NonZeroU32,
    requests_per_second: NonZeroU32,
}

impl Budget {
    fn read(fields: &mut Fields<'_>) -> Read<Self> {
        let generation = fields.integer("generation", 0, 0..=u32::MAX);
        let lease_seconds = fields.integer("leaseTTLSeconds", 10, 1..=3600);
        let max_in_flight = positive(fields, "maxInFlight", 4, 1000);
        let requests_per_second = positive(fields, "requestsPerSecond", 10, 10_000);
        Ok(Self {
            generation: generation?,
            lease_seconds: lease_seconds?,
            max_in_flight: max_in_flight?,
            requests_per_second: requests_per_second?,
        })
    }

    /// Which change of the budget this is; 0 in a namespace that several policies share.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// For how long one replica may ask about one instrument.
    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_seconds.into())
    }

    /// Questions under way at once.
    pub fn max_in_flight(&self) -> NonZeroU32 {
        self.max_in_flight
    }

    /// Questions begun in one second of Redis.
    pub fn requests_per_second(&self) -> NonZeroU32 {
        self.requests_per_second
    }
}

/// Most names in `protectedMetrics`.
const MAX_METRICS: usize = 10_000;
/// Most names in `protectedPrefixes`.
const MAX_PREFIXES: usize = 1_000;
/// Longest name of either list, in bytes: what OpenTelemetry allows an instrument.
const MAX_NAME_BYTES: usize = 255;

impl LivePolicy {
    /// Reads a live object; the error names every field that breaks its rule.
    pub fn from_yaml(yaml: &str) -> Result<Self, SettingsError> {
        document::read(yaml, |object| {
            // `crate::routing` reads it: each of the two keys holds by itself, as in a `ConfigMap`.
            object.take("routing");
            object.section("policy", Self::read)
        })
    }

    /// Reads the text of `data.policy` of a live `ConfigMap`; errors name its fields as those of a live file.
    pub fn from_policy_yaml(yaml: &str) -> Result<Self, SettingsError> {
        document::read_below("policy", yaml, Self::read)
    }

    fn read(policy: &mut Fields<'_>) -> Read<Self> {
        let schema = policy.required_integer("schema", SCHEMA..=SCHEMA);
        let mode = policy.choice("mode", [("Annotate", Mode::Annotate), ("Reduce", Mode::Reduce)]);
        let retention = policy.section("retention", |retention| {
            let keep = percent(retention, "keepThresholdPercent", 70);
            let drop = percent(retention, "dropThresholdPercent", 30);
            let metrics = names(retention, "protectedMetrics", MAX_METRICS, &["up"]);
            let prefixes = names(
                retention,
                "protectedPrefixes",
                MAX_PREFIXES,
                &["otelcol_", "scrape_", "target_"],
            );
            let (keep, drop) = (keep?, drop?);
            if drop > keep {
                let rule = format!("must be at most keepThresholdPercent ({keep}), is {drop}");
                return Err(retention.refuse("dropThresholdPercent", rule));
            }
            Ok((keep, drop, metrics?, prefixes?))
        });
        let budget = policy.section("coordination", Budget::read);
        schema?;
        let mode = mode?;
        let (keep_threshold_percent, drop_threshold_percent, protected_metrics, protected_prefixes) =
            retention?;
        Ok(Self {
            mode,
            keep_threshold_percent,
            drop_threshold_percent,
            protected_metrics,
            protected_prefixes,
            budget: budget?,
        })
    }

    /// What happens to an instrument that the policy drops.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Keep probability from which on an instrument is kept, 0..=100.
    pub fn keep_threshold_percent(&self) -> u8 {
        self.keep_threshold_percent
    }

    /// Keep probability down from which an instrument is dropped; never above the keep threshold.
    pub fn drop_threshold_percent(&self) -> u8 {
        self.drop_threshold_percent
    }

    /// Names that are always kept; sorted, none twice.
    pub fn protected_metrics(&self) -> &[String] {
        &self.protected_metrics
    }

    /// Beginnings of names that are always kept; sorted, none twice, none empty.
    pub fn protected_prefixes(&self) -> &[String] {
        &self.protected_prefixes
    }

    /// What replicas that share a Redis ask together.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }
}

fn positive(fields: &mut Fields<'_>, name: &'static str, default: u32, most: u32) -> Read<NonZeroU32> {
    let number = fields.integer(name, default, 1..=most)?;
    NonZeroU32::new(number).ok_or_else(|| fields.refuse(name, "must be at least 1"))
}

fn percent(fields: &mut Fields<'_>, name: &'static str, default: u8) -> Read<u8> {
    let percent = fields.integer(name, default.into(), 0..=100)?;
    u8::try_from(percent).map_err(|_| fields.refuse(name, "must be at most 100"))
}

/// An empty name would match nothing, an empty prefix everything: neither can be meant.
fn names(fields: &mut Fields<'_>, name: &'static str, most: usize, default: &[&str]) -> Read<Vec<String>> {
    let mut names = match fields.texts(name, most, 1..=MAX_NAME_BYTES)? {
        Some(names) => names,
        None => default.iter().map(|&name| name.to_owned()).collect(),
    };
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests;
