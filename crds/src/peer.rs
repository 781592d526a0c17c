//! The gRPC service `jevmetrics.peer.v1.Peer`, over which pods are asked who they are.
//!
//! Written by hand: one unary method without fields in its request needs no code generator.
//!
//! ```text
//! operator, peer -- SelfRequest -> Peer/Self -> SelfReply {document: JSON of member::Member}
//! ```

/// The service's full name.
pub const SERVICE: &str = "jevmetrics.peer.v1.Peer";
/// The path of the method `Self`: unary, [`SelfRequest`] to [`SelfReply`].
pub const SELF_PATH: &str = "/jevmetrics.peer.v1.Peer/Self";
/// The port unless the settings name another.
pub const PORT: u16 = 4319;
/// The DNS name in every pod's certificate, whatever its address: one Secret serves all pods of a policy.
pub const SERVER_NAME: &str = "peer.jevmetrics.internal";

/// Asks a pod for its heartbeat document.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct SelfRequest {}

/// The answer.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct SelfReply {
    /// [`crate::member::Member`] as JSON, at most [`crate::member::MAX_BYTES`] long.
    #[prost(bytes = "vec", tag = "1")]
    pub document: Vec<u8>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use prost::Message as _;

    use super::*;

    #[test]
    fn the_messages_have_the_agreed_bytes() {
        assert!(SelfRequest {}.encode_to_vec().is_empty());
        let reply = SelfReply {
            document: b"{}".to_vec(),
        };
        assert_eq!(reply.encode_to_vec(), [0x0a, 2, b'{', b'}']);
        // A field of a later version is passed over.
        let later = [0x0a, 2, b'{', b'}', 0x10, 7];
        assert_eq!(SelfReply::decode(later.as_slice()).unwrap(), reply);
        assert!(SELF_PATH.contains(SERVICE));
    }
}
