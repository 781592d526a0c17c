#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use jevmetrics_api::member::State;

use super::super::fixtures::member;
use super::*;
use crate::coordinate::Answering;
use crate::coordinate::presence::Listing;

/// What was done, and when.
#[derive(Default)]
struct Journal {
    done: Mutex<Vec<(String, Duration)>>,
    is_full: AtomicBool,
    is_silent: AtomicBool,
    /// So many attempts to leave fail.
    failures: AtomicUsize,
    /// Attempts to leave get no answer.
    is_deaf: AtomicBool,
    begin: Mutex<Option<Instant>>,
}

impl Journal {
    fn note(&self, what: String) {
        let begin = *self.begin.lock().unwrap().get_or_insert_with(Instant::now);
        self.done.lock().unwrap().push((what, begin.elapsed()));
    }

    fn take(&self) -> Vec<(String, Duration)> {
        std::mem::take(&mut self.done.lock().unwrap())
    }
}

impl Presence for Journal {
    fn beat<'a>(&'a self, id: &'a str, document: &'a str, life: Duration) -> Answering<'a, ()> {
        Box::pin(async move {
            assert_eq!(life, LIFE);
            let member = Member::from_json(document.as_bytes()).unwrap();
            assert_eq!(member.id, id);
            self.note(format!("{:?}", member.state));
            if self.is_silent.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            if self.is_full.load(Ordering::Relaxed) {
                return Err(Trouble::OutOfMemory);
            }
            Ok(())
        })
    }

    fn members(&self) -> Answering<'_, Listing> {
        Box::pin(std::future::ready(Ok(Listing::default())))
    }

    fn leave<'a>(&'a self, id: &'a str) -> Answering<'a, ()> {
        Box::pin(async move {
            self.note(format!("leave {id}"));
            if self.is_deaf.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            let left = self.failures.load(Ordering::Relaxed);
            self.failures.store(left.saturating_sub(1), Ordering::Relaxed);
            if left > 0 { Err(Trouble::Backoff) } else { Ok(()) }
        })
    }
}

struct Life {
    journal: Arc<Journal>,
    beats: Arc<Beats>,
    draining: CancellationToken,
    gone: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

fn live() -> Life {
    let journal = Arc::new(Journal::default());
    let beats = Arc::new(Beats::new(Arc::clone(&journal) as _, Stats::default()));
    let (draining, gone) = (CancellationToken::new(), CancellationToken::new());
    let running = {
        let (beats, draining, gone) = (Arc::clone(&beats), draining.clone(), gone.clone());
        tokio::spawn(async move {
            let is_draining = draining.clone();
            let own = move || {
                let mut own = member("a", 1);
                if is_draining.is_cancelled() {
                    own.state = State::Draining;
                }
                own
            };
            beats.run(own, draining, gone).await;
        })
    };
    Life {
        journal,
        beats,
        draining,
        gone,
        running,
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_comes_at_once_and_the_others_every_ten_seconds_or_so() {
    let life = live();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(life.journal.take(), [("Serving".to_owned(), Duration::ZERO)]);
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    let mut last = Duration::ZERO;
    let beats = life.journal.take();
    assert!((90..=111).contains(&beats.len()), "{}", beats.len());
    for (_, at) in beats {
        let between = at.saturating_sub(last);
        assert!(
            between >= Duration::from_secs(9) && between <= Duration::from_millis(11_002),
            "{between:?}"
        );
        last = at;
    }
    life.running.abort();
}

#[tokio::test(start_paused = true)]
async fn draining_is_said_at_once_and_the_end_is_the_last_word() {
    let life = live();
    tokio::time::sleep(Duration::from_secs(1)).await;
    life.draining.cancel();
    tokio::time::sleep(Duration::from_secs(12)).await;
    life.gone.cancel();
    life.running.await.unwrap();
    let done: Vec<_> = life.journal.take().into_iter().map(|(what, _)| what).collect();
    assert_eq!(done, ["Serving", "Draining", "Draining", "leave a"]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_shown_until_a_heartbeat_is_written() {
    let life = live();
    life.journal.is_full.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(life.beats.trouble().as_deref(), Some("out of memory"));
    life.journal.is_full.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(life.beats.trouble(), None);
    life.running.abort();
}

#[tokio::test(start_paused = true)]
async fn one_that_is_not_written_is_tried_again_soon_and_then_the_pace_is_as_before() {
    let life = live();
    life.journal.is_full.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(100)).await;
    let tries = life.journal.take();
    assert!((50..=101).contains(&tries.len()), "{}", tries.len());
    for pair in tries.windows(2) {
        let between = pair[1].1.saturating_sub(pair[0].1);
        assert!(
            between >= AGAIN && between <= 2 * AGAIN + Duration::from_millis(2),
            "{between:?}"
        );
    }
    life.journal.is_full.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(100)).await;
    let beats = life.journal.take().len();
    assert!((9..=13).contains(&beats), "{beats}");
    life.running.abort();
}

#[tokio::test(start_paused = true)]
async fn two_that_get_no_answer_make_nobody_vanish() {
    for _ in 0..50 {
        let life = live();
        tokio::time::sleep(Duration::from_millis(1)).await;
        life.journal.is_silent.store(true, Ordering::Relaxed);
        while life.journal.done.lock().unwrap().len() < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        life.journal.is_silent.store(false, Ordering::Relaxed);
        while life.journal.done.lock().unwrap().len() < 4 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(life.beats.trouble(), None);
        let beats = life.journal.take();
        let (first, next) = (beats[0].1, beats[3].1);
        // And what timers add.
        let latest = (first + LIFE).saturating_sub(PATIENCE) + Duration::from_millis(20);
        assert!(next <= latest, "{beats:?}");
        life.running.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_does_not_hold_up_the_end() {
    let life = live();
    life.journal.is_silent.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(1)).await;
    life.gone.cancel();
    let begin = Instant::now();
    life.running.await.unwrap();
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn leaving_is_tried_until_it_is_done() {
    let life = live();
    tokio::time::sleep(Duration::from_secs(1)).await;
    life.journal.take();
    life.journal.failures.store(3, Ordering::Relaxed);
    life.gone.cancel();
    life.running.await.unwrap();
    let done: Vec<_> = life.journal.take().into_iter().map(|(what, _)| what).collect();
    assert_eq!(done, ["leave a"; 4]);
}

#[tokio::test(start_paused = true)]
async fn leaving_ends_even_if_nobody_answers_or_all_attempts_fail() {
    for is_deaf in [true, false] {
        let life = live();
        tokio::time::sleep(Duration::from_secs(1)).await;
        life.journal.is_deaf.store(is_deaf, Ordering::Relaxed);
        life.journal.failures.store(usize::MAX, Ordering::Relaxed);
        life.gone.cancel();
        let begin = Instant::now();
        life.running.await.unwrap();
        assert_eq!(begin.elapsed(), LEAVING);
    }
}
