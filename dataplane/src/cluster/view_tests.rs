#![allow(clippy::unwrap_used)]

use super::super::fixtures::{NOW, member, table, table_with};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn heard(id: &str, started: i64, age: u64) -> Heard {
    Heard {
        member: member(id, started),
        age: Duration::from_secs(age),
    }
}

fn own(id: &str, started: i64) -> Own {
    Own {
        member: member(id, started),
        beat: None,
        table: None,
        refused: None,
        read_at: Instant::now(),
    }
}

fn redis() -> Source {
    Source::Redis("n".to_owned(), Ok(()))
}

fn found(heard: Vec<Heard>) -> Found {
    Found {
        heard,
        ..Found::default()
    }
}

fn ids(view: &View) -> Vec<&str> {
    view.rows.iter().map(|row| row.member.id.as_str()).collect()
}

#[test]
fn the_oldest_comes_first_whatever_the_order_of_the_source() {
    let all = || {
        vec![
            heard("c", 5, 1),
            heard("b", 5, 2),
            heard("a", 9, 3),
            heard("d", 1, 4),
        ]
    };
    let view = View::new(own("b", 5), redis(), found(all()));
    assert_eq!(ids(&view), ["d", "b", "c", "a"]);
    let mut turned = all();
    turned.reverse();
    assert_eq!(ids(&View::new(own("b", 5), redis(), found(turned))), ids(&view));
}

#[test]
fn the_same_host_twice_is_two_members_and_the_same_id_twice_is_one() {
    let mut twin = heard("host-2", 2, 1);
    twin.member.hostname = "host".to_owned();
    let view = View::new(
        own("host-1", 1),
        redis(),
        found(vec![heard("host-1", 1, 1), twin, heard("host-2", 2, 1)]),
    );
    assert_eq!(ids(&view), ["host-1", "host-2"]);
}

#[test]
fn this_process_is_marked_and_nobody_else_whatever_he_says() {
    let mut liar = heard("b", 1, 1);
    liar.member.is_this_pod = true;
    let view = View::new(own("a", 2), redis(), found(vec![liar]));
    let marks: Vec<_> = view.rows.iter().map(|row| row.member.is_this_pod).collect();
    assert_eq!((ids(&view), marks), (vec!["b", "a"], vec![false, true]));
    assert_eq!(view.rows[1].age, None, "nobody else sees it");
}

#[test]
fn a_missed_heartbeat_is_stale_by_the_readers_reckoning() {
    let view = View::new(
        own("a", 1),
        redis(),
        found(vec![heard("a", 1, 20), heard("b", 2, 15), heard("c", 3, 16)]),
    );
    let stale = |after| -> Vec<_> { view.rows.iter().map(|row| row.is_stale(after)).collect() };
    assert_eq!(stale(Duration::ZERO), [false, false, true]);
    assert_eq!(
        stale(SECOND),
        [false, true, true],
        "a list ages while it is looked at"
    );
}

#[test]
fn clocks_that_differ_are_told_and_change_nothing_else() {
    let mut ahead = heard("b", 1, 3);
    ahead.member.last_seen = NOW + 297_000_000_000;
    let mut behind = heard("c", 2, 3);
    behind.member.last_seen = i64::MIN;
    let view = View::new(own("a", 3), redis(), found(vec![ahead, behind]));
    assert_eq!(view.rows[0].clock_offset(&view), Some(300));
    assert!(
        view.rows[1]
            .clock_offset(&view)
            .is_some_and(|offset| offset < -1_000_000)
    );
    assert_eq!(view.rows[2].clock_offset(&view), None);
    assert!(view.rows.iter().all(|row| !row.is_stale(Duration::ZERO)));
}

