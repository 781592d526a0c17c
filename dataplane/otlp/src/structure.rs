//! Checks that the bytes of a resource or scope are a message that prost would decode, without decoding it.
//!
//! Only structure counts here: text that is not UTF-8 is a matter of identity, not a broken request.
//! Returned is the number of attributes and values at all depths: what decoding them would cost.

use crate::malformed::{Malformed, Place};
use crate::wire::{Key, RECURSION_LIMIT, Reader};

/// Levels that may be opened below a resource: request and `resource_metrics` are above it.
pub(crate) const RESOURCE_DEPTH: u32 = RECURSION_LIMIT - 2;
/// Levels that may be opened below a scope: request, `resource_metrics` and `scope_metrics` are above it.
pub(crate) const SCOPE_DEPTH: u32 = RECURSION_LIMIT - 3;

/// Each part is one occurrence of the message, with its offset in the request.
pub(crate) fn check_resource(parts: &[(&[u8], usize)]) -> Result<usize, Malformed> {
    let mut count = 0;
    for &(bytes, base) in parts {
        let mut reader = Reader::new(bytes, base, RESOURCE_DEPTH, Place::Resource);
        while !reader.is_at_end() {
            let key = reader.key()?;
            match key.field {
                1 => check_key_value(&mut reader, key, &mut count)?,
                2 => {
                    reader.varint_field(key)?;
                }
                // entity_refs: framing only, its content is nobody's identity.
                3 => {
                    reader.bytes_field(key)?;
                }
                _ => reader.skip(key)?,
            }
        }
    }
    Ok(count)
}

/// As [`check_resource`], for an instrumentation scope.
pub(crate) fn check_scope(parts: &[(&[u8], usize)]) -> Result<usize, Malformed> {
    let mut count = 0;
    for &(bytes, base) in parts {
        let mut reader = Reader::new(bytes, base, SCOPE_DEPTH, Place::Scope);
        while !reader.is_at_end() {
            let key = reader.key()?;
            match key.field {
                1 | 2 => {
                    reader.bytes_field(key)?;
                }
                3 => check_key_value(&mut reader, key, &mut count)?,
                4 => {
                    reader.varint_field(key)?;
                }
                _ => reader.skip(key)?,
            }
        }
    }
    Ok(count)
}

fn check_key_value(outer: &mut Reader<'_>, key: Key, count: &mut usize) -> Result<(), Malformed> {
    let mut reader = outer.message_field(key, Place::Attribute)?;
    *count += 1;
    while !reader.is_at_end() {
        let key = reader.key()?;
        match key.field {
            1 => {
                reader.bytes_field(key)?;
            }
            2 => check_any_value(&mut reader, key, count)?,
            3 => {
                reader.varint_field(key)?;
            }
            _ => reader.skip(key)?,
        }
    }
    Ok(())
}

fn check_any_value(outer: &mut Reader<'_>, key: Key, count: &mut usize) -> Result<(), Malformed> {
    let mut reader = outer.message_field(key, Place::Attribute)?;
    *count += 1;
    while !reader.is_at_end() {
        let key = reader.key()?;
        match key.field {
            1 | 7 => {
                reader.bytes_field(key)?;
            }
            2 | 3 | 8 => {
                reader.varint_field(key)?;
            }
            4 => {
                reader.fixed64_field(key)?;
            }
            5 | 6 => check_list(&mut reader, key, count)?,
            _ => reader.skip(key)?,
        }
    }
    Ok(())
}

/// `ArrayValue` (5) and `KeyValueList` (6) both hold their members in field 1.
fn check_list(outer: &mut Reader<'_>, list: Key, count: &mut usize) -> Result<(), Malformed> {
    let mut reader = outer.message_field(list, Place::Attribute)?;
    *count += 1;
    while !reader.is_at_end() {
        let key = reader.key()?;
        match (key.field, list.field) {
            (1, 5) => check_any_value(&mut reader, key, count)?,
            (1, _) => check_key_value(&mut reader, key, count)?,
            _ => reader.skip(key)?,
        }
    }
    Ok(())
}
