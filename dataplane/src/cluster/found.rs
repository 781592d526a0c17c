//! What a source gave, judged: who was heard, who should have been, what made no sense. Pure.

use std::time::Duration;

use jevmetrics_api::member::Member;

use crate::coordinate::presence::{LIFE, Listed, Listing};

/// See the head of the module.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    pub(super) heard: Vec<Heard>,
    pub(super) silent: Vec<Silent>,
    /// Documents that make no sense.
    pub(super) unreadable: usize,
    /// Whether there are more than were told: who is missing may be there.
    pub(super) is_cut: bool,
}

/// A member that said something.
#[derive(Debug, PartialEq)]
pub(super) struct Heard {
    pub(super) member: Member,
    /// Time since it did.
    pub(super) age: Duration,
}

/// A pod of the routing table that the source misses: without a heartbeat in Redis, or without an answer when asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Silent {
    /// Its name.
    pub(crate) pod: String,
    /// Its slot.
    pub(crate) slot: u16,
    /// What is missing, and why.
    pub(crate) reason: String,
}

impl Found {
    /// Reads what a list holds. A document under another's name is nobody's; so is one that should have ended: only
    /// another program's has no end.
    pub(super) fn listed(listing: Listing) -> Self {
        let mut found = Self {
            is_cut: listing.is_cut,
            ..Self::default()
        };
        for Listed { id, age, document } in listing.members {
            match Member::from_json(&document) {
                Ok(member) if member.id == id && age <= LIFE => found.heard.push(Heard { member, age }),
                _ => found.unreadable += 1,
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(id: &str, seconds: u64, document: &[u8]) -> Listed {
        Listed {
            id: id.to_owned(),
            age: Duration::from_secs(seconds),
            document: document.to_vec(),
        }
    }

    #[test]
    fn documents_that_make_no_sense_are_counted_and_are_nobody() {
        let long = [b"{\"id\":\"a\",\"x\":\"", "x".repeat(70_000).as_bytes(), b"\"}"].concat();
        let members = vec![
            listed("a", 1, b"{\"id\":\"a\"}"),
            listed("b", 1, b"{\"id\":\"a\"}"),
            listed("c", 1, b""),
            listed("d", 1, b"nonsense"),
            listed("e", 1, b"\xff\xfe"),
            listed("f", 1, b"[1,2]"),
            listed("g", 1, b"{\"id\":\"g\",\"startedAt\":\"yesterday\"}"),
            listed("h", 1, b"{\"id\":\"h\",\"version\":\"\x1b[31m\"}"),
            listed("i", 31, b"{\"id\":\"i\"}"),
            listed("a", 1, &long),
            listed("j", 30, b"{\"id\":\"j\",\"state\":\"Dreaming\"}"),
        ];
        let found = Found::listed(Listing {
            members,
            is_cut: false,
        });
        let heard: Vec<_> = found.heard.iter().map(|heard| heard.member.id.as_str()).collect();
        assert_eq!(heard, ["a", "j"], "words of other versions are no nonsense");
        assert_eq!((found.unreadable, found.is_cut), (9, false));
    }
}
