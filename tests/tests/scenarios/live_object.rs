//! The live object through the Kubernetes API, against a stand-in for its server.

use std::net::SocketAddr;

use jevmetrics_testkit::fake_api::{FakeApi, NAME, NAMESPACE, TOKEN, kubeconfig};
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{Live, LiveObject, Mode, Options};
use tempfile::TempDir;

use crate::messages::{SMALL_METRICS, SMALL_POINTS, small};
use crate::support::{Via, WITHIN, World};

const ANNOTATE: &str = "schema: 1\nmode: Annotate\n";
const REDUCE: &str = "schema: 1\nmode: Reduce\n";

/// A data plane that is told of an API server at `address`; its log shows all that it ever can.
pub(crate) async fn world_at(address: SocketAddr) -> (World, TempDir) {
    world_with(&kubeconfig(address)).await
}

/// A data plane with this KUBECONFIG.
async fn world_with(kubeconfig: &str) -> (World, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("kubeconfig");
    std::fs::write(&config, kubeconfig).unwrap();
    let world = World::start_with(Mode::Annotate, |options: &mut Options| {
        options.live = None;
        let (namespace, name) = (NAMESPACE.to_owned(), NAME.to_owned());
        options.settings.live = Live::Object {
            object: LiveObject { namespace, name },
        };
        let config = config.display().to_string();
        options.environment.push(("KUBECONFIG".to_owned(), config));
        let filter = "info,kube_client=trace,tower_http=trace,hyper=trace,hyper_util=trace";
        options
            .environment
            .push(("JEVMETRICS_LOG".to_owned(), filter.to_owned()));
    })
    .await;
    (world, directory)
}

/// Waits until `/readyz` says this.
pub(crate) async fn said(world: &World, text: &str) {
    let said = poll::until_some(text, WITHIN, async || {
        world.ready().await.contains(text).then_some(())
    });
    if let Err(error) = said.await {
        panic!("{error}: {}; {}", world.ready().await, world.plane.printed());
    }
}

async fn watched(api: &FakeApi) {
    poll::until("a watch", WITHIN, || api.watches() == 1)
        .await
        .unwrap();
}

/// Waits until one request keeps so many points.
async fn keeps(world: &World, points: u64) {
    let mut generator = small(50);
    let kept = poll::until_some("what is kept", WITHIN, async || {
        world.sink.reset();
        world.deliver(Via::Grpc, &generator.next_bytes()).await;
        (world.sink.counts().accepted.others.points == points).then_some(())
    });
    kept.await.unwrap();
}

/// *Scenario*: the object is there at the start and changes; the watch ends, as it does every few minutes.
/// *Guarantees*: it acts at once; one object is got and watched, nothing is listed; no line of the log holds the token.
#[tokio::test]
async fn the_object_is_read_and_changes_act() {
    let api = FakeApi::start().await.unwrap();
    api.put(REDUCE);
    let (world, _directory) = world_at(api.address()).await;
    said(&world, "live: policy in force\n").await;
    watched(&api).await;
    world.learn(&small(50).next_bytes(), SMALL_METRICS).await;
    keeps(&world, SMALL_POINTS / 2).await;
    api.put(ANNOTATE);
    keeps(&world, SMALL_POINTS).await;
    api.end_watches();
    api.put_unheard(REDUCE);
    keeps(&world, SMALL_POINTS / 2).await;
    world.logged_times("a new policy is in force", 3).await;
    assert_eq!(world.lines("stays in force"), Vec::<String>::new());

    let calls = api.calls();
    assert!(calls.iter().all(|call| call.is_authorized), "{calls:?}");
    let object = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}");
    assert!(
        calls.iter().all(|call| call.target == object || call.is_watch()),
        "{calls:?}"
    );
    assert!(
        world.plane.printed().contains("requesting"),
        "the log shows what it can"
    );
    assert!(!world.plane.printed().contains(TOKEN));
    world.settled().await;
}

/// *Scenario*: broken content, no content, deletion, creation.
/// *Guarantees*: the last good policy stays in force; page and log name what is wrong, once each.
#[tokio::test]
async fn a_broken_or_deleted_object_leaves_the_last_good_policy_in_force() {
    let api = FakeApi::start().await.unwrap();
    api.put(REDUCE);
    let (world, _directory) = world_at(api.address()).await;
    said(&world, "live: policy in force\n").await;
    watched(&api).await;
    world.learn(&small(50).next_bytes(), SMALL_METRICS).await;
    let named = format!("live: policy in force, live object {NAMESPACE}/{NAME}: ");
    api.put("schema: 1\nmode: hunter2\n");
    said(&world, &format!("{named}policy.mode: must be Annotate or Reduce")).await;
    keeps(&world, SMALL_POINTS / 2).await;
    api.delete();
    said(&world, &format!("{named}not found")).await;
    keeps(&world, SMALL_POINTS / 2).await;
    api.put(REDUCE);
    said(&world, "live: policy in force\n").await;
    world
        .logged("the live object is good again, the policy is unchanged")
        .await;
    world.logged_times("the last good policy stays in force", 2).await;
    api.put(ANNOTATE);
    keeps(&world, SMALL_POINTS).await;
    assert!(!world.plane.printed().contains("hunter2"));
}

