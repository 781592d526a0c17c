//! Names that are never dropped: exact names, prefixes, and the companion gauges.
//!
//! A look-up costs at most the length of the name, however long the lists are.

use std::collections::{HashMap, HashSet};

use jevmetrics_otlp::companion::is_companion_name;

/// The protection of one policy.
#[derive(Debug, Default)]
pub struct Protection {
    names: HashSet<Box<[u8]>>,
    prefixes: PrefixTree,
}

impl Protection {
    /// From the lists of the policy.
    pub fn new<'a>(
        names: impl IntoIterator<Item = &'a str>,
        prefixes: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut tree = PrefixTree::default();
        for prefix in prefixes {
            tree.insert(prefix.as_bytes());
        }
        Self {
            names: names.into_iter().map(|name| name.as_bytes().into()).collect(),
            prefixes: tree,
        }
    }

    /// True if a metric of this name must be kept and not asked about.
    pub fn covers(&self, name: &[u8]) -> bool {
        is_companion_name(name) || self.names.contains(name) || self.prefixes.matches(name)
    }
}

/// A byte tree: one step a byte, so its cost is the name's, not the list's.
#[derive(Debug, Default)]
struct PrefixTree {
    /// Node 0 is the root, which exists once something was inserted.
    steps: HashMap<(u32, u8), u32>,
    ends: Vec<bool>,
}

impl PrefixTree {
    fn insert(&mut self, prefix: &[u8]) {
        if self.ends.is_empty() {
            self.ends.push(false);
        }
        let mut node = 0_u32;
        for &byte in prefix {
            let next = u32::try_from(self.ends.len()).unwrap_or(u32::MAX);
            node = *self.steps.entry((node, byte)).or_insert(next);
            if node == next {
                self.ends.push(false);
            }
        }
        self.ends[node as usize] = true;
    }

    fn matches(&self, name: &[u8]) -> bool {
        let mut node = 0_u32;
        for byte in name {
            match self.ends.get(node as usize) {
                None => return false,
                Some(true) => return true,
                Some(false) => {}
            }
            match self.steps.get(&(node, *byte)) {
                Some(next) => node = *next,
                None => return false,
            }
        }
        self.ends.get(node as usize).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_names_prefixes_and_companions_are_covered_and_nothing_else() {
        let protection = Protection::new(["up", "errors"], ["otelcol_", "otel.", "o"]);
        for name in [
            "up",
            "errors",
            "otelcol_x",
            "otelcol_",
            "otel.sdk",
            "o",
            "other",
            "jev.metric.relevance",
        ] {
            assert!(protection.covers(name.as_bytes()), "{name}");
        }
        for name in ["", "u", "upp", "error", "jev.metric.relevance2", "Up", "x.otel."] {
            assert!(!protection.covers(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn without_prefixes_no_name_matches() {
        let protection = Protection::new([], []);
        assert!(!protection.covers(b"") && !protection.covers(b"anything"));
    }

    #[test]
    fn a_prefix_longer_than_the_name_does_not_match() {
        let protection = Protection::new([], ["scrape_"]);
        assert!(!protection.covers(b"scrape"));
        assert!(protection.covers(b"scrape_"));
    }
}
