#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus_client::registry::Registry;

use super::super::fixtures::{member, table};
use super::*;
use crate::coordinate::Answering;
use crate::coordinate::presence::{Listed, Listing};
use crate::coordinate::trouble::Trouble;
use crate::routing::Said;

/// A list that is as it is set, and counts how often it is read.
struct List {
    members: Mutex<Result<Vec<Listed>, Trouble>>,
    is_cut: bool,
    reads: AtomicUsize,
    is_silent: bool,
    takes: Duration,
}

impl List {
    fn new(members: Result<Vec<Listed>, Trouble>) -> Arc<Self> {
        Arc::new(Self {
            members: Mutex::new(members),
            is_cut: false,
            reads: AtomicUsize::new(0),
            is_silent: false,
            takes: Duration::ZERO,
        })
    }
}

impl Presence for List {
    fn beat<'a>(&'a self, _: &'a str, _: &'a str, _: Duration) -> Answering<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn members(&self) -> Answering<'_, Listing> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if self.is_silent {
            return Box::pin(std::future::pending());
        }
        let members = self.members.lock().unwrap().clone();
        Box::pin(async move {
            sleep(self.takes).await;
            Ok(Listing {
                members: members?,
                is_cut: self.is_cut,
            })
        })
    }

    fn leave<'a>(&'a self, _: &'a str) -> Answering<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

fn listed(id: &str) -> Listed {
    Listed {
        id: id.to_owned(),
        age: Duration::from_secs(1),
        document: member(id, 5).to_json(),
    }
}

fn observer(list: Option<Arc<List>>, routing: Arc<Routing>) -> Observer {
    let peers = Peers::asking(|_| Box::pin(std::future::ready(Err("no connection".to_owned()))));
    observer_with(list, routing, peers, Stats::default())
}

fn observer_with(list: Option<Arc<List>>, routing: Arc<Routing>, peers: Peers, stats: Stats) -> Observer {
    let shared = list.map(|list| {
        let presence: Arc<dyn Presence> = list;
        let beats = Arc::new(Beats::new(Arc::clone(&presence), Stats::default()));
        ("n".to_owned(), presence, beats)
    });
    Observer::new(ObserverParts {
        own: Box::new(|| member("own", 1)),
        shared,
        routing,
        peers,
        stats,
    })
}

