#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn member() -> Member {
    Member {
        id: "jm-6f7d9c5b8-x2x4z-000102ff".to_owned(),
        hostname: "jm-6f7d9c5b8-x2x4z".to_owned(),
        version: "0.1.0".to_owned(),
        started_at: 1_700_000_000_000_000_000,
        last_seen: 1_700_000_010_000_000_000,
        is_this_pod: false,
        leader_locks: vec!["lease".to_owned()],
        pod: Some("jm-6f7d9c5b8-x2x4z".to_owned()),
        uid: Some("5c4b".to_owned()),
        node: None,
        epoch: Some(7),
        routing_policy: Some("3f2a".to_owned()),
        slot: Some(3),
        zone: Some("eu-1a".to_owned()),
        state: State::Serving,
        settings_digest: "af1349b9f5f9a1a6".to_owned(),
        revision: "1".to_owned(),
        policy: PolicyReport {
            state: PolicyState::Read,
            mode: Some(ModeInForce::Reduce),
            error: None,
        },
        inference: InferenceReport {
            endpoint: "https://api.typesafe.ai".to_owned(),
            model: Some("jev-1.13.0".to_owned()),
            state: InferenceState::Failing,
            reason: Some("timeout".to_owned()),
            budget: BudgetState::Enough,
            assessment_version: "0f".to_owned(),
        },
        coordination: Some(CoordinationReport {
            namespace: "monitoring/shop/3f2a".to_owned(),
            state: CoordinationState::Pending,
            reason: Some("another budget in 20 s".to_owned()),
            generation: 2,
            highest_generation: 3,
            eviction_policy: Some("noeviction".to_owned()),
        }),
        coverage: Some(0.125),
        counters: Some(Counters {
            received: u64::MAX,
            kept: 2,
            dropped: 1,
        }),
    }
}

/// A generator that needs no dependency: xorshift.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn the_document_has_the_agreed_layout() {
    let text = String::from_utf8(member().to_json()).unwrap();
    assert_eq!(
        text,
        "{\"id\":\"jm-6f7d9c5b8-x2x4z-000102ff\",\"hostname\":\"jm-6f7d9c5b8-x2x4z\",\"version\":\"0.1.0\",\
         \"startedAt\":1700000000000000000,\"lastSeen\":1700000010000000000,\"isThisPod\":false,\
         \"leaderLocks\":[\"lease\"],\"pod\":\"jm-6f7d9c5b8-x2x4z\",\"uid\":\"5c4b\",\"epoch\":7,\
         \"routingPolicy\":\"3f2a\",\"slot\":3,\"zone\":\"eu-1a\",\
         \"state\":\"Serving\",\
         \"settingsDigest\":\"af1349b9f5f9a1a6\",\"revision\":\"1\",\
         \"policy\":{\"state\":\"Read\",\"mode\":\"Reduce\"},\
         \"inference\":{\"endpoint\":\"https://api.typesafe.ai\",\"model\":\"jev-1.13.0\",\"state\":\"Failing\",\
         \"reason\":\"timeout\",\"budget\":\"Enough\",\"assessmentVersion\":\"0f\"},\
         \"coordination\":{\"namespace\":\"monitoring/shop/3f2a\",\"state\":\"Pending\",\
         \"reason\":\"another budget in 20 s\",\"generation\":2,\"highestGeneration\":3,\
         \"evictionPolicy\":\"noeviction\"},\"coverage\":0.125,\
         \"counters\":{\"received\":18446744073709551615,\"kept\":2,\"dropped\":1}}"
    );
    assert_eq!(Member::from_json(text.as_bytes()).unwrap(), member());
}

#[test]
fn documents_of_other_versions_are_read() {
    let read = Member::from_json(
        br#"{"id": "a", "seat": 3, "place": {"name": "z"}, "epoch": 9, "state": "Hibernating",
            "counters": {"lost": 3},
            "policy": {"state": "Guessing", "mode": "Sample", "generation": 4},
            "inference": {"state": "Dreaming", "coverage": 0.5}}"#,
    )
    .unwrap();
    assert_eq!(
        (read.state, read.policy.state),
        (State::Unknown, PolicyState::Unknown)
    );
    assert_eq!(read.policy.mode, Some(ModeInForce::Unknown));
    assert_eq!(read.inference.state, InferenceState::Unknown);
    assert_eq!(read.counters, Some(Counters::default()));
    let read = Member::from_json(br#"{"id": "a"}"#).unwrap();
    assert_eq!((read.pod, read.started_at, read.leader_locks.len()), (None, 0, 0));
    assert_eq!(
        (read.slot, read.zone, read.coverage, read.counters),
        (None, None, None, None),
        "unknown is not zero"
    );
    assert_eq!(read.routing_policy, None);
    // As the reference writes it.
    let seed = br#"{"id":"h-1","hostname":"h","version":"v","startedAt":1,"lastSeen":2,"isThisPod":true,"leaderLocks":["l"]}"#;
    assert!(Member::from_json(seed).unwrap().is_this_pod);
}

