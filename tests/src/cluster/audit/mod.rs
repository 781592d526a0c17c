//! The API server's audit log.

mod policy;

pub(super) use policy::policy;
