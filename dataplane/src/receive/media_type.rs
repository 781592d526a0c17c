//! Content types and codings, read as HTTP means them: parameters, case and spaces do not matter. Pure.

use http::HeaderValue;

/// How a body is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
}

/// The media type without parameters and surrounding space; empty if absent or not text.
fn essence(value: Option<&HeaderValue>) -> &str {
    let text = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}

fn is_any_of(value: Option<&HeaderValue>, names: &[&str]) -> bool {
    let essence = essence(value);
    names.iter().any(|name| essence.eq_ignore_ascii_case(name))
}

/// Any content type of gRPC, also one that we do not speak.
pub(super) fn is_grpc_family(value: Option<&HeaderValue>) -> bool {
    essence(value)
        .get(..16)
        .is_some_and(|start| start.eq_ignore_ascii_case("application/grpc"))
}

/// gRPC with protobuf messages.
pub(super) fn is_grpc_protobuf(value: Option<&HeaderValue>) -> bool {
    is_any_of(value, &["application/grpc", "application/grpc+proto"])
}

/// OTLP/HTTP with protobuf messages.
pub(super) fn is_protobuf(value: Option<&HeaderValue>) -> bool {
    is_any_of(value, &["application/x-protobuf"])
}

/// `content-encoding` or `grpc-encoding`; `None` for what we cannot unpack.
pub(super) fn coding(value: Option<&HeaderValue>) -> Option<Coding> {
    let Some(value) = value else {
        return Some(Coding::Identity);
    };
    let name = value.to_str().ok()?.trim();
    if name.is_empty() || name.eq_ignore_ascii_case("identity") {
        Some(Coding::Identity)
    } else if name.eq_ignore_ascii_case("gzip") {
        Some(Coding::Gzip)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_case_and_spaces_do_not_matter() {
        for text in [
            "application/x-protobuf",
            "Application/X-Protobuf",
            "application/x-protobuf; charset=utf-8",
            " application/x-protobuf ;version=1",
        ] {
            assert!(is_protobuf(Some(&HeaderValue::from_static(text))), "{text}");
        }
        for text in [
            "application/json",
            "application/x-protobuf2",
            "",
            "text/plain; a=application/x-protobuf",
        ] {
            assert!(!is_protobuf(Some(&HeaderValue::from_static(text))), "{text}");
        }
        assert!(!is_protobuf(None));
    }

    #[test]
    fn grpc_is_recognised_and_told_from_its_other_formats() {
        for (text, family, protobuf) in [
            ("application/grpc", true, true),
            ("APPLICATION/GRPC+PROTO; x=y", true, true),
            ("application/grpc+json", true, false),
            ("application/json", false, false),
        ] {
            assert_eq!(
                is_grpc_family(Some(&HeaderValue::from_static(text))),
                family,
                "{text}"
            );
            assert_eq!(
                is_grpc_protobuf(Some(&HeaderValue::from_static(text))),
                protobuf,
                "{text}"
            );
        }
    }

    #[test]
    fn only_identity_and_gzip_are_codings() {
        assert_eq!(coding(None), Some(Coding::Identity));
        assert_eq!(
            coding(Some(&HeaderValue::from_static("GZip "))),
            Some(Coding::Gzip)
        );
        assert_eq!(
            coding(Some(&HeaderValue::from_static("identity"))),
            Some(Coding::Identity)
        );
        for text in ["zstd", "deflate", "gzip, gzip"] {
            assert_eq!(coding(Some(&HeaderValue::from_static(text))), None, "{text}");
        }
    }
}
