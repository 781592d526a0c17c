//! The correctness gate: what came out is exactly what must come out.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;

use crate::Failure;
use crate::sink::{Arrivals, Sink};
use crate::system::Output;
use crate::workload::{Input, Workload};

/// Which message of the sink each request becomes; none where everything is dropped.
pub(crate) struct Oracle(Vec<Option<usize>>);

impl Oracle {
    /// Announces to the sink what can come, and forgets what has come.
    pub(crate) fn new(output: Output, workload: &Workload, sink: &Sink) -> Self {
        let becomes = workload
            .inputs
            .iter()
            .map(|input| Some(sink.expect(output.of(input)?)));
        let oracle = Self(becomes.collect());
        let _ = sink.take();
        oracle
    }

    /// `answered`: how often each request was answered with success.
    ///
    /// # Errors
    /// The sink did not get exactly that, in words.
    pub(crate) fn check(&self, answered: &[u64], sink: &Sink) -> Result<(), Failure> {
        let got = sink.take();
        let mut expected = Arrivals {
            counts: vec![0; got.counts.len()],
            foreign: 0,
        };
        for (message, count) in self.0.iter().zip(answered) {
            if let Some(message) = message {
                expected.counts[*message] += count;
            }
        }
        if got == expected {
            return Ok(());
        }
        let total = |arrivals: &Arrivals| arrivals.counts.iter().sum::<u64>();
        Err(format!(
            "void: the sink got {} requests that can come and {} that cannot; the oracle says {}, and which",
            total(&got),
            got.foreign,
            total(&expected)
        )
        .into())
    }
}

impl Output {
    fn of(self, input: &Input) -> Option<&ExportMetricsServiceRequest> {
        match self {
            Self::Whole => Some(&input.whole),
            Self::Kept => input.kept.as_ref(),
        }
    }
}
