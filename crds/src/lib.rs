//! What operator and data plane must agree on: the settings file and the live object.
//!
//! Both are YAML documents. Each is read into a type that cannot hold an invalid value; what is wrong
//! with a document is said for all its fields at once, and never with text from the document.

mod document;
pub mod live;
pub mod settings;

pub use document::{MAX_DOCUMENT_BYTES, SettingsError, Violation};
