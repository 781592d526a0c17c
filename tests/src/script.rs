//! What a server of this kit does next: one-shot entries in order, then the standing one. Set at run time.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// A queue of one-shot entries over a standing entry.
#[derive(Debug)]
pub struct Script<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    queue: VecDeque<T>,
    standing: T,
}

impl<T: Clone> Script<T> {
    /// A script whose every answer is `standing`.
    pub fn new(standing: T) -> Self {
        Self {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                standing,
            }),
        }
    }

    /// Adds an entry that is used for one request.
    pub fn once(&self, entry: T) {
        self.with(|state| state.queue.push_back(entry));
    }

    /// Adds an entry that is used for `count` requests.
    pub fn times(&self, count: usize, entry: &T) {
        self.with(|state| state.queue.extend(std::iter::repeat_n(entry, count).cloned()));
    }

    /// Replaces the standing entry; what is queued comes first.
    pub fn always(&self, entry: T) {
        self.with(|state| state.standing = entry);
    }

    /// Forgets the queued entries.
    pub fn clear(&self) {
        self.with(|state| state.queue.clear());
    }

    /// Queued entries not used yet.
    pub fn queued(&self) -> usize {
        self.with(|state| state.queue.len())
    }

    pub(crate) fn next(&self) -> T {
        self.with(|state| state.queue.pop_front().unwrap_or_else(|| state.standing.clone()))
    }

    fn with<R>(&self, act: impl FnOnce(&mut State<T>) -> R) -> R {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::Script;

    #[test]
    fn queued_entries_come_once_and_in_order_before_the_standing_one() {
        let script = Script::new('s');
        script.once('a');
        script.times(2, &'b');
        script.always('t');
        let taken: String = (0..5).map(|_| script.next()).collect();
        assert_eq!(taken, "abbtt");
        assert_eq!(script.queued(), 0);
    }
}
