//! Names in `/etc/hosts`, where a Collector looks first: in the place of a cluster's DNS.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};

use tempfile::NamedTempFile;

const HOSTS: &str = "/etc/hosts";

struct Hosts {
    file: NamedTempFile,
    addresses: BTreeMap<String, Vec<Ipv4Addr>>,
}

/// Lets `name` resolve to these addresses.
pub(crate) fn set(name: &str, addresses: &[Ipv4Addr]) {
    static HOSTS: LazyLock<Mutex<Hosts>> = LazyLock::new(|| Mutex::new(mounted()));
    let mut hosts = HOSTS.lock().unwrap_or_else(PoisonError::into_inner);
    hosts.addresses.insert(name.to_owned(), addresses.to_vec());
    let mut text = "127.0.0.1 localhost\n".to_owned();
    for (name, addresses) in &hosts.addresses {
        text.extend(addresses.iter().map(|address| format!("{address} {name}\n")));
    }
    // In place: another file would not be the one that is mounted. Who finds it empty for a moment keeps what he knew.
    std::fs::write(hosts.file.path(), text).unwrap();
}

/// A file of our own over that of the machine, which nobody else sees.
fn mounted() -> Hosts {
    assert!(
        std::env::var_os("JEVMETRICS_BRIDGE").is_some(),
        "this test changes {HOSTS}: it runs in the sandbox alone, by make collector"
    );
    let file = NamedTempFile::new().unwrap();
    let mounted = Command::new("mount")
        .arg("--bind")
        .arg(file.path())
        .arg(HOSTS)
        .status();
    assert!(mounted.unwrap().success());
    Hosts {
        file,
        addresses: BTreeMap::new(),
    }
}
