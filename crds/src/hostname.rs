//! How names of pods are grouped for people.

/// What the pods of one `ReplicaSet` share of their names: `hostname` up to its last `-`.
///
/// `jm-6f7d9c5b8-x2x4z` becomes `jm-6f7d9c5b8`. Where nothing would be left, or nothing is to be cut, the name stays.
pub fn pod_id_from_hostname(hostname: &str) -> &str {
    match hostname.rfind('-') {
        None | Some(0) => hostname,
        Some(end) => &hostname[..end],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_at_its_last_hyphen() {
        for (hostname, id) in [
            ("jm-6f7d9c5b8-x2x4z", "jm-6f7d9c5b8"),
            ("jm-6f7d9c5b8-x2x4z-000102ff", "jm-6f7d9c5b8-x2x4z"),
            ("host-1", "host"),
            ("host-", "host"),
            ("host", "host"),
            ("größe-1", "größe"),
            ("a--b", "a-"),
            ("-a", "-a"),
            ("-", "-"),
            ("", ""),
        ] {
            assert_eq!(pod_id_from_hostname(hostname), id, "{hostname}");
        }
    }
}
