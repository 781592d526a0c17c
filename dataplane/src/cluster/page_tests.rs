#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use super::super::fixtures::{NOW, member, table};
use super::super::found::{Found, Heard, Silent};
use super::super::view::Own;
use super::*;

fn own() -> Own {
    Own {
        member: member("jm-6f7d9c5b8-own-01", -60),
        beat: None,
        table: None,
        refused: None,
        read_at: Instant::now(),
    }
}

fn heard(id: &str, age: u64) -> Heard {
    let mut member = member(id, -30);
    member.last_seen = NOW - i64::try_from(age).unwrap() * 1_000_000_000;
    Heard {
        member,
        age: Duration::from_secs(age),
    }
}

fn redis() -> Source {
    Source::Redis("monitoring/shop".to_owned(), Ok(()))
}

fn shown(own: Own, source: Source, found: Found) -> String {
    let view = View::new(own, source, found);
    page(&view, view.read_at)
}

fn row_of<'a>(html: &'a str, id: &str) -> &'a str {
    let mut rows = html.split("<tr").skip(1);
    let row = rows.find(|row| row.contains(&format!("<span>{id}")));
    row.unwrap_or_else(|| panic!("no row of {id}: {html}"))
}

#[test]
fn every_text_is_escaped_whoever_wrote_it() {
    let evil = "<script>alert('x')</script>\"&";
    let mut stranger = heard("b", 1);
    let said = &mut stranger.member;
    for text in [
        &mut said.id,
        &mut said.hostname,
        &mut said.version,
        &mut said.revision,
    ] {
        evil.clone_into(text);
    }
    said.node = Some(evil.to_owned());
    said.leader_locks = vec![evil.to_owned()];
    let found = Found {
        heard: vec![stranger],
        silent: vec![Silent {
            pod: evil.to_owned(),
            slot: 1,
            reason: evil.to_owned(),
        }],
        ..Found::default()
    };
    let own = Own {
        beat: Some(evil.to_owned()),
        refused: Some(Arc::new(evil.to_owned())),
        ..own()
    };
    let html = shown(own, Source::Redis(evil.to_owned(), Err(evil.to_owned())), found);
    assert!(!html.contains("<script") && !html.contains("alert('"), "{html}");
    let times = html
        .matches("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;")
        .count();
    assert_eq!(times, 12, "each of them is there: {html}");
}

#[test]
fn this_pod_and_a_stale_one_are_marked_in_words() {
    let found = Found {
        heard: vec![heard("jm-6f7d9c5b8-own-01", 2), heard("jm-6f7d9c5b8-old-02", 20)],
        ..Found::default()
    };
    let html = shown(own(), redis(), found);
    let own = row_of(&html, "jm-6f7d9c5b8-own-01");
    assert!(
        own.contains("this pod") && own.contains("2 s ago") && !own.contains(">stale<"),
        "{own}"
    );
    let old = row_of(&html, "jm-6f7d9c5b8-old-02");
    assert!(
        old.contains(">stale<")
            && old.contains("was Serving")
            && old.contains("20 s ago")
            && !old.contains("this pod"),
        "{old}"
    );
    assert!(old.contains("14 Nov 2023 22:12:50 UTC"), "{old}");
    assert!(html.contains("<b>1</b> stale"), "{html}");
}

#[test]
fn members_of_one_revision_stand_together() {
    let host = |id: &str, hostname: &str| {
        let mut heard = heard(id, 1);
        hostname.clone_into(&mut heard.member.hostname);
        heard
    };
    let found = Found {
        heard: vec![
            host("new-1", "jm-7c-x1"),
            host("new-2", "jm-7c-x2"),
            host("old-1", "jm-6f-y1"),
        ],
        ..Found::default()
    };
    let html = shown(own(), redis(), found);
    let headings: Vec<_> = html
        .split("<h2>")
        .skip(1)
        .map(|rest| rest.split("</small>").next().unwrap())
        .collect();
    assert_eq!(
        headings,
        [
            "jm-6f7d9c5b8-own <small>1 member",
            "jm-7c <small>2 members",
            "jm-6f <small>1 member"
        ]
    );
}

#[test]
fn what_is_down_is_said() {
    let down = Source::Redis("n".to_owned(), Err("no answer in time".to_owned()));
    let own = || Own {
        beat: Some("out of memory".to_owned()),
        ..own()
    };
    let html = shown(own(), down, Found::default());
    for words in [
        "<b>Redis is down</b>",
        "no answer in time",
        "how the others are is not known",
        "out of memory",
        "data-label=\"Heartbeat\">unknown<",
    ] {
        let text = html.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(words), "{words}: {html}");
    }
    assert!(!html.contains("not in the list"), "{html}");
    let html = shown(own(), Source::Alone, Found::default());
    assert!(html.contains(ALONE) && !html.contains("is down"), "{html}");
}

#[test]
fn that_there_are_more_is_said_in_words_and_nobody_is_called_silent() {
    let own = Own {
        table: Some(Arc::new(table(7, &["gone"]))),
        ..own()
    };
    let found = Found {
        heard: vec![heard("other", 2)],
        is_cut: true,
        ..Found::default()
    };
    let html = shown(own, redis(), found);
    assert!(
        html.contains("<b>There are more</b> than are shown: a list has room for 1000 members and 2 MiB."),
        "{html}"
    );
    assert!(
        !html.contains(">silent<") && !html.contains("not in the list"),
        "{html}"
    );
    assert!(
        row_of(&html, "jm-6f7d9c5b8-own-01").contains(">unknown<"),
        "{html}"
    );
}

