//! One scan over a request: finds each metric's range, type, number of points and alias.
//!
//! Nothing below a data point is read. What is read follows prost to the letter: a singular message given
//! twice is merged (its parts are remembered, their concatenation is the merged message), a oneof given
//! twice takes the last, scalars given twice take the last, unknown fields and groups are skipped.
//!
//! The content of resources and scopes is hashed here, not parsed: equal bytes have equal aliases. Whoever
//! meets an unknown alias parses them ([`crate::identity`]); those that no metric refers to are checked here.
//!
//! The time taken is linear in the request, whatever its shape; the memory is bounded by [`MAX_ENTRIES`].

use std::borrow::Cow;
use std::ops::Range;

use crate::alias::{Keys, Part};
use crate::malformed::{Fault, Malformed, Place};
use crate::structure;
use crate::summary::DataType;
use crate::wire::{Key, RECURSION_LIMIT, Reader};

/// Most resources, scopes and metrics in one request. An entry costs its sender two bytes and us about a
/// hundred: without a bound, a small compressed request could take all our memory.
pub const MAX_ENTRIES: usize = 1 << 19;

/// The tag of a data point: field 1 of every data type, length-delimited.
const DATA_POINT: u8 = 0x0a;

/// A stretch of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "walk refuses requests beyond 32 bits"
    )]
    fn new(start: usize, end: usize) -> Self {
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    fn of(payload: (&[u8], usize)) -> Self {
        Self::new(payload.1, payload.1 + payload.0.len())
    }

    /// As a range of indices.
    #[inline]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Length in bytes.
    #[inline]
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// True if there is nothing in it.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// A singular message that may have been given more than once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Singular {
    first: Span,
    count: u32,
    /// Where its further occurrences begin in the list of repeats; they stand side by side.
    repeats: u32,
}

impl Singular {
    fn add(&mut self, span: Span, repeats: &mut Vec<Span>) {
        if self.count == 0 {
            self.first = span;
            self.repeats = as_u32(repeats.len());
        } else {
            repeats.push(span);
        }
        self.count += 1;
    }

    /// Each occurrence, in order.
    fn spans<'a>(&self, repeats: &'a [Span]) -> impl Iterator<Item = Span> + use<'a> {
        let start = self.repeats as usize;
        let further = (self.count as usize).saturating_sub(1);
        let first = (self.count > 0).then_some(self.first);
        first
            .into_iter()
            .chain(repeats[start..start + further].iter().copied())
    }

    /// What is hashed of it, and a number for its form: absent, one message, or several. The lengths of
    /// several are hashed with them, for a whole message may be cut into pieces that are none.
    fn raw<'a>(&self, request: &'a [u8], repeats: &[Span]) -> (u64, Cow<'a, [u8]>) {
        match self.count {
            0 => (0, Cow::Borrowed(&[])),
            1 => (1, Cow::Borrowed(&request[self.first.range()])),
            _ => {
                let mut framed = Vec::new();
                for span in self.spans(repeats) {
                    framed.extend_from_slice(&(span.len() as u64).to_le_bytes());
                    framed.extend_from_slice(&request[span.range()]);
                }
                (2, Cow::Owned(framed))
            }
        }
    }
}

/// One entry of `resource_metrics`.
#[derive(Debug, Clone)]
pub(crate) struct ResourceRecord {
    /// Tag, length and body.
    pub(crate) field: Span,
    pub(crate) body: Span,
    pub(crate) resource: Singular,
    pub(crate) schema_url: Span,
    pub(crate) scopes: Range<u32>,
}

/// One entry of `scope_metrics`.
#[derive(Debug, Clone)]
pub(crate) struct ScopeRecord {
    pub(crate) field: Span,
    pub(crate) body: Span,
    pub(crate) resource: u32,
    pub(crate) scope: Singular,
    pub(crate) schema_url: Span,
    pub(crate) metrics: Range<u32>,
}

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct MetricRecord {
    pub(crate) field: Span,
    pub(crate) body: Span,
    pub(crate) scope: u32,
    pub(crate) name: Span,
    pub(crate) description: Span,
    pub(crate) unit: Span,
    head: Span,
    head_is_contiguous: bool,
    pub(crate) data_type: Option<DataType>,
    pub(crate) is_monotonic: bool,
    pub(crate) temporality: i32,
    points: u32,
    alias: u128,
}

impl MetricRecord {
    /// Stands for the raw bytes of the whole identity, within this process.
    #[inline]
    pub fn alias(&self) -> u128 {
        self.alias
    }

