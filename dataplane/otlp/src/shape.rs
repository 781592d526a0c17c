//! The shape of an instrument's data in one batch: attribute keys and the number of distinct attribute sets.
//!
//! Data points are read for the keys of their attributes alone. One that cannot be read is left out, for the
//! request itself is fine.

use std::collections::{BTreeSet, HashSet};

use xxhash_rust::xxh3::xxh3_128;

use crate::malformed::{Malformed, Place};
use crate::summary::{DataType, MAX_ATTRIBUTE_KEYS, cut};
use crate::wire::{RECURSION_LIMIT, Reader};

/// Keys and distinct attribute sets of the data points.
#[derive(Default)]
pub(crate) struct Shape<'a> {
    /// The first [`MAX_ATTRIBUTE_KEYS`] in their order.
    keys: BTreeSet<&'a str>,
    sets: HashSet<u128>,
}

impl<'a> Shape<'a> {
    /// `metric` is the body of a metric whose data is of this type.
    pub(crate) fn of(metric: &'a [u8], data_type: DataType) -> Self {
        let mut shape = Self::default();
        // The structure of the metric was checked by the walk: errors are the points' own.
        let mut reader = Reader::new(metric, 0, RECURSION_LIMIT, Place::Metric);
        while !reader.is_at_end() {
            let Ok(key) = reader.key() else { break };
            match key.field {
                field if field == data_type as u32 => {
                    let Ok((data, _)) = reader.bytes_field(key) else {
                        break;
                    };
                    shape.read_data(data, data_type.attributes_field());
                }
                // Another type: what came before it does not count, as in the walk.
                5 | 7 | 9 | 10 | 11 => {
                    shape = Self::default();
                    if reader.skip(key).is_err() {
                        break;
                    }
                }
                _ => {
                    if reader.skip(key).is_err() {
                        break;
                    }
                }
            }
        }
        shape
    }

    /// Sorted, distinct, at most [`MAX_ATTRIBUTE_KEYS`].
    pub(crate) fn keys(&self) -> Vec<String> {
        let cut: BTreeSet<String> = self.keys.iter().map(|key| cut(key.as_bytes())).collect();
        cut.into_iter().collect()
    }

    /// Number of distinct attribute sets.
    pub(crate) fn sets(&self) -> u64 {
        self.sets.len() as u64
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

    /// Twice over the point: what it says counts once all of it was read.
    fn read_point(&mut self, point: &'a [u8], attributes_field: u32) {
        // A sum does not depend on the order of the attributes.
        let mut set = 0_u128;
        let read = each_attribute(point, attributes_field, |attribute, _| {
            set = set.wrapping_add(xxh3_128(attribute));
        });
        if read.is_err() {
            return;
        }
        self.sets.insert(set);
        let _ = each_attribute(point, attributes_field, |_, key| {
            self.keys.extend(key);
            if self.keys.len() > MAX_ATTRIBUTE_KEYS {
                self.keys.pop_last();
            }
        });
    }
}

/// Calls `found` with the bytes and the key of each attribute.
fn each_attribute<'a>(
    point: &'a [u8],
    attributes_field: u32,
    mut found: impl FnMut(&'a [u8], Option<&'a str>),
) -> Result<(), Malformed> {
    let mut reader = Reader::new(point, 0, RECURSION_LIMIT, Place::Data);
    while !reader.is_at_end() {
        let key = reader.key()?;
        if key.field == attributes_field {
            let (attribute, _) = reader.bytes_field(key)?;
            found(attribute, key_of(attribute)?);
        } else {
            reader.skip(key)?;
        }
    }
    Ok(())
}

/// The key of an attribute, if it is text.
fn key_of(attribute: &[u8]) -> Result<Option<&str>, Malformed> {
    let mut reader = Reader::new(attribute, 0, RECURSION_LIMIT, Place::Attribute);
    let mut name = None;
    while !reader.is_at_end() {
        let key = reader.key()?;
        if key.field == 1 {
            name = std::str::from_utf8(reader.bytes_field(key)?.0).ok();
        } else {
            reader.skip(key)?;
        }
    }
    Ok(name)
}
