//! Where the live object is found.

use super::*;

#[test]
fn the_live_object_is_a_file_or_a_config_map() {
    let live = |fields: &str| MINIMAL.replace("file: /live.yaml", fields);
    let LiveSource::Object(object) = settings(&live("object: {namespace: shop, name: a.b-live}"))
        .live()
        .clone()
    else {
        panic!("not an object");
    };
    assert_eq!((object.namespace(), object.name()), ("shop", "a.b-live"));
    assert_eq!(object.to_string(), "live object shop/a.b-live");
    for (fields, message) in [
        ("", "live.file: must be given, or else live.object"),
        (
            "object: {}, file: /l",
            "live.object.namespace: must be given; live.object.name: must be given",
        ),
        (
            "object: {namespace: a, name: b}, file: /l",
            "live.object: must not be given beside live.file",
        ),
        (
            "object: {namespace: a.b, name: b}",
            "live.object.namespace: must be the name of a namespace",
        ),
        (
            "object: {namespace: a, name: \"b/c\"}",
            "live.object.name: must be the name of a ConfigMap",
        ),
        (
            "object: {namespace: a, name: \"b..c\"}",
            "live.object.name: must be",
        ),
        ("object: {namespace: a, name: B}", "live.object.name: must be"),
        (
            "object: {namespace: a, name: b, key: c}",
            "live.object.key: is not known here",
        ),
        ("object: a", "live.object: must be a mapping"),
        ("file: l", "live.file: must be an absolute path"),
    ] {
        let error = refusal(&live(fields));
        assert!(error.starts_with(message), "{fields}: {error}");
    }
}
