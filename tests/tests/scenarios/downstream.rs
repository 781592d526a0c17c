//! Downstream's verdict reaches the sender as what it is, over every pair of protocols.

use std::time::Duration;

use jevmetrics_testkit::mock_jev::Behaviour;
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{ExportProtocol, Mode};
use jevmetrics_testkit::sink::{Answer, Refusal};
use jevmetrics_testkit::source::PartialSuccess;
use tonic::Code;

use crate::messages::{SMALL_METRICS, SMALL_POINTS, small};
use crate::support::{BOTH, Failed, Told, Via, WITHIN, World};

const PROTOCOLS: [ExportProtocol; 2] = [ExportProtocol::Grpc, ExportProtocol::Http];

/// A world without companions that exports by `export`.
async fn world(export: ExportProtocol) -> World {
    let world = World::start_with(Mode::Annotate, |options| {
        options.settings.export.protocol = export;
        options.settings.export.timeout_milliseconds = Some(2_000);
    })
    .await;
    world.jev.script().always(Behaviour::Silent);
    world
}

/// What a sender must be told over gRPC and over HTTP.
struct Expected {
    code: Code,
    status: u16,
    wait: Option<u64>,
    says: &'static str,
}

fn expected(code: Code, status: u16, says: &'static str) -> Expected {
    Expected {
        code,
        status,
        wait: None,
        says,
    }
}

impl Expected {
    fn after(mut self, seconds: u64) -> Self {
        self.wait = Some(seconds);
        self
    }

    fn check(&self, name: &str, via: Via, told: &Told) {
        assert_eq!(told.code, Some(self.code), "{name} {via:?}: {told:?}");
        if via == Via::Http {
            assert_eq!(told.status, Some(self.status), "{name}: {told:?}");
        }
        assert_eq!(
            told.wait,
            self.wait.map(Duration::from_secs),
            "{name} {via:?}: {told:?}"
        );
        assert!(told.message.contains(self.says), "{name} {via:?}: {told:?}");
    }
}

async fn verdicts_reach_the_sender(export: ExportProtocol) {
    let wait = Duration::from_secs(7);
    let is_grpc = export == ExportProtocol::Grpc;
    // Over gRPC temporary only with a wait, over HTTP always.
    let overloaded = if is_grpc {
        expected(Code::ResourceExhausted, 400, "full")
    } else {
        expected(Code::Unavailable, 503, "full")
    };
    let refused = |refusal: Refusal| Answer::Refuse(refusal);
    let cases = [
        (
            "temporary",
            refused(Refusal::temporary("later")),
            expected(Code::Unavailable, 503, "later"),
        ),
        (
            "temporary with a wait",
            refused(Refusal::temporary("later").after(wait)),
            expected(Code::Unavailable, 503, "later").after(7),
        ),
        (
            "permanent",
            refused(Refusal::permanent("never")),
            expected(Code::InvalidArgument, 400, "never"),
        ),
        ("overloaded", refused(Refusal::overloaded("full")), overloaded),
        (
            "overloaded with a wait",
            refused(Refusal::overloaded("full").after(wait)),
            expected(Code::ResourceExhausted, 429, "full").after(7),
        ),
        (
            "hanging",
            Answer::Hang,
            expected(Code::DeadlineExceeded, 504, "no answer within the deadline"),
        ),
        (
            "closing",
            Answer::Close,
            expected(Code::Unavailable, 503, "downstream: "),
        ),
    ];
    let world = world(export).await;
    let mut failed = Failed::default();
    let mut delivered = 0;
    for (name, answer, expected) in cases {
        for via in BOTH {
            world.sink.script().once(answer.clone());
            let told = world.send(via, &small(0).next_bytes()).await;
            expected.check(name, via, &told);
            if told.is_temporary() {
                failed.temporary += SMALL_POINTS;
            } else {
                assert!(told.is_permanent());
                failed.permanent += SMALL_POINTS;
            }
            assert_eq!(world.settled().await.failed, failed, "{name} {via:?}");
            // Nothing of it lasts.
            world.deliver(via, &small(0).next_bytes()).await;
            delivered += SMALL_POINTS;
        }
    }
    let equation = world.settled().await;
    assert_eq!((equation.exported, equation.failed), (delivered, failed));
    assert_eq!(world.sink.counts().accepted.others.points, delivered);
}

