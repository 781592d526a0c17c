//! The list as a page for people: `/cluster`.
//!
//! Invariants: complete without a script and without any other file; every text is escaped, whoever wrote it; what is down
//! or missing is in the page as words, not as an absence or a colour alone.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use jevmetrics_api::hostname::pod_id_from_hostname;
use jevmetrics_api::member::State;
use tokio::time::Instant;

use super::document::ALONE;
use super::view::{Row, Source, Standing, View};
use crate::coordinate::presence::{MOST, MOST_BYTES};

/// The page asks for itself anew after this; heartbeats come as often.
const REFRESH_SECONDS: u32 = 10;
/// Clocks that differ by more are worth a word. Below lies what a call takes.
const OFFSET: i64 = 3;
/// Locks that are listed for a member; the document has more.
const LOCKS: usize = 8;

/// The columns of the tables.
const COLUMNS: [&str; 8] = [
    "Member",
    "State",
    "Slot",
    "Epoch",
    "Version",
    "Revision",
    "Started",
    "Heartbeat",
];

/// `view` as it is at `now`.
pub(crate) fn page(view: &View, now: Instant) -> String {
    let elapsed = view.elapsed(now);
    let mut html = String::with_capacity(4096 + 1024 * view.rows.len());
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"refresh\" content=\"{REFRESH_SECONDS}\">\n\
         <title>Members</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n<h1>Members</h1>\n",
        include_str!("page.css")
    );
    summary(&mut html, view, elapsed);
    for (pod, rows) in groups(view) {
        let count = rows.len();
        let _ = write!(
            html,
            "<h2>{} <small>{count} {}</small></h2>\n<table>\n<thead><tr>",
            escaped(if pod.is_empty() { "no name" } else { pod }),
            if count == 1 { "member" } else { "members" },
        );
        for column in COLUMNS.iter().chain(["Held locks"].iter()) {
            let _ = write!(html, "<th scope=\"col\">{column}</th>");
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for row in rows {
            member(&mut html, view, row, elapsed);
        }
        html.push_str("</tbody>\n</table>\n");
    }
    silent(&mut html, view);
    let _ = write!(
        html,
        "<p class=\"dim\">Read at {}, shown anew every {REFRESH_SECONDS} s. As JSON: \
         <a href=\"/api/admin/cluster\">/api/admin/cluster</a>.</p>\n</main>\n</body>\n</html>\n",
        moment(view.unix_nanos)
    );
    html
}

/// By pod id, in the order of the oldest member of each.
fn groups(view: &View) -> Vec<(&str, Vec<&Row>)> {
    let mut groups: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in &view.rows {
        let pod = pod_id_from_hostname(&row.member.hostname);
        match groups.iter_mut().find(|(name, _)| *name == pod) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((pod, vec![row])),
        }
    }
    groups
}

fn summary(html: &mut String, view: &View, elapsed: Duration) {
    let stale = view.rows.iter().filter(|row| row.is_stale(elapsed)).count();
    let mut note = |class: &str, text: String| {
        let _ = writeln!(html, "<p class=\"note {class}\">{text}</p>");
    };
    // This process is a row even if nobody else sees it.
    let known = view.rows.iter().filter(|row| row.age.is_some()).count();
    match &view.source {
        Source::Redis(namespace, Ok(())) => note(
            "good",
            format!(
                "<b>{known}</b> known by their heartbeats in Redis, namespace <code>{}</code>.",
                escaped(namespace)
            ),
        ),
        Source::Redis(namespace, Err(reason)) => note(
            "bad",
            format!(
                "<b>Redis is down</b> for heartbeats in namespace <code>{}</code>: {}. Only this process is shown; how the \
                 others are is not known.",
                escaped(namespace),
                escaped(reason)
            ),
        ),
        Source::Peers => note(
            "good",
            format!("<b>{known}</b> known by asking the pods of the routing table."),
        ),
        Source::Alone => note("", format!("Only this process: {ALONE}.")),
    }
    if let Some(reason) = &view.beat {
        let reason = escaped(reason);
        note(
            "bad",
            format!(
                "<b>The heartbeat of this process is not written</b>: {reason}. The others do not see it."
            ),
        );
    }
    if stale > 0 {
        note("warn", format!("<b>{stale}</b> stale: a heartbeat is missing."));
    }
    if !view.silent.is_empty() {
        let silent = view.silent.len();
        note(
            "bad",
            format!(
                "<b>{silent}</b> of the routing table: {}, see below.",
                missing(&view.source)
            ),
        );
    }
    if view.is_cut {
        note(
            "warn",
            format!(
                "<b>There are more</b> than are shown: a list has room for {MOST} members and {} MiB. Who is silent is not \
                 known.",
                MOST_BYTES >> 20
            ),
        );
    }
    if view.unreadable > 0 {
        let unreadable = view.unreadable;
        note(
            "warn",
            format!("<b>{unreadable}</b> left out: what they wrote makes no sense."),
        );
    }
    if let Some(table) = &view.table {
        let (epoch, slots) = (table.epoch(), table.owners().len());
        let affinity = table.header().affinity.name();
        note(
            "",
            format!("Routing table of this process: epoch <b>{epoch}</b>, slots <b>{slots}</b>, {affinity}."),
        );
    }
    if let Some(refused) = &view.refused {
        let refused = escaped(refused);
        note(
            "bad",
            format!("<b>What the live object says of routing is not in force</b>: {refused}"),
        );
    }
}

