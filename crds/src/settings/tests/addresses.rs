//! URLs, header names, and how many of each.

use super::*;

#[test]
fn header_names_are_tokens_that_nobody_else_sets() {
    for refused in [
        "Content-Type",
        "content-length",
        "content-encoding",
        "HOST",
        "te",
        "grpc-timeout",
        "connection",
        "transfer-encoding",
        "User-Agent",
        "a b",
        "",
        ":path",
        "trace-bin",
    ] {
        let message = refusal(&with(
            "export",
            &format!("headers: [{{name: \"{refused}\", value: {{env: A}}}}]"),
        ));
        assert!(
            message.starts_with("export.headers[0].name: must "),
            "{refused}: {message}"
        );
    }
    let twice = "headers: [{name: a, value: {env: A}}, {name: A, value: {env: B}}]";
    assert_eq!(
        refusal(&with("export", twice)),
        "export.headers[1].name: must differ from the names before it"
    );
}

#[test]
fn at_most_32_headers_and_32_context_attributes_are_read() {
    let headers = |count: usize| {
        let items: Vec<String> = (0..count)
            .map(|i| format!("{{name: h{i}, value: {{env: A}}}}"))
            .collect();
        with("export", &format!("headers: [{}]", items.join(", ")))
    };
    assert_eq!(settings(&headers(32)).export().headers().len(), 32);
    assert_eq!(
        refusal(&headers(33)),
        "export.headers: must have at most 32 items, has 33"
    );
    let attributes = |count: usize| {
        let items: Vec<String> = (0..count).map(|i| format!("a{i}")).collect();
        with("inference", &format!("contextAttributes: [{}]", items.join(", ")))
    };
    assert_eq!(
        settings(&attributes(32)).inference().context_attributes().len(),
        32
    );
    assert_eq!(settings(&attributes(0)).inference().context_attributes().len(), 0);
    assert_eq!(
        refusal(&attributes(33)),
        "inference.contextAttributes: must have at most 32 items, has 33"
    );
}

#[test]
fn endpoints_are_http_urls_with_a_host() {
    for (protocol, url, whole) in [
        ("GRPC", "http://sink:4317", "http://sink:4317/"),
        ("GRPC", "HTTP://Sink:4317/", "http://sink:4317/"),
        ("GRPC", "http://[::1]:4317", "http://[::1]:4317/"),
        ("HTTP", "http://sink:4318", "http://sink:4318/v1/metrics"),
        ("HTTP", "http://sink:4318/", "http://sink:4318/v1/metrics"),
        (
            "HTTP",
            "http://sink/otlp/v1/metrics",
            "http://sink:80/otlp/v1/metrics",
        ),
    ] {
        assert_eq!(
            settings(&endpoint(protocol, url)).export().endpoint().url(),
            whole
        );
    }
    assert_eq!(
        settings(&endpoint("GRPC", "http://[::1]:1"))
            .export()
            .endpoint()
            .host(),
        "::1"
    );
    for (url, authority) in [("https://Sink", "sink:443"), ("https://sink:4317/", "sink:4317")] {
        let read = settings(&endpoint("GRPC", url));
        let endpoint = read.export().endpoint();
        assert!(endpoint.is_secure());
        assert_eq!(
            (endpoint.authority().as_str(), endpoint.url()),
            (authority, format!("https://{authority}/"))
        );
    }
    for (protocol, url, rule) in [
        (
            "GRPC",
            "http://sink:4317/path",
            "must have no path with protocol GRPC",
        ),
        ("GRPC", "sink:4317", "must be a URL of the form"),
        ("GRPC", "grpc://sink:4317", "must be a URL of the form"),
        ("GRPC", "", "must be a URL of the form"),
        ("GRPC", "/path", "must be a URL of the form"),
        ("GRPC", "http://", "must be a URL of the form"),
        ("GRPC", "http://:4317", "must "),
        ("GRPC", "http://sink:0", "must have a port from 1 to 65535"),
        ("GRPC", "http://sink:65536", "must "),
        ("GRPC", "http://sink:", "must "),
        ("GRPC", "http://a:b@sink", "must have no user and no password"),
        ("HTTP", "http://sink?x=y", "must have no query and no fragment"),
        ("HTTP", "http://sink/#a", "must have no query and no fragment"),
        ("HTTP", "http://si nk/", "must be a URL of the form"),
    ] {
        let message = refusal(&endpoint(protocol, url));
        assert!(
            message.starts_with(&format!("export.endpoint: {rule}")),
            "{url}: {message}"
        );
    }
}

#[test]
fn a_base_url_keeps_its_prefix_and_loses_its_last_slash() {
    for (url, kept) in [
        ("https://api.typesafe.ai/", "https://api.typesafe.ai"),
        (
            "http://127.0.0.1:8080/gateway/jev//",
            "http://127.0.0.1:8080/gateway/jev",
        ),
        ("HTTPS://Host:443", "https://host:443"),
    ] {
        assert_eq!(
            settings(&with("inference", &format!("baseURL: \"{url}\"")))
                .inference()
                .base_url(),
            kept
        );
    }
    let message = refusal(&with("inference", "baseURL: \"ftp://host\""));
    assert!(
        message.starts_with("inference.baseURL: must be a URL of the form"),
        "{message}"
    );
}