/// *Scenario*: downstream over gRPC answers, in turn, everything that is no success, hangs, or closes the connection.
/// *Guarantees*: over both protocols the sender sees temporary as temporary with its wait and permanent as permanent;
/// the equation holds after each; the next request is accepted.
#[tokio::test]
async fn verdicts_of_a_grpc_downstream_reach_the_sender() {
    verdicts_reach_the_sender(ExportProtocol::Grpc).await;
}

/// *Scenario*: downstream over HTTP answers, in turn, everything that is no success, hangs, or closes the connection.
/// *Guarantees*: as over gRPC.
#[tokio::test]
async fn verdicts_of_an_http_downstream_reach_the_sender() {
    verdicts_reach_the_sender(ExportProtocol::Http).await;
}

fn partial(rejected: i64, message: &str) -> PartialSuccess {
    PartialSuccess {
        rejected,
        message: format!("downstream: {message}"),
    }
}

/// *Scenario*: downstream accepts a request but for three points, then with a warning only.
/// *Guarantees*: the sender is told so in its protocol; the three count as failed, rejected.
#[tokio::test]
async fn a_partial_success_is_passed_on() {
    for export in PROTOCOLS {
        let world = world(export).await;
        for via in BOTH {
            for rejected in [3, 0] {
                let message = "too old".to_owned();
                world.sink.script().once(Answer::Partial { rejected, message });
                let told = world.send(via, &small(0).next_bytes()).await;
                assert!(told.is_accepted(), "{told:?}");
                assert_eq!(
                    told.partial,
                    Some(partial(rejected, "too old")),
                    "{export:?} {via:?}"
                );
            }
        }
        let equation = world.settled().await;
        assert_eq!((equation.failed.rejected, equation.failed.all()), (6, 6));
        assert_eq!(equation.exported, 4 * SMALL_POINTS - 6);
    }
}

/// *Scenario*: `Annotate`; downstream rejects as many points as there are companions, then two more.
/// *Guarantees*: rejected companions are not the sender's: it hears of the two.
#[tokio::test]
async fn rejected_companions_are_not_the_senders() {
    let world = World::start(Mode::Annotate).await;
    let mut generator = small(0);
    world.learn(&generator.next_bytes(), SMALL_METRICS).await;
    let companions = i64::try_from(4 * SMALL_METRICS).unwrap();
    for via in BOTH {
        for (rejected, of_sender) in [(companions, 0), (companions + 2, 2)] {
            let message = "rejected".to_owned();
            world.sink.script().once(Answer::Partial { rejected, message });
            let told = world.send(via, &generator.next_bytes()).await;
            assert!(told.is_accepted(), "{told:?}");
            assert_eq!(told.partial, Some(partial(of_sender, "rejected")), "{via:?}");
        }
    }
    let equation = world.settled().await;
    assert_eq!((equation.failed.rejected, equation.companions_exported), (4, 0));
    assert_eq!(equation.companions_added, 4 * 4 * SMALL_METRICS);
}

/// *Scenario*: downstream goes away and comes back on the same port.
/// *Guarantees*: senders are told to try again while it is away; then requests are accepted; the sink has exactly
/// what was acknowledged.
#[tokio::test]
async fn a_downstream_that_is_restarted_is_found_again() {
    for export in PROTOCOLS {
        let world = world(export).await;
        let mut acknowledged = 0;
        for via in BOTH {
            world.deliver(via, &small(0).next_bytes()).await;
            acknowledged += SMALL_POINTS;
        }
        world.sink.stop().await;
        for via in BOTH {
            let told = world.send(via, &small(0).next_bytes()).await;
            assert!(told.is_temporary(), "{export:?} {via:?}: {told:?}");
            assert!(told.message.starts_with("downstream: "), "{told:?}");
        }
        world.sink.restart().await.unwrap();
        for via in BOTH {
            let accepted = poll::until_some("an accepted request", WITHIN, async || {
                let told = world.send(via, &small(0).next_bytes()).await;
                assert!(told.is_accepted() || told.is_temporary(), "{told:?}");
                told.is_accepted().then_some(())
            });
            accepted.await.unwrap();
            acknowledged += SMALL_POINTS;
        }
        let equation = world.settled().await;
        assert_eq!(equation.exported, acknowledged, "{export:?}");
        assert_eq!(
            world.sink.counts().accepted.others.points,
            acknowledged,
            "{export:?}"
        );
    }
}
