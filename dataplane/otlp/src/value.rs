//! Attributes and values, decoded from bytes whose structure was checked before.
//!
//! Merging follows protobuf: a value given twice is the concatenation of its encodings, within a oneof the
//! last kind wins and lists of the same kind are joined.

use crate::malformed::{Malformed, Place};
use crate::wire::Reader;

/// What was decoded is bounded by [`crate::structure`] already; here any depth that got so far is fine.
const DEPTH: u32 = u32::MAX;

/// A key and its value, as they came. Keys may be anything, also no text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attribute<'a> {
    pub(crate) key: &'a [u8],
    /// A reference into a string table that metrics do not have.
    pub(crate) has_key_reference: bool,
    pub(crate) value: Value<'a>,
}

/// A decoded `AnyValue`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    /// The attribute has no value at all.
    Absent,
    /// There is a value, and it holds nothing.
    Empty,
    Text(&'a [u8]),
    Bool(bool),
    Int(i64),
    /// By its bits: 0.0 and -0.0 differ.
    Double(u64),
    Bytes(&'a [u8]),
    Array(Vec<Value<'a>>),
    Map(Vec<Attribute<'a>>),
    /// A reference into a string table that metrics do not have.
    Reference,
}

/// Reads the attributes in `field` of a message given in `parts`.
pub(crate) fn attributes<'a>(
    parts: &[(&'a [u8], usize)],
    field: u32,
) -> Result<Vec<Attribute<'a>>, Malformed> {
    let mut found = Vec::new();
    for &(bytes, base) in parts {
        let mut reader = Reader::new(bytes, base, DEPTH, Place::Attribute);
        while !reader.is_at_end() {
            let key = reader.key()?;
            if key.field == field {
                let payload = reader.bytes_field(key)?;
                found.push(attribute(payload)?);
            } else {
                reader.skip(key)?;
            }
        }
    }
    Ok(found)
}

fn attribute(payload: (&[u8], usize)) -> Result<Attribute<'_>, Malformed> {
    let mut reader = Reader::new(payload.0, payload.1, DEPTH, Place::Attribute);
    let mut attribute = Attribute {
        key: &[],
        has_key_reference: false,
        value: Value::Absent,
    };
    let mut values = Vec::new();
    while !reader.is_at_end() {
        let key = reader.key()?;
        match key.field {
            1 => attribute.key = reader.bytes_field(key)?.0,
            2 => values.push(reader.bytes_field(key)?),
            #[allow(
                clippy::cast_possible_truncation,
                reason = "protobuf's int32 takes the low 32 bits"
            )]
            3 => attribute.has_key_reference = reader.varint_field(key)? as i32 != 0,
            _ => reader.skip(key)?,
        }
    }
    if !values.is_empty() {
        attribute.value = value(&values)?;
    }
    Ok(attribute)
}

fn value<'a>(parts: &[(&'a [u8], usize)]) -> Result<Value<'a>, Malformed> {
    enum Kind<'a> {
        Done(Value<'a>),
        Array(Vec<(&'a [u8], usize)>),
        Map(Vec<(&'a [u8], usize)>),
    }
    let mut kind = Kind::Done(Value::Empty);
    for &(bytes, base) in parts {
        let mut reader = Reader::new(bytes, base, DEPTH, Place::Attribute);
        while !reader.is_at_end() {
            let key = reader.key()?;
            kind = match (key.field, kind) {
                (1, _) => Kind::Done(Value::Text(reader.bytes_field(key)?.0)),
                (2, _) => Kind::Done(Value::Bool(reader.varint_field(key)? != 0)),
                (3, _) => Kind::Done(Value::Int(reader.varint_field(key)?.cast_signed())),
                (4, _) => Kind::Done(Value::Double(reader.fixed64_field(key)?)),
                (5, Kind::Array(mut parts)) => {
                    parts.push(reader.bytes_field(key)?);
                    Kind::Array(parts)
                }
                (5, _) => Kind::Array(vec![reader.bytes_field(key)?]),
                (6, Kind::Map(mut parts)) => {
                    parts.push(reader.bytes_field(key)?);
                    Kind::Map(parts)
                }
                (6, _) => Kind::Map(vec![reader.bytes_field(key)?]),
                (7, _) => Kind::Done(Value::Bytes(reader.bytes_field(key)?.0)),
                (8, _) => {
                    reader.varint_field(key)?;
                    Kind::Done(Value::Reference)
                }
                (_, kind) => {
                    reader.skip(key)?;
                    kind
                }
            };
        }
    }
    match kind {
        Kind::Done(value) => Ok(value),
        Kind::Array(parts) => array(&parts).map(Value::Array),
        Kind::Map(parts) => attributes(&parts, 1).map(Value::Map),
    }
}

fn array<'a>(parts: &[(&'a [u8], usize)]) -> Result<Vec<Value<'a>>, Malformed> {
    let mut values = Vec::new();
    for &(bytes, base) in parts {
        let mut reader = Reader::new(bytes, base, DEPTH, Place::Attribute);
        while !reader.is_at_end() {
            let key = reader.key()?;
            if key.field == 1 {
                values.push(value(&[reader.bytes_field(key)?])?);
            } else {
                reader.skip(key)?;
            }
        }
    }
    Ok(values)
}
