//! Reading the fields of one mapping by name, default and bounds.
//!
//! `null` counts as absent. Every field that was not asked for is a violation, so a misspelt name
//! cannot silently mean a default.

use std::collections::HashSet;
use std::fmt::Display;
use std::ops::RangeInclusive;

use super::error::shown_name;
use super::{Node, Problems, Read, Refused};

/// A type of whole numbers.
pub(crate) trait Whole: TryFrom<i128> + PartialOrd + Display {}

impl<N: TryFrom<i128> + PartialOrd + Display> Whole for N {}

/// The fields of one mapping that were not read yet.
pub(crate) struct Fields<'p> {
    path: String,
    entries: Vec<(String, Node)>,
    known: Vec<&'static str>,
    problems: &'p Problems,
}

impl<'p> Fields<'p> {
    /// Reads the mapping `node` at `path` (empty for the top level) and refuses what `reader` did not ask for.
    pub(crate) fn read<T>(
        path: String,
        node: Node,
        problems: &'p Problems,
        reader: impl FnOnce(&mut Self) -> Read<T>,
    ) -> Read<T> {
        let entries = match node {
            Node::Mapping(entries) => entries,
            Node::Null => Vec::new(),
            _ => return Err(problems.refuse(&path, "must be a mapping of fields")),
        };
        let mut fields = Self {
            path,
            entries: Vec::new(),
            known: Vec::new(),
            problems,
        };
        let mut seen = HashSet::new();
        for (name, _) in &entries {
            if !seen.insert(name.as_str()) {
                problems.refuse(
                    &fields.path_of(shown_name(name)),
                    "must be given once, is given again",
                );
            }
        }
        fields.entries = entries;
        let read = reader(&mut fields);
        for (name, _) in &fields.entries {
            problems.refuse(
                &fields.path_of(shown_name(name)),
                format!("is not known here; known are {}", fields.known.join(", ")),
            );
        }
        read
    }

    /// The path of the field `name`.
    pub(crate) fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// Notes that the field `name` breaks `rule`.
    pub(crate) fn refuse(&self, name: &str, rule: impl Into<String>) -> Refused {
        self.problems.refuse(&self.path_of(name), rule)
    }

