//! What the model may know of an instrument: metadata and shape, never a value.
//!
//! Off the warm path: taken once for a question.

use crate::identity::{ContextAttributes, MAX_VALUES, scope_names};
use crate::malformed::Malformed;
use crate::shape::Shape;
use crate::structure::check_resource;
use crate::value::{Attribute, Value, attributes};
use crate::walk::Walk;

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
    pub(crate) fn attributes_field(self) -> u32 {
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

/// Summaries and descriptions of one request's metrics. What metrics share is read once while they stand
/// side by side.
pub struct Summaries<'a> {
    request: &'a [u8],
    walk: &'a Walk,
    context: &'a ContextAttributes,
    resource: Option<(u32, ResourceTexts)>,
    scope: Option<(u32, ScopeTexts)>,
}

#[derive(Clone)]
struct ResourceTexts {
    /// What the model may see.
    context: Vec<(String, String)>,
    /// What people see.
    shown: Vec<(String, String)>,
}

#[derive(Clone)]
struct ScopeTexts {
    name: String,
    version: String,
}

impl<'a> Summaries<'a> {
    /// `walk` has read `request`, and identities were asked for: structure is not checked again here.
    pub fn new(request: &'a [u8], walk: &'a Walk, context: &'a ContextAttributes) -> Self {
        Self {
            request,
            walk,
            context,
            resource: None,
            scope: None,
        }
    }

    /// Takes the summary of one metric. `None` if the metric has no data type.
    ///
    /// # Errors
    /// Resource or scope are broken.
    pub fn summarize(&mut self, metric: usize) -> Result<Option<Summary>, Malformed> {
        let (request, metric) = (self.request, &self.walk.metrics[metric]);
        let Some(data_type) = metric.data_type else {
            return Ok(None);
        };
        let resource = self.resource(metric.scope)?.context.clone();
        let scope = self.scope(metric.scope)?.clone();
        let shape = Shape::of(&request[metric.body.range()], data_type);
        Ok(Some(Summary {
            name: cut(metric.name(request)),
            description: cut(&request[metric.description.range()]),
            unit: cut(&request[metric.unit.range()]),
            data_type,
            temporality: data_type.has_temporality().then_some(metric.temporality),
            monotonic: data_type.has_monotonicity().then_some(metric.is_monotonic),
            data_points: metric.points(),
            attribute_sets: shape.sets(),
            attribute_keys: shape.keys(),
            resource,
            scope_name: scope.name,
            scope_version: scope.version,
        }))
    }

    /// Describes one metric for people.
    ///
    /// # Errors
    /// Resource or scope are broken.
    pub fn describe(&mut self, metric: usize) -> Result<Description, Malformed> {
        let (request, metric) = (self.request, &self.walk.metrics[metric]);
        let resource = self.resource(metric.scope)?.shown.clone();
        let scope = self.scope(metric.scope)?.clone();
        Ok(Description {
            name: cut(metric.name(request)),
            unit: cut(&request[metric.unit.range()]),
            data_type: metric.data_type,
            scope_name: scope.name,
            scope_version: scope.version,
            resource,
        })
    }

    fn resource(&mut self, scope: u32) -> Result<&ResourceTexts, Malformed> {
        let resource = self.walk.scopes[scope as usize].resource;
        let known = match self.resource.take() {
            Some(known) if known.0 == resource => known,
            _ => (resource, self.read_resource(resource)?),
        };
        Ok(&self.resource.insert(known).1)
    }

    fn read_resource(&self, resource: u32) -> Result<ResourceTexts, Malformed> {
        let parts = self.walk.resource_parts(self.request, resource);
        let attributes = match check_resource(&parts)? {
            ..=MAX_VALUES => attributes(&parts, 1)?,
            _ => Vec::new(),
        };
        let of_context = attributes
            .iter()
            .filter(|attribute| self.context.contains(attribute.key));
        let context = texts(of_context);
        let mut shown = texts(attributes.iter());
        shown.truncate(MAX_ATTRIBUTE_KEYS);
        shown.shrink_to_fit();
        Ok(ResourceTexts { context, shown })
    }

    fn scope(&mut self, scope: u32) -> Result<&ScopeTexts, Malformed> {
        let known = match self.scope.take() {
            Some(known) if known.0 == scope => known,
            _ => (scope, self.read_scope(scope)?),
        };
        Ok(&self.scope.insert(known).1)
    }

    fn read_scope(&self, scope: u32) -> Result<ScopeTexts, Malformed> {
        let (name, version) = scope_names(&self.walk.scope_parts(self.request, scope))?;
        Ok(ScopeTexts {
            name: cut(name),
            version: cut(version),
        })
    }
}

/// Keys and values of the attributes whose value is text or a number, sorted by key.
fn texts<'a>(attributes: impl Iterator<Item = &'a Attribute<'a>>) -> Vec<(String, String)> {
    let mut shown: Vec<(String, String)> = attributes
        .filter_map(|attribute| {
            let text = match &attribute.value {
                Value::Text(text) => cut(text),
                Value::Bool(value) => value.to_string(),
                Value::Int(value) => value.to_string(),
                Value::Double(bits) => {
                    // With an exponent where it is shorter: never hundreds of digits.
                    format!("{:?}", f64::from_bits(*bits))
                }
                _ => return None,
            };
            Some((cut(attribute.key), text))
        })
        .collect();
    shown.sort_unstable();
    shown
}

/// At most [`MAX_TEXT_BYTES`], whole characters.
pub(crate) fn cut(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_TEXT_BYTES + 4)]);
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    text[..end].to_owned()
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
