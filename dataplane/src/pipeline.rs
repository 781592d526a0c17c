//! The way of a request: decide, send on, answer. One in, one out, no queue.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Clock;
use crate::export::Exporter;
use crate::observe::flow::Flow;
use crate::receive::{Handler, Request};
use crate::retain::engine::Engine;
use crate::verdict::Verdict;

/// Joins the rooms.
pub struct Pipeline {
    engine: Arc<Engine>,
    exporter: Exporter,
    flow: Flow,
    clock: Clock,
    timeout: Duration,
}

impl Pipeline {
    /// `timeout` bounds each request; a sender that gives less gets less.
    pub fn new(engine: Arc<Engine>, exporter: Exporter, flow: Flow, clock: Clock, timeout: Duration) -> Self {
        Self {
            engine,
            exporter,
            flow,
            clock,
            timeout,
        }
    }
}

impl Handler for Pipeline {
    async fn handle(&self, request: Request) -> Verdict {
        let now = Instant::now();
        let own = now + self.timeout;
        let deadline = request.deadline.map_or(own, |deadline| deadline.min(own));
        if deadline <= now {
            return Verdict::deadline_exceeded("the deadline had passed before the request was read");
        }
        if request.body.is_empty() {
            // A request without anything in it is no one's data.
            return Verdict::Accepted;
        }
        let Request { body, mut held, .. } = request;
        let processed = match self.engine.process(&body, self.clock.moment()) {
            Ok(processed) => processed,
            Err(malformed) => return Verdict::malformed(malformed),
        };
        let in_flight = self.flow.start(&processed);
        let Some(output) = processed.output else {
            in_flight.nothing_to_send();
            return Verdict::Accepted;
        };
        // What nothing was changed in goes on as it came. What was written anew goes on without what came.
        let is_new = output.as_ptr() != body.as_ptr();
        drop(body);
        if is_new && !held.becoming(output.len()) {
            return in_flight.settle_with(Verdict::no_room());
        }
        in_flight.settle_with(self.exporter.export(output, deadline).await)
    }
}
