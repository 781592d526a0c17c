//! The border between deciding when to ask and asking: the one place where the dispatcher meets the network.

use std::pin::Pin;

use jevmetrics_otlp::summary::Summary;

use super::failure::{Cause, Failure};
use super::reply::Reply;

/// A question under way.
pub(crate) type Asking<'a> = Pin<Box<dyn Future<Output = Result<Reply, Failure>> + Send + 'a>>;

/// Somebody who can be asked about an instrument.
pub(crate) trait Ask: Send + Sync + 'static {
    /// What makes asking pointless at present, known without asking. Cheap.
    fn obstacle(&self) -> Option<Cause>;

    /// Asks once. Ends in bounded time; may be dropped at any point.
    fn ask<'a>(&'a self, summary: &'a Summary) -> Asking<'a>;
}