    /// Number of data points.
    #[inline]
    pub fn points(&self) -> u64 {
        u64::from(self.points)
    }

    /// The instrument's name, as it came; not necessarily UTF-8.
    #[inline]
    pub fn name<'a>(&self, request: &'a [u8]) -> &'a [u8] {
        &request[self.name.range()]
    }

    /// The data type, unless the metric has none.
    pub fn data_type(&self) -> Option<DataType> {
        self.data_type
    }

    /// Index of the `scope_metrics` entry that holds it.
    #[inline]
    pub fn scope(&self) -> u32 {
        self.scope
    }

    /// What of the identity is not in the name, description and unit. Bits 16 to 31 are free.
    #[inline]
    fn kind(&self) -> u64 {
        let data_type = self.data_type.map_or(0, |data_type| data_type as u64);
        let temporality = u64::from(self.temporality.cast_unsigned());
        data_type | u64::from(self.is_monotonic) << 8 | temporality << 32
    }
}

/// Where everything is in one request. Made once and used again: a warm walk allocates nothing.
#[derive(Debug, Default)]
pub struct Walk {
    pub(crate) resources: Vec<ResourceRecord>,
    pub(crate) scopes: Vec<ScopeRecord>,
    pub(crate) metrics: Vec<MetricRecord>,
    /// Second and further occurrences of a resource.
    resource_repeats: Vec<Span>,
    /// Second and further occurrences of a scope.
    scope_repeats: Vec<Span>,
    entries: usize,
    points: u64,
}

impl Walk {
    /// Reads `request`.
    ///
    /// # Errors
    /// The first fault in what is read; the former content of `self` is gone then too.
    pub fn read(&mut self, request: &[u8], keys: &Keys) -> Result<(), Malformed> {
        self.clear();
        if u32::try_from(request.len()).is_err() {
            return Err(Malformed {
                place: Place::Request,
                offset: 0,
                fault: Fault::RequestTooLarge,
            });
        }
        let mut reader = Reader::new(request, 0, RECURSION_LIMIT, Place::Request);
        while !reader.is_at_end() {
            let start = reader.offset();
            let key = reader.key()?;
            if key.field == 1 {
                let body = reader.message_field(key, Place::ResourceMetrics)?;
                self.enter(&reader)?;
                self.read_resource_metrics(request, keys, body, start, reader.offset())?;
            } else {
                reader.skip(key)?;
            }
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.resources.clear();
        self.scopes.clear();
        self.metrics.clear();
        self.resource_repeats.clear();
        self.scope_repeats.clear();
        self.entries = 0;
        self.points = 0;
    }

    fn enter(&mut self, reader: &Reader<'_>) -> Result<(), Malformed> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(reader.fail(Fault::TooManyEntries));
        }
        Ok(())
    }

    fn read_resource_metrics(
        &mut self,
        request: &[u8],
        keys: &Keys,
        mut reader: Reader<'_>,
        start: usize,
        end: usize,
    ) -> Result<(), Malformed> {
        let index = as_u32(self.resources.len());
        let body = Span::new(reader.offset(), end);
        let first_scope = as_u32(self.scopes.len());
        let mut resource = Singular::default();
        let mut schema_url = Span::default();
        while !reader.is_at_end() {
            let field_start = reader.offset();
            let key = reader.key()?;
            match key.field {
                1 => {
                    // Opens the nested message for its depth; the content is read where it is needed.
                    let nested = reader.message_field(key, Place::Resource)?;
                    let span = Span::new(nested.offset(), reader.offset());
                    self.enter(&reader)?;
                    resource.add(span, &mut self.resource_repeats);
                }
                2 => {
                    let nested = reader.message_field(key, Place::ScopeMetrics)?;
                    self.enter(&reader)?;
                    self.read_scope_metrics(request, keys, nested, index, field_start, reader.offset())?;
                }
                3 => schema_url = Span::of(reader.bytes_field(key)?),
                _ => reader.skip(key)?,
            }
        }
        let scopes = first_scope..as_u32(self.scopes.len());
        let (form, raw) = resource.raw(request, &self.resource_repeats);
        let alias = keys.alias(Part::Resource, form, &raw)
            ^ keys.alias(Part::ResourceSchemaUrl, 0, &request[schema_url.range()]);
        let field = Span::new(start, end);
        self.resources.push(ResourceRecord {
            field,
            body,
            resource,
            schema_url,
            scopes: scopes.clone(),
        });

        let mut has_metrics = false;
        for scope in &self.scopes[scopes.start as usize..] {
            for metric in &mut self.metrics[scope.metrics.start as usize..scope.metrics.end as usize] {
                metric.alias ^= alias;
                has_metrics = true;
            }
        }
        if !has_metrics {
            structure::check_resource(&self.resource_parts(request, index))?;
        }
        Ok(())
    }

