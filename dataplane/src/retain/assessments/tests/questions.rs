//! One question at a time about one identity.

use super::*;

#[test]
fn one_caller_asks_until_the_question_ends() {
    let assessments = Assessments::new(1, 1, LIFETIME);
    let ticket = admit(&assessments, 1, 0).unwrap().ticket;
    assert!(assessments.start_asking(ticket, 0));
    assert!(!assessments.start_asking(ticket, 0) && assessments.is_asking(ticket));
    assessments.stop_asking(ticket);
    assert!(!assessments.is_asking(ticket));
    assert!(
        assessments.start_asking(ticket, 0),
        "after a failure it may be asked again"
    );
}

#[test]
fn who_looked_before_the_answer_came_does_not_ask_again() {
    let assessments = Assessments::new(2, 2, LIFETIME);
    let answered = admit(&assessments, 1, 0).unwrap().ticket;
    let refused = admit(&assessments, 2, 0).unwrap().ticket;
    assessments.store(answered, answers(50), "jev-1", LIFETIME);
    assessments.store_refusal(refused, LIFETIME);
    for ticket in [answered, refused] {
        assert!(!assessments.start_asking(ticket, LIFETIME / 2));
        assert!(!assessments.is_asking(ticket));
        assert!(assessments.start_asking(ticket, LIFETIME), "once it has expired");
    }
}

#[test]
fn an_answer_and_a_refusal_end_the_question_and_replace_each_other() {
    let assessments = Assessments::new(1, 1, LIFETIME);
    let ticket = admit(&assessments, 1, 0).unwrap().ticket;
    assert!(assessments.start_asking(ticket, 0));
    assessments.store_refusal(ticket, 10 + LIFETIME);
    assert!(!assessments.is_asking(ticket));
    assert_eq!(
        state(&assessments, 1),
        Some(State::Refused {
            expires: 10 + LIFETIME
        })
    );
    assert!(assessments.start_asking(ticket, 10 + LIFETIME));
    assessments.store(ticket, answers(7), "jev-1", 2_000);
    assert!(!assessments.is_asking(ticket));
    let knowledge = Assessments::knowledge(state(&assessments, 1).unwrap(), 1_000);
    assert_eq!(knowledge, Knowledge::Assessed(answers(7).keep));
}

#[test]
fn of_many_threads_one_asks() {
    let assessments = Assessments::new(1, 1, LIFETIME);
    let ticket = admit(&assessments, 1, 0).unwrap().ticket;
    for round in 0..200 {
        let barrier = std::sync::Barrier::new(4);
        let asked: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        usize::from(assessments.start_asking(ticket, 0))
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(asked, 1, "round {round}");
        assessments.stop_asking(ticket);
    }
}
