//! Who else is there: heartbeats, and the list of members that people see.
//!
//! ```text
//! own document --beats, every 10 s--> Redis
//! somebody looks --> Observer --> Redis | peers of the routing table | nobody --> View --> page, JSON, gauges
//! ```
//! Invariants:
//! - Nothing is decided by this list: neither owners nor admissions nor readiness.
//! - Unknown is shown as unknown: a source that is down gives no list, and the view says so.
//! - What others wrote is judged, never trusted: a document that makes no sense is nobody.
//! - Nobody who delivers waits for any of it.

mod beats;
mod document;
#[cfg(test)]
mod fixtures;
mod found;
mod observer;
mod page;
mod peers;
mod stats;
mod view;

pub(crate) use self::beats::Beats;
pub(crate) use self::document::document;
pub(crate) use self::observer::{Observer, ObserverParts};
pub(crate) use self::page::page;
pub(crate) use self::peers::Peers;
pub(crate) use self::stats::Stats;
