#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;

/// An authority with a directory for its files.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    directory: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self {
            certificate: params.self_signed(&key).unwrap().pem(),
            issuer: Issuer::new(params, key),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn ca_file(&self) -> PathBuf {
        self.put("ca.pem", &self.certificate)
    }

    fn pair(&self, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()])
            .unwrap()
            .signed_by(&key, &self.issuer)
            .unwrap();
        (
            self.put("tls.crt", &certificate.pem()),
            self.put("tls.key", &key.serialize_pem()),
        )
    }

    fn files(&self) -> TlsFiles {
        TlsFiles {
            setting: "peer.tls",
            pair: Some(self.pair("peer.jevmetrics.internal")),
            ca: Some(self.ca_file()),
        }
    }
}

fn refusal(files: TlsFiles) -> String {
    server::load(files, HTTP2).expect_err("refused").to_string()
}

#[test]
fn what_is_wrong_with_a_file_is_named_and_nothing_of_it_is_shown() {
    let authority = Authority::new();
    let good = authority.files();
    let (certificate, key) = good.pair.clone().unwrap();
    server::load(good.clone(), HTTP2).unwrap();
    let odd = authority.put("odd", "hunter2");
    let broken = authority.put(
        "broken",
        "-----BEGIN CERTIFICATE-----\naHVudGVyMg==\n-----END CERTIFICATE-----\n",
    );
    let other = Authority::new();
    let (_, other_key) = other.pair("x");
    let gone = Path::new("/nowhere/x").to_owned();
    for (files, message) in [
        (
            TlsFiles {
                pair: Some((gone.clone(), key.clone())),
                ..good.clone()
            },
            "peer.tls: file /nowhere/x: not found".to_owned(),
        ),
        (
            TlsFiles {
                pair: Some((odd.clone(), key.clone())),
                ..good.clone()
            },
            format!("peer.tls: file {}: must hold certificates in PEM", odd.display()),
        ),
        (
            TlsFiles {
                pair: Some((certificate.clone(), odd.clone())),
                ..good.clone()
            },
            format!(
                "peer.tls: file {}: must hold one private key in PEM",
                odd.display()
            ),
        ),
        (
            TlsFiles {
                pair: Some((broken.clone(), key.clone())),
                ..good.clone()
            },
            format!(
                "peer.tls: certificate {} with key {}: ",
                broken.display(),
                key.display()
            ),
        ),
        (
            TlsFiles {
                pair: Some((certificate.clone(), other_key.clone())),
                ..good.clone()
            },
            format!(
                "peer.tls: certificate {} with key {}: ",
                certificate.display(),
                other_key.display()
            ),
        ),
        (
            TlsFiles {
                ca: Some(broken.clone()),
                ..good.clone()
            },
            format!(
                "peer.tls: file {}: must hold certificates of authorities in PEM",
                broken.display()
            ),
        ),
        (
            TlsFiles {
                ca: Some(odd.clone()),
                ..good.clone()
            },
            format!("peer.tls: file {}: must hold certificates in PEM", odd.display()),
        ),
    ] {
        let error = refusal(files);
        assert!(error.starts_with(&message), "{error}");
        assert!(
            !error.contains("hunter2") && !error.contains("aHVudGVyMg"),
            "{error}"
        );
    }
    let material = good.read().unwrap();
    assert!(!format!("{material:?}").contains("PRIVATE"));
}

#[tokio::test]
async fn new_files_are_used_and_broken_ones_leave_the_old_in_use() {
    let authority = Authority::new();
    let server = server::load(authority.files(), HTTP2).unwrap();
    let stop = CancellationToken::new();
    let (followed, stopped) = (server.clone(), stop.clone());
    let following = tokio::spawn(async move {
        followed
            .follow_every(Duration::from_millis(10), stopped, |_, _| ())
            .await;
    });
    let until = async |what: &str, holds: &dyn Fn() -> bool| {
        for _ in 0..3_000 {
            if holds() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("not in time: {what}");
    };
    let first = server.get();
    authority.put("tls.crt", "broken");
    until("the problem", &|| server.problem().is_some()).await;
    assert!(
        std::sync::Arc::ptr_eq(&first, &server.get()),
        "the last good one stays"
    );
    authority.pair("peer.jevmetrics.internal");
    until("the new pair", &|| server.problem().is_none()).await;
    assert!(!std::sync::Arc::ptr_eq(&first, &server.get()));
    stop.cancel();
    following.await.unwrap();
}
