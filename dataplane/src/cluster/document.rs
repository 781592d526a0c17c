//! The list as JSON: what `/api/admin/cluster` answers.

use jevmetrics_api::member::Member;
use serde::Serialize;
use tokio::time::Instant;

use super::view::{Source, Standing, View};

/// See the head of the module.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document<'a> {
    members: Vec<MemberRow<'a>>,
    self_id: &'a str,
    source: SourceRow<'a>,
    /// Why the heartbeat of this process is not written.
    #[serde(skip_serializing_if = "Option::is_none")]
    heartbeat_error: Option<&'a str>,
    /// Pods of the routing table that the source misses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    silent: Vec<SilentRow<'a>>,
    /// Heartbeats that make no sense, left out.
    unreadable: usize,
    /// Whether there are more members than the list has room for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_cut: bool,
    /// The routing table of this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    routing: Option<RoutingRow>,
    /// Why what the live object holds now is not that table.
    #[serde(skip_serializing_if = "Option::is_none")]
    routing_error: Option<&'a str>,
}

#[derive(Serialize)]
struct RoutingRow {
    epoch: u64,
    slots: usize,
    affinity: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MemberRow<'a> {
    /// Among its fields are the epoch of the table that it is on, and its slot.
    #[serde(flatten)]
    member: &'a Member,
    /// By the clock of the source; null if nobody else sees this process, or if the source is down.
    heartbeat_age_seconds: Option<u64>,
    is_stale: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_offset_seconds: Option<i64>,
    /// Part of all resources that it owns, if they are routed by the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot_share: Option<f64>,
    /// Beside the table of this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch_standing: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SourceRow<'a> {
    kind: &'static str,
    works: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct SilentRow<'a> {
    pod: &'a str,
    slot: u16,
    reason: &'a str,
}

/// What is known of `view` at `now`.
pub(crate) fn document(view: &View, now: Instant) -> Document<'_> {
    let elapsed = view.elapsed(now);
    let members = view.rows.iter().map(|row| MemberRow {
        member: &row.member,
        heartbeat_age_seconds: row.age_after(elapsed).map(|age| age.as_secs()),
        is_stale: row.is_stale(elapsed),
        clock_offset_seconds: row.clock_offset(view),
        slot_share: row.share(view),
        epoch_standing: row.standing(view).map(name),
    });
    let silent = view.silent.iter().map(|silent| SilentRow {
        pod: &silent.pod,
        slot: silent.slot,
        reason: &silent.reason,
    });
    Document {
        members: members.collect(),
        self_id: &view.self_id,
        source: source(&view.source),
        heartbeat_error: view.beat.as_deref(),
        silent: silent.collect(),
        unreadable: view.unreadable,
        is_cut: view.is_cut,
        routing: view.table.as_ref().map(|table| RoutingRow {
            epoch: table.epoch(),
            slots: table.owners().len(),
            affinity: table.header().affinity.name(),
        }),
        routing_error: view.refused.as_ref().map(|refused| refused.as_str()),
    }
}

fn name(standing: Standing) -> &'static str {
    match standing {
        Standing::Current => "Current",
        Standing::Behind => "Behind",
        Standing::Ahead => "Ahead",
        Standing::Other => "OtherPolicy",
    }
}

fn source(source: &Source) -> SourceRow<'_> {
    let (kind, state) = match source {
        Source::Redis(_, state) => ("redis", state.as_ref().err().map(String::as_str)),
        Source::Peers => ("peers", None),
        Source::Alone => {
            return SourceRow {
                kind: "alone",
                works: true,
                reason: Some(ALONE),
            };
        }
    };
    SourceRow {
        kind,
        works: state.is_none(),
        reason: state,
    }
}