    /// Where violations are noted.
    pub(crate) fn problems(&self) -> &'p Problems {
        self.problems
    }

    /// The value of the field `name`, unless it is absent or `null`.
    pub(crate) fn take(&mut self, name: &'static str) -> Option<Node> {
        self.known.push(name);
        let mut found = None;
        self.entries.retain_mut(|(key, node)| {
            if key != name {
                return true;
            }
            found.get_or_insert_with(|| std::mem::replace(node, Node::Null));
            false
        });
        found.filter(|node| *node != Node::Null)
    }

    /// A whole number within `bounds`.
    pub(crate) fn integer(
        &mut self,
        name: &'static str,
        default: u32,
        bounds: RangeInclusive<u32>,
    ) -> Read<u32> {
        match self.take(name) {
            None => Ok(default),
            Some(node) => self.in_bounds(name, &node, bounds),
        }
    }

    /// A whole number within `bounds` that must be given.
    pub(crate) fn required_integer<N: Whole>(
        &mut self,
        name: &'static str,
        bounds: RangeInclusive<N>,
    ) -> Read<N> {
        match self.take(name) {
            None => Err(self.refuse(name, "must be given")),
            Some(node) => self.in_bounds(name, &node, bounds),
        }
    }

    fn in_bounds<N: Whole>(&self, name: &str, node: &Node, bounds: RangeInclusive<N>) -> Read<N> {
        let must = if bounds.start() == bounds.end() {
            format!("must be {}", bounds.start())
        } else {
            format!(
                "must be a whole number from {} to {}",
                bounds.start(),
                bounds.end()
            )
        };
        match node {
            Node::Integer(value) => match N::try_from(*value) {
                Ok(number) if bounds.contains(&number) => Ok(number),
                _ => Err(self.refuse(name, format!("{must}, is {value}"))),
            },
            Node::Text(_) => Err(self.refuse(name, format!("{must}, is text"))),
            _ => Err(self.refuse(name, must)),
        }
    }

    /// Text, as it was written.
    pub(crate) fn text(&mut self, name: &'static str) -> Read<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(node) => text(self.problems, &self.path_of(name), node).map(Some),
        }
    }

    /// Text that must be given.
    pub(crate) fn required_text(&mut self, name: &'static str) -> Read<String> {
        self.text(name)?.ok_or_else(|| self.refuse(name, "must be given"))
    }

    /// One of a few names; `choices` begins with the default.
    pub(crate) fn choice<T: Copy, const N: usize>(
        &mut self,
        name: &'static str,
        choices: [(&'static str, T); N],
    ) -> Read<T> {
        let Some(text) = self.text(name)? else {
            return Ok(choices[0].1);
        };
        if let Some((_, value)) = choices.iter().find(|(choice, _)| *choice == text) {
            return Ok(*value);
        }
        let names = choices.map(|(choice, _)| choice);
        Err(self.refuse(
            name,
            format!("must be {} (upper and lower case matter)", names.join(" or ")),
        ))
    }

    /// A list of at most `most` items, each read by `item` with its path; `None` if absent.
    pub(crate) fn list<T>(
        &mut self,
        name: &'static str,
        most: usize,
        mut item: impl FnMut(String, Node) -> Read<T>,
    ) -> Read<Option<Vec<T>>> {
        let items = match self.take(name) {
            None => return Ok(None),
            Some(Node::List(items)) => items,
            Some(_) => return Err(self.refuse(name, "must be a list")),
        };
        if items.len() > most {
            return Err(self.refuse(
                name,
                format!("must have at most {most} items, has {}", items.len()),
            ));
        }
        let path = self.path_of(name);
        let mut read = Ok(Vec::with_capacity(items.len()));
        for (index, node) in items.into_iter().enumerate() {
            match (item(format!("{path}[{index}]"), node), &mut read) {
                (Ok(value), Ok(values)) => values.push(value),
                (Err(refused), _) => read = Err(refused),
                (Ok(_), Err(_)) => {}
            }
        }
        read.map(Some)
    }

    /// A list of at most `most` texts of `bytes` bytes each; `None` if absent.
    pub(crate) fn texts(
        &mut self,
        name: &'static str,
        most: usize,
        bytes: RangeInclusive<usize>,
    ) -> Read<Option<Vec<String>>> {
        let problems = self.problems;
        self.list(name, most, |path, node| {
            let text = text(problems, &path, node)?;
            if bytes.contains(&text.len()) {
                return Ok(text);
            }
            let rule = format!(
                "must have {} to {} bytes, has {}",
                bytes.start(),
                bytes.end(),
                text.len()
            );
            Err(problems.refuse(&path, rule))
        })
    }

    /// The mapping `name`; `None` if it is absent.
    pub(crate) fn optional_section<T>(
        &mut self,
        name: &'static str,
        reader: impl FnOnce(&mut Self) -> Read<T>,
    ) -> Read<Option<T>> {
        match self.take(name) {
            None => Ok(None),
            Some(node) => Self::read(self.path_of(name), node, self.problems, reader).map(Some),
        }
    }

    /// The mapping `name`; if it is absent, `reader` sees one without fields.
    pub(crate) fn section<T>(
        &mut self,
        name: &'static str,
        reader: impl FnOnce(&mut Self) -> Read<T>,
    ) -> Read<T> {
        let node = self.take(name).unwrap_or(Node::Null);
        Self::read(self.path_of(name), node, self.problems, reader)
    }
}

fn text(problems: &Problems, path: &str, node: Node) -> Read<String> {
    match node {
        Node::Text(text) => Ok(text),
        Node::Integer(_) | Node::OtherNumber | Node::Boolean => {
            Err(problems.refuse(path, "must be text: put it in quotes"))
        }
        _ => Err(problems.refuse(path, "must be text")),
    }
}
