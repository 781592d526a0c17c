//! Where certificates and keys are found.

use super::*;

#[test]
fn peer_tls_is_absent_or_whole() {
    let read = settings(&with(
        "peer",
        "tls: {certificateFile: /c, keyFile: /k, caFile: /a}",
    ));
    let tls = read.peer().tls().unwrap();
    assert_eq!(tls.key_pair().certificate_file(), "/c");
    assert_eq!(
        (tls.key_pair().key_file(), tls.ca_file()),
        ("/k".as_ref(), "/a".as_ref())
    );
    assert_eq!(settings(&with("peer", "tls: null")).peer().tls(), None);
    for (fields, message) in [
        (
            "tls: {}",
            "peer.tls.certificateFile: must be given; peer.tls.keyFile: must be given; peer.tls.caFile: must be given",
        ),
        (
            "tls: {certificateFile: c, keyFile: /k, caFile: /a}",
            "peer.tls.certificateFile: must be an absolute path",
        ),
        (
            "tls: {certificateFile: /c, keyFile: /k, caFile: /a, serverName: x}",
            "peer.tls.serverName: is not known",
        ),
        ("tls: true", "peer.tls: must be a mapping"),
    ] {
        let error = refusal(&with("peer", fields));
        assert!(error.starts_with(message), "{error}");
    }
}
