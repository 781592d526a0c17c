use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::record::{Record, Watched};
use super::{Fence, LEASE_DURATION, RENEW_DEADLINE};

fn held(identity: &str, second: i64) -> Record {
    let now = Timestamp::from_second(second).unwrap_or_default();
    Record::of(Some(&Record::default().held_by(identity, now)))
}

#[test]
fn a_lease_that_nobody_holds_is_free() {
    let mut watched = Watched::default();
    assert!(watched.may_hold(&Record::default(), "a", Instant::now()));
    let released = Record::of(Some(&held("b", 5).released(Timestamp::default())));
    assert!(watched.may_hold(&released, "a", Instant::now()));
}

#[test]
fn the_holder_keeps_it() {
    assert!(Watched::default().may_hold(&held("a", 0), "a", Instant::now()));
}

#[test]
fn a_rival_waits_for_a_whole_duration_of_silence_by_its_own_clock() {
    let (mut watched, start) = (Watched::default(), Instant::now());
    // The holder's wall clock may say anything.
    let old = held("b", -1_000_000);
    assert!(!watched.may_hold(&old, "a", start));
    assert!(!watched.may_hold(&old, "a", start + LEASE_DURATION));
    assert!(watched.may_hold(&old, "a", start + LEASE_DURATION + Duration::from_millis(1)));
}

#[test]
fn a_sign_of_life_begins_the_wait_anew() {
    let (mut watched, start) = (Watched::default(), Instant::now());
    assert!(!watched.may_hold(&held("b", 0), "a", start));
    let renewed = held("b", 1);
    assert!(!watched.may_hold(&renewed, "a", start + Duration::from_secs(14)));
    assert!(!watched.may_hold(&renewed, "a", start + Duration::from_secs(28)));
    assert!(watched.may_hold(&renewed, "a", start + Duration::from_secs(30)));
}

#[test]
fn only_a_new_holder_counts_as_a_transition() {
    let first = held("a", 0);
    assert_eq!(first.transitions, 1);
    let renewed = Record::of(Some(&first.held_by("a", Timestamp::default())));
    assert_eq!(renewed.transitions, 1);
    let taken = Record::of(Some(&renewed.held_by("b", Timestamp::default())));
    assert_eq!((taken.transitions, taken.holder.as_deref()), (2, Some("b")));
}

#[test]
fn the_fence_is_closed_before_anybody_else_may_lead() {
    let (fence, began) = (Fence::default(), Instant::now());
    assert!(!fence.is_open(began));
    fence.renewed(began, RENEW_DEADLINE);
    assert!(fence.is_open(began + Duration::from_millis(9_999)));
    assert!(!fence.is_open(began + RENEW_DEADLINE));
    assert!(RENEW_DEADLINE < LEASE_DURATION);
    fence.renewed(began, RENEW_DEADLINE);
    fence.close();
    assert!(!fence.is_open(began));
}
