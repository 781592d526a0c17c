//! Members as a person sees them: in tables of kubectl, in the status, on the page of each pod.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use jevmetrics_api::policy::{
    EpochReached, HeartbeatAge, JevMetricsPolicyStatus, MemberStatus, MembershipState, RoutingAffinity,
    RoutingStatus,
};
use jevmetrics_testkit::node::NODE;
use jevmetrics_testkit::poll;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::pods::is_ready;
use crate::site::{POLICY, Place, WITHIN};
use crate::traffic::Load;
use crate::watch::Watch;

/// Prints a line for each member; as `docs/operator.md` has it.
const LINES: &str =
    r#"jsonpath={range .status.members[*]}{.slot}{"\t"}{.pod}{"\t"}{.state}{"\t"}{.epoch}{"\n"}{end}"#;
/// The port of the pages, on loopback in the pod.
const ADMIN: u16 = 9465;

/// What the status says when all has come to rest.
struct Members {
    routing: RoutingStatus,
    members: Vec<MemberStatus>,
}

impl Members {
    fn slots(&self) -> BTreeMap<&str, i32> {
        slots(&self.members)
    }
}

/// Who owns which slot.
fn slots(members: &[MemberStatus]) -> BTreeMap<&str, i32> {
    let owners = members
        .iter()
        .filter_map(|member| Some((member.pod.as_str(), member.slot?)));
    owners.collect()
}

/// *Scenario*: under steady load three pods become five, then two; then `revision` is raised. The tables of kubectl, the
/// status and the page of each pod are read on the way.
/// *Guarantees*: at the end of each step every ready pod is a member with a slot of its own, and all know it; who stays keeps
/// its slot; the epoch never falls, and one epoch is one table; all that is read agrees with the pods; every point arrives,
/// and no sender has to give one up.
#[tokio::test]
async fn members_can_be_watched_while_pods_come_and_go() {
    let place = Place::new("members").await;
    let zone = "topology.kubernetes.io/zone=zone-a";
    let label = ["label", "node", NODE, zone, "--overwrite"];
    place.node.plane().kubectl(&label).await.unwrap();
    let mut spec = place.spec(3);
    // The times that users have.
    spec.as_object_mut().unwrap().remove("routing");
    place.apply(&spec).await;
    let watch = Watch::start(&place);
    place.rolled_out().await;
    let load = Load::start(&place).await;

    let three = step(&place, 3, "1").await;
    scale(&place, 5).await;
    let five = step(&place, 5, "1").await;
    for (pod, slot) in three.slots() {
        assert_eq!(five.slots().get(pod), Some(&slot), "{pod} has kept its slot");
    }
    assert!(five.routing.epoch > three.routing.epoch);

    scale(&place, 2).await;
    let two = step(&place, 2, "1").await;
    for (pod, slot) in two.slots() {
        assert_eq!(five.slots().get(pod), Some(&slot), "{pod} has kept its slot");
    }
    assert!(two.routing.epoch > five.routing.epoch);

    let patch = json!({"spec": {"revision": "2"}}).to_string();
    place
        .kubectl(&["patch", "jmp", POLICY, "--type=merge", "-p", &patch])
        .await;
    place.rolled_out().await;
    let rolled = step(&place, 2, "2").await;
    for pod in rolled.slots().keys() {
        assert!(!two.slots().contains_key(pod), "{pod} is new");
    }
    assert!(rolled.routing.epoch > two.routing.epoch);

    load.delivered("members that come and go").await;
    holds_all_the_while(&watch.end().await);
}

/// As a person does.
async fn scale(place: &Place, replicas: usize) {
    let began = Instant::now();
    let resource = format!("jmp/{POLICY}");
    place
        .kubectl(&["scale", &resource, &format!("--replicas={replicas}")])
        .await;
    let members = format!("--for=jsonpath={{.status.routing.members}}={replicas}");
    place
        .kubectl(&["wait", &members, "--timeout=5m", &resource])
        .await;
    place
        .kubectl(&[
            "wait",
            "--for=condition=RoutingConverged",
            "--timeout=5m",
            &resource,
        ])
        .await;
    println!(
        "{replicas} members, and all know it: {:.0} s",
        began.elapsed().as_secs_f64()
    );
}

