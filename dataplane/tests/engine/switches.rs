//! A policy that changes between two requests acts at once and costs no assessment.

use jevmetrics_dataplane::retain::decide::{Decision, Reason};

use crate::requests::{gauges, names};
use crate::setup::{Setup, by_name};

fn kept(setup: &Setup) -> Vec<String> {
    let request = gauges(&[("k0", 1), ("k50", 1), ("k100", 1)]);
    let names = names(setup.at(1, &request).output.as_ref());
    names
        .into_iter()
        .filter(|name| !name.starts_with("jev."))
        .collect()
}

fn taught(mode: &str) -> Setup {
    let setup = Setup::in_mode(mode);
    setup.teach(&gauges(&[("k0", 1), ("k50", 1), ("k100", 1)]), by_name);
    setup
}

#[test]
fn the_mode_acts_at_once() {
    let setup = taught("Annotate");
    assert_eq!(kept(&setup), ["k0", "k50", "k100"]);
    setup.set_policy("Reduce", 70, 30, "");
    assert_eq!(kept(&setup), ["k50", "k100"]);
    setup.set_policy("Annotate", 70, 30, "");
    assert_eq!(kept(&setup), ["k0", "k50", "k100"]);
    assert!(setup.pending().is_empty(), "nothing was asked again");
}

#[test]
fn thresholds_act_at_once() {
    let setup = taught("Reduce");
    setup.set_policy("Reduce", 70, 50, "");
    assert_eq!(kept(&setup), ["k100"]);
    setup.set_policy("Reduce", 50, 50, "");
    assert_eq!(
        kept(&setup),
        ["k50", "k100"],
        "a score on both boundaries is kept"
    );
    setup.set_policy("Reduce", 0, 0, "");
    assert_eq!(kept(&setup), ["k0", "k50", "k100"]);
    setup.set_policy("Reduce", 100, 99, "");
    assert_eq!(kept(&setup), ["k100"]);
    assert!(setup.pending().is_empty());
}

#[test]
fn protection_acts_at_once_and_is_lifted_at_once() {
    let setup = taught("Reduce");
    for _ in 0..3 {
        assert_eq!(kept(&setup), ["k50", "k100"]);
        setup.set_policy("Reduce", 70, 30, ", protectedMetrics: [k0]");
        assert_eq!(kept(&setup), ["k0", "k50", "k100"]);
        setup.set_policy("Reduce", 70, 30, ", protectedPrefixes: [k]");
        assert_eq!(kept(&setup), ["k0", "k50", "k100"]);
        setup.set_policy("Reduce", 70, 30, "");
    }
    assert!(setup.pending().is_empty());
}

#[test]
fn a_preview_and_the_real_thing_decide_alike() {
    let annotating = taught("Annotate");
    let reducing = taught("Reduce");
    let request = gauges(&[("k0", 3), ("k50", 2), ("k100", 1), ("k7", 4), ("up", 5)]);
    let preview = annotating.at(1, &request);
    let real = reducing.at(1, &request);
    assert_eq!(preview.tally, real.tally);
    let would_drop = preview.tally.get(Decision::Drop, Reason::CachedScore);
    assert_eq!(
        (would_drop.points, would_drop.instruments),
        (real.dropped_points, real.dropped_metrics)
    );
    assert_eq!((preview.dropped_points, preview.dropped_metrics), (0, 0));
    assert_eq!(preview.kept_points, preview.received_points);
}
