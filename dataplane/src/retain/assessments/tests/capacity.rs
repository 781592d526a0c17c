//! What happens when there are more identities than places.

use super::*;

#[test]
fn only_who_was_not_seen_for_a_lifetime_makes_room() {
    let assessments = Assessments::new(4, 16, LIFETIME);
    let tickets: Vec<Ticket> = (0..4)
        .map(|number| admit(&assessments, number, 0).unwrap().ticket)
        .collect();
    for ticket in &tickets {
        assessments.store(*ticket, answers(10), "jev-1", LIFETIME);
    }
    assessments.count(tickets[0], 1, 1);
    assessments.count(tickets[2], 1, 500);
    for now in [0, 1, 500, LIFETIME - 1] {
        assert!(admit(&assessments, 10, now).is_none(), "second {now}");
    }
    let newcomers: Vec<u32> = (10..12)
        .map(|number| admit(&assessments, number, LIFETIME).unwrap().ticket.slot)
        .collect();
    assert_eq!(newcomers, [tickets[1].slot, tickets[3].slot]);
    assert!(admit(&assessments, 12, LIFETIME).is_none());
    assert_eq!(
        [0, 1, 2, 3].map(|number| state(&assessments, number).is_some()),
        [true, false, true, false]
    );
    assert_eq!(
        state(&assessments, 10),
        Some(State::Unknown),
        "nothing is inherited"
    );
}

#[test]
fn an_identity_about_which_a_question_is_on_its_way_keeps_its_place() {
    let assessments = Assessments::new(1, 4, LIFETIME);
    let ticket = admit(&assessments, 1, 0).unwrap().ticket;
    assert!(assessments.start_asking(ticket, 0));
    assert!(admit(&assessments, 2, 10 * LIFETIME).is_none());
    assessments.stop_asking(ticket);
    assert!(admit(&assessments, 2, 10 * LIFETIME + 1).is_some());
}

#[test]
fn in_a_full_table_identities_in_use_stay_and_the_rest_is_new_every_time() {
    const PLACES: usize = 100;
    let assessments = Assessments::new(PLACES, 400, LIFETIME);
    let mut refused = 0;
    for now in (0..4 * LIFETIME).step_by(30) {
        // Twice as many as there is room for, all of them in every request.
        for number in 0..2 * PLACES {
            let found = assessments
                .find(alias(number, 0))
                .or_else(|| admit(&assessments, number, now));
            assert_eq!(
                found.is_some(),
                number < PLACES,
                "identity {number} in second {now}"
            );
            match found {
                Some(found) => assessments.count(found.ticket, 1, now),
                None => refused += 1,
            }
        }
    }
    assert_eq!(assessments.not_admitted(), refused);
    assert_eq!(assessments.fill(), (PLACES, PLACES));
}

#[test]
fn when_a_generation_of_instruments_goes_the_next_finds_all_its_places() {
    const PLACES: usize = 1_000;
    let assessments = Assessments::new(PLACES, PLACES, LIFETIME);
    for generation in 0..5 {
        let now = LIFETIME * Seconds::try_from(generation).unwrap();
        let numbers = generation * PLACES..(generation + 1) * PLACES;
        for number in numbers.clone() {
            assert!(admit(&assessments, number, now).is_some(), "identity {number}");
        }
        let found = numbers
            .filter(|number| state(&assessments, *number).is_some())
            .count();
        assert_eq!(found, PLACES);
    }
}

#[test]
fn a_search_that_found_nothing_is_made_again_in_the_next_second() {
    let assessments = Assessments::new(1, 4, LIFETIME);
    admit(&assessments, 1, 0).unwrap();
    assert!(admit(&assessments, 2, LIFETIME - 1).is_none());
    assert!(admit(&assessments, 2, LIFETIME - 1).is_none());
    assert!(admit(&assessments, 2, LIFETIME).is_some());
}

#[test]
fn a_former_holder_comes_back_as_a_newcomer() {
    let assessments = Assessments::new(1, 4, LIFETIME);
    let first = admit(&assessments, 1, 0).unwrap().ticket;
    assessments.store(first, answers(0), "jev-1", LIFETIME);
    admit(&assessments, 2, LIFETIME).unwrap();
    assert!(assessments.find(alias(1, 0)).is_none());
    let back = admit(&assessments, 1, 2 * LIFETIME).unwrap();
    assert_eq!(back.state, State::Unknown);
    assert_ne!(back.ticket.generation, first.generation);
}

#[test]
fn a_table_without_places_keeps_everything_out() {
    let assessments = Assessments::new(0, 0, LIFETIME);
    assert!(admit(&assessments, 1, 0).is_none());
    assert!(assessments.find(alias(1, 0)).is_none());
    assert_eq!(assessments.rows().count(), 0);
}
