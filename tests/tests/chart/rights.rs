//! Who may do what: the operator's rights are those that it says it needs, no more and no less.

use std::collections::{BTreeMap, BTreeSet};

use jevmetrics_operator::rights::{LEASE_RIGHTS, RIGHTS, Right};
use jevmetrics_testkit::helm::chart;
use serde_json::{Value, json};

use crate::rendered::{NAMESPACE, OPERATOR, Rendered, rendered};

/// Verbs by API group and resource.
type Rights = BTreeMap<(String, String), BTreeSet<String>>;

fn wanted(rights: &[&[Right]]) -> Rights {
    let rights = rights.iter().copied().flatten();
    rights
        .map(|right| {
            let verbs = right.verbs.iter().map(|&verb| verb.to_owned()).collect();
            ((right.group.to_owned(), right.resource.to_owned()), verbs)
        })
        .collect()
}

fn words(rule: &Value, field: &str) -> Vec<String> {
    let words = rule[field].as_array().unwrap();
    words
        .iter()
        .map(|word| word.as_str().unwrap().to_owned())
        .collect()
}

/// What a role gives.
fn given(role: &Value) -> Rights {
    let mut given = Rights::new();
    for rule in role["rules"].as_array().unwrap() {
        for field in rule.as_object().unwrap().keys() {
            assert!(
                ["apiGroups", "resources", "resourceNames", "verbs"].contains(&field.as_str()),
                "{rule}"
            );
        }
        for group in words(rule, "apiGroups") {
            for resource in words(rule, "resources") {
                given
                    .entry((group.clone(), resource))
                    .or_default()
                    .extend(words(rule, "verbs"));
            }
        }
    }
    let is_wildcard = |word: &String| word.contains('*');
    assert!(
        given.values().all(|verbs| !verbs.iter().any(is_wildcard)),
        "{given:?}"
    );
    given
}

/// The role that a binding of the chart gives to the operator's account.
fn bound<'a>(rendered: &'a Rendered, binding: &str, role: &str) -> &'a Value {
    let binding = rendered.only(binding);
    assert_eq!(
        binding["subjects"],
        json!([{"kind": "ServiceAccount", "name": OPERATOR, "namespace": NAMESPACE}])
    );
    assert_eq!(binding["roleRef"]["kind"], role);
    let named = rendered
        .of_kind(role)
        .into_iter()
        .find(|object| object["metadata"]["name"] == binding["roleRef"]["name"]);
    named.unwrap()
}

#[test]
fn in_the_whole_cluster_the_rights_are_those_of_the_list_and_the_lease_is_at_home() {
    let rendered = rendered(&json!({"scope": "Cluster"}));
    assert_eq!(
        given(bound(&rendered, "ClusterRoleBinding", "ClusterRole")),
        wanted(&[RIGHTS])
    );
    assert_eq!(
        given(bound(&rendered, "RoleBinding", "Role")),
        wanted(&[LEASE_RIGHTS])
    );
}

#[test]
fn in_one_namespace_the_rights_are_those_of_the_list() {
    let rendered = rendered(&json!({"scope": "Namespaced"}));
    assert_eq!(
        given(bound(&rendered, "RoleBinding", "Role")),
        wanted(&[RIGHTS, LEASE_RIGHTS])
    );
}

/// *Guarantees*: of Leases the operator can read and write its own alone. What is not there yet has no name, so creating
/// cannot be held to one.
#[test]
fn only_the_operators_own_lease_can_be_taken() {
    for scope in ["Cluster", "Namespaced"] {
        let rendered = rendered(&json!({"scope": scope}));
        let lease = rendered.arguments().lease_name;
        for rule in rendered.only("Role")["rules"].as_array().unwrap() {
            if words(rule, "resources") != ["leases"] {
                assert!(rule["resourceNames"].is_null(), "{rule}");
            } else if words(rule, "verbs") != ["create"] {
                assert_eq!(rule["resourceNames"], json!([lease]));
            }
        }
    }
}

#[test]
fn every_rule_says_why() {
    let text = std::fs::read_to_string(chart().join("templates/_rights.tpl")).unwrap();
    for Right {
        group,
        resource,
        reason,
        ..
    } in RIGHTS.iter().chain(LEASE_RIGHTS)
    {
        let group = if group.is_empty() { r#""""# } else { group };
        let rule = format!("\n# {reason}\n- apiGroups: [{group}]\n  resources: [{resource}]\n");
        assert!(text.contains(&rule), "templates/_rights.tpl lacks{rule}");
    }
    let [rules, reasons] = ["\n- apiGroups:", "\n# "].map(|begin| text.matches(begin).count());
    assert_eq!(rules, reasons);
}

#[test]
fn without_rbac_nothing_is_given_to_anybody() {
    for scope in ["Cluster", "Namespaced"] {
        let rendered = rendered(&json!({"scope": scope, "rbac": {"create": false}}));
        let names = rendered.names();
        assert!(!names.iter().any(|name| name.contains("Role")), "{names:?}");
    }
}

/// *Guarantees*: viewers see policies, editors change and scale them, and nobody gets to write a status or anything else.
#[test]
fn users_get_their_part_by_aggregation() {
    let rendered = rendered(&json!({"scope": "Cluster"}));
    let of = |label: &str| -> Vec<&Value> {
        let roles = rendered.of_kind("ClusterRole").into_iter();
        roles
            .filter(|role| role["metadata"]["labels"][label] == "true")
            .collect()
    };
    let [view] = of("rbac.authorization.k8s.io/aggregate-to-view")[..] else {
        panic!("{:?}", rendered.names());
    };
    let [edit] = of("rbac.authorization.k8s.io/aggregate-to-edit")[..] else {
        panic!("{:?}", rendered.names());
    };
    let verbs = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<BTreeSet<_>>();
    let resource = |name: &str| ("jevmetrics.io".to_owned(), name.to_owned());
    let read = verbs(&["get", "list", "watch"]);
    let may_view: Rights = [
        "jevmetricspolicies",
        "jevmetricspolicies/scale",
        "jevmetricspolicies/status",
    ]
    .map(|name| (resource(name), read.clone()))
    .into();
    assert_eq!(given(view), may_view);
    let may_edit: Rights = [
        (
            resource("jevmetricspolicies"),
            verbs(&["create", "update", "patch", "delete", "deletecollection"]),
        ),
        (resource("jevmetricspolicies/scale"), verbs(&["update", "patch"])),
    ]
    .into();
    assert_eq!(given(edit), may_edit);
    let aggregated = |role: &&Value| {
        let labels = role["metadata"]["labels"].as_object().unwrap();
        labels.keys().any(|label| label.contains("aggregate-to"))
    };
    assert_eq!(
        rendered
            .of_kind("ClusterRole")
            .into_iter()
            .filter(aggregated)
            .count(),
        2
    );
}
