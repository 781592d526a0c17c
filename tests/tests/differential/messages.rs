//! OTLP metrics as plain prost messages, with two liberties: text is bytes, for what is no text is a matter of
//! identity; and data points, metadata and entity references are bytes, for nobody reads them.

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Request {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_metrics: Vec<ScopeMetrics>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) schema_url: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "2")]
    pub(crate) dropped_attributes_count: u32,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(crate) entity_refs: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) metrics: Vec<Metric>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) schema_url: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Scope {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) name: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) version: Vec<u8>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "4")]
    pub(crate) dropped_attributes_count: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Metric {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) name: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) description: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) unit: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "12")]
    pub(crate) metadata: Vec<Vec<u8>>,
    #[prost(oneof = "Data", tags = "5, 7, 9, 10, 11")]
    pub(crate) data: Option<Data>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Data {
    #[prost(message, tag = "5")]
    Gauge(Points),
    #[prost(message, tag = "7")]
    Sum(SumPoints),
    #[prost(message, tag = "9")]
    Histogram(TemporalPoints),
    #[prost(message, tag = "10")]
    ExponentialHistogram(TemporalPoints),
    #[prost(message, tag = "11")]
    Summary(Points),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Points {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(crate) data_points: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TemporalPoints {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(crate) data_points: Vec<Vec<u8>>,
    #[prost(int32, tag = "2")]
    pub(crate) aggregation_temporality: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SumPoints {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(crate) data_points: Vec<Vec<u8>>,
    #[prost(int32, tag = "2")]
    pub(crate) aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    pub(crate) is_monotonic: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
    #[prost(int32, tag = "3")]
    pub(crate) key_strindex: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5, 6, 7, 8")]
    pub(crate) value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Value {
    #[prost(bytes = "vec", tag = "1")]
    Text(Vec<u8>),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    Array(ArrayValue),
    #[prost(message, tag = "6")]
    Map(KeyValueList),
    #[prost(bytes = "vec", tag = "7")]
    Bytes(Vec<u8>),
    #[prost(int32, tag = "8")]
    Reference(i32),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    pub(crate) values: Vec<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct KeyValueList {
    #[prost(message, repeated, tag = "1")]
    pub(crate) values: Vec<KeyValue>,
}

/// The same request cut at the metrics: their bytes as they stand.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RawRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_metrics: Vec<RawResourceMetrics>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RawResourceMetrics {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(crate) resource: Vec<Vec<u8>>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_metrics: Vec<RawScopeMetrics>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) schema_url: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RawScopeMetrics {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(crate) scope: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub(crate) metrics: Vec<Vec<u8>>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) schema_url: Vec<u8>,
}
