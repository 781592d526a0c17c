#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn owner(slot: u16) -> Owner {
    Owner {
        slot,
        uid: format!("uid-{slot}"),
        name: format!("jm-6f7d9c5b8-{slot}"),
        address: format!("10.0.0.{}:4319", slot % 250 + 1).parse().unwrap(),
        zone: None,
    }
}

fn header() -> Header {
    Header {
        cluster: ClusterIdentity {
            namespace: "monitoring".to_owned(),
            policy: "3f2a".to_owned(),
        },
        affinity: Affinity::Forward,
        key: KeySource::Source,
    }
}

fn table(slots: &[u16]) -> RoutingTable {
    let owners = slots.iter().map(|&slot| owner(slot)).collect();
    RoutingTable::new(7, header(), owners).unwrap()
}

const TEXT: &str = "\
schema: 1
epoch: 7
affinity: Forward
hash: hrw-splitmix64-v1
keySchema: 1
keySource: Source
cluster:
  namespace: monitoring
  policy: 3f2a
owners:
- slot: 0
  uid: uid-0
  name: jm-6f7d9c5b8-0
  address: 10.0.0.1:4319
  zone: eu-1a
- slot: 5
  uid: uid-5
  name: jm-6f7d9c5b8-5
  address: '[fd00::5]:4319'
";

fn written() -> RoutingTable {
    let mut owners = vec![owner(5), owner(0)];
    owners[0].address = "[fd00::5]:4319".parse().unwrap();
    owners[1].zone = Some("eu-1a".to_owned());
    RoutingTable::new(7, header(), owners).unwrap()
}

fn refusal(text: &str) -> String {
    RoutingTable::from_routing_yaml(text).expect_err(text).to_string()
}

/// Reckoned apart from this code. If one changes, pods of two versions disagree about owners.
#[test]
fn owners_are_frozen() {
    let table = table(&[0, 1, 2, 5, 9]);
    for (key, first, second) in [
        (0x0000_0000_0000_0000, 1, 2),
        (0x0000_0000_0000_0001, 5, 2),
        (0xffff_ffff_ffff_ffff, 0, 9),
        (0x0123_4567_89ab_cdef, 0, 2),
        (0xfedc_ba98_7654_3210, 0, 1),
        (0x8000_0000_0000_0000, 9, 5),
    ] {
        assert_eq!(table.owner(key).slot, first, "{key:#x}");
        assert_eq!(table.rank2(key).map(|owner| owner.slot), Some(second), "{key:#x}");
    }
}

#[test]
fn a_table_of_one_has_no_second() {
    let table = table(&[3]);
    for key in [0, 1, u64::MAX] {
        assert_eq!(table.owner(key).slot, 3);
        assert_eq!(table.rank2(key), None);
    }
}

#[test]
fn the_text_has_the_agreed_layout() {
    assert_eq!(written().to_yaml(), TEXT);
    assert_eq!(RoutingTable::from_routing_yaml(TEXT).unwrap(), written());
}

#[test]
fn a_file_holds_it_below_routing_beside_the_policy() {
    let below: Vec<_> = TEXT.lines().map(|line| format!("  {line}")).collect();
    let file = format!("policy: {{schema: 1}}\nrouting:\n{}\n", below.join("\n"));
    assert_eq!(RoutingTable::from_yaml(&file).unwrap(), Some(written()));
    assert!(crate::live::LivePolicy::from_yaml(&file).is_ok());
    for without in ["policy: {schema: 1}", "policy: {schema: 1}\nrouting: ~\n"] {
        assert_eq!(RoutingTable::from_yaml(without).unwrap(), None);
    }
    // Neither key holds up the other.
    let file = "policy: {schema: 9}\nrouting: {schema: 9}\n";
    let error = RoutingTable::from_yaml(file).unwrap_err().to_string();
    assert!(error.starts_with("routing.schema: must be 1, is 9;"), "{error}");
    let error = crate::live::LivePolicy::from_yaml(file).unwrap_err().to_string();
    assert_eq!(error, "policy.schema: must be 1, is 9");
}

