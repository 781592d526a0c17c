//! Heartbeats in Redis.
//!
//! ```text
//! beat --> member:<id> (ends by itself) + members (index by Redis time), unless left:<id>
//! members --> index --> documents that have not ended
//! leave --> left:<id> (ends by itself), without member:<id> and its place in the index
//! ```
//! Invariant: what only heartbeats meet, such as a missing right, stops neither look-ups nor admissions.

use std::time::Duration;

use jevmetrics_api::member::MAX_BYTES;

use super::super::presence::{LIFE, Listing, MOST, MOST_BYTES, Presence};
use super::super::script::{BEAT, LEAVE, MEMBERS};
use super::super::{Answering, reply};
use super::{Call, Redis, Trouble, Use};

impl Redis {
    async fn beat_once(&self, id: &str, document: &str, life: Duration) -> Result<(), Trouble> {
        let value = self
            .run(Call {
                script: &BEAT,
                purpose: Use::Show,
                keys: &[&self.keys.member(id), &self.keys.members, &self.keys.left(id)],
                arguments: &[id, document, &life.as_millis().to_string()],
            })
            .await;
        reply::beating(&value.map_err(|trouble| self.cause(trouble))?)
    }

    async fn list(&self) -> Result<Listing, Trouble> {
        let value = self
            .run(Call {
                script: &MEMBERS,
                purpose: Use::List,
                keys: &[&self.keys.members],
                arguments: &[
                    &self.keys.member_prefix(),
                    &MOST.to_string(),
                    &MAX_BYTES.to_string(),
                    &MOST_BYTES.to_string(),
                    &LIFE.as_millis().to_string(),
                ],
            })
            .await;
        reply::members(&value.map_err(|trouble| self.cause(trouble))?)
    }

    async fn leave_once(&self, id: &str) -> Result<(), Trouble> {
        let value = self
            .run(Call {
                script: &LEAVE,
                purpose: Use::Leave,
                keys: &[&self.keys.member(id), &self.keys.members, &self.keys.left(id)],
                arguments: &[id, &LIFE.as_millis().to_string()],
            })
            .await;
        reply::left(&value.map_err(|trouble| self.cause(trouble))?)
    }

    /// "Left alone after a failure" says nothing to people: the failure does.
    fn cause(&self, trouble: Trouble) -> Trouble {
        match trouble {
            Trouble::Backoff => self.link().trouble().cloned().unwrap_or(Trouble::Backoff),
            trouble => trouble,
        }
    }
}

impl Presence for Redis {
    fn beat<'a>(&'a self, id: &'a str, document: &'a str, life: Duration) -> Answering<'a, ()> {
        Box::pin(self.beat_once(id, document, life))
    }

    fn members(&self) -> Answering<'_, Listing> {
        Box::pin(self.list())
    }

    fn leave<'a>(&'a self, id: &'a str) -> Answering<'a, ()> {
        Box::pin(self.leave_once(id))
    }
}

#[cfg(test)]
#[path = "presence_tests.rs"]
mod tests;
