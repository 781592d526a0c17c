//! The canonical encoding of identities and affinity keys. Frozen: see [`crate::identity`] and [`crate::affinity`].

use crate::identity::{IdentityMode, InvalidIdentity, MAX_VALUE_DEPTH};
use crate::value::{Attribute, Value};

/// Writes the canonical encoding. Every item is typed or has a fixed place, every length is written.
#[derive(Default)]
pub(crate) struct Canonical {
    bytes: Vec<u8>,
}

impl Canonical {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.byte(u8::from(flag));
    }

    pub(crate) fn optional(&mut self, bytes: Option<&[u8]>) {
        self.flag(bytes.is_some());
        self.bytes.extend_from_slice(bytes.unwrap_or_default());
    }

    pub(crate) fn blob(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn text(&mut self, bytes: &[u8]) -> Result<(), InvalidIdentity> {
        if std::str::from_utf8(bytes).is_err() {
            return Err(InvalidIdentity::NotText);
        }
        self.blob(bytes);
        Ok(())
    }

    pub(crate) fn resource(
        &mut self,
        is_present: bool,
        attributes: &[Attribute<'_>],
        mode: &IdentityMode,
    ) -> Result<(), InvalidIdentity> {
        match mode {
            IdentityMode::Complete => {
                self.byte(1);
                self.flag(is_present);
                self.map(attributes, MAX_VALUE_DEPTH)
            }
            IdentityMode::Context(names) => {
                // A resource that cannot be read safely is invalid in both modes.
                Self::default().map(attributes, MAX_VALUE_DEPTH)?;
                let context: Vec<Attribute<'_>> = attributes
                    .iter()
                    .filter(|attribute| names.contains(attribute.key))
                    .cloned()
                    .collect();
                self.byte(2);
                self.map(&context, MAX_VALUE_DEPTH)
            }
        }
    }

    /// Sorted by key; a key given twice makes the identity invalid.
    pub(crate) fn map(&mut self, attributes: &[Attribute<'_>], depth: u32) -> Result<(), InvalidIdentity> {
        let mut sorted: Vec<&Attribute<'_>> = attributes.iter().collect();
        sorted.sort_unstable_by_key(|attribute| attribute.key);
        if sorted.windows(2).any(|pair| pair[0].key == pair[1].key) {
            return Err(InvalidIdentity::RepeatedKey);
        }
        self.bytes.extend_from_slice(&(sorted.len() as u64).to_le_bytes());
        for attribute in sorted {
            if attribute.has_key_reference {
                return Err(InvalidIdentity::Reference);
            }
            self.text(attribute.key)?;
            self.value(&attribute.value, depth)?;
        }
        Ok(())
    }

    pub(crate) fn value(&mut self, value: &Value<'_>, depth: u32) -> Result<(), InvalidIdentity> {
        match value {
            Value::Absent => self.byte(0),
            Value::Empty => self.byte(1),
            Value::Text(text) => {
                self.byte(2);
                self.text(text)?;
            }
            Value::Bool(value) => {
                self.byte(3);
                self.flag(*value);
            }
            Value::Int(value) => {
                self.byte(4);
                self.bytes.extend_from_slice(&value.to_le_bytes());
            }
            Value::Double(bits) => {
                self.byte(5);
                self.bytes.extend_from_slice(&bits.to_le_bytes());
            }
            Value::Bytes(bytes) => {
                self.byte(6);
                self.blob(bytes);
            }
            Value::Array(values) => {
                let depth = depth.checked_sub(1).ok_or(InvalidIdentity::NestedTooDeep)?;
                self.byte(7);
                self.bytes.extend_from_slice(&(values.len() as u64).to_le_bytes());
                for value in values {
                    self.value(value, depth)?;
                }
            }
            Value::Map(attributes) => {
                let depth = depth.checked_sub(1).ok_or(InvalidIdentity::NestedTooDeep)?;
                self.byte(8);
                self.map(attributes, depth)?;
            }
            Value::Reference => return Err(InvalidIdentity::Reference),
        }
        Ok(())
    }
}
