//! From what a script answered to what it means. The heads of the scripts say what they answer; anything else is
//! [`Trouble::Answer`].

use std::time::{Duration, Instant};

use redis::Value;

use super::block::Block;
use super::payload;
use super::presence::{LIFE, Listed, Listing};
use super::trouble::Trouble;
use super::{Mismatch, Shared, Wait};

type Reading<T> = Result<T, Trouble>;

/// What a call allows one to believe.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// The caller's budget.
    pub(super) block: Block,
    /// Lifetime of assessments: nothing lives longer.
    pub(super) ttl: Duration,
    /// From then on every life that the call brought counts.
    pub(super) asked_at: Instant,
    /// When the answer was there.
    pub(super) answered_at: Instant,
}

/// What `lookup.lua` answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LookedUp {
    /// One entry a key; what cannot be believed counts as missing.
    Found(Vec<Option<Shared>>),
    /// Contradicting budgets.
    Mismatch(Mismatch),
}

/// What `admit.lua` answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    /// Shared already.
    Hit(Shared),
    /// Shared, but not by a program of ours.
    Unbelievable,
    /// The caller asks.
    Owner,
    /// Not now.
    Wait(Wait),
    /// Contradicting budgets.
    Mismatch(Mismatch),
}

pub(super) fn looked_up(value: &Value, keys: usize, terms: Terms) -> Reading<LookedUp> {
    match words(value)? {
        (b"found", entries) if entries.len() == 2 * keys => {
            let mut found = Vec::with_capacity(keys);
            for entry in entries.chunks_exact(2) {
                found.push(match &entry[0] {
                    Value::Nil => None,
                    score => shared(bytes(score)?, integer(&entry[1])?, terms).ok(),
                });
            }
            Ok(LookedUp::Found(found))
        }
        (b"mismatch", [theirs]) => Ok(LookedUp::Mismatch(mismatch(theirs, terms)?)),
        _ => Err(Trouble::Answer),
    }
}

pub(super) fn admitted(value: &Value, terms: Terms) -> Reading<Admitted> {
    match words(value)? {
        (b"hit", [score, life]) => Ok(match shared(bytes(score)?, integer(life)?, terms) {
            Ok(shared) => Admitted::Hit(shared),
            // Gone when it arrives: whoever asks again will find nothing.
            Err(Useless::Over) => Admitted::Wait(Wait::Lease(Duration::ZERO)),
            Err(Useless::Form) => Admitted::Unbelievable,
        }),
        (b"owner", []) => Ok(Admitted::Owner),
        (b"mismatch", [theirs]) => Ok(Admitted::Mismatch(mismatch(theirs, terms)?)),
        (b"wait", [reason, left, rest @ ..]) => wait(bytes(reason)?, left, rest).map(Admitted::Wait),
        _ => Err(Trouble::Answer),
    }
}

/// Whether a publication came in time.
pub(super) fn published(value: &Value) -> Reading<bool> {
    match words(value)? {
        (b"published", []) => Ok(true),
        (b"late", []) => Ok(false),
        _ => Err(Trouble::Answer),
    }
}

/// How long nobody asks; zero if the failure came too late to count.
pub(super) fn cooling(value: &Value) -> Reading<Duration> {
    match words(value)? {
        (b"cooling", [left]) => milliseconds(left),
        (b"late", []) => Ok(Duration::ZERO),
        _ => Err(Trouble::Answer),
    }
}

/// Whether there was a lease to give back is all the same.
pub(super) fn released(value: &Value) -> Reading<()> {
    match words(value)? {
        (b"released" | b"late", []) => Ok(()),
        _ => Err(Trouble::Answer),
    }
}

/// Whether the heartbeat is done with. One of a process that has left comes late: nobody waits for it.
pub(super) fn beating(value: &Value) -> Reading<()> {
    match words(value)? {
        (b"beating" | b"left", []) => Ok(()),
        _ => Err(Trouble::Answer),
    }
}

/// Whether this process is out of the list.
pub(super) fn left(value: &Value) -> Reading<()> {
    match words(value)? {
        (b"left", []) => Ok(()),
        _ => Err(Trouble::Answer),
    }
}

/// Who is alive. What the documents say is for the caller to judge; an id that is no text is one that nobody has.
pub(super) fn members(value: &Value) -> Reading<Listing> {
    match words(value)? {
        (b"members", [cut, entries @ ..]) if entries.len().is_multiple_of(3) => {
            let members = entries.chunks_exact(3).map(|entry| {
                Ok(Listed {
                    id: String::from_utf8_lossy(bytes(&entry[0])?).into_owned(),
                    age: age(&entry[1])?,
                    document: bytes(&entry[2])?.to_vec(),
                })
            });
            Ok(Listing {
                members: members.collect::<Reading<_>>()?,
                is_cut: flag(cut)?,
            })
        }
        _ => Err(Trouble::Answer),
    }
}

