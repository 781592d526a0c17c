//! The live object: what acts within seconds and changes no answer.
//!
//! A file with the key `policy`, or a `ConfigMap` whose `data.policy` is the text below that key. Thresholds and lists leave here in the form in which they
//! are compared: sorted, without duplicates.

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
        document::read(yaml, |object| object.section("policy", Self::read))
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
