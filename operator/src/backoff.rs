//! How long an object that fails waits, each by itself: 1 s, doubling to 5 min, spread by a fifth.

use std::collections::HashMap;
use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(5);

/// Failures in a row by the uid of their object.
#[derive(Debug, Default)]
pub struct Backoff(HashMap<String, u32>);

impl Backoff {
    /// Notes a failure; says how long to wait. `random` is at least 0 and below 1.
    pub fn failed(&mut self, uid: &str, random: f64) -> Duration {
        let failures = self.0.entry(uid.to_owned()).or_default();
        let wait = FIRST.saturating_mul(1 << (*failures).min(16)).min(LONGEST);
        *failures = failures.saturating_add(1);
        with_jitter(wait, random)
    }

    /// Forgets objects that are gone.
    pub fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|uid, _| is_there(uid));
    }

    /// Notes a success.
    pub fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }
}

/// `wait`, shorter or longer by up to a tenth. `random` is at least 0 and below 1.
pub fn with_jitter(wait: Duration, random: f64) -> Duration {
    wait.mul_f64(0.9 + random * 0.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_five_minutes_and_a_success_ends_them() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..12).map(|_| backoff.failed("a", 0.5).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert_eq!(
            backoff.failed("b", 0.5).as_secs(),
            1,
            "another object has its own"
        );
        backoff.forget("a");
        assert_eq!(backoff.failed("a", 0.5).as_secs(), 1);
    }

    #[test]
    fn jitter_is_a_tenth_either_way() {
        let wait = Duration::from_secs(100);
        assert_eq!(with_jitter(wait, 0.0), Duration::from_secs(90));
        assert!(with_jitter(wait, 0.999) < Duration::from_secs(110));
    }
}
