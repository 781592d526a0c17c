//! What this process occupies.

use std::path::PathBuf;

use crate::error::BenchError;

/// Resident bytes, as the kernel counts them.
pub(crate) fn resident_bytes() -> Result<u64, BenchError> {
    let path = PathBuf::from("/proc/self/status");
    let status = std::fs::read_to_string(&path).map_err(|source| BenchError::File { path, source })?;
    let kibibytes = status
        .lines()
        .find_map(|line| {
            line.strip_prefix("VmRSS:")?
                .trim()
                .strip_suffix(" kB")?
                .parse::<u64>()
                .ok()
        })
        .ok_or_else(|| BenchError::Claim("/proc/self/status has no VmRSS".to_owned()))?;
    Ok(kibibytes * 1024)
}