/// Waits until `replicas` pods are all that there is, and holds everything that can be read against them.
async fn step(place: &Place, replicas: usize, revision: &str) -> Members {
    let found = gathered(place, replicas).await;
    let share = format!("1/{replicas}");
    for member in &found.members {
        assert_eq!(member.node.as_deref(), Some(NODE), "{member:?}");
        assert_eq!(member.zone.as_deref(), Some("zone-a"), "{member:?}");
        assert_eq!(
            member.version.as_deref(),
            Some(env!("CARGO_PKG_VERSION")),
            "{member:?}"
        );
        assert_eq!(member.revision.as_deref(), Some(revision), "{member:?}");
        assert_eq!(member.share.as_deref(), Some(share.as_str()), "{member:?}");
    }
    let slots: BTreeSet<i32> = found.slots().into_values().collect();
    assert_eq!(slots.len(), replicas, "each slot once: {:?}", found.members);
    let routing = &found.routing;
    assert_eq!(routing.affinity, RoutingAffinity::Forward);
    assert!(
        routing.last_change.is_some() && routing.last_change_time.is_some(),
        "{routing:?}"
    );
    tables_show(place, &found, replicas, revision).await;
    pages_show(place, &found).await;
    found
}

/// Waits until the status has `replicas` members, all of them active and heard, which are the ready pods.
async fn gathered(place: &Place, replicas: usize) -> Members {
    let all = format!("{replicas}/{replicas}");
    let look = async || {
        let policy = place
            .policies
            .get(POLICY)
            .await
            .map_err(|error| error.to_string())?;
        let status = policy.status.unwrap_or_default();
        let seen = format!("{status:#?}");
        let is_of_the_present = status.observed_generation == policy.metadata.generation;
        let has_converged = status
            .conditions
            .iter()
            .any(|condition| condition.type_ == "RoutingConverged" && condition.status == "True");
        let is_well = |member: &MemberStatus| {
            member.state == MembershipState::Active
                && member.heartbeat == HeartbeatAge::Fresh
                && member.epoch == Some(EpochReached::Current)
        };
        let routing = status.routing.ok_or_else(|| seen.clone())?;
        let pods = place.members().await;
        let ready: BTreeSet<String> = pods
            .iter()
            .filter(|pod| is_ready(pod))
            .map(ResourceExt::name_any)
            .collect();
        let named: BTreeSet<String> = status.members.iter().map(|member| member.pod.clone()).collect();
        let has_gathered = is_of_the_present
            && has_converged
            && status.ready.as_deref() == Some(all.as_str())
            && routing.converged == all
            && usize::try_from(routing.members) == Ok(replicas)
            && status.members.len() == replicas
            && status.members.iter().all(is_well)
            && named == ready;
        if has_gathered {
            Ok(Members {
                routing,
                members: status.members,
            })
        } else {
            Err(format!("{seen}; ready are {ready:?}"))
        }
    };
    let what = format!("{replicas} members that all know it");
    match poll::eventually::<_, String>(&what, WITHIN, look).await {
        Ok(found) => found,
        Err(error) => panic!("{error}\n{}", place.seen().await),
    }
}

/// What `kubectl get` prints: without more words, wide, and for each member.
async fn tables_show(place: &Place, found: &Members, replicas: usize, revision: &str) {
    let texts = [
        format!("{replicas}/{replicas}"),
        replicas.to_string(),
        found.routing.epoch.to_string(),
        place.sink.endpoint(),
    ];
    let [ready, members, epoch, endpoint] = texts.each_ref().map(String::as_str);
    let narrow = [
        ("NAME", POLICY),
        ("MODE", "Annotate"),
        ("REVISION", revision),
        ("READY", ready),
        ("MEMBERS", members),
        ("REASON", "Serving"),
    ];
    let wide = [("EPOCH", epoch), ("CONVERGED", ready), ("ENDPOINT", endpoint)];
    let shows = async |arguments: &[&str], wanted: &[(&str, &str)]| {
        // The answer of one pod may come late: then it is waited for.
        poll::eventually(&format!("{wanted:?} in a table"), WITHIN, async || {
            let table = place.kubectl(&[&["get", "jmp"][..], arguments].concat()).await;
            let cells = cells(&table);
            if wanted
                .iter()
                .all(|(column, cell)| cells.get(column) == Some(cell))
            {
                Ok(())
            } else {
                Err(table)
            }
        })
        .await
        .unwrap();
    };
    shows(&[], &narrow).await;
    shows(&["-o", "wide"], &[&narrow[..], &wide[..]].concat()).await;

    let lines: BTreeSet<String> = found
        .slots()
        .iter()
        .map(|(pod, slot)| format!("{slot}\t{pod}\tActive\tCurrent"))
        .collect();
    poll::eventually("a line for each member", WITHIN, async || {
        let printed = place.kubectl(&["get", "jmp", POLICY, "-o", LINES]).await;
        let read: BTreeSet<String> = printed.lines().map(str::to_owned).collect();
        if read == lines { Ok(()) } else { Err(printed) }
    })
    .await
    .unwrap();
}

