//! YAML text to a tree of plain values, bounded in size whatever the text holds.
//!
//! The tree keeps keys given twice and tells the kinds of scalars apart, so that the reader of a field
//! can say what is wrong. Serde's own messages quote values and are not shown.

use std::cell::Cell;
use std::fmt;

use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use serde_path_to_error::Segment;

use super::error::{WHOLE, shown_name};
use super::{MAX_DOCUMENT_BYTES, SettingsError};

/// The longest lists of the live object hold 11,000 names.
const MAX_VALUES: usize = 20_000;
/// Escapes can make text longer than its source; nothing but aliases makes it twice as long.
const MAX_TEXT_BYTES: usize = 2 * MAX_DOCUMENT_BYTES;

/// A value in a document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// Nothing: `null`, `~` or an empty place.
    Null,
    /// `true` or `false`, not in quotes.
    Boolean,
    /// A whole number.
    Integer(i128),
    /// A number that is not whole, or too large for any field.
    OtherNumber,
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the order of the text; a key may be there twice.
    Mapping(Vec<(String, Node)>),
}

/// Parses exactly one document.
pub(crate) fn parse(yaml: &str) -> Result<Node, SettingsError> {
    if yaml.len() > MAX_DOCUMENT_BYTES {
        return Err(SettingsError::TooLarge { bytes: yaml.len() });
    }
    // What fails here is about syntax alone, and such messages quote nothing from the text.
    IgnoredAny::deserialize(serde_yaml::Deserializer::from_str(yaml))
        .map_err(|error| SettingsError::Syntax(error.to_string()))?;

    let budget = Budget {
        values: Cell::new(MAX_VALUES),
        text: Cell::new(MAX_TEXT_BYTES),
        spent: Cell::new(false),
    };
    let mut track = serde_path_to_error::Track::new();
    let deserializer =
        serde_path_to_error::Deserializer::new(serde_yaml::Deserializer::from_str(yaml), &mut track);
    match Seed(&budget).deserialize(deserializer) {
        Ok(node) => Ok(node),
        Err(_) if budget.spent.get() => Err(SettingsError::Expands {
            values: MAX_VALUES,
            bytes: MAX_TEXT_BYTES,
        }),
        Err(error) => Err(SettingsError::NotPlain {
            path: shown_path(&track.path()),
            line: error.location().map_or(1, |location| location.line()),
        }),
    }
}

fn shown_path(path: &serde_path_to_error::Path) -> String {
    let mut shown = String::new();
    for segment in path {
        let segment = match segment {
            Segment::Seq { index } => format!("[{index}]"),
            Segment::Map { key } | Segment::Enum { variant: key } => format!(".{}", shown_name(key)),
            Segment::Unknown => ".?".to_owned(),
        };
        shown += &segment;
    }
    match shown.strip_prefix('.').unwrap_or(&shown) {
        "" => WHOLE.to_owned(),
        path => path.to_owned(),
    }
}

/// What may still be added to the tree.
struct Budget {
    values: Cell<usize>,
    text: Cell<usize>,
    spent: Cell<bool>,
}

impl Budget {
    fn take<E: serde::de::Error>(&self, values: usize, text: usize) -> Result<(), E> {
        let values = self.values.get().checked_sub(values);
        let text = self.text.get().checked_sub(text);
        let (Some(values), Some(text)) = (values, text) else {
            self.spent.set(true);
            return Err(E::custom("holds too much"));
        };
        self.values.set(values);
        self.text.set(text);
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Seed<'b>(&'b Budget);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Node;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        self.0.take(1, 0)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("plain YAML")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Boolean)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Integer(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Node, E> {
        Ok(Node::Integer(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Node, E> {
        Ok(i128::try_from(value).map_or(Node::OtherNumber, Node::Integer))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::OtherNumber)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Node, E> {
        self.0.take(0, value.len())?;
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut mapping = Vec::new();
        while let Some(key) = entries.next_key_seed(self)? {
            let Node::Text(key) = key else {
                return Err(A::Error::custom("a key must be text"));
            };
            mapping.push((key, entries.next_value_seed(self)?));
        }
        Ok(Node::Mapping(mapping))
    }
}
