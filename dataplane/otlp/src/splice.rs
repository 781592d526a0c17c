//! Writes a request anew without what is dropped and with the companions.
//!
//! Kept metrics are copied byte for byte, with everything around them; parents that did not change are
//! copied whole, the others get a minimal length. A parent left empty by drops goes, one that arrived empty
//! stays.

use crate::companion::{Companion, Stamp, field_len};
use crate::walk::{ResourceRecord, ScopeRecord, Walk};
use crate::wire::put_varint;

/// `resource_metrics` in the request, `scope_metrics` in `resource_metrics`: field 1 and 2, length-delimited.
const RESOURCE_METRICS: u8 = 0x0a;
const SCOPE_METRICS: u8 = 0x12;

/// What to do to a request, and the memory to do it with.
///
/// Made once and used again: planning allocates nothing when warm.
#[derive(Debug, Default)]
pub struct Plan {
    dropped: Vec<bool>,
    any_dropped: bool,
    scopes: Vec<Outcome>,
    resources: Vec<Outcome>,
}

/// What becomes of a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unchanged,
    Gone,
    /// Rewritten with a body of this length.
    Rewritten(usize),
}

impl Outcome {
    fn field_len(self, unchanged: usize) -> usize {
        match self {
            Self::Unchanged => unchanged,
            Self::Gone => 0,
            Self::Rewritten(body) => field_len(body),
        }
    }
}

impl Plan {
    /// Starts a plan that keeps all of `metrics` metrics.
    pub fn reset(&mut self, metrics: usize) {
        self.dropped.clear();
        self.dropped.resize(metrics, false);
        self.any_dropped = false;
    }

    /// Drops one metric, by its index in the walk.
    #[inline]
    pub fn drop_metric(&mut self, metric: usize) {
        self.dropped[metric] = true;
        self.any_dropped = true;
    }
}

/// What a plan makes of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Spliced {
    /// Nothing to drop, nothing to add: send the request as it came.
    Unchanged,
    /// Nothing is left: send nothing.
    Nothing,
    /// Send this.
    Rewritten(Vec<u8>),
}

/// Applies `plan`. `companions` must be grouped by scope, in ascending order.
pub fn splice(
    request: &[u8],
    walk: &Walk,
    plan: &mut Plan,
    companions: &[Companion<'_>],
    stamp: Stamp<'_>,
) -> Spliced {
    if !plan.any_dropped && companions.is_empty() {
        return Spliced::Unchanged;
    }
    plan.measure(walk, companions, stamp);
    let mut length = request.len();
    for (record, outcome) in walk.resources.iter().zip(&plan.resources) {
        length = length - record.field.len() + outcome.field_len(record.field.len());
    }
    let all_gone = plan.resources.iter().all(|outcome| *outcome == Outcome::Gone);
    if all_gone {
        return Spliced::Nothing;
    }
    let mut writer = Writer {
        request,
        walk,
        plan,
        companions,
        stamp,
        out: Vec::with_capacity(length),
    };
    writer.request();
    debug_assert_eq!(writer.out.len(), length, "the plan measured what was written");
    Spliced::Rewritten(writer.out)
}

impl Plan {
    /// Lengths bottom up, before anything is written.
    fn measure(&mut self, walk: &Walk, companions: &[Companion<'_>], stamp: Stamp<'_>) {
        self.scopes.clear();
        let mut companions = companions.iter().peekable();
        for (index, record) in walk.scopes.iter().enumerate() {
            let mut added = 0;
            while let Some(companion) = companions.next_if(|companion| companion.scope as usize == index) {
                added += companion.encoded_len(stamp);
            }
            self.scopes.push(self.scope_outcome(walk, record, added));
        }
        self.resources.clear();
        for record in &walk.resources {
            let outcome = self.resource_outcome(walk, record);
            self.resources.push(outcome);
        }
    }

    fn scope_outcome(&self, walk: &Walk, record: &ScopeRecord, added: usize) -> Outcome {
        let range = record.metrics.start as usize..record.metrics.end as usize;
        let mut removed = 0;
        let mut kept = 0_usize;
        for (metric, dropped) in walk.metrics[range.clone()].iter().zip(&self.dropped[range]) {
            if *dropped {
                removed += metric.field.len();
            } else {
                kept += 1;
            }
        }
        match (removed, added) {
            (0, 0) => Outcome::Unchanged,
            _ if kept == 0 && added == 0 => Outcome::Gone,
            _ => Outcome::Rewritten(record.body.len() - removed + added),
        }
    }

    fn resource_outcome(&self, walk: &Walk, record: &ResourceRecord) -> Outcome {
        let range = record.scopes.start as usize..record.scopes.end as usize;
        let mut body = record.body.len();
        let mut changed = false;
        let mut left = 0_usize;
        for (scope, outcome) in walk.scopes[range.clone()].iter().zip(&self.scopes[range]) {
            changed |= *outcome != Outcome::Unchanged;
            left += usize::from(*outcome != Outcome::Gone);
            body = body - scope.field.len() + outcome.field_len(scope.field.len());
        }
        match (changed, left) {
            (false, _) => Outcome::Unchanged,
            (true, 0) => Outcome::Gone,
            (true, _) => Outcome::Rewritten(body),
        }
    }
}

struct Writer<'a> {
    request: &'a [u8],
    walk: &'a Walk,
    plan: &'a Plan,
    companions: &'a [Companion<'a>],
    stamp: Stamp<'a>,
    out: Vec<u8>,
}

impl Writer<'_> {
    fn request(&mut self) {
        let mut copied = 0;
        for (index, record) in self.walk.resources.iter().enumerate() {
            let outcome = self.plan.resources[index];
            if outcome == Outcome::Unchanged {
                continue;
            }
            let field = record.field.range();
            self.copy(copied, field.start);
            copied = field.end;
            if let Outcome::Rewritten(body) = outcome {
                self.resource(record, body);
            }
        }
        self.copy(copied, self.request.len());
    }

    fn resource(&mut self, record: &ResourceRecord, body: usize) {
        self.open(RESOURCE_METRICS, body);
        let mut copied = record.body.range().start;
        for index in record.scopes.clone() {
            let outcome = self.plan.scopes[index as usize];
            if outcome == Outcome::Unchanged {
                continue;
            }
            let scope = &self.walk.scopes[index as usize];
            let field = scope.field.range();
            self.copy(copied, field.start);
            copied = field.end;
            if let Outcome::Rewritten(body) = outcome {
                self.scope(index, scope, body);
            }
        }
        self.copy(copied, record.body.range().end);
    }

    fn scope(&mut self, index: u32, record: &ScopeRecord, body: usize) {
        self.open(SCOPE_METRICS, body);
        let mut copied = record.body.range().start;
        for metric in record.metrics.start as usize..record.metrics.end as usize {
            if self.plan.dropped[metric] {
                let field = self.walk.metrics[metric].field.range();
                self.copy(copied, field.start);
                copied = field.end;
            }
        }
        self.copy(copied, record.body.range().end);
        let first = self
            .companions
            .partition_point(|companion| companion.scope < index);
        for companion in self.companions[first..]
            .iter()
            .take_while(|companion| companion.scope == index)
        {
            companion.put(&mut self.out, self.stamp);
        }
    }

    fn open(&mut self, tag: u8, body: usize) {
        self.out.push(tag);
        put_varint(&mut self.out, body);
    }

    fn copy(&mut self, start: usize, end: usize) {
        self.out.extend_from_slice(&self.request[start..end]);
    }
}
