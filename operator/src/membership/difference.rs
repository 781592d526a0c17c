//! What a new table changes, in words.

use std::collections::BTreeMap;

use jevmetrics_api::routing::RoutingTable;

/// What `after` changes, such as `1 handed over, 2 joined`; counts alone, so that it stays short.
pub fn change(before: Option<&RoutingTable>, after: &RoutingTable) -> String {
    let Some(before) = before else {
        return format!("first table, {} members", after.owners().len());
    };
    let slots = |table: &RoutingTable| -> BTreeMap<u16, String> {
        let owners = table.owners().iter();
        owners.map(|owner| (owner.slot, owner.uid.clone())).collect()
    };
    let (old, new) = (slots(before), slots(after));
    let handed_over = new
        .iter()
        .filter(|(slot, uid)| old.get(slot).is_some_and(|old| old != *uid))
        .count();
    let joined = new.keys().filter(|slot| !old.contains_key(slot)).count();
    let removed = old.keys().filter(|slot| !new.contains_key(slot)).count();
    let counted = [
        (handed_over, "handed over"),
        (joined, "joined"),
        (removed, "removed"),
    ];
    let mut parts: Vec<String> = counted
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let (old, new) = (before.header(), after.header());
    if old.affinity != new.affinity {
        parts.push(format!("affinity {}", new.affinity.name()));
    }
    if old.key != new.key {
        parts.push("other key attributes".to_owned());
    }
    if parts.is_empty() {
        // An address, a zone, or an epoch that had to be outdone.
        parts.push("same members, written anew".to_owned());
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use jevmetrics_api::routing::{Affinity, ClusterIdentity, Header, KeySource, Owner};

    use super::*;

    fn table(affinity: Affinity, owners: &[(u16, &str)]) -> RoutingTable {
        let owners = owners.iter().map(|&(slot, uid)| Owner {
            slot,
            uid: uid.to_owned(),
            name: uid.to_owned(),
            address: ([10, 0, 0, 1], 4319).into(),
            zone: None,
        });
        let header = Header {
            cluster: ClusterIdentity {
                namespace: "ns".to_owned(),
                policy: "p".to_owned(),
            },
            affinity,
            key: KeySource::Source,
        };
        RoutingTable::new(1, header, owners.collect()).unwrap()
    }

    #[test]
    fn each_change_is_counted() {
        let before = table(Affinity::Forward, &[(0, "a"), (1, "b"), (2, "c")]);
        assert_eq!(change(None, &before), "first table, 3 members");
        assert_eq!(change(Some(&before), &before), "same members, written anew");
        let after = table(Affinity::None, &[(0, "x"), (2, "c"), (3, "d"), (4, "e")]);
        assert_eq!(
            change(Some(&before), &after),
            "1 handed over, 2 joined, 1 removed, affinity None"
        );
    }
}
