//! Events that come together are one reason to look.
//!
//! ```text
//! events   a  a a b  a a  a a            each is told once, a span after the first event that was not told yet:
//! told          └ a └ b    └ a           however fast others follow, none waits for longer
//! ```
//! The debounce of the controller begins anew with each event: one that goes on changing would never be looked at.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{self, Fuse};
use futures_util::{Stream, StreamExt as _};
use tokio::time::Instant;

struct Waiting<T, S> {
    events: Pin<Box<Fuse<S>>>,
    /// All wait for equally long, so the first of them is due first.
    due: VecDeque<(Instant, T)>,
    known: HashSet<T>,
}

/// Tells what `events` name, each `span` after the first event that was not told yet.
pub(crate) fn coalesce<T, S>(events: S, span: Duration) -> impl Stream<Item = T>
where
    T: Eq + Hash + Clone,
    S: Stream<Item = T>,
{
    let waiting = Waiting {
        events: Box::pin(events.fuse()),
        due: VecDeque::new(),
        known: HashSet::new(),
    };
    stream::unfold(waiting, move |mut waiting| async move {
        let told = waiting.next(span).await?;
        Some((told, waiting))
    })
}

impl<T: Eq + Hash + Clone, S: Stream<Item = T>> Waiting<T, S> {
    /// None after the last.
    async fn next(&mut self, span: Duration) -> Option<T> {
        loop {
            let first = self.due.front().map(|(at, _)| *at);
            let event = match first {
                Some(at) => tokio::select! {
                    biased;
                    () = tokio::time::sleep_until(at) => return self.pop(),
                    Some(event) = self.events.next() => event,
                },
                None => self.events.next().await?,
            };
            if self.known.insert(event.clone()) {
                self.due.push_back((Instant::now() + span, event));
            }
        }
    }

    fn pop(&mut self) -> Option<T> {
        let (_, told) = self.due.pop_front()?;
        self.known.remove(&told);
        Some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_millis(250);

    /// What is told of these events, each so many milliseconds after the one before, and when.
    async fn told(events: Vec<(u64, &'static str)>) -> Vec<(u64, &'static str)> {
        let start = Instant::now();
        let events = stream::iter(events).then(async |(after, event)| {
            tokio::time::sleep(Duration::from_millis(after)).await;
            event
        });
        let told = coalesce(events, SPAN).map(move |event| {
            let at = start.elapsed().as_millis();
            (u64::try_from(at).unwrap_or(u64::MAX), event)
        });
        told.collect().await
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_never_rests_is_told_all_the_time_and_holds_up_nobody() {
        let mut events = vec![(100, "busy"); 20];
        events.insert(5, (50, "deleted"));
        let told = told(events).await;
        let deleted: Vec<_> = told.iter().filter(|(_, event)| *event == "deleted").collect();
        assert_eq!(deleted, [&(800, "deleted")], "{told:?}");
        let busy: Vec<_> = told.iter().filter(|(_, event)| *event == "busy").collect();
        assert!(busy.len() >= 6, "{told:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_together_is_told_once() {
        let events = vec![(0, "a"), (10, "a"), (10, "b"), (10, "a"), (300, "a")];
        assert_eq!(told(events).await, [(250, "a"), (270, "b"), (580, "a")]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_lost_at_the_end() {
        assert_eq!(told(vec![(0, "a"), (0, "b")]).await, [(250, "a"), (250, "b")]);
        assert_eq!(told(Vec::new()).await, []);
    }
}
