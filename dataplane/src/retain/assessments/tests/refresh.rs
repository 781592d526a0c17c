//! Answers are asked for anew before they end, and what the group does not know is left alone for a while.

use super::*;

const LAST: Seconds = LIFETIME / 5;

#[test]
fn answers_run_out_in_the_last_fifth_of_their_life_less_up_to_a_half_by_chance() {
    let count = 400;
    let assessments = Assessments::new(count, count, LIFETIME);
    let mut windows = Vec::new();
    for number in 0..count {
        let ticket = admit(&assessments, number, 0).unwrap().ticket;
        assessments.store(ticket, answers(0), "jev-1", LIFETIME);
        let stored = state(&assessments, number).unwrap();
        let begins = (0..LIFETIME).find(|&now| assessments.runs_out(ticket, stored, now));
        let window = LIFETIME - begins.unwrap();
        assert!((LAST - LAST / 2..=LAST).contains(&window), "{window}");
        assert!((LIFETIME - window..LIFETIME).all(|now| assessments.runs_out(ticket, stored, now)));
        assert!(
            !assessments.runs_out(ticket, stored, LIFETIME),
            "over, not running out"
        );
        windows.push(window);
    }
    windows.sort_unstable();
    windows.dedup();
    assert!(windows.len() > 60, "chance spreads them: {}", windows.len());
}

#[test]
fn what_runs_out_is_asked_about_once_and_stays_in_force_meanwhile() {
    let assessments = Assessments::new(1, 1, LIFETIME);
    let ticket = admit(&assessments, 1, 0).unwrap().ticket;
    assessments.store(ticket, answers(0), "jev-1", LIFETIME);
    assert!(!assessments.start_asking(ticket, LIFETIME - LAST - 1));
    let late = LIFETIME - LAST / 2;
    assert!(assessments.start_asking(ticket, late));
    assert!(!assessments.start_asking(ticket, late));
    assessments.stop_asking(ticket);
    let knowledge = Assessments::knowledge(state(&assessments, 1).unwrap(), LIFETIME - 1);
    assert_eq!(
        knowledge,
        Knowledge::Assessed(answers(0).keep),
        "a failure takes nothing away"
    );
    assert!(assessments.start_asking(ticket, late));
    assessments.store(ticket, answers(90), "jev-1", late + LIFETIME);
    assert!(!assessments.start_asking(ticket, LIFETIME));
}

#[test]
fn what_the_group_does_not_know_rests_from_look_ups_and_what_fails_from_questions_too() {
    let assessments = Assessments::new(3, 3, LIFETIME);
    let [unknown, failing, other] = [1, 2, 3].map(|number| admit(&assessments, number, 0).unwrap().ticket);
    assessments.rest_from_look_ups(unknown, 100);
    assessments.rest_from_questions(failing, 100);
    let at = |ticket, now| {
        (
            assessments.rests_from_look_ups(ticket, now),
            assessments.rests_from_questions(ticket, now),
        )
    };
    assert_eq!(
        [at(unknown, 101), at(unknown, 110)],
        [(true, false), (false, false)]
    );
    assert_eq!(
        [at(failing, 129), at(failing, 130)],
        [(true, true), (false, false)]
    );
    assert_eq!(at(other, 101), (false, false));
}

#[test]
fn live_is_what_was_seen_within_a_lifetime_and_may_be_asked_about() {
    let assessments = Assessments::new(4, 4, LIFETIME);
    let (policy, now) = (1, 2 * LIFETIME);
    for number in 1..=3 {
        let ticket = admit(&assessments, number, 0).unwrap().ticket;
        assessments.count(ticket, 1, if number == 1 { 0 } else { now });
        assessments.is_protected(ticket, policy, || number == 2);
    }
    let invalid = Err(InvalidIdentity::RepeatedKey);
    let found = assessments.admit(alias(4, 0), 4, invalid, now, || None).unwrap();
    assessments.is_protected(found.ticket, policy, || false);
    assert_eq!(assessments.live(policy, now), 1, "the third");
}
