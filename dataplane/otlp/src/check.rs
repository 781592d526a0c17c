//! The second, independent hash over an instrument's raw identity bytes: a drop asks for it, and so does a
//! question, so that a collision of aliases can neither drop the wrong instrument nor be answered for it.

use crate::alias::Keys;
use crate::walk::Walk;

/// Checks of one request's metrics. What metrics share is hashed once while they stand side by side.
pub struct Checks<'a> {
    request: &'a [u8],
    walk: &'a Walk,
    keys: &'a Keys,
    resource: Option<(u32, u64)>,
    scope: Option<(u32, u64)>,
}

impl<'a> Checks<'a> {
    /// `walk` has read `request` with `keys`.
    pub fn new(request: &'a [u8], walk: &'a Walk, keys: &'a Keys) -> Self {
        Self {
            request,
            walk,
            keys,
            resource: None,
            scope: None,
        }
    }

    /// The check of one metric, by its index in the walk.
    pub fn of(&mut self, metric: usize) -> u64 {
        let record = &self.walk.metrics[metric];
        self.scope(record.scope) ^ record.own_check(self.request, self.keys)
    }

    fn scope(&mut self, scope: u32) -> u64 {
        if let Some((known, check)) = self.scope
            && known == scope
        {
            return check;
        }
        let resource = self.walk.scopes[scope as usize].resource;
        let check = self.resource(resource) ^ self.walk.scope_check(self.request, self.keys, scope);
        self.scope = Some((scope, check));
        check
    }

    fn resource(&mut self, resource: u32) -> u64 {
        if let Some((known, check)) = self.resource
            && known == resource
        {
            return check;
        }
        let check = self.walk.resource_check(self.request, self.keys, resource);
        self.resource = Some((resource, check));
        check
    }
}