    fn read_scope_metrics(
        &mut self,
        request: &[u8],
        keys: &Keys,
        mut reader: Reader<'_>,
        resource: u32,
        start: usize,
        end: usize,
    ) -> Result<(), Malformed> {
        let index = as_u32(self.scopes.len());
        let body = Span::new(reader.offset(), end);
        let first_metric = as_u32(self.metrics.len());
        let mut scope = Singular::default();
        let mut schema_url = Span::default();
        while !reader.is_at_end() {
            let field_start = reader.offset();
            let key = reader.key()?;
            match key.field {
                2 => {
                    let nested = reader.message_field(key, Place::Metric)?;
                    self.enter(&reader)?;
                    let field = Span::new(field_start, reader.offset());
                    let metric = read_metric(request, keys, nested, index, field)?;
                    self.points += metric.points();
                    self.metrics.push(metric);
                }
                1 => {
                    let nested = reader.message_field(key, Place::Scope)?;
                    let span = Span::new(nested.offset(), reader.offset());
                    self.enter(&reader)?;
                    scope.add(span, &mut self.scope_repeats);
                }
                3 => schema_url = Span::of(reader.bytes_field(key)?),
                _ => reader.skip(key)?,
            }
        }
        let metrics = first_metric..as_u32(self.metrics.len());
        let field = Span::new(start, end);
        let record = ScopeRecord {
            field,
            body,
            resource,
            scope,
            schema_url,
            metrics: metrics.clone(),
        };
        self.scopes.push(record);
        if metrics.is_empty() {
            structure::check_scope(&self.scope_parts(request, index))?;
        } else {
            let (form, raw) = scope.raw(request, &self.scope_repeats);
            let alias = keys.alias(Part::Scope, form, &raw)
                ^ keys.alias(Part::ScopeSchemaUrl, 0, &request[schema_url.range()]);
            for metric in &mut self.metrics[metrics.start as usize..] {
                metric.alias ^= alias;
            }
        }
        Ok(())
    }

    /// Each occurrence of a resource with its offset in the request, in order. Their concatenation is, in
    /// protobuf, the merge.
    pub(crate) fn resource_parts<'a>(&self, request: &'a [u8], resource: u32) -> Vec<(&'a [u8], usize)> {
        let singular = &self.resources[resource as usize].resource;
        parts(request, singular.spans(&self.resource_repeats))
    }

    /// As [`Self::resource_parts`], for a scope.
    pub(crate) fn scope_parts<'a>(&self, request: &'a [u8], scope: u32) -> Vec<(&'a [u8], usize)> {
        let singular = &self.scopes[scope as usize].scope;
        parts(request, singular.spans(&self.scope_repeats))
    }

    /// Number of resources, which are counted from 0 in the order of the request.
    pub fn resources(&self) -> u32 {
        as_u32(self.resources.len())
    }

    /// The metrics, in the order of the request.
    #[inline]
    pub fn metrics(&self) -> &[MetricRecord] {
        &self.metrics
    }

    /// Data points in the request.
    pub fn points(&self) -> u64 {
        self.points
    }

    /// How many resources, scopes and metrics were read, also by a reading that failed.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// The second, independent hash of a resource and its schema URL.
    pub(crate) fn resource_check(&self, request: &[u8], keys: &Keys, resource: u32) -> u64 {
        let record = &self.resources[resource as usize];
        let (form, raw) = record.resource.raw(request, &self.resource_repeats);
        keys.check(Part::Resource, form, &raw)
            ^ keys.check(Part::ResourceSchemaUrl, 0, &request[record.schema_url.range()])
    }

    /// The second, independent hash of a scope and its schema URL.
    pub(crate) fn scope_check(&self, request: &[u8], keys: &Keys, scope: u32) -> u64 {
        let record = &self.scopes[scope as usize];
        let (form, raw) = record.scope.raw(request, &self.scope_repeats);
        keys.check(Part::Scope, form, &raw)
            ^ keys.check(Part::ScopeSchemaUrl, 0, &request[record.schema_url.range()])
    }
}

fn parts(request: &[u8], spans: impl Iterator<Item = Span>) -> Vec<(&[u8], usize)> {
    spans
        .map(|span| (&request[span.range()], span.range().start))
        .collect()
}

