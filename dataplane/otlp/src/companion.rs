//! The four companion gauges of an assessed instrument.
//!
//! Written under the original resource and scope, one data point each. Lengths are computed before anything
//! is written, so a companion costs one pass and no buffer of its own.

use crate::wire::{put_varint, varint_len};

/// Gauge: probability of durable operational value.
pub const RELEVANCE: &str = "jev.metric.relevance";
/// Gauge: probability of being redundant or noisy.
pub const REDUNDANCY: &str = "jev.metric.redundancy";
/// Gauge: probability that it should stay in primary storage.
pub const KEEP_PROBABILITY: &str = "jev.metric.keep_probability";
/// Gauge of value 1 whose attribute `action` names the recommended action.
pub const RECOMMENDED_ACTION: &str = "jev.metric.recommended_action";

/// How many gauges make one set.
pub const SET_SIZE: u64 = 4;

/// True for the names of companion gauges.
pub fn is_companion_name(name: &[u8]) -> bool {
    [RELEVANCE, REDUNDANCY, KEEP_PROBABILITY, RECOMMENDED_ACTION]
        .iter()
        .any(|own| own.as_bytes() == name)
}

/// The set of companions of one instrument.
#[derive(Debug, Clone, Copy)]
pub struct Companion<'a> {
    /// Index of the `scope_metrics` entry to write into.
    pub scope: u32,
    /// Instrument name.
    pub metric_name: &'a str,
    /// Model that answered.
    pub model: &'a str,
    /// 0.0..=1.0.
    pub relevance: f64,
    /// 0.0..=1.0.
    pub redundancy: f64,
    /// 0.0..=1.0.
    pub keep_probability: f64,
    /// Name of the recommended action.
    pub action: &'a str,
}

/// What all companions of a request share.
#[derive(Debug, Clone, Copy)]
pub struct Stamp<'a> {
    /// `jev.collector.id`: random per process start.
    pub collector_id: &'a str,
    /// Time of receipt, unix nanoseconds.
    pub time_unix_nano: u64,
}

const UNIT: &str = "1";

// Field numbers and wire types as OTLP gives them; `tag << 3 | wire type` in one byte each.
const SCOPE_METRICS_METRICS: u8 = 0x12;
const METRIC_NAME: u8 = 0x0a;
const METRIC_UNIT: u8 = 0x1a;
const METRIC_GAUGE: u8 = 0x2a;
const GAUGE_DATA_POINTS: u8 = 0x0a;
const POINT_TIME: u8 = 0x19;
const POINT_AS_DOUBLE: u8 = 0x21;
const POINT_ATTRIBUTES: u8 = 0x3a;
const KEY_VALUE_KEY: u8 = 0x0a;
const KEY_VALUE_VALUE: u8 = 0x12;
const ANY_VALUE_STRING: u8 = 0x0a;

/// Length of a length-delimited field with a one-byte tag.
pub(crate) fn field_len(payload: usize) -> usize {
    1 + varint_len(payload) + payload
}

fn put_field(out: &mut Vec<u8>, tag: u8, payload: usize) {
    out.push(tag);
    put_varint(out, payload);
}

fn put_text(out: &mut Vec<u8>, tag: u8, text: &str) {
    put_field(out, tag, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// One gauge with one point.
struct Gauge<'a> {
    name: &'a str,
    value: f64,
    attributes: [Option<(&'a str, &'a str)>; 4],
}

impl Gauge<'_> {
    fn attribute_len(key: &str, value: &str) -> usize {
        field_len(key.len()) + field_len(field_len(value.len()))
    }

    fn point_len(&self) -> usize {
        let attributes = self.attributes.iter().flatten();
        // Time and value are nine bytes each.
        18 + attributes
            .map(|(key, value)| field_len(Self::attribute_len(key, value)))
            .sum::<usize>()
    }

    fn metric_len(&self) -> usize {
        let gauge = field_len(self.point_len());
        field_len(self.name.len()) + field_len(UNIT.len()) + field_len(gauge)
    }

    fn put(&self, out: &mut Vec<u8>, time_unix_nano: u64) {
        put_field(out, SCOPE_METRICS_METRICS, self.metric_len());
        put_text(out, METRIC_NAME, self.name);
        put_text(out, METRIC_UNIT, UNIT);
        let point = self.point_len();
        put_field(out, METRIC_GAUGE, field_len(point));
        put_field(out, GAUGE_DATA_POINTS, point);
        out.push(POINT_TIME);
        out.extend_from_slice(&time_unix_nano.to_le_bytes());
        out.push(POINT_AS_DOUBLE);
        out.extend_from_slice(&self.value.to_le_bytes());
        for (key, value) in self.attributes.iter().flatten() {
            put_field(out, POINT_ATTRIBUTES, Self::attribute_len(key, value));
            put_text(out, KEY_VALUE_KEY, key);
            put_field(out, KEY_VALUE_VALUE, field_len(value.len()));
            put_text(out, ANY_VALUE_STRING, value);
        }
    }
}

impl<'a> Companion<'a> {
    fn gauges(&self, stamp: Stamp<'a>) -> [Gauge<'a>; 4] {
        let gauge = |name, value, action| Gauge {
            name,
            value,
            attributes: [
                Some(("metric.name", self.metric_name)),
                Some(("jev.model", self.model)),
                Some(("jev.collector.id", stamp.collector_id)),
                action,
            ],
        };
        [
            gauge(RELEVANCE, self.relevance, None),
            gauge(REDUNDANCY, self.redundancy, None),
            gauge(KEEP_PROBABILITY, self.keep_probability, None),
            gauge(RECOMMENDED_ACTION, 1.0, Some(("action", self.action))),
        ]
    }

    /// Bytes of the whole set within its scope.
    pub fn encoded_len(&self, stamp: Stamp<'_>) -> usize {
        self.gauges(stamp)
            .iter()
            .map(|gauge| field_len(gauge.metric_len()))
            .sum()
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>, stamp: Stamp<'_>) {
        for gauge in self.gauges(stamp) {
            gauge.put(out, stamp.time_unix_nano);
        }
    }
}
