//! Pods that the watch has seen to be deleted. Once a pod is gone, nothing else tells one that was deleted from one that is
//! merely lost.
//!
//! Noted by the watch, read by every reconcile, and forgotten when the pods own nothing any more, or with their policy. Of
//! one term of leading: what went before it was not seen.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jevmetrics_api::routing::MAX_OWNERS;
use kube::runtime::reflector::ObjectRef;

use crate::observed::Guarded;

/// Of one policy. What is beyond is held as if it was lost.
const MOST: usize = 2 * MAX_OWNERS;

type Policy = ObjectRef<Guarded>;
/// Uids, by policy.
type Uids = HashMap<Policy, BTreeSet<String>>;

/// Pods that the watch has seen to be deleted.
#[derive(Debug, Clone, Default)]
pub struct Deleted(Arc<Mutex<Uids>>);

impl Deleted {
    /// Notes that a pod of `policy` is gone.
    pub(crate) fn note(&self, policy: Policy, uid: String) {
        let mut all = self.all();
        let uids = all.entry(policy).or_default();
        if uids.len() < MOST {
            uids.insert(uid);
        }
    }

    /// The uids of the pods of `policy` that are gone.
    pub(crate) fn of(&self, policy: &Policy) -> BTreeSet<String> {
        self.all().get(policy).cloned().unwrap_or_default()
    }

    /// Forgets those of `known` that nobody needs; what was noted in the meantime stays.
    pub(crate) fn forget(&self, policy: &Policy, known: &BTreeSet<String>, is_needed: impl Fn(&str) -> bool) {
        let mut all = self.all();
        if let Some(uids) = all.get_mut(policy) {
            uids.retain(|uid| !known.contains(uid) || is_needed(uid));
            if uids.is_empty() {
                all.remove(policy);
            }
        }
    }

    /// Forgets the pods of policies that are gone.
    pub(crate) fn retain(&self, is_there: impl Fn(&Policy) -> bool) {
        self.all().retain(|policy, _| is_there(policy));
    }

    fn all(&self) -> MutexGuard<'_, Uids> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str) -> Policy {
        ObjectRef::new(name).within("ns")
    }

    fn uids(uids: &[&str]) -> BTreeSet<String> {
        uids.iter().map(|&uid| uid.to_owned()).collect()
    }

    #[test]
    fn they_are_known_until_nobody_needs_them() {
        let deleted = Deleted::default();
        for uid in ["owner", "spare"] {
            deleted.note(policy("jm"), uid.to_owned());
        }
        let known = deleted.of(&policy("jm"));
        assert_eq!(known, uids(&["owner", "spare"]));
        assert_eq!(deleted.of(&policy("another")), uids(&[]));
        deleted.note(policy("jm"), "meanwhile".to_owned());
        deleted.forget(&policy("jm"), &known, |uid| uid == "owner");
        assert_eq!(deleted.of(&policy("jm")), uids(&["meanwhile", "owner"]));
        deleted.forget(&policy("jm"), &deleted.of(&policy("jm")), |_| false);
        assert!(deleted.all().is_empty());
    }

    #[test]
    fn they_go_with_their_policy_and_are_never_too_many() {
        let deleted = Deleted::default();
        for index in 0..=MOST {
            deleted.note(policy("jm"), format!("{index}"));
        }
        assert_eq!(deleted.of(&policy("jm")).len(), MOST);
        deleted.note(policy("gone"), "a".to_owned());
        deleted.retain(|policy| policy.name == "jm");
        assert_eq!(deleted.all().len(), 1);
    }
}