impl MetricRecord {
    /// The second, independent hash of what is the metric's own.
    pub(crate) fn own_check(&self, request: &[u8], keys: &Keys) -> u64 {
        if self.head_is_contiguous {
            keys.check(Part::Metric, self.kind(), &request[self.head.range()])
        } else {
            keys.check(Part::ScatteredMetric, self.kind(), &scattered_head(request, self))
        }
    }
}

fn read_metric(
    request: &[u8],
    keys: &Keys,
    mut reader: Reader<'_>,
    scope: u32,
    field: Span,
) -> Result<MetricRecord, Malformed> {
    let body = Span::new(reader.offset(), field.range().end);
    let mut metric = MetricRecord {
        field,
        body,
        scope,
        name: Span::default(),
        description: Span::default(),
        unit: Span::default(),
        head: Span::default(),
        head_is_contiguous: true,
        data_type: None,
        is_monotonic: false,
        temporality: 0,
        points: 0,
        alias: 0,
    };
    let mut seen = 0_u32;
    while !reader.is_at_end() {
        let start = reader.offset();
        let key = reader.key()?;
        match key.field {
            1..=3 => {
                let span = Span::of(reader.bytes_field(key)?);
                match key.field {
                    1 => metric.name = span,
                    2 => metric.description = span,
                    _ => metric.unit = span,
                }
                if seen == 0 {
                    metric.head = Span::new(start, start);
                }
                let follows = metric.head.range().end == start;
                metric.head_is_contiguous &= follows && seen & (1 << key.field) == 0;
                metric.head = Span::new(metric.head.range().start, reader.offset());
                seen |= 1 << key.field;
            }
            5 => read_data(&mut metric, &mut reader, key, DataType::Gauge)?,
            7 => read_data(&mut metric, &mut reader, key, DataType::Sum)?,
            9 => read_data(&mut metric, &mut reader, key, DataType::Histogram)?,
            10 => read_data(&mut metric, &mut reader, key, DataType::ExponentialHistogram)?,
            11 => read_data(&mut metric, &mut reader, key, DataType::Summary)?,
            // Not part of the identity, not read: it travels on as it is.
            12 => {
                reader.bytes_field(key)?;
            }
            _ => reader.skip(key)?,
        }
    }
    metric.alias = if metric.head_is_contiguous {
        keys.alias(Part::Metric, metric.kind(), &request[metric.head.range()])
    } else {
        keys.alias(
            Part::ScatteredMetric,
            metric.kind(),
            &scattered_head(request, &metric),
        )
    };
    Ok(metric)
}

/// A metric's `data`. Another type than before replaces what was read, the same type is merged.
#[inline]
fn read_data(
    metric: &mut MetricRecord,
    outer: &mut Reader<'_>,
    key: Key,
    data_type: DataType,
) -> Result<(), Malformed> {
    let mut reader = outer.message_field(key, Place::Data)?;
    if metric.data_type != Some(data_type) {
        metric.data_type = Some(data_type);
        metric.points = 0;
        metric.temporality = 0;
        metric.is_monotonic = false;
    }
    let has_temporality = !matches!(data_type, DataType::Gauge | DataType::Summary);
    loop {
        metric.points += reader.skip_run(DATA_POINT);
        if reader.is_at_end() {
            return Ok(());
        }
        let key = reader.key()?;
        match key.field {
            1 => {
                reader.bytes_field(key)?;
                metric.points += 1;
            }
            #[allow(
                clippy::cast_possible_truncation,
                reason = "protobuf's int32 takes the low 32 bits"
            )]
            2 if has_temporality => metric.temporality = reader.varint_field(key)? as i32,
            3 if data_type == DataType::Sum => metric.is_monotonic = reader.varint_field(key)? != 0,
            _ => reader.skip(key)?,
        }
    }
}

/// Name, description and unit, each with its length: for metrics that scatter or repeat them.
fn scattered_head(request: &[u8], metric: &MetricRecord) -> Vec<u8> {
    let mut head = Vec::new();
    for span in [metric.name, metric.description, metric.unit] {
        head.extend_from_slice(&span.len().to_le_bytes());
        head.extend_from_slice(&request[span.range()]);
    }
    head
}

#[inline]
#[allow(
    clippy::cast_possible_truncation,
    reason = "fewer entries than bytes, and those fit 32 bits"
)]
fn as_u32(count: usize) -> u32 {
    count as u32
}
