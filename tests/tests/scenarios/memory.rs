//! What a process holds when more comes in than goes out.

use std::time::Duration;

use bytes::Bytes;
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::Mode;
use jevmetrics_testkit::sink::Answer;
use jevmetrics_testkit::source::{Generator, Shape};
use tokio::task::JoinSet;

use crate::support::{BOTH, Failed, Senders, Told, Via, WITHIN, World};

const MEMORY: u32 = 64 << 20;
/// A quarter of it is for requests.
const ROOM: u32 = MEMORY / 4;

/// Requests at a time over each protocol: of both together several times the room.
const AT_A_TIME: [(Via, usize); 2] = [(Via::Grpc, 400), (Via::Http, 60)];
/// Connections of gRPC that they share. Over HTTP each has its own: with them fewer than are let in.
const CONNECTIONS: usize = 4;

fn large() -> Generator {
    let shape = Shape {
        metrics: 500,
        points: 2,
        resources: 1,
        scopes: 2,
        droppable_percent: 0,
    };
    Generator::new(shape, 1)
}

/// *Scenario*: a backend does not answer, while senders send at once several times the bytes that a process with 64 MiB of
/// memory has room for; companions make each request larger. Then the backend answers again.
/// *Guarantees*: what is held stays within the room; who finds none is told to come again, and when; nobody is told "never";
/// the equation holds, and afterwards everything passes as before.
#[tokio::test(flavor = "multi_thread")]
async fn more_than_there_is_room_for_is_put_off_and_not_held() {
    let world = World::start_with(Mode::Annotate, |options| {
        options.settings.export.timeout_milliseconds = Some(3_000);
        options
            .environment
            .push(("JEVMETRICS_MEMORY_LIMIT".to_owned(), MEMORY.to_string()));
    })
    .await;
    let message = large().next_bytes();
    world.learn(&message, 500).await;
    let before = world.plane.resident_bytes().unwrap();
    world.sink.script().always(Answer::Hang);

    let (told, most_held) = flood(&world, &message).await;
    let sent: usize = AT_A_TIME.iter().map(|(_, count)| count * message.len()).sum();
    let grown = world.plane.resident_bytes().unwrap().saturating_sub(before);
    println!(
        "{} requests, {} MiB before companions: {:.1} MiB held at the most, resident memory grown by {} MiB",
        told.len(),
        sent >> 20,
        most_held / f64::from(1 << 20),
        grown >> 20
    );
    assert!(most_held > 0.0 && most_held <= f64::from(ROOM), "{most_held}");
    for told in &told {
        assert!(told.is_temporary(), "{told:?}");
        if told.message.contains("in flight") {
            assert_eq!(told.wait, Some(Duration::from_secs(1)), "{told:?}");
        }
    }
    let put_off = told
        .iter()
        .filter(|told| told.message.contains("in flight"))
        .count();
    assert!(put_off > told.len() / 2, "{put_off}");

    let equation = world.settled().await;
    let at_first = Failed {
        temporary: equation.failed.temporary,
        ..Failed::default()
    };
    assert_eq!(equation.failed, at_first);
    let free = async || (held(&world).await == 0.0).then_some(());
    poll::until_some("the end of what is held", WITHIN, free)
        .await
        .unwrap();

    world.sink.script().always(Answer::Accept);
    for via in BOTH {
        world.deliver(via, &message).await;
    }
    assert_eq!(world.settled().await.exported, equation.exported + 2 * 1_000);
}

/// Sends all at once, and looks meanwhile: what each was told, and the most that was held.
async fn flood(world: &World, message: &Bytes) -> (Vec<Told>, f64) {
    let mut sending = JoinSet::new();
    let senders: Vec<_> = (0..CONNECTIONS).map(|_| Senders::to(&world.plane)).collect();
    for (via, count) in AT_A_TIME {
        for index in 0..count {
            let (senders, message) = (senders[index % CONNECTIONS].clone(), message.clone());
            sending.spawn(async move { senders.send(via, &message).await });
        }
    }
    let mut most = 0.0_f64;
    // One look after the other: each that is broken off would leave a connection behind.
    let looking = async {
        loop {
            most = most.max(held(world).await);
        }
    };
    let told = tokio::select! {
        told = sending.join_all() => told,
        () = looking => unreachable!("it looks for as long as there is somebody who sends"),
    };
    (told, most)
}

async fn held(world: &World) -> f64 {
    world.plane.scrape().await.unwrap()["jevmetrics_receive_bytes_in_flight"]
}