/// The one row of a table of kubectl, by column. Cells may be empty, and hold words with single spaces between.
fn cells(table: &str) -> BTreeMap<&str, &str> {
    let (header, rows) = table.split_once('\n').unwrap_or((table, ""));
    let row = rows.lines().next().unwrap_or_default();
    let mut cells = BTreeMap::new();
    let mut start = 0;
    while start < header.len() {
        let rest = &header[start..];
        let column = rest.split_whitespace().next().unwrap_or_default();
        let after = &rest[column.len()..];
        let end = header.len() - after.trim_start().len();
        // The last column is as wide as it is.
        let end = if end == header.len() {
            row.len()
        } else {
            end.min(row.len())
        };
        cells.insert(column, row.get(start..end).unwrap_or_default().trim());
        start = header.len() - after.trim_start().len();
    }
    cells
}

/// What each pod's own pages say.
async fn pages_show(place: &Place, found: &Members) {
    for asked in &found.members {
        let way = place
            .node
            .forward(&place.namespace, &format!("pod/{}", asked.pod), ADMIN)
            .await
            .unwrap();
        let shows = async || {
            let document = way.get("/api/admin/cluster").await;
            let document: Value = serde_json::from_str(&document.map_err(|error| error.to_string())?)
                .map_err(|error| error.to_string())?;
            let page = way.get("/cluster").await.map_err(|error| error.to_string())?;
            if is_shown(found, asked, &document, &page) {
                Ok(())
            } else {
                Err(format!("{document:#}\n{page}"))
            }
        };
        let what = format!("all members on the page of {}", asked.pod);
        poll::eventually(&what, WITHIN, shows)
            .await
            .unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Whether the document and the page of one pod have exactly these members, and mark that pod.
fn is_shown(found: &Members, asked: &MemberStatus, document: &Value, page: &str) -> bool {
    let rows = document["members"].as_array().cloned().unwrap_or_default();
    let listed: BTreeMap<&str, i64> = rows
        .iter()
        .filter_map(|row| Some((row["pod"].as_str()?, row["slot"].as_i64()?)))
        .collect();
    let slots = found.slots().into_iter();
    let wanted: BTreeMap<&str, i64> = slots.map(|(pod, slot)| (pod, slot.into())).collect();
    let is_one_of_them = |row: &Value| {
        row["node"] == NODE
            && row["version"] == json!(asked.version)
            && row["revision"] == json!(asked.revision)
            && row["epoch"] == found.routing.epoch
            && row["isThisPod"] == (row["pod"] == asked.pod)
            && row["id"].as_str().is_some_and(|id| page.contains(id))
    };
    rows.len() == wanted.len()
        && listed == wanted
        && rows.iter().all(is_one_of_them)
        && document["source"] == json!({"kind": "peers", "works": true})
        && document["routing"]["epoch"] == found.routing.epoch
        && page.matches("this pod</span>").count() == 1
}

/// What must hold of any two statuses in a row, whatever happened in between.
fn holds_all_the_while(history: &[JevMetricsPolicyStatus]) {
    let tables: Vec<_> = history
        .iter()
        .filter_map(|status| Some((status.routing.as_ref()?, slots(&status.members))))
        .collect();
    for (routing, slots) in &tables {
        let distinct: BTreeSet<i32> = slots.values().copied().collect();
        assert_eq!(distinct.len(), slots.len(), "a slot twice: {slots:?}");
        assert_eq!(
            usize::try_from(routing.members),
            Ok(slots.len()),
            "{routing:?} {slots:?}"
        );
    }
    let mut epochs = 1;
    for pair in tables.windows(2) {
        let [(before, had), (after, has)] = pair else {
            continue;
        };
        assert!(after.epoch >= before.epoch, "{before:?} {after:?}");
        if after.epoch == before.epoch {
            assert_eq!(had, has, "one epoch is one table");
            continue;
        }
        epochs += 1;
        println!(
            "epoch {}: {} members: {}",
            after.epoch,
            after.members,
            after.last_change.as_deref().unwrap_or_default()
        );
        for (pod, slot) in has {
            if let Some(former) = had.get(pod) {
                assert_eq!(former, slot, "{pod} has another slot");
            }
        }
    }
    println!(
        "{} statuses in all, {epochs} tables, epoch {} at the end",
        history.len(),
        tables.last().map_or(0, |(routing, _)| routing.epoch)
    );
    // Three at first, more, fewer, and the new revision.
    assert!(epochs >= 4, "{epochs} tables");
}
