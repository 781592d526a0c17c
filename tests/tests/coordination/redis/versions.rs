//! Which answers are read: those to the same questions, asked in the same way.

use jevmetrics_testkit::mock_jev::MockJev;
use jevmetrics_testkit::process::{Identity, LiveFile, Options};

use super::group::{AMPLE, Group, Setup, droppable, message};

const COUNT: u64 = 4;

type Change<'a> = &'a dyn Fn(&mut Options);

/// *Scenario*: a group has assessed some instruments; replicas come whose settings differ in one thing each: model,
/// endpoint, allow-list, lifetime, identity, revision.
/// *Guarantees*: each of them asks anew, in the same namespace.
#[tokio::test]
async fn what_changes_an_answer_reads_no_old_one() {
    let group = Group::start(1, Setup::default()).await;
    let other_jev = MockJev::start().await.unwrap();
    let message = message(&droppable("shop", usize::try_from(COUNT).unwrap()));
    group.learn(&message, COUNT).await;
    let elsewhere = other_jev.base_url();
    let changes: [(&str, Change<'_>); 6] = [
        ("the model", &|o| {
            o.settings.inference.model = Some("jev-1.12.0".to_owned());
        }),
        ("the endpoint", &|o| {
            o.settings.inference.base_url.clone_from(&elsewhere);
        }),
        ("the allow-list", &|o| {
            o.settings.inference.context_attributes = Some(vec!["service.name".to_owned()]);
        }),
        ("the lifetime", &|o| {
            o.settings.inference.score_ttl_seconds = Some(899);
        }),
        ("the identity", &|o| {
            o.settings.inference.identity = Some(Identity::Context);
        }),
        ("the revision", &|o| o.settings.revision = "2".to_owned()),
    ];
    let mut versions = vec![
        group.replicas[0]
            .plane
            .member()
            .await
            .unwrap()
            .inference
            .assessment_version,
    ];
    for (what, change) in changes {
        let before = group.asked() + other_jev.counters().received;
        let replica = group.separate(|options| change(options)).await;
        replica.learn(&message, COUNT).await;
        let asked = group.asked() + other_jev.counters().received - before;
        assert_eq!(asked, COUNT, "{what}");
        replica.is("healthy").await;
        let version = replica.plane.member().await.unwrap().inference.assessment_version;
        assert!(
            !versions.contains(&version) && !version.is_empty(),
            "{what}: {version}"
        );
        versions.push(version);
        replica.settled().await;
    }
    group.finish().await;
}

/// *Scenario*: replicas whose settings differ in what changes no answer: the order of the allow-list, thresholds,
/// protected names, mode, deadlines, sizes.
/// *Guarantees*: they read what is there; nothing is asked.
#[tokio::test]
async fn what_changes_no_answer_loses_none() {
    let context = |names: [&str; 2]| Some(names.map(str::to_owned).to_vec());
    let mut group = Group::start(0, Setup::default()).await;
    group
        .add(|o| o.settings.inference.context_attributes = context(["service.name", "cloud.region"]))
        .await;
    let message = message(&droppable("shop", usize::try_from(COUNT).unwrap()));
    group.learn(&message, COUNT).await;
    let live = |change: &dyn Fn(&mut LiveFile)| {
        let mut live = group.live(AMPLE);
        change(&mut live);
        Some(live)
    };
    let thresholds = live(&|live| live.policy.retention.drop_threshold_percent = 1);
    let protection = live(&|live| live.policy.retention.protected_metrics = vec!["shop.debug.0".to_owned()]);
    let changes: [(&str, u64, Change<'_>); 4] = [
        ("the order of the allow-list", 0, &|o| {
            o.settings.inference.context_attributes = context(["cloud.region", "service.name"]);
        }),
        ("thresholds", COUNT, &|o| o.live.clone_from(&thresholds)),
        ("protection", 1, &|o| o.live.clone_from(&protection)),
        ("sizes and deadlines", 0, &|o| {
            o.settings.inference.workers = Some(1);
            o.settings.inference.cache_size = Some(100);
            o.settings.inference.timeout_milliseconds = Some(7_000);
        }),
    ];
    for (what, kept, change) in changes {
        let replica = group
            .separate(|options| {
                options.settings.inference.context_attributes = context(["service.name", "cloud.region"]);
                change(options);
            })
            .await;
        replica.learn(&message, COUNT).await;
        assert_eq!(replica.kept_of(&message).await, kept, "{what}");
        assert_eq!(group.asked(), COUNT, "{what}");
        replica.settled().await;
    }
    group.finish().await;
}