/// Why there is nobody else.
pub(super) const ALONE: &str =
    "no Redis is configured and no routing table was read: nobody else can be known";

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::super::fixtures::{member, table};
    use super::super::found::{Found, Heard};
    use super::super::view::Own;
    use super::*;

    fn read(source: Source, found: Found) -> Value {
        let view = View::new(
            Own {
                member: member("own", 1),
                beat: None,
                table: Some(Arc::new(table(7, &["other", "gone"]))),
                refused: Some(Arc::new("why".to_owned())),
                read_at: Instant::now(),
            },
            source,
            found,
        );
        let at = view.read_at + Duration::from_secs(2);
        serde_json::to_value(document(&view, at)).unwrap()
    }

    #[test]
    fn members_have_the_fields_of_their_documents_and_what_the_reader_adds() {
        let mut other = member("other", 2);
        other.leader_locks = vec!["lock".to_owned()];
        other.epoch = Some(6);
        let mut foreign = member("foreign", 3);
        foreign.routing_policy = Some("another".to_owned());
        foreign.epoch = Some(3);
        let said = |member, age| Heard {
            member,
            age: Duration::from_secs(age),
        };
        let found = Found {
            heard: vec![said(other, 14), said(foreign, 1)],
            unreadable: 1,
            ..Found::default()
        };
        let read = read(Source::Redis("n".to_owned(), Ok(())), found);
        assert_eq!(
            (&read["selfId"], &read["source"], &read["unreadable"]),
            (&json!("own"), &json!({"kind": "redis", "works": true}), &json!(1))
        );
        let [own, other, foreign] = read["members"].as_array().unwrap().as_slice() else {
            panic!("{read}");
        };
        assert_eq!((&own["id"], &own["isThisPod"]), (&json!("own"), &json!(true)));
        assert_eq!(own["heartbeatAgeSeconds"], Value::Null);
        assert_eq!(
            (&own["epoch"], &own["epochStanding"], own.get("slotShare")),
            (&json!(7), &json!("Current"), None)
        );
        assert_eq!(
            (&read["routing"], &read["routingError"]),
            (
                &json!({"epoch": 7, "slots": 2, "affinity": "Forward"}),
                &json!("why")
            )
        );
        assert_eq!(
            read["silent"],
            json!([{"pod": "pod-gone", "slot": 1, "reason": "no heartbeat"}])
        );
        for (field, value) in [
            ("id", json!("other")),
            ("isThisPod", json!(false)),
            ("leaderLocks", json!(["lock"])),
            ("heartbeatAgeSeconds", json!(16)),
            ("isStale", json!(true)),
            ("state", json!("Serving")),
            ("epoch", json!(6)),
            ("epochStanding", json!("Behind")),
            ("slot", json!(0)),
            ("slotShare", json!(0.5)),
            ("zone", json!("zone-0")),
        ] {
            assert_eq!(other[field], value, "{field}");
        }
        assert_eq!(
            (
                &foreign["routingPolicy"],
                &foreign["epochStanding"],
                foreign.get("slotShare")
            ),
            (&json!("another"), &json!("OtherPolicy"), None)
        );
    }

    #[test]
    fn a_list_that_is_cut_says_so_and_calls_nobody_silent() {
        for is_cut in [false, true] {
            let found = Found {
                is_cut,
                ..Found::default()
            };
            let read = read(Source::Redis("n".to_owned(), Ok(())), found);
            let silent = read.get("silent").map(|silent| silent.as_array().unwrap().len());
            let expected = if is_cut {
                (Some(&json!(true)), None)
            } else {
                (None, Some(2))
            };
            assert_eq!((read.get("isCut"), silent), expected, "{read}");
        }
    }

    #[test]
    fn a_source_that_is_down_or_not_there_says_why() {
        let down = Source::Redis("n".to_owned(), Err("no answer in time".to_owned()));
        let down = read(down, Found::default());
        let expected = json!({"kind": "redis", "works": false, "reason": "no answer in time"});
        assert_eq!(down["source"], expected);
        let alone = read(Source::Alone, Found::default());
        assert_eq!(
            (&alone["source"]["works"], &alone["source"]["reason"]),
            (&json!(true), &json!(ALONE))
        );
    }
}
