//! What the scripts have recorded in one namespace, with the server's own time: who was admitted when, what was stored.
//! Pure.
//!
//! An admission is what `admit.lua` writes for one, in this order:
//!
//! ```text
//! ZADD leases <end> <token> ─▶ SET admissions "<second> <number>" ─▶ SET lease:… "<token> <now>" PX <lease>
//! ```

use std::collections::BTreeMap;

use super::monitor_line::Ran;

/// One question that was allowed, whatever became of it. Times are milliseconds of the server's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Whose; the part before the last `-` is that of the process.
    pub token: String,
    /// About what: version and identity.
    pub about: String,
    /// When.
    pub at: u64,
    /// When its lease ends.
    pub ends: u64,
    /// The second in which it was counted.
    pub second: u64,
    /// Which one of its second it is, from 1.
    pub number: u64,
    /// Leases that were held then, this one among them.
    pub held: usize,
    /// When it was given back: published, failed, cancelled.
    pub returned: Option<u64>,
}

/// An assessment or a refusal that was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// About what: version and identity.
    pub about: String,
    /// The text that others read.
    pub payload: String,
    /// Its life in milliseconds.
    pub life: u64,
    /// When, in milliseconds of the server's clock.
    pub at: u64,
}

impl Publication {
    /// Whether it says that the model refused the instrument.
    pub fn is_refusal(&self) -> bool {
        self.payload == "1 refused"
    }
}

/// A pause that began or was made longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cooldown {
    /// Pauses since the last answer.
    pub step: u64,
    /// When the pause began.
    pub begun: u64,
    /// When it ends.
    pub until: u64,
    /// When this was written.
    pub at: u64,
}

/// A budget record as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetRecord {
    /// The block in force.
    pub current: String,
    /// The block that waits; empty if none does.
    pub next: String,
    /// When it was written.
    pub at: u64,
}

/// All that happened, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Questions that were allowed.
    pub admissions: Vec<Admission>,
    /// What was stored.
    pub publications: Vec<Publication>,
    /// Pauses.
    pub cooldowns: Vec<Cooldown>,
    /// Times when an answer ended a pause.
    pub cooldowns_ended: Vec<u64>,
    /// Budgets.
    pub budgets: Vec<BudgetRecord>,
    /// Scripts that clients have called, each a round trip; those for heartbeats are not counted.
    pub calls: u64,
}

impl Evidence {
    /// Of what the server has run; `prefix` is that of the namespace's keys.
    pub(super) fn new(ran: &[Ran], prefix: &str) -> Self {
        let mut evidence = Self::default();
        let mut open = Open::default();
        for ran in ran {
            if ran.by_script {
                evidence.add(ran, prefix, &mut open);
            } else {
                evidence.calls += 1;
            }
        }
        evidence
    }

    fn add(&mut self, ran: &Ran, prefix: &str, open: &mut Open) {
        let words: Vec<&str> = ran.words.iter().map(String::as_str).collect();
        let [command, key, arguments @ ..] = words.as_slice() else {
            return;
        };
        let Some(name) = key.strip_prefix(prefix) else {
            return;
        };
        let at = ran.at / 1000;
        match (*command, name, arguments) {
            ("ZADD", "leases", [ends, token]) => {
                open.lease = number(ends).map(|ends| ((*token).to_owned(), ends));
            }
            ("SET", "admissions", [counted, ..]) => {
                open.counted = counted
                    .split_once(' ')
                    .and_then(|(second, count)| Some((number(second)?, number(count)?)));
            }
            ("SET", _, [held, ..]) if name.starts_with("lease:") => {
                let held = held
                    .split_once(' ')
                    .and_then(|(token, at)| Some((token, number(at)?)));
                let about = name.trim_start_matches("lease:").to_owned();
                self.admissions.extend(open.admission(about, held));
            }
            ("SET", _, [payload, "PX", life]) if name.starts_with("score:") => {
                self.publications.push(Publication {
                    about: name.trim_start_matches("score:").to_owned(),
                    payload: (*payload).to_owned(),
                    life: number(life).unwrap_or(u64::MAX),
                    at,
                });
            }
            ("ZREM", "leases", [token]) => {
                open.held.remove(*token);
                let of = |admission: &&mut Admission| admission.token == *token;
                if let Some(admission) = self.admissions.iter_mut().rev().find(of) {
                    admission.returned.get_or_insert(at);
                }
            }
            ("HSET", "cooldown", fields) => {
                let field = |name| field(fields, name).and_then(|value| number(&value));
                if let (Some(step), Some(begun), Some(until)) =
                    (field("step"), field("begun"), field("until"))
                {
                    self.cooldowns.push(Cooldown {
                        step,
                        begun,
                        until,
                        at,
                    });
                }
            }
            ("DEL", "cooldown", _) => self.cooldowns_ended.push(at),
            ("HSET", "budget", fields) => {
                let field = |name| field(fields, name).unwrap_or_default();
                self.budgets.push(BudgetRecord {
                    current: field("current"),
                    next: field("next"),
                    at,
                });
            }
            _ => {}
        }
    }