#[test]
fn a_process_that_nobody_else_sees_is_shown_and_not_counted_as_known() {
    let html = shown(own(), redis(), Found::default());
    assert!(row_of(&html, "jm-6f7d9c5b8-own-01").contains("not in the list"));
    assert!(html.contains("<b>0</b> known by their heartbeats"), "{html}");
    let found = Found {
        heard: vec![heard("jm-6f7d9c5b8-own-01", 2), heard("other", 2)],
        ..Found::default()
    };
    let html = shown(own(), redis(), found);
    assert!(html.contains("<b>2</b> known by their heartbeats"), "{html}");
}

#[test]
fn places_in_the_routing_table_are_shown_with_what_is_behind_or_silent() {
    let on = |id: &str, epoch| {
        let mut heard = heard(id, 1);
        heard.member.epoch = epoch;
        heard.member.node = Some("node-x".to_owned());
        heard
    };
    let mut foreign = on("foreign", Some(3));
    foreign.member.slot = Some(0);
    foreign.member.routing_policy = Some("another".to_owned());
    let own = Own {
        member: member("own", -60),
        table: Some(Arc::new(table(7, &["own", "old", "gone", "new"]))),
        ..own()
    };
    let found = Found {
        heard: vec![
            on("old", Some(6)),
            on("new", Some(8)),
            on("spare", Some(7)),
            foreign,
        ],
        ..Found::default()
    };
    let html = shown(own, redis(), found);
    assert!(html.contains("epoch <b>7</b>, slots <b>4</b>, Forward"), "{html}");
    for (id, words) in [
        (
            "own",
            &["0 <small>25.0 % of all<", "7 <small>current<", "zone zone-0"][..],
        ),
        (
            "old",
            &[
                "1 <small>25.0 % of all<",
                "6 <span",
                ">behind<",
                "on node-x, zone zone-1",
            ][..],
        ),
        (
            "new",
            &["3 <small>25.0 % of all<", "8 <span", ">ahead of this pod<"][..],
        ),
        ("spare", &["data-label=\"Slot\">–<", "7 <small>current<"][..]),
        (
            "foreign",
            &["data-label=\"Slot\">0<", "3 <span", ">another policy's<"][..],
        ),
        (
            "pod-gone",
            &[">silent<", "data-label=\"Slot\">2<", "no heartbeat"][..],
        ),
    ] {
        let row = row_of(&html, id);
        for words in words {
            assert!(row.contains(words), "{words}: {row}");
        }
    }
}

#[test]
fn what_a_silent_pod_lacks_is_said_by_the_source_that_misses_it() {
    let words = |source| {
        let own = Own {
            member: member("own", -60),
            table: Some(Arc::new(table(7, &["own", "gone"]))),
            ..own()
        };
        let silent = Silent {
            pod: "pod-gone".to_owned(),
            slot: 1,
            reason: "no connection".to_owned(),
        };
        let found = Found {
            silent: match source {
                Source::Peers => vec![silent],
                _ => Vec::new(),
            },
            ..Found::default()
        };
        let html = shown(own, source, found);
        ["no heartbeat in this Redis", "no sign of life"].map(|words| html.matches(words).count())
    };
    // In the summary and above the table.
    assert_eq!(words(redis()), [2, 0]);
    assert_eq!(words(Source::Peers), [0, 2]);
}

#[test]
fn clocks_that_differ_by_seconds_are_told() {
    let mut ahead = heard("ahead", 1);
    ahead.member.last_seen += 300_000_000_000;
    let mut near = heard("near", 1);
    near.member.last_seen += 1_000_000_000;
    let found = Found {
        heard: vec![ahead, near],
        ..Found::default()
    };
    let html = shown(own(), redis(), found);
    assert!(row_of(&html, "ahead").contains("clock 5 min ahead"), "{html}");
    assert!(!row_of(&html, "near").contains("clock"), "{html}");
}

#[test]
fn the_page_needs_nothing_but_itself() {
    let html = shown(own(), redis(), Found::default());
    for needed in [
        "<meta http-equiv=\"refresh\" content=\"10\">",
        "name=\"viewport\"",
        "prefers-color-scheme:dark",
    ] {
        assert!(html.contains(needed), "{needed}");
    }
    for foreign in ["<script", "src=", "@import", "url(", "http://", "https://"] {
        assert!(!html.contains(foreign), "{foreign}");
    }
    let open = html.matches("<td ").count();
    assert_eq!((open, html.matches("</td>").count()), (9, 9));
}

#[test]
fn times_are_in_the_largest_unit_that_says_something() {
    for (seconds, text) in [
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7_199, "119 min"),
        (7_200, "2 h"),
        (172_800, "2 days"),
    ] {
        assert_eq!(span(Duration::from_secs(seconds)), text);
    }
    assert_eq!(moment(NOW), "14 Nov 2023 22:13:20 UTC");
    for never in [0, -1, i64::MIN] {
        assert_eq!(moment(never), "–");
    }
    assert_eq!(moment(i64::MAX), "11 Apr 2262 23:47:16 UTC");
}