fn member(html: &mut String, view: &View, row: &Row, elapsed: Duration) {
    let said = &row.member;
    let is_stale = row.is_stale(elapsed);
    let class = match (said.is_this_pod, is_stale) {
        (true, _) => " class=\"own\"",
        (_, true) => " class=\"stale\"",
        _ => "",
    };
    let _ = write!(html, "<tr{class}>");
    let mut name = format!("<span>{}", escaped(&said.id));
    let places: Vec<String> = [("on", said.node.as_ref()), ("zone", said.zone.as_ref())]
        .into_iter()
        .filter_map(|(kind, place)| Some(format!("{kind} {}", escaped(place?))))
        .collect();
    if !places.is_empty() {
        let _ = write!(name, "<small>{}</small>", places.join(", "));
    }
    if said.is_this_pod {
        name.push_str("<span class=\"mark good\">this pod</span>");
    }
    name.push_str("</span>");
    let heartbeat = match (row.age_after(elapsed), &view.source) {
        (Some(age), _) => format!("{} ago", span(age)),
        (None, Source::Redis(_, Err(_))) => "unknown".to_owned(),
        (None, _) if view.is_cut => "unknown".to_owned(),
        (None, _) => "not in the list".to_owned(),
    };
    let offset = row.clock_offset(view).filter(|offset| offset.abs() >= OFFSET);
    let heartbeat = match offset {
        None => heartbeat,
        Some(offset) => {
            let by = span(Duration::from_secs(offset.unsigned_abs()));
            let way = if offset > 0 { "ahead" } else { "behind" };
            format!("<span>{heartbeat} <span class=\"mark warn\">clock {by} {way}</span></span>")
        }
    };
    let cells = [
        name,
        state(said.state, is_stale),
        slot(view, row),
        epoch(view, row),
        escaped(&said.version),
        escaped(&said.revision),
        moment(said.started_at),
        heartbeat,
    ];
    for (column, cell) in COLUMNS.iter().zip(cells) {
        let _ = write!(html, "<td data-label=\"{column}\">{cell}</td>");
    }
    let _ = writeln!(
        html,
        "<td data-label=\"Held locks\">{}</td></tr>",
        locks(&said.leader_locks)
    );
}

/// The slot and the part of all resources that it owns.
fn slot(view: &View, row: &Row) -> String {
    match (row.member.slot, row.share(view)) {
        (None, _) => "–".to_owned(),
        (Some(slot), None) => slot.to_string(),
        (Some(slot), Some(share)) => {
            format!("<span>{slot} <small>{:.1} % of all</small></span>", share * 100.0)
        }
    }
}

fn epoch(view: &View, row: &Row) -> String {
    let epoch = row.member.epoch.map_or("–".to_owned(), |epoch| epoch.to_string());
    let mark = match row.standing(view) {
        None => return epoch,
        Some(Standing::Current) => "<small>current</small>",
        Some(Standing::Behind) => "<span class=\"mark warn\">behind</span>",
        Some(Standing::Ahead) => "<span class=\"mark warn\">ahead of this pod</span>",
        Some(Standing::Other) => "<span class=\"mark\">another policy's</span>",
    };
    format!("<span>{epoch} {mark}</span>")
}

/// What a stale one said last may be true no more.
fn state(state: State, is_stale: bool) -> String {
    let (class, name) = match state {
        State::Starting => ("", "Starting"),
        State::Serving => ("good", "Serving"),
        State::Draining => ("warn", "Draining"),
        State::Unknown => ("warn", "Unknown"),
    };
    if is_stale {
        format!("<span><span class=\"mark bad\">stale</span> <small>was {name}</small></span>")
    } else {
        format!("<span><span class=\"mark {class}\">{name}</span></span>")
    }
}

fn locks(locks: &[String]) -> String {
    let mut text = format!("<span>{}", locks.len());
    for lock in locks.iter().take(LOCKS) {
        let _ = write!(text, "<br><code>{}</code>", escaped(lock));
    }
    if locks.len() > LOCKS {
        text.push_str("<br>…");
    }
    text.push_str("</span>");
    text
}

fn silent(html: &mut String, view: &View) {
    if view.silent.is_empty() {
        return;
    }
    let _ = write!(
        html,
        "<h2>Silent <small>in the routing table, but {}</small></h2>\n<table>\n<thead><tr>\
         <th scope=\"col\">Pod</th><th scope=\"col\">Slot</th><th scope=\"col\">Why</th></tr></thead>\n<tbody>\n",
        missing(&view.source)
    );
    for silent in &view.silent {
        let _ = writeln!(
            html,
            "<tr class=\"stale\"><td data-label=\"Pod\"><span>{} <span class=\"mark bad\">silent</span></span></td>\
             <td data-label=\"Slot\">{}</td><td data-label=\"Why\">{}</td></tr>",
            escaped(&silent.pod),
            silent.slot,
            escaped(&silent.reason)
        );
    }
    html.push_str("</tbody>\n</table>\n");
}

/// What there is not of a silent pod. One that has no heartbeat in Redis may serve all the same: of a revision without
/// coordination, or before its next heartbeat to a server that came back empty.
fn missing(source: &Source) -> &'static str {
    match source {
        Source::Redis(..) => "no heartbeat in this Redis",
        Source::Peers | Source::Alone => "no sign of life",
    }
}

/// A length of time in its largest unit.
fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// Unix nanoseconds as date and time; what lies before 1970 was never set.
fn moment(unix_nanos: i64) -> String {
    let since = u64::try_from(unix_nanos).ok().map(Duration::from_nanos);
    match since.and_then(|since| UNIX_EPOCH.checked_add(since)) {
        // "Sun, 06 Nov 1994 08:49:37 GMT": day of the week and zone are left out.
        Some(time) if unix_nanos > 0 => {
            let text = httpdate::fmt_http_date(time);
            let date = text.get(5..25).unwrap_or_default();
            format!("{date} UTC")
        }
        _ => "–".to_owned(),
    }
}

/// Fit for the content of elements and for attributes in double quotes.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
