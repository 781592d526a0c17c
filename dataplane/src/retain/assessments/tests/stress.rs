//! Readers, newcomers, answers and evictions at the same time, in a table that is far too small for them.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

use super::*;

const IDENTITIES: usize = 200;
const PLACES: usize = 48;
const OPERATIONS: usize = 30_000;

/// Each identity has its own answers: any other are somebody else's.
fn answers_of(number: usize) -> Answers {
    answers(u8::try_from(number % 101).unwrap())
}

fn check(number: usize, form: u64) -> u64 {
    number as u64 * 2 + form
}

/// A row of pseudo-random numbers: no two threads do the same.
fn next(random: &mut usize) -> usize {
    *random = random
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *random >> 33
}

#[test]
fn no_alias_ever_leads_to_the_knowledge_of_another_identity() {
    // An index of its smallest size, so that entries are moved and displaced all the time.
    let assessments = Assessments::new(PLACES, PLACES, 3);
    let identities: Vec<Identity> = (0..IDENTITIES).map(identity).collect();
    let (now, is_done) = (AtomicU32::new(0), AtomicBool::new(false));
    let assessed = AtomicUsize::new(0);

    let judge = |number: usize, form: u64, found: Found| {
        if let State::Assessed { answers, .. } = found.state {
            assert_eq!(answers, answers_of(number), "identity {number}");
            assessed.fetch_add(1, Ordering::Relaxed);
        }
        assert!(
            !matches!(found.state, State::Invalid | State::Refused { .. }),
            "{found:?}"
        );
        // The check may be that of another form of the same identity for a moment: then nothing is dropped.
        assert!(
            found.check == check(number, form) || found.check == check(number, 1 - form),
            "{found:?}"
        );
    };
    let write = |seed: usize| {
        let mut random = seed;
        for operation in 0..OPERATIONS {
            let (number, form) = (next(&mut random) % IDENTITIES, (next(&mut random) % 2) as u64);
            let second = now.load(Ordering::Relaxed);
            let alias = alias(number, form);
            let found = assessments.find(alias).or_else(|| {
                assessments.admit(alias, check(number, form), Ok(identities[number]), second, || {
                    None
                })
            });
            let Some(found) = found else { continue };
            judge(number, form, found);
            assessments.count(found.ticket, 1, second);
            // Between the look and the answer, the place may be given away.
            if operation % 3 == 0 && assessments.start_asking(found.ticket, second) {
                std::thread::yield_now();
                assessments.store(found.ticket, answers_of(number), "jev-1", second + LIFETIME);
            } else if operation % 7 == 0 {
                assessments.store(found.ticket, answers_of(number), "jev-1", second + LIFETIME);
            }
            if operation % 50 == 0 {
                now.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let read = |seed: usize| {
        let mut random = seed;
        while !is_done.load(Ordering::Relaxed) {
            let (number, form) = (next(&mut random) % IDENTITIES, (next(&mut random) % 2) as u64);
            if let Some(found) = assessments.find(alias(number, form)) {
                judge(number, form, found);
            }
        }
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(|| read(11)), scope.spawn(|| read(13))];
        let writers = [
            scope.spawn(|| write(17)),
            scope.spawn(|| write(19)),
            scope.spawn(|| write(23)),
        ];
        let results: Vec<_> = writers.into_iter().map(|thread| thread.join().is_ok()).collect();
        is_done.store(true, Ordering::Relaxed);
        let readers = readers.into_iter().map(|thread| thread.join().is_ok());
        assert!(
            readers.chain(results).all(|is_ok| is_ok),
            "a thread found a wrong state"
        );
    });
    let generations: Vec<u32> = assessments.rows().map(|row| row.ticket.generation).collect();
    assert_eq!(generations.len(), PLACES);
    assert!(
        generations.iter().all(|generation| *generation > 1_000),
        "places changed hands often: {generations:?}"
    );
    assert!(assessed.load(Ordering::Relaxed) > 1_000, "answers were read");
}
