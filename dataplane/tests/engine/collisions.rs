//! Two instruments whose aliases collide: made here by entering one alias for another instrument by hand.

use jevmetrics_dataplane::retain::assessments::Found;
use jevmetrics_dataplane::retain::decide::{Decision, Reason};
use jevmetrics_otlp::identity::{IdentityMode, identify};
use jevmetrics_otlp::{Checks, Walk};

use crate::requests::gauges;
use crate::setup::{LIFETIME, Setup, answers};

/// Enters the alias of `request`'s only metric as if it were that of another instrument, which came first.
fn collide(setup: &Setup, request: &[u8]) -> Found {
    let other = gauges(&[("other", 1)]);
    let (mut walk, mut walk_of_other) = (Walk::default(), Walk::default());
    walk.read(request, &setup.keys).unwrap();
    walk_of_other.read(&other, &setup.keys).unwrap();
    let identity = identify(&other, &walk_of_other, 0, &IdentityMode::Complete).unwrap();
    let check = Checks::new(&other, &walk_of_other, &setup.keys).of(0);
    assert_ne!(check, Checks::new(request, &walk, &setup.keys).of(0));
    setup
        .engine
        .assessments()
        .admit(walk.metrics()[0].alias(), check, identity, 0, || None)
        .unwrap()
}

#[test]
fn a_drop_is_refused_if_the_second_hash_disagrees() {
    for mode in ["Annotate", "Reduce"] {
        let setup = Setup::in_mode(mode);
        let request = gauges(&[("mine", 7)]);
        let found = collide(&setup, &request);
        setup
            .engine
            .assessments()
            .store(found.ticket, answers(0), "jev-1", LIFETIME);
        let processed = setup.at(1, &request);
        assert_eq!(processed.output.as_ref(), Some(&request), "{mode}");
        assert_eq!(processed.alias_collisions, 1);
        assert_eq!(
            processed
                .tally
                .get(Decision::Keep, Reason::AwaitingAssessment)
                .points,
            7
        );
        assert_eq!(processed.tally.get(Decision::Drop, Reason::CachedScore).points, 0);
    }
}

#[test]
fn a_question_about_one_instrument_is_never_answered_for_the_other() {
    let setup = Setup::in_mode("Reduce");
    let request = gauges(&[("mine", 7)]);
    let found = collide(&setup, &request);
    let processed = setup.at(1, &request);
    assert_eq!(processed.output.as_ref(), Some(&request));
    assert!(
        setup.pending().is_empty(),
        "the answer would be stored for the other"
    );
    assert!(
        !setup.engine.assessments().is_asking(found.ticket),
        "and the other may still be asked about"
    );
    setup.at(1, &gauges(&[("other", 1)]));
    assert_eq!(setup.pending(), ["other"]);
}
