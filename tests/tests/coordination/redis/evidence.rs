//! What must hold of everything that Redis has recorded.

use jevmetrics_testkit::process::Budget;
use jevmetrics_testkit::redis::Evidence;

/// No second had more admissions, and no moment more leases, than the most generous of `budgets` allows; what was counted
/// in Redis is what was admitted.
pub(crate) fn assert_kept_to(evidence: &Evidence, budgets: &[Budget]) {
    let most = |of: fn(&Budget) -> u32| u64::from(budgets.iter().map(of).max().unwrap());
    let (per_second, in_flight) = (most(|b| b.requests_per_second), most(|b| b.max_in_flight));
    println!(
        "admissions={} most_in_a_second={} of {per_second}, most_at_once={} of {in_flight}, replicas={} calls={}",
        evidence.admissions.len(),
        evidence.most_in_a_second(),
        evidence.most_at_once(),
        evidence.processes().len(),
        evidence.calls
    );
    assert!(evidence.is_consistent(), "{:?}", evidence.admissions);
    assert!(evidence.most_in_a_second() <= per_second);
    assert!(evidence.most_at_once() as u64 <= in_flight);
}

/// Jev was asked only by who was admitted.
pub(crate) fn assert_asked_by_admission(evidence: &Evidence, asked: u64) {
    // One may be admitted and stop before it asks.
    assert!(asked <= evidence.admissions.len() as u64, "{asked} questions");
}
