//! What the model may know of an instrument: metadata and shape, never a value.

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