#[test]
fn slots_and_zones_are_those_of_the_pods_of_the_table() {
    let view = View::new(
        Own {
            table: Some(Arc::new(table(7, &["b", "a"]))),
            ..own("a", 1)
        },
        redis(),
        found(vec![heard("b", 2, 1), heard("c", 3, 1)]),
    );
    let seats: Vec<_> = view
        .rows
        .iter()
        .map(|row| (row.member.slot, row.member.zone.as_deref()))
        .collect();
    assert_eq!(
        seats,
        [(Some(1), Some("zone-1")), (Some(0), Some("zone-0")), (None, None)]
    );
    assert_eq!((view.epoch(), view.share()), (Some(7), Some(0.5)));
}

#[test]
fn the_slot_that_a_pod_says_itself_counts_and_takes_nobody_out_of_the_table() {
    let mut moved = heard("b", 2, 1);
    (moved.member.slot, moved.member.zone) = (Some(2), Some("far".to_owned()));
    let mut own = own("a", 1);
    own.table = Some(Arc::new(table(7, &["b", "a", "c"])));
    // What this process said before it had this table.
    (own.member.slot, own.member.zone) = (Some(9), Some("former".to_owned()));
    let view = View::new(own, redis(), found(vec![moved]));
    let seats: Vec<_> = view
        .rows
        .iter()
        .map(|row| (row.member.slot, row.member.zone.as_deref()))
        .collect();
    assert_eq!(seats, [(Some(1), Some("zone-1")), (Some(2), Some("far"))]);
    let silent: Vec<_> = view.silent.iter().map(|silent| silent.pod.as_str()).collect();
    assert_eq!(silent, ["pod-c"]);
}

#[test]
fn where_pods_are_not_told_their_uids_nobody_is_missed() {
    let mut own = own("a", 1);
    own.member.uid = None;
    own.table = Some(Arc::new(table(7, &["a", "b"])));
    let mut other = heard("b", 2, 1);
    other.member.uid = None;
    let view = View::new(own, redis(), found(vec![other]));
    assert_eq!((ids(&view), view.silent.len()), (vec!["a", "b"], 0));
}

#[test]
fn only_where_a_table_is_routed_by_there_are_shares() {
    for (affinity, share) in [
        (Affinity::Forward, Some(0.25)),
        (Affinity::Upstream, None),
        (Affinity::None, None),
    ] {
        let table = table_with(1, affinity, &["a", "b", "c", "d"]);
        let own = Own {
            table: Some(Arc::new(table)),
            ..own("a", 1)
        };
        assert_eq!(View::new(own, Source::Peers, found(Vec::new())).share(), share);
    }
    assert_eq!(View::new(own("a", 1), redis(), found(Vec::new())).share(), None);
}

#[test]
fn epochs_are_compared_with_that_of_this_process() {
    let on = |id: &str, epoch| {
        let mut heard = heard(id, 2, 1);
        heard.member.epoch = epoch;
        heard
    };
    let others = || {
        vec![
            on("b", Some(6)),
            on("c", Some(7)),
            on("d", Some(8)),
            on("e", None),
        ]
    };
    let standings = |own| -> Vec<_> {
        let view = View::new(own, redis(), found(others()));
        view.rows.iter().map(|row| row.standing(&view)).collect()
    };
    let with_table = Own {
        table: Some(Arc::new(table(7, &["a"]))),
        ..own("a", 1)
    };
    assert_eq!(
        standings(with_table),
        [
            Standing::Current,
            Standing::Behind,
            Standing::Current,
            Standing::Ahead,
            Standing::Behind
        ]
        .map(Some)
    );
    assert_eq!(standings(own("a", 1)), [None; 5]);
}

