//! What the model may know of an instrument: metadata and shape, never a value.
//!
//! Off the warm path: taken once for a question. Data points are read here for the keys of their attributes
//! alone; a point that cannot be read is left out, for the request itself is fine.

use std::collections::{BTreeSet, HashSet};

use xxhash_rust::xxh3::xxh3_128;

use crate::identity::{ContextAttributes, scope_names};
use crate::malformed::{Malformed, Place};
use crate::value::{Attribute, Value, attributes};
use crate::walk::Walk;
use crate::wire::{RECURSION_LIMIT, Reader};

/// Strings are cut here: a description that is longer tells the model nothing more.
pub const MAX_TEXT_BYTES: usize = 256;
/// Attribute keys beyond this many are left out.
pub const MAX_ATTRIBUTE_KEYS: usize = 64;

/// The data type of a metric, as the OTLP `data` oneof names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DataType {
    /// `Gauge`, field 5.
    Gauge = 5,
    /// `Sum`, field 7.
    Sum = 7,
    /// `Histogram`, field 9.
    Histogram = 9,
    /// `ExponentialHistogram`, field 10.
    ExponentialHistogram = 10,
    /// `Summary`, field 11.
    Summary = 11,
}

impl DataType {
    /// Sums and both histograms say whether they are deltas.
    pub fn has_temporality(self) -> bool {
        matches!(self, Self::Sum | Self::Histogram | Self::ExponentialHistogram)
    }

    /// Sums alone say whether they can fall.
    pub fn has_monotonicity(self) -> bool {
        self == Self::Sum
    }

    /// The name used in questions and pages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Sum => "sum",
            Self::Histogram => "histogram",
            Self::ExponentialHistogram => "exponential_histogram",
            Self::Summary => "summary",
        }
    }

    /// The field of a data point that holds its attributes.
    fn attributes_field(self) -> u32 {
        match self {
            Self::Gauge | Self::Sum | Self::Summary => 7,
            Self::Histogram => 9,
            Self::ExponentialHistogram => 1,
        }
    }
}

/// The summary of one instrument, taken from the batch that raised the question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Instrument name, cut at 256 bytes like every string here.
    pub name: String,
    /// Instrument description.
    pub description: String,
    /// Instrument unit.
    pub unit: String,
    /// Which of the five data types.
    pub data_type: DataType,
    /// Raw OTLP `aggregation_temporality` (1 delta, 2 cumulative), for the types that have one.
    pub temporality: Option<i32>,
    /// For sums only.
    pub monotonic: Option<bool>,
    /// Number of data points in the batch.
    pub data_points: u64,
    /// Number of distinct attribute sets among them.
    pub attribute_sets: u64,
    /// Sorted distinct attribute keys, at most 64.
    pub attribute_keys: Vec<String>,
    /// Allow-listed resource attributes, sorted by key.
    pub resource: Vec<(String, String)>,
    /// Scope name.
    pub scope_name: String,
    /// Scope version.
    pub scope_version: String,
}

/// Takes the summary of one metric. `None` if the metric has no data type.
///
/// # Errors
/// Resource or scope are broken.
pub fn summarize(
    request: &[u8],
    walk: &Walk,
    metric: usize,
    context: &ContextAttributes,
) -> Result<Option<Summary>, Malformed> {
    let metric = &walk.metrics[metric];
    let Some(data_type) = metric.data_type else {
        return Ok(None);
    };
    let scope = &walk.scopes[metric.scope as usize];
    let (scope_name, scope_version) = scope_names(&walk.scope_parts(request, metric.scope))?;
    let resource = attributes(&walk.resource_parts(request, scope.resource), 1)?;
    let shape = Shape::of(&request[metric.body.range()], data_type);
    Ok(Some(Summary {
        name: cut(metric.name(request)),
        description: cut(&request[metric.description.range()]),
        unit: cut(&request[metric.unit.range()]),
        data_type,
        temporality: data_type.has_temporality().then_some(metric.temporality),
        monotonic: data_type.has_monotonicity().then_some(metric.is_monotonic),
        data_points: metric.points(),
        attribute_sets: shape.sets.len() as u64,
        attribute_keys: shape
            .keys
            .into_iter()
            .take(MAX_ATTRIBUTE_KEYS)
            .map(|key| cut(key.as_bytes()))
            .collect(),
        resource: texts(
            resource
                .iter()
                .filter(|attribute| context.contains(attribute.key)),
        ),
        scope_name: cut(scope_name),
        scope_version: cut(scope_version),
    }))
}

