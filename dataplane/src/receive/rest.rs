//! What a sender still sends after it was refused.
//!
//! HTTP/2 has words for "no more of this". HTTP/1 has only the end of the connection, and a sender learns of it in the
//! middle of its next request, or before it has read the answer: in either case it does not know what became of what it
//! sent. So over HTTP/1 the rest is read and thrown away, and the connection lives on; where that is not done, the answer
//! says that the connection ends.

use bytes::Bytes;
use http::header::{CONNECTION, EXPECT};
use http::request::Parts;
use http::{HeaderValue, Response, Version};
use http_body::Body;
use tokio::time::timeout;

use super::body::next_data;
use super::receiver::BODY_TIMEOUT;
use super::refusal::Refusal;

/// Sees to the rest of a refused request, beside its answer. It may take as long as a body.
pub(super) fn see_to<A, B>(refusal: &Refusal, head: &Parts, body: B, answer: &mut Response<A>)
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
{
    if head.version >= Version::HTTP_2 || body.is_end_stream() {
        return;
    }
    if is_to_come(refusal, head) {
        tokio::spawn(timeout(BODY_TIMEOUT, throw_away(body)));
    } else {
        let close = HeaderValue::from_static("close");
        answer.headers_mut().insert(CONNECTION, close);
    }
}

/// Who asks first may send nothing more, and who was too slow has had its time.
fn is_to_come(refusal: &Refusal, head: &Parts) -> bool {
    !head.headers.contains_key(EXPECT) && !matches!(refusal, Refusal::TooSlow | Refusal::Aborted)
}

async fn throw_away<B>(mut body: B)
where
    B: Body<Data = Bytes> + Unpin,
{
    while let Ok(Some(_)) = next_data(&mut body).await {}
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::Request;
    use http_body_util::{Empty, Full};

    use super::*;

    fn head(version: Version) -> Parts {
        Request::builder()
            .version(version)
            .body(())
            .unwrap()
            .into_parts()
            .0
    }

    #[tokio::test]
    async fn a_connection_that_ends_is_said_to_end() {
        for (refusal, version, ends) in [
            (Refusal::TooSlow, Version::HTTP_11, true),
            (Refusal::NoRoom, Version::HTTP_11, false),
            (Refusal::TooSlow, Version::HTTP_2, false),
        ] {
            let mut answer = Response::new(());
            see_to(&refusal, &head(version), Full::from("more"), &mut answer);
            assert_eq!(
                answer.headers().contains_key(CONNECTION),
                ends,
                "{refusal}, {version:?}"
            );
            let mut answer = Response::new(());
            see_to(&refusal, &head(version), Empty::new(), &mut answer);
            assert!(answer.headers().is_empty(), "there is no rest");
        }
    }
}