    /// Admissions by second of the server's clock.
    pub fn by_second(&self) -> BTreeMap<u64, u64> {
        let mut seconds = BTreeMap::new();
        for admission in &self.admissions {
            *seconds.entry(admission.second).or_default() += 1;
        }
        seconds
    }

    /// The most that were admitted in one second.
    pub fn most_in_a_second(&self) -> u64 {
        self.by_second().into_values().max().unwrap_or(0)
    }

    /// The most leases that were held at once: neither over nor given back.
    pub fn most_at_once(&self) -> usize {
        self.admissions
            .iter()
            .map(|admission| admission.held)
            .max()
            .unwrap_or(0)
    }

    /// What the counter in Redis said is what can be counted: in each second the numbers 1, 2, 3 …
    pub fn is_consistent(&self) -> bool {
        let mut last = BTreeMap::new();
        self.admissions.iter().all(|admission| {
            let before = last.insert(admission.second, admission.number).unwrap_or(0);
            admission.number == before + 1
        })
    }

    /// Processes that were admitted.
    pub fn processes(&self) -> BTreeMap<String, u64> {
        let mut processes = BTreeMap::new();
        for admission in &self.admissions {
            let process = admission
                .token
                .rsplit_once('-')
                .map_or("", |(process, _)| process);
            *processes.entry(process.to_owned()).or_default() += 1;
        }
        processes
    }
}

/// Of the admission that is being written, and the ends of the leases that are held.
#[derive(Debug, Default)]
struct Open {
    lease: Option<(String, u64)>,
    counted: Option<(u64, u64)>,
    held: BTreeMap<String, u64>,
}

