//! What a data plane needs before it starts: its binary, free ports, files.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::error::{ProcessError, io_error};
use super::settings::Listen;
use crate::ports::free_port;

/// Names the binary; without it, it is looked for beside the running test.
pub const BINARY_VARIABLE: &str = "JEVMETRICS_DATAPLANE_BIN";
pub(super) const BINARY: &str = "jevmetrics-dataplane";

/// Replaces a file as a whole: a reader sees the old or the new content.
pub(super) fn replace(file: &Path, text: &str) -> Result<(), ProcessError> {
    let next = file.with_extension("next");
    std::fs::write(&next, text)
        .and_then(|()| std::fs::rename(&next, file))
        .map_err(io_error("cannot write a file of the data plane"))
}

/// Puts free ports where 0 stands, none given out before by this process.
pub(super) fn fill_ports(mut listen: Listen) -> Result<Listen, ProcessError> {
    for address in [
        &mut listen.grpc,
        &mut listen.http,
        &mut listen.peer,
        &mut listen.metrics,
        &mut listen.admin,
    ] {
        if address.port() == 0 {
            address.set_port(free_port(address.ip()).map_err(io_error("cannot find a free port"))?);
        }
    }
    Ok(listen)
}

/// Free loopback ports for all that a data plane listens on: for settings that are written elsewhere.
///
/// # Errors
/// There is none.
pub fn free_listen() -> Result<Listen, ProcessError> {
    let unset = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    fill_ports(Listen {
        grpc: unset,
        http: unset,
        peer: unset,
        metrics: unset,
        admin: unset,
    })
}

/// The data plane's binary: named by the environment, or in `target/{debug,release}` which this executable is in.
///
/// # Errors
/// It is not there; the error says where it was looked for.
pub fn find_binary() -> Result<PathBuf, ProcessError> {
    if let Some(named) = std::env::var_os(BINARY_VARIABLE) {
        let named = PathBuf::from(named);
        return if named.is_file() {
            Ok(named)
        } else {
            Err(ProcessError::NoBinary { looked: vec![named] })
        };
    }
    let this = std::env::current_exe().map_err(io_error("cannot find this executable"))?;
    // A test is in deps/, a benchmark or an example in a directory of its own, a binary directly in the profile's.
    let looked: Vec<PathBuf> = this
        .ancestors()
        .skip(1)
        .take(2)
        .map(|directory| directory.join(BINARY))
        .collect();
    looked
        .iter()
        .find(|path| path.is_file())
        .cloned()
        .ok_or(ProcessError::NoBinary { looked })
}
