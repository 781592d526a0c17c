//! Makes requests that no ordinary encoder writes: any order, repeated and split messages, long varints,
//! unknown fields and groups, scalars given twice, oneofs given twice, text that is no text; and broken ones.
//!
//! Works on the wire, with a little schema, so that it owes nothing to the code under test.

use fastrand::Rng;

/// Which message a length-delimited field holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Request,
    ResourceMetrics,
    Resource,
    ScopeMetrics,
    Scope,
    Metric,
    Data(u32),
    KeyValue,
    AnyValue,
    Array,
    Map,
}

/// One request.
pub(crate) fn request(rng: &mut Rng) -> Vec<u8> {
    let mut out = Vec::new();
    message(rng, Kind::Request, &mut out, 0);
    out
}

/// Breaks or changes some bytes.
pub(crate) fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    for _ in 0..rng.usize(1..3) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.usize(0..bytes.len());
        match rng.u8(0..6) {
            0 => bytes[at] = rng.u8(..),
            1 => bytes[at] ^= 1 << rng.u8(0..8),
            2 => bytes.truncate(at),
            3 => bytes.insert(at, rng.u8(..)),
            4 => {
                bytes.remove(at);
            }
            _ => {
                let end = (at + rng.usize(1..16)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
}

fn message(rng: &mut Rng, kind: Kind, out: &mut Vec<u8>, depth: u32) {
    let mut fields: Vec<Vec<u8>> = Vec::new();
    match kind {
        Kind::Request => {
            repeat(rng, 0..4, |rng| {
                fields.push(nested(rng, 1, Kind::ResourceMetrics, depth));
            });
        }
        Kind::ResourceMetrics => {
            singular(rng, &mut fields, 1, Kind::Resource, depth);
            repeat(rng, 0..3, |rng| {
                fields.push(nested(rng, 2, Kind::ScopeMetrics, depth));
            });
            scalar_text(rng, &mut fields, 3);
        }
        Kind::ScopeMetrics => {
            singular(rng, &mut fields, 1, Kind::Scope, depth);
            repeat(rng, 0..4, |rng| fields.push(nested(rng, 2, Kind::Metric, depth)));
            scalar_text(rng, &mut fields, 3);
        }
        Kind::Resource => {
            repeat(rng, 0..4, |rng| {
                fields.push(nested(rng, 1, Kind::KeyValue, depth));
            });
            if rng.u8(0..6) == 0 {
                fields.push(varint_field(rng, 2, 3));
                fields.push(bytes_field(rng, 3, b"\xff any bytes"));
            }
        }
        Kind::Scope => {
            scalar_text(rng, &mut fields, 1);
            scalar_text(rng, &mut fields, 2);
            repeat(rng, 0..3, |rng| {
                fields.push(nested(rng, 3, Kind::KeyValue, depth));
            });
            if rng.u8(0..6) == 0 {
                fields.push(varint_field(rng, 4, 1));
            }
        }
        Kind::Metric => {
            for field in 1..=3 {
                scalar_text(rng, &mut fields, field);
            }
            let times = if rng.u8(0..8) == 0 { rng.usize(0..4) } else { 1 };
            for _ in 0..times {
                let field = [5, 7, 9, 10, 11][rng.usize(0..5)];
                fields.push(nested(rng, field, Kind::Data(field), depth));
            }
            if rng.u8(0..10) == 0 {
                fields.push(bytes_field(rng, 12, b"\xffmetadata"));
            }
        }
        Kind::Data(field) => {
            repeat(rng, 0..4, |rng| {
                let point: Vec<u8> = (0..rng.usize(0..12)).map(|_| rng.u8(..)).collect();
                fields.push(bytes_field(rng, 1, &point));
            });
            if matches!(field, 7 | 9 | 10) {
                repeat(rng, 0..3, |rng| {
                    let value = [0, 1, 2, 3, u64::MAX][rng.usize(0..5)];
                    fields.push(varint_field(rng, 2, value));
                });
            }
            if field == 7 {
                repeat(rng, 0..3, |rng| {
                    let value = rng.u64(0..3);
                    fields.push(varint_field(rng, 3, value));
                });
            }
        }
        Kind::KeyValue => {
            scalar_text(rng, &mut fields, 1);
            singular(rng, &mut fields, 2, Kind::AnyValue, depth);
            if rng.u8(0..40) == 0 {
                let value = rng.u64(0..2);
                fields.push(varint_field(rng, 3, value));
            }
        }
        Kind::AnyValue => {
            let times = if rng.u8(0..8) == 0 { rng.usize(0..4) } else { 1 };
            for _ in 0..times {
                let field = any_value(rng, depth);
                fields.push(field);
            }
        }
        Kind::Array => repeat(rng, 0..3, |rng| {
            fields.push(nested(rng, 1, Kind::AnyValue, depth));
        }),
        Kind::Map => repeat(rng, 0..3, |rng| {
            fields.push(nested(rng, 1, Kind::KeyValue, depth));
        }),
    }
    if rng.u8(0..6) == 0 {
        let field = unknown(rng, 0);
        fields.push(field);
    }
    if rng.u8(0..4) == 0 {
        rng.shuffle(&mut fields);
    }
    for field in &fields {
        out.extend_from_slice(field);
    }
}

fn any_value(rng: &mut Rng, depth: u32) -> Vec<u8> {
    // Once in a while deeper than anybody accepts.
    let nests = if depth > 6 {
        rng.u8(0..100) < 90 && depth < 110
    } else {
        rng.u8(0..6) == 0
    };
    let kind = if nests && (depth <= 6 || rng.u8(0..20) != 0) {
        rng.u8(5..7)
    } else {
        [1, 2, 3, 4, 7, 8][pick(rng)]
    };
    match kind {
        1 => {
            let text = some_text(rng);
            bytes_field(rng, 1, &text)
        }
        2 => {
            let value = rng.u64(0..3);
            varint_field(rng, 2, value)
        }
        3 => {
            let value = [0, 1, u64::MAX][rng.usize(0..3)];
            varint_field(rng, 3, value)
        }
        4 => {
            let mut field = key(rng, 4, 1);
            field.extend_from_slice(&[0.0_f64, -0.0, 1.0][rng.usize(0..3)].to_le_bytes());
            field
        }
        5 => nested(rng, 5, Kind::Array, depth),
        6 => nested(rng, 6, Kind::Map, depth),
        7 => {
            let text = some_text(rng);
            bytes_field(rng, 7, &text)
        }
        _ => varint_field(rng, 8, 1),
    }
}

/// Index of a scalar kind; references are rare.
fn pick(rng: &mut Rng) -> usize {
    if rng.u8(0..30) == 0 { 5 } else { rng.usize(0..5) }
}

fn repeat(rng: &mut Rng, times: std::ops::Range<usize>, mut make: impl FnMut(&mut Rng)) {
    for _ in 0..rng.usize(times) {
        make(rng);
    }
}

/// Usually once, sometimes not at all, sometimes in pieces that have to be merged.
fn singular(rng: &mut Rng, fields: &mut Vec<Vec<u8>>, field: u32, kind: Kind, depth: u32) {
    let times = match rng.u8(0..10) {
        0 => 0,
        1 => 2,
        2 => 3,
        _ => 1,
    };
    for _ in 0..times {
        fields.push(nested(rng, field, kind, depth));
    }
}

fn scalar_text(rng: &mut Rng, fields: &mut Vec<Vec<u8>>, field: u32) {
    let times = match rng.u8(0..12) {
        0 => 0,
        1 => 2,
        _ => 1,
    };
    for _ in 0..times {
        let text = some_text(rng);
        fields.push(bytes_field(rng, field, &text));
    }
}

fn some_text(rng: &mut Rng) -> Vec<u8> {
    let texts: [&[u8]; 16] = [
        b"a",
        b"b",
        b"c",
        b"http.server.duration",
        b"s",
        b"1",
        "ü".as_bytes(),
        b"process.cpu.time",
        b"By",
        b"queue.size",
        b"{request}",
        b"jvm.gc",
        b"x.y.z",
        b"otel",
        b"host",
        b"region",
    ];
    let mut text = match rng.u8(0..60) {
        0 => b"\xff\xfe".to_vec(),
        1..=3 => Vec::new(),
        _ => texts[rng.usize(0..texts.len())].to_vec(),
    };
    if rng.u8(0..40) == 0 {
        text = text.repeat(rng.usize(1..80));
    }
    text
}

fn nested(rng: &mut Rng, field: u32, kind: Kind, depth: u32) -> Vec<u8> {
    let mut body = Vec::new();
    message(rng, kind, &mut body, depth + 1);
    bytes_field(rng, field, &body)
}

fn bytes_field(rng: &mut Rng, field: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = key(rng, field, 2);
    varint(rng, payload.len() as u64, &mut out);
    out.extend_from_slice(payload);
    out
}

fn varint_field(rng: &mut Rng, field: u32, value: u64) -> Vec<u8> {
    let mut out = key(rng, field, 0);
    varint(rng, value, &mut out);
    out
}

fn key(rng: &mut Rng, field: u32, wire_type: u32) -> Vec<u8> {
    let mut out = Vec::new();
    varint(rng, u64::from(field << 3 | wire_type), &mut out);
    out
}

/// Sometimes longer than it need be.
#[allow(clippy::cast_possible_truncation, reason = "seven bits at a time")]
fn varint(rng: &mut Rng, mut value: u64, out: &mut Vec<u8>) {
    let start = out.len();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    if rng.u8(0..40) == 0 && out.len() - start < 9 {
        if let Some(last) = out.last_mut() {
            *last |= 0x80;
        }
        out.push(0);
    }
}

fn unknown(rng: &mut Rng, depth: u32) -> Vec<u8> {
    let field = [4, 13, 100, 1000, 536_870_911][rng.usize(0..5)];
    match rng.u8(0..5) {
        0 => varint_field(rng, field, u64::MAX),
        1 => [key(rng, field, 1), vec![1; 8]].concat(),
        2 => [key(rng, field, 5), vec![2; 4]].concat(),
        3 => bytes_field(rng, field, b"unknown"),
        _ => {
            let mut out = key(rng, field, 3);
            if depth < 4 {
                out.extend(unknown(rng, depth + 1));
            }
            out.extend(key(rng, field, 4));
            out
        }
    }
}