#[test]
fn the_table_of_another_policy_is_neither_behind_nor_shared_with_this_one() {
    let on = |id: &str, policy: Option<&str>, slot| {
        let mut heard = heard(id, 2, 1);
        (heard.member.epoch, heard.member.slot) = (Some(3), slot);
        heard.member.routing_policy = policy.map(str::to_owned);
        heard
    };
    let with_table = Own {
        table: Some(Arc::new(table(7, &["a", "b", "d"]))),
        ..own("a", 1)
    };
    let others = vec![
        on("b", Some("uid-of-the-policy"), Some(1)),
        on("c", Some("another"), Some(0)),
        // Before it was in the table of its own policy.
        on("d", Some("another"), None),
        // Of a version that does not say it.
        on("e", None, None),
    ];
    let view = View::new(with_table, redis(), found(others));
    let rows: Vec<_> = view
        .rows
        .iter()
        .map(|row| {
            (
                row.standing(&view).unwrap(),
                row.member.slot,
                row.share(&view).is_some(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            (Standing::Current, Some(0), true),
            (Standing::Behind, Some(1), true),
            (Standing::Other, Some(0), false),
            (Standing::Other, None, false),
            (Standing::Behind, None, false),
        ]
    );
    let said = view.rows[0].member.routing_policy.as_deref();
    assert_eq!(
        said,
        Some("uid-of-the-policy"),
        "of the table that it is shown with"
    );
}

#[test]
fn a_process_without_a_table_compares_with_nobody() {
    let mut other = heard("b", 2, 1);
    other.member.routing_policy = Some("another".to_owned());
    let mut own = own("a", 1);
    // What it said before it looked again.
    own.member.routing_policy = Some("former".to_owned());
    let view = View::new(own, redis(), found(vec![other]));
    assert_eq!(view.rows[1].standing(&view), None);
    assert_eq!(view.rows[0].member.routing_policy, None);
}

#[test]
fn a_pod_of_the_table_without_a_heartbeat_is_silent_if_the_list_can_be_read() {
    let silent = |source| -> Vec<_> {
        let own = Own {
            table: Some(Arc::new(table(7, &["a", "b", "c"]))),
            ..own("a", 1)
        };
        let view = View::new(own, source, found(vec![heard("c", 2, 20)]));
        view.silent.into_iter().map(|silent| silent.pod).collect()
    };
    assert_eq!(silent(redis()), ["pod-b"], "a stale one is still there");
    let down = Source::Redis("n".to_owned(), Err("no answer in time".to_owned()));
    assert_eq!(silent(down), [""; 0], "unknown is unknown");
    assert_eq!(
        silent(Source::Peers),
        [""; 0],
        "who was asked has answered or not"
    );
}

#[test]
fn who_is_not_told_by_a_list_that_is_cut_is_not_called_silent_and_not_counted_as_such() {
    let own = Own {
        table: Some(Arc::new(table(7, &["a", "b", "c"]))),
        ..own("a", 1)
    };
    let found = Found {
        heard: vec![heard("b", 2, 1)],
        is_cut: true,
        ..Found::default()
    };
    let view = View::new(own, redis(), found);
    assert_eq!((ids(&view), view.silent.len()), (vec!["a", "b"], 0));
    let counts = view.counts().unwrap();
    assert!(counts.contains(&("serving", Some(2))), "{counts:?}");
    assert!(counts.contains(&("silent", None)), "{counts:?}");
}

#[test]
fn members_are_counted_once_and_not_at_all_if_the_source_is_down() {
    let mut draining = heard("b", 2, 1);
    draining.member.state = State::Draining;
    let mut found = found(vec![draining, heard("c", 3, 16), heard("d", 4, 1)]);
    found.silent.push(Silent {
        pod: "p".to_owned(),
        slot: 3,
        reason: "no answer".to_owned(),
    });
    let view = View::new(own("a", 1), redis(), found);
    assert_eq!(
        view.counts(),
        Some([
            ("starting", Some(0)),
            ("serving", Some(2)),
            ("draining", Some(1)),
            ("unknown", Some(0)),
            ("stale", Some(1)),
            ("silent", Some(1))
        ])
    );
    let down = Source::Redis("n".to_owned(), Err("no answer in time".to_owned()));
    let view = View::new(own("a", 1), down, Found::default());
    assert_eq!((ids(&view), view.counts()), (vec!["a"], None));
}
