//! When each pod has last answered, and which epoch it was on. Pure.
//!
//! Not calmed as [`crate::health`] is: one lost reply makes no heartbeat late.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jevmetrics_api::member::Member;
use jevmetrics_api::policy::HeartbeatAge;

/// A pod that has answered within this time is fresh.
const FRESH: Duration = Duration::from_secs(15);
/// One that has not answered for longer is missing.
const LATE: Duration = Duration::from_secs(30);
/// Then nobody remembers it.
const FORGOTTEN: Duration = Duration::from_mins(10);

/// What a pod has last said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voice {
    /// When it has said it.
    pub heartbeat: HeartbeatAge,
    /// The epoch that it was on.
    pub epoch: Option<u64>,
    /// The version of its program.
    pub version: String,
}

/// What the pods of a policy have last said.
#[derive(Debug, Clone, Default)]
pub struct Voices {
    heard: BTreeMap<String, (Instant, Option<u64>, String)>,
    shown: BTreeMap<String, Voice>,
    is_asked: bool,
}

impl Voices {
    /// Takes in one poll; says whether anything is to be seen of it.
    pub fn take_in(&mut self, members: &[(String, Member)], now: Instant) -> bool {
        for (pod, member) in members {
            let said = (now, member.epoch, member.version.clone());
            self.heard.insert(pod.clone(), said);
        }
        self.heard
            .retain(|_, (at, ..)| now.saturating_duration_since(*at) <= FORGOTTEN);
        let shown = self.heard.iter().map(|(pod, (at, epoch, version))| {
            let age = now.saturating_duration_since(*at);
            let voice = Voice {
                heartbeat: age_of(age),
                epoch: *epoch,
                version: version.clone(),
            };
            (pod.clone(), voice)
        });
        let shown = shown.collect();
        let is_first = !std::mem::replace(&mut self.is_asked, true);
        let is_news = self.shown != shown;
        self.shown = shown;
        is_news || is_first
    }

    /// What each pod has last said, by its name.
    pub fn shown(&self) -> &BTreeMap<String, Voice> {
        &self.shown
    }

    /// Whether the pods were asked at all.
    pub fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// The epochs that pods say they are on.
    pub fn epochs(&self) -> impl Iterator<Item = u64> + '_ {
        self.heard.values().filter_map(|(_, epoch, _)| *epoch)
    }
}

fn age_of(age: Duration) -> HeartbeatAge {
    if age <= FRESH {
        HeartbeatAge::Fresh
    } else if age <= LATE {
        HeartbeatAge::Late
    } else {
        HeartbeatAge::Missing
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use jevmetrics_api::member::Counters;
    use serde_json::json;

    use super::*;

    fn says(pod: &str, epoch: u64) -> (String, Member) {
        let member = serde_json::from_value(json!({"id": "a", "version": "1", "epoch": epoch}));
        (pod.to_owned(), member.unwrap())
    }

    #[test]
    fn a_pod_is_fresh_then_late_then_missing_and_each_turn_is_news() {
        let start = Instant::now();
        let mut voices = Voices::default();
        assert!(!voices.is_asked());
        assert!(voices.take_in(&[says("a", 7)], start));
        for (seconds, heartbeat, is_news) in [
            (10, HeartbeatAge::Fresh, false),
            (15, HeartbeatAge::Fresh, false),
            (20, HeartbeatAge::Late, true),
            (30, HeartbeatAge::Late, false),
            (31, HeartbeatAge::Missing, true),
            (60, HeartbeatAge::Missing, false),
        ] {
            let told = voices.take_in(&[], start + Duration::from_secs(seconds));
            assert_eq!(told, is_news, "{seconds} s");
            assert_eq!(voices.shown()["a"].heartbeat, heartbeat, "{seconds} s");
        }
        assert!(voices.take_in(&[says("a", 7)], start + Duration::from_secs(70)));
        assert!(voices.take_in(&[], start + Duration::from_secs(800)));
        assert!(voices.shown().is_empty());
    }

    #[test]
    fn a_beat_that_says_the_same_is_no_news_and_another_epoch_is() {
        let start = Instant::now();
        let mut voices = Voices::default();
        voices.take_in(&[says("a", 7), says("b", 9)], start);
        let later = start + Duration::from_secs(10);
        assert!(!voices.take_in(&[says("a", 7), says("b", 9)], later));
        assert_eq!(voices.epochs().collect::<Vec<_>>(), [7, 9]);
        assert!(voices.take_in(&[says("a", 8)], later));
    }

    #[test]
    fn what_follows_traffic_is_no_news() {
        let start = Instant::now();
        let mut voices = Voices::default();
        voices.take_in(&[says("a", 7)], start);
        let (pod, mut member) = says("a", 7);
        member.coverage = Some(0.5);
        member.counters = Some(Counters::default());
        (member.slot, member.zone) = (Some(3), Some("z".to_owned()));
        assert!(!voices.take_in(&[(pod, member)], start + Duration::from_secs(10)));
    }

    #[test]
    fn a_first_poll_without_answers_is_news() {
        let mut voices = Voices::default();
        assert!(voices.take_in(&[], Instant::now()));
        assert!(voices.is_asked());
        assert!(!voices.take_in(&[], Instant::now()));
    }
}
