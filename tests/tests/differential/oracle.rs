//! The product's rules written a second time, the plain way: decode with prost, look, retain.

use std::fmt::Write as _;

use crate::messages::{AnyValue, Data, KeyValue, Metric, Request, ResourceMetrics, ScopeMetrics, Value};

/// What the oracle says of one metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judged {
    /// A text that is equal for equal identities; `None` if the identity is invalid.
    pub(crate) identity: Option<String>,
    pub(crate) name: Vec<u8>,
    pub(crate) points: u64,
    /// The answer that the test's model gives: a function of what the model sees.
    pub(crate) keep_percent: u8,
}

/// All metrics of a request, in its order.
pub(crate) fn judge(request: &Request) -> Vec<Judged> {
    let mut judged = Vec::new();
    for resource_metrics in &request.resource_metrics {
        for scope_metrics in &resource_metrics.scope_metrics {
            for metric in &scope_metrics.metrics {
                judged.push(Judged {
                    identity: identity(resource_metrics, scope_metrics, metric),
                    name: metric.name.clone(),
                    points: points(metric),
                    keep_percent: keep_percent(
                        shown(&metric.name),
                        shown(&metric.description),
                        shown(&metric.unit),
                    ),
                });
            }
        }
    }
    judged
}

/// Removes what `is_dropped` names (by position), and parents that this leaves empty.
pub(crate) fn retain(request: &mut Request, is_dropped: impl Fn(usize) -> bool) {
    let mut position = 0;
    request.resource_metrics.retain_mut(|resource_metrics| {
        let had_scopes = !resource_metrics.scope_metrics.is_empty();
        resource_metrics.scope_metrics.retain_mut(|scope_metrics| {
            let had_metrics = !scope_metrics.metrics.is_empty();
            scope_metrics.metrics.retain(|_| {
                position += 1;
                !is_dropped(position - 1)
            });
            !had_metrics || !scope_metrics.metrics.is_empty()
        });
        !had_scopes || !resource_metrics.scope_metrics.is_empty()
    });
}

/// The test's model: low for about half of all instruments.
pub(crate) fn keep_percent(name: &[u8], description: &[u8], unit: &[u8]) -> u8 {
    let mut sum = 17_u32;
    for byte in name.iter().chain(description).chain(unit) {
        sum = sum.wrapping_mul(31).wrapping_add(u32::from(*byte));
    }
    ((sum >> 8) % 101) as u8
}

/// The model sees 256 bytes of a text, whole characters. (What is no text is never asked about.)
fn shown(bytes: &[u8]) -> &[u8] {
    std::str::from_utf8(bytes).map_or(bytes, |text| &bytes[..text.floor_char_boundary(256)])
}

fn points(metric: &Metric) -> u64 {
    let points = match &metric.data {
        None => 0,
        Some(Data::Gauge(data) | Data::Summary(data)) => data.data_points.len(),
        Some(Data::Sum(data)) => data.data_points.len(),
        Some(Data::Histogram(data) | Data::ExponentialHistogram(data)) => data.data_points.len(),
    };
    points as u64
}

fn identity(
    resource_metrics: &ResourceMetrics,
    scope_metrics: &ScopeMetrics,
    metric: &Metric,
) -> Option<String> {
    let mut out = String::new();
    match &resource_metrics.resource {
        None => out.push_str("no resource"),
        Some(resource) => attributes(&mut out, &resource.attributes, 16)?,
    }
    text(&mut out, &resource_metrics.schema_url)?;
    match &scope_metrics.scope {
        None => out.push_str("no scope"),
        Some(scope) => {
            text(&mut out, &scope.name)?;
            text(&mut out, &scope.version)?;
            attributes(&mut out, &scope.attributes, 16)?;
        }
    }
    text(&mut out, &scope_metrics.schema_url)?;
    if metric.name.is_empty() {
        return None;
    }
    text(&mut out, &metric.name)?;
    text(&mut out, &metric.description)?;
    text(&mut out, &metric.unit)?;
    match metric.data.as_ref()? {
        Data::Gauge(_) => out.push_str("gauge"),
        Data::Summary(_) => out.push_str("summary"),
        Data::Sum(sum) => write!(out, "sum {} {}", sum.aggregation_temporality, sum.is_monotonic).ok()?,
        Data::Histogram(data) => write!(out, "histogram {}", data.aggregation_temporality).ok()?,
        Data::ExponentialHistogram(data) => {
            write!(out, "exponential {}", data.aggregation_temporality).ok()?;
        }
    }
    Some(out)
}

fn text(out: &mut String, bytes: &[u8]) -> Option<()> {
    write!(out, "{:?};", std::str::from_utf8(bytes).ok()?).ok()
}

fn attributes(out: &mut String, attributes: &[KeyValue], depth: u32) -> Option<()> {
    let mut sorted: Vec<&KeyValue> = attributes.iter().collect();
    sorted.sort_by_key(|attribute| &attribute.key);
    if sorted.windows(2).any(|pair| pair[0].key == pair[1].key) {
        return None;
    }
    out.push('{');
    for attribute in sorted {
        if attribute.key_strindex != 0 {
            return None;
        }
        text(out, &attribute.key)?;
        match &attribute.value {
            None => out.push_str("absent"),
            Some(value) => any_value(out, value, depth)?,
        }
    }
    out.push('}');
    Some(())
}

fn any_value(out: &mut String, value: &AnyValue, depth: u32) -> Option<()> {
    match &value.value {
        None => out.push_str("empty"),
        Some(Value::Text(bytes)) => text(out, bytes)?,
        Some(Value::Bool(value)) => write!(out, "bool {value}").ok()?,
        Some(Value::Int(value)) => write!(out, "int {value}").ok()?,
        Some(Value::Double(value)) => write!(out, "double {}", value.to_bits()).ok()?,
        Some(Value::Bytes(bytes)) => write!(out, "bytes {bytes:?}").ok()?,
        Some(Value::Array(array)) => {
            let depth = depth.checked_sub(1)?;
            out.push('[');
            for value in &array.values {
                any_value(out, value, depth)?;
                out.push(',');
            }
            out.push(']');
        }
        Some(Value::Map(map)) => attributes(out, &map.values, depth.checked_sub(1)?)?,
        Some(Value::Reference(_)) => return None,
    }
    Some(())
}
