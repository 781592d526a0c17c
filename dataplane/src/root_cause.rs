//! The innermost words of an error.

use std::error::Error;

/// The innermost words: the outer ones say only that something failed.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
