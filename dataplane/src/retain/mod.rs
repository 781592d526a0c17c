//! Keep or drop: assessments, protection, the decision chain, and the engine that joins them.

pub mod answers;
pub mod assessments;
pub mod decide;
pub mod engine;
pub mod explain;
pub mod policy;
pub mod protection;
pub mod tally;
