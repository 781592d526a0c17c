//! A request as tests ask about it.

use jiff::Timestamp;

/// What a request did to what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing: it only asked.
    Read,
    /// Nothing: it was refused, or failed.
    Refused,
    /// Nothing: it asked what would happen.
    DryRun,
    /// Nothing: all was already as it asked for.
    Unchanged,
    /// The object has a new version, or is new, or its deletion was accepted.
    Changed,
    /// It is a write whose answer is not recorded.
    Unknown,
}

/// A request that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// When it came in.
    pub received: Timestamp,
    /// Who asked.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Plural name of the resource; empty for a request for none, such as `/readyz`.
    pub resource: String,
    /// Such as `status`; empty for the resource itself.
    pub subresource: String,
    /// Empty for resources without one, and for requests for all.
    pub namespace: String,
    /// Empty for requests for many.
    pub name: String,
    /// Status code of the answer.
    pub code: u16,
    /// How the client calls itself.
    pub user_agent: String,
    /// Path and query.
    pub uri: String,
    /// What it did.
    pub effect: Effect,
}

impl Request {
    /// Whether it asked for a change, successful or not.
    pub fn is_write(&self) -> bool {
        self.effect != Effect::Read
    }

    /// A parameter of the query, such as `fieldManager`; as it was sent, not decoded.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        parameter(&self.uri, name)
    }
}

pub(super) fn parameter<'a>(uri: &'a str, name: &str) -> Option<&'a str> {
    let (_path, query) = uri.split_once('?')?;
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}
