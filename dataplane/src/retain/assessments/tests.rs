#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use jevmetrics_otlp::identity::{Identity, InvalidIdentity};

use super::*;
use crate::retain::answers::{Action, Percent};
use crate::test_identity;

mod capacity;
mod questions;
mod refresh;
mod stress;

const LIFETIME: Seconds = 900;

/// The identity of the gauge of this number.
fn identity(number: usize) -> Identity {
    test_identity::identity(&format!("m{number}"))
}

/// An alias as even as a hash; `form` tells those of one identity apart.
fn alias(number: usize, form: u64) -> u128 {
    let seed = number as u64 * 2 + form + 1;
    let mix = |word: u64| {
        (word ^ word >> 31)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(32)
    };
    let low = mix(mix(seed));
    u128::from(mix(low ^ 0xd6e8_feb8_6659_fd93)) << 64 | u128::from(low)
}

fn admit(assessments: &Assessments, number: usize, now: Seconds) -> Option<Found> {
    assessments.admit(alias(number, 0), number as u64, Ok(identity(number)), now, || {
        None
    })
}

fn answers(keep: u8) -> Answers {
    let percent = |value| Percent::new(value).unwrap();
    Answers {
        relevance: percent(100 - keep),
        redundancy: percent(keep / 2),
        keep: percent(keep),
        action: Action::Reduce,
    }
}

fn state(assessments: &Assessments, number: usize) -> Option<State> {
    assessments.find(alias(number, 0)).map(|found| found.state)
}

#[test]
fn answers_and_refusals_count_until_their_last_second() {
    let assessments = Assessments::new(4, 4, LIFETIME);
    let answered = admit(&assessments, 1, 50).unwrap().ticket;
    let refused = admit(&assessments, 2, 50).unwrap().ticket;
    assessments.store(answered, answers(40), "jev-1", 100 + LIFETIME);
    assessments.store_refusal(refused, 100 + LIFETIME);
    let at = |number, now| Assessments::knowledge(state(&assessments, number).unwrap(), now);
    for now in [100, 101, 999] {
        assert_eq!(at(1, now), Knowledge::Assessed(answers(40).keep));
        assert_eq!(at(2, now), Knowledge::Unassessable);
    }
    for now in [1000, 1001, Seconds::MAX] {
        assert_eq!(at(1, now), Knowledge::Unknown);
        assert_eq!(at(2, now), Knowledge::Unknown);
    }
}

#[test]
fn knowledge_does_not_become_eternal_at_the_end_of_the_clock() {
    let assessments = Assessments::new(1, 1, LIFETIME);
    let ticket = admit(&assessments, 1, 0).unwrap().ticket;
    assessments.store(ticket, answers(0), "jev-1", Seconds::MAX);
    let knowledge = Assessments::knowledge(state(&assessments, 1).unwrap(), Seconds::MAX);
    assert_eq!(knowledge, Knowledge::Unknown);
}

#[test]
fn an_invalid_identity_stays_invalid() {
    let assessments = Assessments::new(2, 2, LIFETIME);
    let invalid = Err(InvalidIdentity::RepeatedKey);
    let found = assessments.admit(alias(1, 0), 1, invalid, 0, || None).unwrap();
    for now in [0, LIFETIME, Seconds::MAX] {
        assert_eq!(
            Assessments::knowledge(found.state, now),
            Knowledge::InvalidIdentity
        );
    }
}

#[test]
fn two_forms_of_one_identity_lead_to_one_place_and_keep_their_own_checks() {
    let assessments = Assessments::new(4, 8, LIFETIME);
    let first = admit(&assessments, 1, 0).unwrap();
    let second = assessments
        .admit(alias(1, 1), 77, Ok(identity(1)), 0, || None)
        .unwrap();
    assert_eq!(first.ticket, second.ticket);
    assert_eq!((first.check, second.check), (1, 77));
    assessments.store(first.ticket, answers(5), "jev-1", LIFETIME);
    for (form, check) in [(0, 1), (1, 77)] {
        let found = assessments.find(alias(1, form)).unwrap();
        assert!(matches!(found.state, State::Assessed { answers: stored, .. } if stored == answers(5)));
        assert_eq!(found.check, check);
    }
    assert_eq!(assessments.fill(), (1, 4));
}