impl Open {
    fn admission(&mut self, about: String, held: Option<(&str, u64)>) -> Option<Admission> {
        let ((token, ends), (second, number)) = self.lease.take().zip(self.counted.take())?;
        let (holder, at) = held?;
        if holder != token {
            return None;
        }
        self.held.retain(|_, ends| *ends > at);
        self.held.insert(token.clone(), ends);
        Some(Admission {
            token,
            about,
            at,
            ends,
            second,
            number,
            held: self.held.len(),
            returned: None,
        })
    }
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// The value behind `name` in pairs of names and values.
fn field(pairs: &[&str], name: &str) -> Option<String> {
    let (_, value) = pairs
        .chunks_exact(2)
        .map(|pair| (pair[0], pair[1]))
        .find(|pair| pair.0 == name)?;
    Some(value.to_owned())
}

/// Whether `ran` says anything of a namespace whose keys begin with `prefix`. Heartbeats come by the clock, whatever is
/// asked: nothing is to be learnt from them here.
pub(super) fn concerns(ran: &Ran, prefix: &str) -> bool {
    const WRITES: [&str; 5] = ["ZADD", "ZREM", "SET", "HSET", "DEL"];
    let is_about_asking = |key: &str| {
        let name = key.strip_prefix(prefix);
        let is_of_a_member = |name: &str| name.starts_with("member:") || name.starts_with("left:");
        name.is_some_and(|name| name != "members" && !is_of_a_member(name))
    };
    match ran.words.as_slice() {
        [command, key, ..] if ran.by_script => WRITES.contains(&command.as_str()) && is_about_asking(key),
        [command, _script, _keys, key, ..] => {
            ["EVALSHA", "EVAL"].contains(&command.to_ascii_uppercase().as_str()) && is_about_asking(key)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::monitor_line::Ran;
    use super::{Evidence, concerns};

    const PREFIX: &str = "jevmetrics:{n}:";

    fn ran(milliseconds: u64, words: &[&str]) -> Ran {
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        words[1] = format!("{PREFIX}{}", words[1]);
        Ran {
            at: milliseconds * 1000,
            by_script: true,
            words,
        }
    }

    fn admission(at: u64, lease: u64, token: &str, number: u64) -> Vec<Ran> {
        let (second, ends) = (at / 1000, at + lease);
        let lease = lease.to_string();
        vec![
            ran(at, &["ZADD", "leases", &ends.to_string(), token]),
            ran(
                at,
                &["SET", "admissions", &format!("{second} {number}"), "PX", "2000"],
            ),
            ran(at, &["SET", "lease:v:i", &format!("{token} {at}"), "PX", &lease]),
        ]
    }

    #[test]
    fn leases_are_held_until_they_end_or_are_given_back() {
        let mut all = admission(1_000, 500, "a-1", 1);
        all.extend(admission(1_100, 500, "b-1", 2));
        all.push(ran(1_200, &["ZREM", "leases", "b-1"]));
        all.extend(admission(1_200, 500, "b-2", 3));
        all.extend(admission(1_500, 500, "a-2", 4));
        let evidence = Evidence::new(&all, PREFIX);
        let held: Vec<usize> = evidence
            .admissions
            .iter()
            .map(|admission| admission.held)
            .collect();
        assert_eq!(held, [1, 2, 2, 2]);
        assert_eq!((evidence.most_at_once(), evidence.most_in_a_second()), (2, 4));
        assert!(evidence.is_consistent());
        assert_eq!(evidence.admissions[1].returned, Some(1_200));
        assert_eq!(evidence.processes().into_values().collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn a_number_that_comes_twice_is_seen() {
        let mut all = admission(1_000, 500, "a-1", 1);
        all.extend(admission(1_100, 500, "b-1", 1));
        assert!(!Evidence::new(&all, PREFIX).is_consistent());
    }

    #[test]
    fn what_is_stored_is_told() {
        let all = [
            ran(5, &["SET", "score:v:i", "1 refused", "PX", "10000"]),
            ran(
                6,
                &["HSET", "cooldown", "step", "1", "begun", "6", "until", "1006"],
            ),
            ran(7, &["DEL", "cooldown"]),
            ran(
                8,
                &["HSET", "budget", "current", "1 2 3 4", "next", "", "next_at", "0"],
            ),
        ];
        assert!(all.iter().all(|ran| concerns(ran, PREFIX)));
        assert!(!all.iter().any(|ran| concerns(ran, "jevmetrics:{other}:")));
        let heartbeats = [
            ran(9, &["SET", "member:a", "{}", "PX", "30000"]),
            ran(9, &["ZADD", "members", "9", "a"]),
            ran(9, &["SET", "left:a", "1", "PX", "30000"]),
        ];
        assert!(!heartbeats.iter().any(|ran| concerns(ran, PREFIX)));
        let evidence = Evidence::new(&all, PREFIX);
        assert!(evidence.publications[0].is_refusal());
        assert_eq!(
            (
                evidence.publications[0].life,
                evidence.publications[0].about.as_str()
            ),
            (10_000, "v:i")
        );
        assert_eq!(
            (evidence.cooldowns[0].until, evidence.cooldowns_ended[0]),
            (1_006, 7)
        );
        assert_eq!(evidence.budgets[0].current, "1 2 3 4");
    }
}