#[test]
fn what_is_written_is_read_whatever_texts_look_like() {
    let odd = [
        "1",
        "1e5",
        "0x1f",
        "true",
        "null",
        "~",
        "-",
        "a:b",
        "#a",
        "'",
        "\"",
        "{",
        "[",
        "*a",
        "&a",
        "!a",
        "%",
        "@",
        "2026-01-01",
        ".inf",
        "=",
        "<<",
        "|",
        ">",
        "\\n",
    ];
    for text in odd {
        let mut header = header();
        header.cluster.namespace = text.to_owned();
        header.cluster.policy = text.to_owned();
        header.affinity = Affinity::None;
        header.key = KeySource::Context(vec![text.to_owned(), "ö, ü".to_owned(), " ".to_owned()]);
        let mut one = owner(999);
        one.uid = text.to_owned();
        one.name = text.to_owned();
        one.zone = Some(text.to_owned());
        let table = RoutingTable::new(MAX_EPOCH, header, vec![one]).unwrap();
        let read = RoutingTable::from_routing_yaml(&table.to_yaml());
        assert_eq!(read.as_ref(), Ok(&table), "{text}");
    }
}

#[test]
fn the_largest_table_can_be_written_and_read() {
    let mut header = header();
    let names = (0..MAX_KEY_ATTRIBUTES).map(|index| format!("{index:0256}"));
    header.key = KeySource::Listed(names.collect());
    let owners = (0..1000).map(|slot| Owner {
        uid: format!("{slot:0128}"),
        name: format!("{slot:0253}"),
        zone: Some(format!("{slot:063}")),
        ..owner(slot)
    });
    let table = RoutingTable::new(MAX_EPOCH, header, owners.collect()).unwrap();
    assert_eq!(RoutingTable::from_routing_yaml(&table.to_yaml()).unwrap(), table);
}