fn ids(view: &View) -> Vec<&str> {
    view.rows.iter().map(|row| row.member.id.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_look_serves_all_who_ask_within_a_second() {
    let list = List::new(Ok(vec![listed("own"), listed("other")]));
    let observer = observer(Some(Arc::clone(&list)), Arc::default());
    let (one, two) = tokio::join!(observer.look(), observer.look());
    assert_eq!(
        (ids(&one), ids(&two)),
        (vec!["own", "other"], vec!["own", "other"])
    );
    assert_eq!(list.reads.load(Ordering::Relaxed), 1);
    tokio::time::sleep(REUSE).await;
    observer.look().await;
    assert_eq!(list.reads.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_cannot_be_read_is_said_and_no_member_is_made_up() {
    let list = List::new(Err(Trouble::Permission));
    let watched = observer(Some(Arc::clone(&list)), Arc::default());
    let view = watched.look().await;
    let Source::Redis(_, Err(reason)) = &view.source else {
        panic!("{:?}", view.source);
    };
    assert!(reason.contains("right"), "{reason}");
    assert_eq!(ids(&view), ["own"]);
    *list.members.lock().unwrap() = Ok(vec![listed("own"), listed("other")]);
    tokio::time::sleep(REUSE).await;
    let view = watched.look().await;
    assert_eq!(ids(&view), ["own", "other"]);

    let silent = Arc::new(List {
        members: Mutex::new(Ok(Vec::new())),
        is_cut: false,
        reads: AtomicUsize::new(0),
        is_silent: true,
        takes: Duration::ZERO,
    });
    let begin = Instant::now();
    let reads = Arc::clone(&silent);
    let silent = observer(Some(silent), Arc::default());
    let (view, _) = tokio::join!(silent.look(), silent.look());
    assert_eq!(begin.elapsed(), PATIENCE);
    assert_eq!(
        reads.reads.load(Ordering::Relaxed),
        1,
        "who waited is served by it"
    );
    assert!(matches!(&view.source, Source::Redis(_, Err(reason)) if reason == "no answer in time"));
}

#[tokio::test]
async fn without_redis_the_table_says_whom_to_ask_and_without_both_there_is_nobody() {
    let view = observer(None, Arc::default()).look().await;
    assert_eq!((ids(&view), &view.source), (vec!["own"], &Source::Alone));
    let routing = Routing::default();
    routing.take_in("live", Said::Table(table(3, &["own", "b"])));
    let view = observer(None, Arc::new(routing)).look().await;
    assert_eq!((ids(&view), &view.source), (vec!["own"], &Source::Peers));
    assert_eq!((view.rows[0].member.slot, view.epoch()), (Some(0), Some(3)));
    let silent: Vec<_> = view.silent.iter().map(|silent| silent.pod.as_str()).collect();
    assert_eq!(silent, ["pod-b"]);
}

#[tokio::test(start_paused = true)]
async fn pods_that_could_not_be_asked_in_time_are_silent_and_not_forgotten() {
    let routing = Routing::default();
    routing.take_in("live", Said::Table(table(3, &["own", "b", "c"])));
    let peers = Peers::asking(|_| Box::pin(std::future::pending()));
    let observer = observer_with(None, Arc::new(routing), peers, Stats::default());
    let view = observer.look().await;
    let silent: Vec<_> = view
        .silent
        .iter()
        .map(|silent| (silent.pod.as_str(), silent.reason.as_str()))
        .collect();
    assert_eq!(
        silent,
        [("pod-b", "not asked in time"), ("pod-c", "not asked in time")]
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_is_as_old_as_the_question_for_it_and_answers_of_pods_are_new() {
    let slow = || tokio::time::sleep(Duration::from_secs(3));
    let mut list = List::new(Ok(vec![listed("own"), listed("other")]));
    Arc::get_mut(&mut list).unwrap().takes = Duration::from_secs(3);
    let view = observer(Some(list), Arc::default()).look().await;
    assert_eq!(view.elapsed(Instant::now()), Duration::from_secs(3));

    let routing = Routing::default();
    routing.take_in("live", Said::Table(table(3, &["own", "b"])));
    let peers = Peers::asking(move |_| {
        Box::pin(async move {
            slow().await;
            Ok(member("b", 2))
        })
    });
    let observer = observer_with(None, Arc::new(routing), peers, Stats::default());
    let view = observer.look().await;
    assert_eq!(view.elapsed(Instant::now()), Duration::ZERO);
}

#[tokio::test]
async fn nobody_is_silent_or_unreadable_for_a_list_that_is_cut() {
    let routing = Routing::default();
    routing.take_in("live", Said::Table(table(3, &["own", "b", "c"])));
    let mut list = List::new(Ok(vec![listed("own"), listed("b")]));
    Arc::get_mut(&mut list).unwrap().is_cut = true;
    let view = observer(Some(list), Arc::new(routing)).look().await;
    assert_eq!(ids(&view), ["own", "b"]);
    assert_eq!((view.is_cut, view.silent.len(), view.unreadable), (true, 0, 0));
}

/// The counts of serving and of stale members that metrics show, if they show any.
fn shown(registry: &Registry) -> Option<(u32, u32)> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    let count = |state: &str| {
        let series = format!("jevmetrics_cluster_members{{state=\"{state}\"}} ");
        text.lines()
            .find_map(|line| line.strip_prefix(&series)?.parse().ok())
    };
    Some((count("serving")?, count("stale")?))
}

#[tokio::test(start_paused = true)]
async fn metrics_count_as_of_the_look_and_show_nothing_once_there_should_be_another() {
    for (others, pause) in [(1, 10), (199, 100)] {
        // Just before their next heartbeats.
        let beaten = |number: usize| Listed {
            age: Duration::from_secs(11),
            ..listed(&format!("other-{number}"))
        };
        let listed = (0..others).map(beaten).chain([listed("own")]);
        let list = List::new(Ok(listed.collect()));
        let mut registry = Registry::default();
        let peers = Peers::asking(|_| Box::pin(std::future::pending()));
        let stats = Stats::register(&mut registry);
        let observer = observer_with(Some(list), Arc::default(), peers, stats);
        observer.look().await;
        let all = u32::try_from(others).unwrap() + 1;
        tokio::time::sleep(Duration::from_secs(pause)).await;
        observer.refresh();
        assert_eq!(shown(&registry), Some((all, 0)));
        tokio::time::sleep(Duration::from_secs(pause / 10) + PATIENCE).await;
        observer.refresh();
        assert_eq!(shown(&registry), None);
    }
}

#[tokio::test(start_paused = true)]
async fn what_pods_said_once_does_not_become_stale_in_metrics_but_vanishes() {
    let mut registry = Registry::default();
    let routing = Routing::default();
    routing.take_in("live", Said::Table(table(3, &["own", "b"])));
    let peers = Peers::asking(|_| Box::pin(std::future::ready(Ok(member("b", 2)))));
    let stats = Stats::register(&mut registry);
    let observer = observer_with(None, Arc::new(routing), peers, stats);
    observer.look().await;
    tokio::time::sleep(Duration::from_secs(14)).await;
    observer.refresh();
    assert_eq!(shown(&registry), Some((2, 0)));
    tokio::time::sleep(Duration::from_secs(6)).await;
    observer.refresh();
    assert_eq!(shown(&registry), None);
}

#[test]
fn the_pace_slows_down_with_the_group() {
    assert_eq!(pause(0), Duration::from_secs(10));
    assert_eq!(pause(20), Duration::from_secs(10));
    assert_eq!(pause(200), Duration::from_secs(100));
}
