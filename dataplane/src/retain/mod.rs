//! Keep or drop: assessments, protection, the decision chain.

pub mod answers;