fn wait(reason: &[u8], left: &Value, rest: &[Value]) -> Reading<Wait> {
    let left = milliseconds(left)?;
    Ok(match (reason, rest) {
        (b"lease", []) => Wait::Lease(left),
        (b"cooldown", []) => Wait::Cooldown(left),
        (b"in_flight", []) => Wait::InFlight,
        (b"second", []) => Wait::Rate(left),
        (b"pending", [old, new]) => Wait::Pending {
            left,
            old: block(old)?,
            new: block(new)?,
        },
        (b"superseded", [in_force]) => Wait::Superseded(block(in_force)?),
        _ => return Err(Trouble::Answer),
    })
}

/// Why a score is of no use.
enum Useless {
    /// No program of ours wrote it, or with another lifetime.
    Form,
    /// Its life was shorter than the call.
    Over,
}

fn shared(score: &[u8], life: i64, terms: Terms) -> Result<Shared, Useless> {
    let verdict = payload::decode(score).map_err(|_| Useless::Form)?;
    let life = u64::try_from(life).map_err(|_| Useless::Form)?;
    let life = Duration::from_millis(life);
    if life > terms.ttl {
        return Err(Useless::Form);
    }
    let expires = terms.asked_at + life;
    if expires <= terms.answered_at {
        return Err(Useless::Over);
    }
    Ok(Shared { verdict, expires })
}

fn mismatch(theirs: &Value, terms: Terms) -> Reading<Mismatch> {
    Ok(Mismatch {
        mine: terms.block,
        theirs: block(theirs)?,
    })
}

fn words(value: &Value) -> Reading<(&[u8], &[Value])> {
    let Value::Array(items) = value else {
        return Err(Trouble::Answer);
    };
    let (first, rest) = items.split_first().ok_or(Trouble::Answer)?;
    Ok((bytes(first)?, rest))
}

fn bytes(value: &Value) -> Reading<&[u8]> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(Trouble::Answer),
    }
}

fn integer(value: &Value) -> Reading<i64> {
    match value {
        Value::Int(number) => Ok(*number),
        _ => Err(Trouble::Answer),
    }
}

fn flag(value: &Value) -> Reading<bool> {
    match integer(value)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Trouble::Answer),
    }
}

/// Of a heartbeat: never below zero, and never longer than a life.
fn age(value: &Value) -> Reading<Duration> {
    let milliseconds = u64::try_from(integer(value)?).map_err(|_| Trouble::Answer)?;
    let age = Duration::from_millis(milliseconds);
    if age <= LIFE {
        Ok(age)
    } else {
        Err(Trouble::Answer)
    }
}

/// A key that has just ended tells a negative number.
fn milliseconds(value: &Value) -> Reading<Duration> {
    Ok(Duration::from_millis(u64::try_from(integer(value)?).unwrap_or(0)))
}