#[test]
fn an_alias_met_twice_at_once_gets_one_place_whether_valid_or_not() {
    let assessments = Assessments::new(8, 8, LIFETIME);
    for identity in [Ok(identity(1)), Err(InvalidIdentity::NotText)] {
        let alias = alias(100, u64::from(identity.is_ok()));
        let first = assessments.admit(alias, 3, identity, 0, || None).unwrap();
        let again = assessments.admit(alias, 3, identity, 0, || None).unwrap();
        assert_eq!(first.ticket, again.ticket);
    }
    assert_eq!(assessments.fill().0, 2);
}

#[test]
fn a_late_answer_does_not_reach_the_next_holder_of_the_place() {
    let assessments = Assessments::new(1, 4, LIFETIME);
    let former = admit(&assessments, 1, 0).unwrap().ticket;
    let next = admit(&assessments, 2, LIFETIME).unwrap().ticket;
    assert_eq!(former.slot, next.slot);
    assert!(assessments.start_asking(next, LIFETIME));
    assessments.store(former, answers(0), "jev-1", 2 * LIFETIME);
    assessments.store_refusal(former, 2 * LIFETIME);
    assessments.stop_asking(former);
    assert_eq!(
        state(&assessments, 1),
        None,
        "the former is unknown again, which means kept"
    );
    assert_eq!(state(&assessments, 2), Some(State::Unknown));
    assert!(
        assessments.is_asking(next),
        "its own question is still on its way"
    );
    assert!(!assessments.is_protected(next, 1, || false));
    assert!(assessments.is_protected(former, 1, || true));
    assert!(
        !assessments.is_protected(next, 1, || false),
        "nor does anything else of the former"
    );
}

#[test]
fn model_names_beyond_the_last_place_share_it() {
    let assessments = Assessments::new(1, 1, LIFETIME);
    let ticket = admit(&assessments, 1, 0).unwrap().ticket;
    let shown = |name: &str| {
        assessments.store(ticket, answers(50), name, LIFETIME);
        let Some(State::Assessed {
            model,
            answers: stored,
            expires,
        }) = state(&assessments, 1)
        else {
            panic!("stored");
        };
        assert_eq!(
            (stored, expires),
            (answers(50), LIFETIME),
            "the rest is not touched"
        );
        assessments.models()[usize::from(model)].to_string()
    };
    for number in 0..600 {
        let name = format!("model-{number}");
        assert_eq!(shown(&name), if number < 511 { &name } else { "other" });
    }
    assert_eq!(shown("model-0"), "model-0");
    assert_eq!(assessments.models().len(), 512);
}

#[test]
fn pages_show_who_holds_a_place_now() {
    let assessments = Assessments::new(2, 4, LIFETIME);
    let described = |number: usize, now| {
        let description = Description {
            name: format!("m{}", number % 2),
            unit: String::new(),
            data_type: None,
            scope_name: number.to_string(),
            scope_version: String::new(),
            resource: Vec::new(),
        };
        assessments
            .admit(alias(number, 0), 0, Ok(identity(number)), now, || {
                Some(description)
            })
            .unwrap()
            .ticket
    };
    let first = described(1, 0);
    let second = described(2, 0);
    assessments.count(first, 5, 3);
    assessments.count(first, 7, 3);
    assessments.store(second, answers(1), "jev-1", LIFETIME);
    let points: Vec<u64> = assessments.rows().map(|row| row.points).collect();
    assert_eq!(points, [12, 0]);
    let third = described(3, 3 + LIFETIME - 1);
    assert_eq!(third.slot, second.slot, "the first was seen later");
    let scopes = |name| -> Vec<String> {
        let rows = assessments.rows_named(name);
        rows.map(|row| row.description.unwrap().scope_name.clone())
            .collect()
    };
    assert!(scopes("m0").is_empty());
    let mut named = scopes("m1");
    named.sort_unstable();
    assert_eq!(named, ["1", "3"]);
    assert!(assessments.description(second).is_none());
    assert_eq!(assessments.description(third).unwrap().scope_name, "3");
}