/// Keys and values of the attributes whose value is text or a number, sorted by key.
fn texts<'a>(attributes: impl Iterator<Item = &'a Attribute<'a>>) -> Vec<(String, String)> {
    let mut shown: Vec<(String, String)> = attributes
        .filter_map(|attribute| {
            let text = match &attribute.value {
                Value::Text(text) => cut(text),
                Value::Bool(value) => value.to_string(),
                Value::Int(value) => value.to_string(),
                Value::Double(bits) => f64::from_bits(*bits).to_string(),
                _ => return None,
            };
            Some((cut(attribute.key), text))
        })
        .collect();
    shown.sort_unstable();
    shown
}

/// At most [`MAX_TEXT_BYTES`], whole characters.
fn cut(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_TEXT_BYTES + 4)]);
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    text[..end].to_owned()
}

/// Keys and distinct attribute sets of the data points.
#[derive(Default)]
struct Shape<'a> {
    keys: BTreeSet<&'a str>,
    sets: HashSet<u128>,
}

impl<'a> Shape<'a> {
    fn of(metric: &'a [u8], data_type: DataType) -> Self {
        let mut shape = Self::default();
        // The structure of the metric was checked by the walk: errors are the points' own.
        let mut reader = Reader::new(metric, 0, RECURSION_LIMIT, Place::Metric);
        while !reader.is_at_end() {
            let Ok(key) = reader.key() else { break };
            if key.field == data_type as u32 {
                let Ok((data, _)) = reader.bytes_field(key) else {
                    break;
                };
                shape.read_data(data, data_type.attributes_field());
            } else if reader.skip(key).is_err() {
                break;
            }
        }
        shape
    }

    fn read_data(&mut self, data: &'a [u8], attributes_field: u32) {
        let mut reader = Reader::new(data, 0, RECURSION_LIMIT, Place::Data);
        while !reader.is_at_end() {
            let Ok(key) = reader.key() else { break };
            if key.field == 1 {
                let Ok((point, _)) = reader.bytes_field(key) else {
                    break;
                };
                self.read_point(point, attributes_field);
            } else if reader.skip(key).is_err() {
                break;
            }
        }
    }

    fn read_point(&mut self, point: &'a [u8], attributes_field: u32) {
        let mut reader = Reader::new(point, 0, RECURSION_LIMIT, Place::Data);
        // A sum does not depend on the order of the attributes.
        let mut set = 0_u128;
        while !reader.is_at_end() {
            let Ok(key) = reader.key() else { return };
            if key.field != attributes_field {
                if reader.skip(key).is_err() {
                    return;
                }
                continue;
            }
            let Ok((attribute, _)) = reader.bytes_field(key) else {
                return;
            };
            set = set.wrapping_add(xxh3_128(attribute));
            if let Some(name) = key_of(attribute) {
                self.keys.insert(name);
            }
        }
        self.sets.insert(set);
    }
}

fn key_of(attribute: &[u8]) -> Option<&str> {
    let mut reader = Reader::new(attribute, 0, RECURSION_LIMIT, Place::Attribute);
    let mut name = None;
    while !reader.is_at_end() {
        let key = reader.key().ok()?;
        if key.field == 1 {
            name = std::str::from_utf8(reader.bytes_field(key).ok()?.0).ok();
        } else {
            reader.skip(key).ok()?;
        }
    }
    name
}

/// How an instrument is shown to people: enough to tell identities with one name apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Instrument name.
    pub name: String,
    /// Instrument unit.
    pub unit: String,
    /// The data type, if there is one.
    pub data_type: Option<DataType>,
    /// Scope name.
    pub scope_name: String,
    /// Scope version.
    pub scope_version: String,
    /// Resource attributes that can be shown as text, at most 64, sorted by key.
    pub resource: Vec<(String, String)>,
}

/// Describes one metric for people.
///
/// # Errors
/// Resource or scope are broken.
pub fn describe(request: &[u8], walk: &Walk, metric: usize) -> Result<Description, Malformed> {
    let metric = &walk.metrics[metric];
    let scope = &walk.scopes[metric.scope as usize];
    let (scope_name, scope_version) = scope_names(&walk.scope_parts(request, metric.scope))?;
    let resource = attributes(&walk.resource_parts(request, scope.resource), 1)?;
    let mut shown = texts(resource.iter());
    shown.truncate(MAX_ATTRIBUTE_KEYS);
    Ok(Description {
        name: cut(metric.name(request)),
        unit: cut(&request[metric.unit.range()]),
        data_type: metric.data_type,
        scope_name: cut(scope_name),
        scope_version: cut(scope_version),
        resource: shown,
    })
}
