//! What operator and data plane must agree on: the policy resource, the settings file, the live object, and how a
//! pod is asked about itself.
//!
//! Settings and live object are YAML documents. Each is read into a type that cannot hold an invalid value; what is wrong
//! with a document is said for all its fields at once, and never with text from the document.

mod document;
pub mod hostname;
pub mod live;
pub mod member;
pub mod peer;
pub mod policy;
pub mod routing;
pub mod settings;

pub use document::{MAX_DOCUMENT_BYTES, SettingsError, Violation};
