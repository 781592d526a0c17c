//! Who this process is: new at each start.

/// Names of this process.
#[derive(Debug, Clone)]
pub struct Member {
    /// The host's name.
    pub hostname: String,
    /// Hostname + "-" + 4 random bytes in hex: in log lines and pages.
    pub id: String,
    /// `jev.collector.id`: 8 random bytes in hex, so that two writers never share a series.
    pub collector_id: String,
}

impl Member {
    /// Names from the hostname and the operating system's randomness.
    pub fn new(hostname: &str, random: [u8; 12]) -> Self {
        let hex = |bytes: &[u8]| -> String {
            let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
            digits
                .filter_map(|digit| char::from_digit(digit.into(), 16))
                .collect()
        };
        let (own, collector) = random.split_at(4);
        Self {
            hostname: hostname.to_owned(),
            id: format!("{hostname}-{}", hex(own)),
            collector_id: hex(collector),
        }
    }
}

/// The hostname, as the kernel tells it.
pub fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_its_host_and_four_random_bytes() {
        let member = Member::new("jm-6f7d9c5b8-x2x4z", [0, 1, 2, 255, 9, 9, 9, 9, 9, 9, 9, 10]);
        assert_eq!(member.id, "jm-6f7d9c5b8-x2x4z-000102ff");
        assert_eq!(member.collector_id, "090909090909090a");
    }
}