#[test]
fn lists_of_attributes_are_sorted_and_duplicates_folded() {
    let mut header = header();
    header.key = KeySource::Listed(["b", "a", "b"].map(str::to_owned).to_vec());
    let table = RoutingTable::new(1, header, vec![owner(0)]).unwrap();
    let names = table.header().key.attributes().unwrap();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn what_breaks_a_rule_is_refused_by_name() {
    let owner = "{slot: 0, uid: u, name: n, address: '10.0.0.1:1'}";
    let head =
        "schema: 1\nepoch: 7\nhash: hrw-splitmix64-v1\nkeySchema: 1\ncluster: {namespace: ns, policy: p}\n";
    let with = |owners: &str| format!("{head}owners: [{owners}]\n");
    RoutingTable::from_routing_yaml(&with(owner)).unwrap();
    let port = "routing.owners[0].address: must be an IP address and a port, such as 10.0.0.1:4319 or [fd00::1]:4319";
    for (from, to, message) in [
        ("schema: 1", "schema: 2", "routing.schema: must be 1, is 2"),
        (
            "keySchema: 1",
            "keySchema: 2",
            "routing.keySchema: must be 1, is 2",
        ),
        (
            "hrw-splitmix64-v1",
            "ring",
            "routing.hash: must be hrw-splitmix64-v1",
        ),
        (
            "epoch: 7",
            "epoch: 0",
            "routing.epoch: must be a whole number from 1 to 9007199254740991, is 0",
        ),
        (
            "epoch: 7",
            "epoch: 9007199254740992",
            "routing.epoch: must be a whole number from 1 to 9007199254740991, is 9007199254740992",
        ),
        ("epoch: 7", "", "routing.epoch: must be given"),
        (
            "epoch: 7",
            "epoch: 7\naffinity: forward",
            "routing.affinity: must be Forward or Upstream or None (upper and lower case matter)",
        ),
        (
            "epoch: 7",
            "epoch: 7\nkeySource: Listed",
            "routing.keyAttributes: must be given, and not be empty",
        ),
        (
            "epoch: 7",
            "epoch: 7\nkeySource: Context\nkeyAttributes: []",
            "routing.keyAttributes: must be given, and not be empty",
        ),
        (
            "epoch: 7",
            "epoch: 7\nkeyAttributes: [a]",
            "routing.keyAttributes: must not be given with keySource Source",
        ),
        (
            "namespace: ns",
            "namespace: ''",
            "routing.cluster.namespace: must have 1 to 63 characters of printable ASCII without spaces",
        ),
        (
            "name: n",
            "name: 'a b'",
            "routing.owners[0].name: must have 1 to 253 characters of printable ASCII without spaces",
        ),
        (
            "slot: 0",
            "slot: 1000",
            "routing.owners[0].slot: must be a whole number from 0 to 999, is 1000",
        ),
        ("10.0.0.1:1", "10.0.0.1", port),
        ("10.0.0.1:1", "10.0.0.1:0", port),
        ("10.0.0.1:1", "host:1", port),
        (
            "uid: u",
            "uid: u, state: Held",
            "routing.owners[0].state: is not known here",
        ),
    ] {
        let text = with(owner).replacen(from, to, 1);
        let refused = refusal(&text);
        assert!(refused.starts_with(message), "{text}: {refused}");
    }
    for (owners, message) in [
        ("", "routing.owners: must have 1 to 1000 items, has 0"),
        (
            "{slot: 1, uid: u, name: n, address: '1.1.1.1:1'}, {slot: 1, uid: v, name: n, address: '1.1.1.1:1'}",
            "routing.owners: slot 1 must be given once, is given again",
        ),
        (
            "{slot: 1, uid: u, name: n, address: '1.1.1.1:1'}, {slot: 2, uid: u, name: n, address: '1.1.1.1:1'}",
            "routing.owners: slot 2 is held by the pod of another slot",
        ),
    ] {
        assert_eq!(refusal(&with(owners)), message);
    }
    assert!(refusal(head).ends_with("routing.owners: must be given"));
}

#[test]
fn nothing_of_a_refused_text_is_shown() {
    for text in [
        "hunter2",
        "schema: hunter2",
        "hash: hunter2",
        "affinity: hunter2",
        "cluster: {namespace: 'hunter2 '}",
        "owners: [{slot: hunter2, uid: 'hunter2 ', zone: 'hunter2 ', address: hunter2}]",
        "keyAttributes: hunter2",
    ] {
        let refused = refusal(text);
        assert!(!refused.contains("hunter2"), "{refused}");
    }
}

#[test]
fn tables_that_nobody_can_read_are_not_made() {
    let make = |epoch, owners| RoutingTable::new(epoch, header(), owners).unwrap_err();
    assert_eq!(make(0, vec![owner(0)]), TableError::Epoch(0));
    assert_eq!(
        make(MAX_EPOCH + 1, vec![owner(0)]),
        TableError::Epoch(MAX_EPOCH + 1)
    );
    assert_eq!(make(1, Vec::new()), TableError::Owners(0));
    assert_eq!(make(1, (0..1001).map(owner).collect()), TableError::Owners(1001));
    assert_eq!(make(1, vec![owner(1000)]), TableError::Slot(1000));
    assert_eq!(
        make(1, vec![owner(3), owner(2), owner(3)]),
        TableError::PodTwice(3)
    );
    let same_slot = Owner {
        uid: "other".to_owned(),
        ..owner(3)
    };
    assert_eq!(make(1, vec![owner(3), same_slot]), TableError::SlotTwice(3));
    let no_port = Owner {
        address: "10.0.0.1:0".parse().unwrap(),
        ..owner(3)
    };
    assert_eq!(make(1, vec![no_port]), TableError::Port(3));
    for names in [vec![], vec![String::new()], vec!["x".repeat(257)]] {
        let mut header = header();
        header.key = KeySource::Listed(names);
        let error = RoutingTable::new(1, header, vec![owner(0)]).unwrap_err();
        assert_eq!(error, TableError::KeyAttributes);
    }
}

#[test]
fn the_reference_page_shows_a_table_that_can_be_read() {
    let page = include_str!("../../../docs/reference/settings.md");
    let blocks = page.split("```yaml\n").skip(1);
    let block = blocks
        .filter_map(|rest| rest.split("```").next())
        .find(|block| block.starts_with("routing:"))
        .expect("a block");
    let table = RoutingTable::from_yaml(block).unwrap().unwrap();
    assert_eq!((table.epoch(), table.owners().len()), (7, 2));
}