/// *Scenario*: the watch is told 410 after a change that it did not see.
/// *Guarantees*: the object is got again, and acts; nothing is said to be wrong.
#[tokio::test]
async fn a_version_that_is_gone_is_got_again() {
    let api = FakeApi::start().await.unwrap();
    api.put(ANNOTATE);
    let (world, _directory) = world_at(api.address()).await;
    said(&world, "live: policy in force\n").await;
    watched(&api).await;
    world.learn(&small(50).next_bytes(), SMALL_METRICS).await;
    api.put_unheard(REDUCE);
    api.expire();
    keeps(&world, SMALL_POINTS / 2).await;
    assert_eq!(world.lines("stays in force"), Vec::<String>::new());
}

/// *Scenario*: no API server at the start; then one without the object; then the object.
/// *Guarantees*: the process is ready at once, keeps everything and asks nothing until the object comes; the log has one
/// line per state.
#[tokio::test]
async fn without_an_api_server_everything_is_kept_until_it_comes() {
    let address = FakeApi::start().await.unwrap().address();
    let (world, _directory) = world_at(address).await;
    said(&world, "the API server cannot be reached: ").await;
    assert!(
        world
            .ready()
            .await
            .contains("live: no policy yet: everything is kept")
    );
    keeps(&world, SMALL_POINTS).await;
    assert_eq!(world.jev.counters().received, 0);
    assert_eq!(world.sink.counts().accepted.companions.points, 0);

    let api = FakeApi::start_at(address).await.unwrap();
    said(&world, "live object shop/metrics-live: not found").await;
    api.put(REDUCE);
    said(&world, "live: policy in force\n").await;
    world.learn(&small(50).next_bytes(), SMALL_METRICS).await;
    keeps(&world, SMALL_POINTS / 2).await;
    world.logged_times("there is no policy yet", 2).await;
    world.logged("a new policy is in force").await;
}

/// *Scenario*: the role allows neither get nor watch, then get alone, then both.
/// *Guarantees*: each is named with what must hold, once; the policy acts as soon as it can be read.
#[tokio::test]
async fn a_role_that_allows_too_little_is_named() {
    let api = FakeApi::start().await.unwrap();
    api.put(ANNOTATE);
    api.refuse(Some(403), Some(403));
    let (world, _directory) = world_at(api.address()).await;
    let named = "the API server answers 403 Forbidden: the role of this pod must allow get and watch";
    said(&world, named).await;
    api.refuse(None, Some(403));
    said(&world, "live: policy in force, live object").await;
    api.put_unheard(REDUCE);
    world.logged_times("a new policy is in force", 2).await;
    said(&world, named).await;
    api.refuse(None, None);
    said(&world, "live: policy in force\n").await;
    world.logged("there is no policy yet").await;
    world.logged("the live object is good again").await;
    world.logged("the last good policy stays in force").await;
}

/// *Scenario*: a KUBECONFIG whose program for credentials fails and talks, one with a proxy that needs a password, one that
/// is no KUBECONFIG, a token file that is not there.
/// *Guarantees*: the process serves and says that the configuration is of no use; it shows nothing of it.
#[tokio::test]
async fn a_configuration_of_no_use_is_named_and_not_quoted() {
    let good = kubeconfig(SocketAddr::from(([127, 0, 0, 1], 9)));
    let user = format!("{{token: {TOKEN}}}");
    let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never, \
                args: [-c, \"echo hunter2; echo hunter2 >&2; exit 1\"]}}";
    for (text, named) in [
        (
            good.replace(&user, exec),
            "cannot be used: its credentials cannot be had",
        ),
        (
            good.replace(
                "cluster: {",
                "cluster: {proxy-url: \"http://u:hunter2@127.0.0.1:9\", ",
            ),
            "cannot be used: ",
        ),
        ("hunter2: [".to_owned(), "there is no Kubernetes configuration: "),
        (
            good.replace(&user, "{tokenFile: /nowhere/token}"),
            "cannot be used: token file /nowhere/token: ",
        ),
    ] {
        let (world, _directory) = world_with(&text).await;
        said(&world, named).await;
        keeps(&world, SMALL_POINTS).await;
        world.logged("there is no policy yet").await;
        let shown = world.lines("WARN").join("\n") + &world.ready().await;
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
