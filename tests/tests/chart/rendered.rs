//! What the chart makes of values.

use std::path::Path;

use jevmetrics_testkit::helm::{Helm, HelmError, chart};
use serde::Deserialize as _;
use serde_json::{Value, json};

/// Release and namespace of all that is rendered here.
pub(crate) const RELEASE: &str = "jm";
pub(crate) const NAMESPACE: &str = "observability";
/// What names begin with under that release.
pub(crate) const OPERATOR: &str = "jm-jevmetrics-operator";
/// A Kubernetes that the chart takes.
const KUBERNETES: &str = "--kube-version=1.36.0";

/// Objects in the order of the chart's files.
#[derive(Debug)]
pub(crate) struct Rendered(pub(crate) Vec<Value>);

/// What the chart makes of `values`.
pub(crate) fn rendered(values: &Value) -> Rendered {
    rendered_by(&chart(), values)
}

/// What another chart makes of `values`.
pub(crate) fn rendered_by(chart: &Path, values: &Value) -> Rendered {
    let text = template(chart, values, &[]).unwrap();
    let documents =
        serde_yaml::Deserializer::from_str(&text).map(|document| Value::deserialize(document).unwrap());
    Rendered(documents.filter(|document| !document.is_null()).collect())
}

/// Why the chart does not take `values`.
pub(crate) fn refusal(values: &Value) -> String {
    match template(&chart(), values, &[]) {
        Ok(text) => panic!("{values} is taken:\n{text}"),
        Err(HelmError::Failed { printed, .. }) => printed,
        Err(other) => panic!("{other}"),
    }
}

/// The text that Helm prints.
pub(crate) fn template(chart: &Path, values: &Value, more: &[&str]) -> Result<String, HelmError> {
    let chart = chart.display().to_string();
    let namespace = format!("--namespace={NAMESPACE}");
    let mut arguments = vec!["template", RELEASE, &chart, &namespace, KUBERNETES, "--values=-"];
    arguments.extend(more);
    Helm::shared().unwrap().run(&arguments, &values.to_string())
}

/// Everything that can be switched on is.
pub(crate) fn everything(scope: &str) -> Value {
    json!({
        "scope": scope,
        "replicaCount": 2,
        "imagePullSecrets": [{"name": "pull"}],
        "serviceAccount": {"annotations": {"example.com/role": "a"}},
        "metrics": {"service": {"create": true}, "serviceMonitor": {"create": true}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"},
        ],
        "priorityClassName": "high",
    })
}

impl Rendered {
    /// Kind and name of each object.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |object: &Value| {
            let [kind, name] =
                ["/kind", "/metadata/name"].map(|at| object.pointer(at).unwrap().as_str().unwrap());
            format!("{kind} {name}")
        };
        self.0.iter().map(name).collect()
    }

    pub(crate) fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.0.iter().filter(|object| object["kind"] == kind).collect()
    }

    /// The only object of its kind.
    pub(crate) fn only(&self, kind: &str) -> &Value {
        let [only] = self.of_kind(kind)[..] else {
            panic!("{kind}: {:?}", self.names());
        };
        only
    }

    pub(crate) fn pod(&self) -> &Value {
        &self.only("Deployment")["spec"]["template"]["spec"]
    }

    pub(crate) fn container(&self) -> &Value {
        let [only] = &self.pod()["containers"].as_array().unwrap()[..] else {
            panic!("{}", self.pod());
        };
        only
    }

    /// How the operator's own parser reads its arguments.
    pub(crate) fn arguments(&self) -> jevmetrics_operator::args::Run {
        use clap::Parser as _;
        use jevmetrics_operator::args::{Arguments, Command};
        let given = self.container()["args"].as_array().unwrap();
        let given = given.iter().map(|argument| argument.as_str().unwrap());
        match Arguments::try_parse_from(["jevmetrics-operator"].into_iter().chain(given))
            .unwrap()
            .command
        {
            Command::Run(run) => run,
            other => panic!("{other:?}"),
        }
    }
}