#[test]
fn what_is_out_of_bounds_is_refused_by_its_name_and_not_quoted() {
    let long = "x".repeat(301);
    for (json, message) in [
        ("{}".to_owned(), "heartbeat document: must be JSON"),
        ("[]".to_owned(), "heartbeat document: must be JSON"),
        (
            r#"{"id": ""}"#.to_owned(),
            "heartbeat document: id: must not be empty",
        ),
        (r#"{"id": 7}"#.to_owned(), "heartbeat document: must be JSON"),
        (
            r#"{"id": "a", "epoch": 9007199254740992}"#.to_owned(),
            "heartbeat document: epoch: must be below 2^53",
        ),
        (
            r#"{"id": "a", "coverage": 1.01}"#.to_owned(),
            "heartbeat document: coverage: must be from 0 to 1",
        ),
        (
            r#"{"id": "a", "coverage": -1e-9}"#.to_owned(),
            "heartbeat document: coverage: must be from 0 to 1",
        ),
        (
            r#"{"id": "a", "slot": 65536}"#.to_owned(),
            "heartbeat document: must be JSON",
        ),
        (
            r#"{"id": "a", "counters": {"kept": -1}}"#.to_owned(),
            "heartbeat document: must be JSON",
        ),
        (
            format!(r#"{{"id": "a", "zone": "{long}"}}"#),
            "heartbeat document: zone: is too long",
        ),
        (
            format!(r#"{{"id": "a", "routingPolicy": "{long}"}}"#),
            "heartbeat document: routingPolicy: is too long",
        ),
        (
            r#"{"id": "a", "startedAt": "hunter2"}"#.to_owned(),
            "heartbeat document: must be JSON",
        ),
        (
            format!(r#"{{"id": "{long}"}}"#),
            "heartbeat document: id: is too long",
        ),
        (
            format!(r#"{{"id": "a", "node": "{long}"}}"#),
            "heartbeat document: node: is too long",
        ),
        (
            r#"{"id": "a", "policy": {"error": "hunter2\u001b"}}"#.to_owned(),
            "heartbeat document: policy.error: must have no control characters",
        ),
        (
            format!(
                r#"{{"id": "a", "leaderLocks": [{}]}}"#,
                vec!["\"\""; 65].join(",")
            ),
            "heartbeat document: leaderLocks: must have at most 64 entries",
        ),
        (" ".repeat(MAX_BYTES + 1), "heartbeat document: has 65537 bytes"),
        ("[".repeat(MAX_BYTES), "heartbeat document: must be JSON"),
    ] {
        let error = Member::from_json(json.as_bytes()).expect_err(&json).to_string();
        assert!(error.starts_with(message), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn what_is_written_can_be_read_however_long_its_texts_are() {
    let long = "\u{1}ä\"".repeat(40_000);
    let written = Member {
        id: long.clone(),
        hostname: long.clone(),
        version: long.clone(),
        leader_locks: vec![long.clone(); 1_000],
        pod: Some(long.clone()),
        uid: Some(long.clone()),
        node: Some(long.clone()),
        routing_policy: Some(long.clone()),
        zone: Some(long.clone()),
        settings_digest: long.clone(),
        revision: long.clone(),
        policy: PolicyReport {
            error: Some(long.clone()),
            ..PolicyReport::default()
        },
        inference: InferenceReport {
            endpoint: long.clone(),
            model: Some(long.clone()),
            reason: Some(long.clone()),
            state: InferenceState::Idle,
            budget: BudgetState::TooSmall,
            assessment_version: long.clone(),
        },
        coordination: Some(CoordinationReport {
            namespace: long.clone(),
            reason: Some(long.clone()),
            eviction_policy: Some(long.clone()),
            ..CoordinationReport::default()
        }),
        ..member()
    }
    .to_json();
    assert!(written.len() <= MAX_BYTES, "{}", written.len());
    let read = Member::from_json(&written).unwrap();
    assert!(read.id.starts_with(" ä\"") && read.leader_locks.len() == MAX_LOCKS);
}

#[test]
fn no_ratio_but_one_is_written() {
    for (coverage, written) in [
        (0.0, Some(0.0)),
        (1.0, Some(1.0)),
        (1.5, None),
        (-0.5, None),
        (f64::NAN, None),
        (f64::INFINITY, None),
    ] {
        let member = Member {
            coverage: Some(coverage),
            ..member()
        };
        let read = Member::from_json(&member.to_json()).unwrap();
        assert_eq!(read.coverage, written, "{coverage}");
    }
}

/// Bytes flipped, cut, doubled and replaced in a good document, and bytes of no form at all.
#[test]
fn nonsense_never_panics() {
    let good = member().to_json();
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..=random(&mut state) % 4 {
            let length = bytes.len() as u64;
            if length == 0 {
                break;
            }
            let at = usize::try_from(random(&mut state) % length).unwrap();
            match random(&mut state) % 5 {
                0 => bytes[at] ^= 1 << (random(&mut state) % 8),
                1 => bytes.truncate(at),
                2 => bytes.insert(
                    at,
                    b"{}[]\",:\\0-e"[usize::try_from(random(&mut state) % 11).unwrap()],
                ),
                3 => {
                    bytes.remove(at);
                }
                _ => bytes.extend_from_within(at..),
            }
        }
        if let Ok(read) = Member::from_json(&bytes) {
            accepted += 1;
            assert_eq!(Member::from_json(&read.to_json()).unwrap(), read);
        }
        let noise: Vec<u8> = (0..random(&mut state) % 64)
            .map(|_| random(&mut state).to_le_bytes()[0])
            .collect();
        let _ = Member::from_json(&noise);
    }
    assert!(
        accepted > 100,
        "most changes inside texts leave a document: {accepted}"
    );
}