fn block(value: &Value) -> Reading<Block> {
    std::str::from_utf8(bytes(value)?)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(Trouble::Answer)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn terms() -> Terms {
        let asked_at = Instant::now();
        Terms {
            block: "1 10000 4 10".parse().unwrap(),
            ttl: Duration::from_mins(15),
            asked_at,
            answered_at: asked_at + Duration::from_millis(300),
        }
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn answer(items: impl IntoIterator<Item = Value>) -> Value {
        Value::Array(items.into_iter().collect())
    }

    #[test]
    fn a_life_counts_from_before_the_call() {
        let terms = terms();
        let hit = |life| admitted(&answer([text("hit"), text("1 refused"), Value::Int(life)]), terms);
        let of = |milliseconds| {
            Ok(Admitted::Hit(Shared {
                verdict: Verdict::Refused,
                expires: terms.asked_at + Duration::from_millis(milliseconds),
            }))
        };
        assert_eq!(hit(900_000), of(900_000));
        assert_eq!(hit(301), of(301));
        for life in [300, 1, 0] {
            assert_eq!(
                hit(life),
                Ok(Admitted::Wait(Wait::Lease(Duration::ZERO))),
                "{life}"
            );
        }
        for life in [-1, -2, 900_001, i64::MAX, i64::MIN] {
            assert_eq!(hit(life), Ok(Admitted::Unbelievable), "{life}");
        }
    }

    #[test]
    fn look_ups_keep_their_places() {
        let value = answer([
            text("found"),
            Value::Nil,
            Value::Int(-2),
            text("1 refused"),
            Value::Int(1000),
            text("nonsense"),
            Value::Int(1000),
        ]);
        let LookedUp::Found(found) = looked_up(&value, 3, terms()).unwrap() else {
            panic!("not found");
        };
        assert!(found[0].is_none() && found[1].is_some() && found[2].is_none());
        assert_eq!(looked_up(&value, 2, terms()), Err(Trouble::Answer));
    }

    #[test]
    fn every_reason_to_wait_is_read() {
        let block: Block = "2 10000 4 20".parse().unwrap();
        let left = Duration::from_millis(70);
        for (words, expected) in [
            (vec![text("lease"), Value::Int(70)], Wait::Lease(left)),
            (vec![text("lease"), Value::Int(-2)], Wait::Lease(Duration::ZERO)),
            (vec![text("cooldown"), Value::Int(70)], Wait::Cooldown(left)),
            (vec![text("in_flight"), Value::Int(0)], Wait::InFlight),
            (vec![text("second"), Value::Int(70)], Wait::Rate(left)),
            (
                vec![text("superseded"), Value::Int(0), text("2 10000 4 20")],
                Wait::Superseded(block),
            ),
            (
                vec![
                    text("pending"),
                    Value::Int(70),
                    text("1 10000 4 10"),
                    text("2 10000 4 20"),
                ],
                Wait::Pending {
                    left,
                    old: terms().block,
                    new: block,
                },
            ),
        ] {
            let value = answer([text("wait")].into_iter().chain(words));
            assert_eq!(admitted(&value, terms()), Ok(Admitted::Wait(expected)));
        }
    }

    #[test]
    fn members_are_read_in_threes() {
        let read = |cut: Value, entries: Vec<Value>| {
            members(&answer([text("members"), cut].into_iter().chain(entries)))
        };
        let (all, cut) = (Value::Int(0), Value::Int(1));
        let one = || vec![text("a"), Value::Int(70), text("{}")];
        let listed = Listed {
            id: "a".to_owned(),
            age: Duration::from_millis(70),
            document: b"{}".to_vec(),
        };
        for (cut, is_cut) in [(all.clone(), false), (cut, true)] {
            let members = vec![listed.clone()];
            assert_eq!(read(cut, one()), Ok(Listing { members, is_cut }));
        }
        assert_eq!(read(all.clone(), Vec::new()), Ok(Listing::default()));
        for nonsense in [Value::Int(2), Value::Int(-1), Value::Nil, text("0")] {
            assert_eq!(read(nonsense, one()), Err(Trouble::Answer));
        }
        assert_eq!(members(&answer([text("members")])), Err(Trouble::Answer));
        let short = vec![text("a"), Value::Int(70)];
        assert_eq!(read(all.clone(), short), Err(Trouble::Answer));
        let ageless = vec![text("a"), Value::Nil, text("{}")];
        assert_eq!(read(all.clone(), ageless), Err(Trouble::Answer));
        for age in [-1, 30_001, i64::MIN, i64::MAX] {
            let absurd = vec![text("a"), Value::Int(age), text("{}")];
            assert_eq!(read(all.clone(), absurd), Err(Trouble::Answer), "{age}");
        }
    }

    #[test]
    fn a_mismatch_names_both() {
        let value = answer([text("mismatch"), text("0 10000 4 10")]);
        let Ok(Admitted::Mismatch(mismatch)) = admitted(&value, terms()) else {
            panic!("no mismatch");
        };
        let words = mismatch.to_string();
        assert!(
            words.contains("1 10000 4 10") && words.contains("0 10000 4 10"),
            "{words}"
        );
    }

    #[test]
    fn what_no_script_of_ours_says_is_not_believed() {
        for value in [
            Value::Nil,
            Value::Okay,
            answer([]),
            answer([text("hello")]),
            answer([text("owner"), Value::Int(1)]),
            answer([text("hit"), Value::Nil, Value::Int(1)]),
            answer([text("wait"), text("tea"), Value::Int(1)]),
            answer([text("mismatch"), text("x")]),
        ] {
            assert_eq!(admitted(&value, terms()), Err(Trouble::Answer), "{value:?}");
            assert_eq!(looked_up(&value, 0, terms()), Err(Trouble::Answer), "{value:?}");
            assert_eq!(published(&value), Err(Trouble::Answer), "{value:?}");
            assert_eq!(cooling(&value), Err(Trouble::Answer), "{value:?}");
            assert_eq!(released(&value), Err(Trouble::Answer), "{value:?}");
            assert_eq!(beating(&value), Err(Trouble::Answer), "{value:?}");
            assert_eq!(left(&value), Err(Trouble::Answer), "{value:?}");
            assert_eq!(members(&value), Err(Trouble::Answer), "{value:?}");
        }
    }
}
