//! A real data plane in place of a hollow pod's containers: the rendered settings, and the rights of the rendered Role.

use std::path::PathBuf;
use std::time::Duration;

use jevmetrics_testkit::cluster::ControlPlane;
use jevmetrics_testkit::mock_jev::{self, MockJev};
use jevmetrics_testkit::poll;
use jevmetrics_testkit::process::{DataPlane, Live, LiveObject, Mode, Options, SettingsFile, free_listen};
use jevmetrics_testkit::sink::{Sink, Tally};
use jevmetrics_testkit::source::{Generator, GrpcOptions, GrpcSender, Shape};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::Code;

/// Longer than anything takes on a busy machine; reached only by a failing test.
pub(crate) const WITHIN: Duration = Duration::from_mins(1);

/// Half of 10 instruments of 2 points are dropped under the mock's opinion and the default thresholds.
pub(crate) const SHAPE: Shape = Shape {
    metrics: 10,
    points: 2,
    resources: 1,
    scopes: 2,
    droppable_percent: 50,
};
pub(crate) const INSTRUMENTS: u64 = 10;
pub(crate) const POINTS: u64 = 20;

/// Model and backend of a policy's data planes.
#[derive(Debug)]
pub(crate) struct Neighbours {
    pub(crate) jev: MockJev,
    pub(crate) sink: Sink,
}

impl Neighbours {
    pub(crate) async fn start() -> Self {
        Self {
            jev: MockJev::start().await.unwrap(),
            sink: Sink::start().await.unwrap(),
        }
    }

    /// A spec that leads to them, with a budget that no test waits for.
    pub(crate) fn spec(&self, mode: &str) -> Value {
        json!({
            "mode": mode,
            "replicas": 2,
            "export": {"endpoint": self.sink.endpoint()},
            "inference": {
                "baseURL": self.jev.base_url(),
                "apiKeySecretRef": {"name": "jev", "key": "token"},
                "requestsPerSecondPerReplica": 1000,
                "burst": 1000,
                "workers": 8,
            },
        })
    }
}

/// The Secret that [`Neighbours::spec`] names.
pub(crate) async fn put_key(client: &Client, namespace: &str) {
    let secret = json!({"metadata": {"name": "jev"}, "stringData": {"token": mock_jev::KEY}});
    let secret: Secret = serde_json::from_value(secret).unwrap();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
}

/// What a pod of a policy would be given.
#[derive(Debug)]
pub(crate) struct Rendered {
    namespace: String,
    policy: String,
    settings: Value,
    kubeconfig: PathBuf,
}

impl Rendered {
    /// The settings and the service account of a policy that has been applied.
    pub(crate) async fn of(plane: &ControlPlane, client: &Client, namespace: &str, policy: &str) -> Self {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let prefix = format!("{policy}-settings-");
        let maps = maps.list(&ListParams::default()).await.unwrap();
        let mut settings = maps.into_iter().filter(|map| map.name_any().starts_with(&prefix));
        let text = settings
            .next()
            .unwrap()
            .data
            .unwrap()
            .remove("settings.yaml")
            .unwrap();
        assert!(settings.next().is_none(), "one generation of settings");
        let account = format!("{policy}-dataplane");
        let kubeconfig = plane.kubeconfig_for_service_account(namespace, &account);
        Self {
            namespace: namespace.to_owned(),
            policy: policy.to_owned(),
            settings: serde_yaml::from_str(&text).unwrap(),
            kubeconfig: kubeconfig.await.unwrap(),
        }
    }

    pub(crate) fn kubeconfig(&self) -> &PathBuf {
        &self.kubeconfig
    }

    /// Starts a process with these settings; only its ports, and where the key is mounted, are of this machine.
    pub(crate) async fn start(&self, neighbours: &Neighbours, pod: &str) -> RealPlane {
        let (sink, jev) = (&neighbours.sink, &neighbours.jev);
        let mounted = tempfile::tempdir().unwrap();
        let key = mounted.path().join("token");
        std::fs::write(&key, mock_jev::KEY).unwrap();
        let listen = free_listen().unwrap();
        let mut settings = self.settings.clone();
        settings["listen"] = serde_json::to_value(listen).unwrap();
        settings["inference"]["apiKey"]["file"] = json!(key);
        let live = json!({"object": {"namespace": self.namespace, "name": format!("{}-live", self.policy)}});
        assert_eq!(settings["live"], live, "{settings:#}");

        let mut options = Options::new(
            SettingsFile::new(&sink.endpoint(), &jev.base_url()),
            Mode::Annotate,
        );
        options.settings.listen = listen;
        options.settings.live = Live::Object {
            object: LiveObject {
                namespace: self.namespace.clone(),
                name: format!("{}-live", self.policy),
            },
        };
        options.settings_text = Some(serde_yaml::to_string(&settings).unwrap());
        (options.live, options.api_key) = (None, None);
        options.ready_within = WITHIN;
        options.environment = vec![
            ("KUBECONFIG".to_owned(), self.kubeconfig.display().to_string()),
            ("JEVMETRICS_POD_NAME".to_owned(), pod.to_owned()),
        ];
        let plane = DataPlane::start(options).await.unwrap();
        RealPlane {
            sender: GrpcSender::lazy(&plane.grpc_endpoint()).unwrap(),
            plane,
            generator: Generator::new(SHAPE, 1),
            _mounted: mounted,
        }
    }
}

/// A running data plane and a client of it.
#[derive(Debug)]
pub(crate) struct RealPlane {
    pub(crate) plane: DataPlane,
    sender: GrpcSender,
    generator: Generator,
    _mounted: TempDir,
}

impl RealPlane {
    /// Names that the mock wants to be dropped.
    pub(crate) fn droppable_names(&self) -> Vec<String> {
        self.generator.droppable_names()
    }

    /// Sends every instrument once; says what arrived.
    pub(crate) async fn send(&mut self, sink: &Sink) -> Tally {
        sink.reset();
        let message = self.generator.next_bytes();
        let told = self.sender.send(message, &GrpcOptions::default()).await;
        assert_eq!(told.code, Code::Ok, "{}", told.message);
        sink.counts().accepted
    }

    /// Sends until what arrives is as `wanted` says.
    pub(crate) async fn arrives(&mut self, sink: &Sink, what: &str, wanted: impl Fn(&Tally) -> bool) {
        let arrived = poll::eventually(what, WITHIN, async || {
            let tally = self.send(sink).await;
            if wanted(&tally) {
                Ok(())
            } else {
                Err(format!("{:?}", tally.others))
            }
        });
        if let Err(error) = arrived.await {
            panic!("{error}; {}", self.plane.printed());
        }
    }

    /// Has every instrument assessed.
    pub(crate) async fn learns(&mut self, sink: &Sink) {
        let assessed = poll::eventually("assessments of all instruments", WITHIN, async || {
            self.send(sink).await;
            let (_, body) = self.plane.get_admin("/api/summary").await.unwrap();
            let summary: Value = serde_json::from_str(&body).unwrap();
            let identities = &summary["identities"];
            let waits = identities["now"].as_array().unwrap().iter();
            // For an assessment, or for the policy itself.
            let awaits = |row: &&Value| row["reason"].as_str().unwrap().starts_with("awaiting_");
            let waits = waits.filter(awaits).count();
            if identities["known"].as_u64() == Some(INSTRUMENTS) && waits == 0 {
                Ok(())
            } else {
                Err(body)
            }
        });
        if let Err(error) = assessed.await {
            panic!("{error}; {}", self.plane.printed());
        }
    }
}
