#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use serde_json::{Value, json};

use super::{Authorization, Behaviour, Distortion, KEY, MockJev, Opinion, Options, RetryHint};
use crate::{http_client, poll};

const WITHIN: Duration = Duration::from_secs(10);

fn question_set(metric: &str) -> Value {
    let noul = json!({"type": "noul", "instructions": "?", "criteria": {"true": "yes", "false": "no"}});
    json!({"model": "jev-latest", "state": {"metric": {"name": metric, "unit": "1"}}, "questions": {
        "relevance": noul, "redundancy": noul, "keep": noul,
        "action": {"type": "choice", "instructions": "?", "criteria": {"keep": "k", "reduce": "r", "drop": "d"}}}})
}

async fn post(jev: &MockJev, body: &Value, key: Option<&str>) -> reqwest::Result<reqwest::Response> {
    let url = format!("{}/v1/systemone", jev.base_url());
    let request = http_client::build()?.post(url).json(body);
    match key {
        Some(key) => request.bearer_auth(key).send().await,
        None => request.send().await,
    }
}

async fn ask(jev: &MockJev, metric: &str) -> reqwest::Result<reqwest::Response> {
    post(jev, &question_set(metric), Some(KEY)).await
}

#[tokio::test]
async fn four_questions_get_four_answers_by_the_metric_name() {
    let jev = MockJev::start_with(Options {
        prefix: "/gateway/typesafe".into(),
        ..Options::default()
    })
    .await
    .unwrap();
    jev.judge().set(
        "orders",
        Opinion {
            relevance: 0.91,
            redundancy: 0.07,
            keep: 0.126,
            action: super::Action::Reduce,
        },
    );
    let response = ask(&jev, "orders").await.unwrap();
    assert!(response.headers().contains_key("x-typesafe-request-id"));
    let reply: Value = response.json().await.unwrap();
    assert_eq!(reply["model"], "jev-1.13.0");
    assert_eq!(reply["answers"]["relevance"]["noul"], 0.91);
    assert_eq!(reply["answers"]["redundancy"]["noul"], 0.07);
    assert_eq!(reply["answers"]["keep"]["noul"], 0.13);
    assert_eq!(reply["answers"]["action"]["choice"], "reduce");
    assert_eq!(reply["usage"]["input_tokens"], 290 + 3 * 20 + 30);

    let requests = jev.requests();
    assert_eq!(requests[0].metric.as_deref(), Some("orders"));
    assert_eq!(requests[0].authorization, Authorization::Right);
    assert_eq!(requests[0].rejection, None);
    assert!(!format!("{requests:?}").contains(KEY));
    assert_eq!(jev.counters().input_tokens, 380);
}

#[tokio::test]
async fn the_key_the_schema_and_the_model_are_checked() {
    let jev = MockJev::start().await.unwrap();
    let body = question_set("n");
    let mut other_model = body.clone();
    other_model["model"] = json!("gpt");
    for (body, key, status) in [
        (&body, Some("other"), 401),
        (&body, None, 403),
        (&json!({"model": "jev-latest"}), Some(KEY), 422),
        (&other_model, Some(KEY), 400),
        (&body, Some(KEY), 200),
    ] {
        let response = post(&jev, body, key).await.unwrap();
        assert_eq!(response.status(), status);
        assert!(
            response.headers().contains_key("x-typesafe-request-id"),
            "{status}"
        );
    }
    assert_eq!(jev.counters().by_status.len(), 5);
}

#[tokio::test]
async fn an_alias_can_move() {
    let jev = MockJev::start().await.unwrap();
    jev.set_model("jev-latest", "jev-1.14.0");
    let reply: Value = ask(&jev, "n").await.unwrap().json().await.unwrap();
    assert_eq!(reply["model"], "jev-1.14.0");
    let models = http_client::build()
        .unwrap()
        .get(format!("{}/v1/models", jev.base_url()))
        .bearer_auth(KEY);
    let models: Value = models.send().await.unwrap().json().await.unwrap();
    assert!(
        models["models"]
            .as_array()
            .unwrap()
            .iter()
            .all(|model| model["name"] != "jev-1.13.0")
    );
}

#[tokio::test]
async fn every_scripted_failure_happens_once_and_then_answers_come_again() {
    let jev = MockJev::start().await.unwrap();
    let expected = [
        ("401", 401),
        ("403", 403),
        ("400", 400),
        ("402", 402),
        ("404", 404),
        ("413", 413),
        ("422", 422),
        ("429", 429),
        ("500", 500),
        ("502", 502),
        ("503", 503),
        ("529", 529),
    ];
    for (name, failure) in Behaviour::failures() {
        jev.script().once(failure);
        let outcome = match ask(&jev, "n").await {
            Err(_) => None,
            Ok(response) => Some((
                response.status().as_u16(),
                response.headers().clone(),
                response.text().await,
            )),
        };
        let status = outcome.as_ref().map_or(0, |(status, ..)| *status);
        match expected.iter().find(|(prefix, _)| name.starts_with(prefix)) {
            Some((_, expected)) => assert_eq!(status, *expected, "{name}"),
            None if name == "closed" => assert!(outcome.is_none()),
            None => assert_eq!(status, 200, "{name}"),
        }
        if let Some((_, headers, text)) = outcome {
            assert!(headers.contains_key("x-typesafe-request-id"), "{name}");
            assert_eq!(text.is_err(), name == "truncated", "{name}");
        }
        assert_eq!(ask(&jev, "n").await.unwrap().status(), 200, "after {name}");
    }
}

#[tokio::test]
async fn retry_hints_come_in_all_three_forms() {
    let jev = MockJev::start().await.unwrap();
    let mut seen = Vec::new();
    for hint in [
        RetryHint::Seconds(7),
        RetryHint::Milliseconds(1_250),
        RetryHint::DateIn(Duration::from_secs(9)),
    ] {
        jev.script().once(Behaviour::rate_limited(Some(hint)));
        let headers = ask(&jev, "n").await.unwrap().headers().clone();
        seen.push(
            ["retry-after", "retry-after-ms"]
                .map(|name| headers.get(name).map(|v| v.to_str().unwrap().to_owned())),
        );
    }
    assert_eq!(seen[0], [Some("7".to_owned()), None]);
    assert_eq!(seen[1], [None, Some("1250".to_owned())]);
    assert!(httpdate::parse_http_date(seen[2][0].as_deref().unwrap()).is_ok());
}

#[tokio::test]
async fn a_422_echoes_what_was_sent() {
    let jev = MockJev::start().await.unwrap();
    jev.script().once(Behaviour::Unprocessable);
    let text = ask(&jev, "very.secret.name").await.unwrap().text().await.unwrap();
    assert!(text.contains("very.secret.name"));
    assert!(serde_json::from_str::<Value>(&text).unwrap()["detail"].is_array());
}

#[tokio::test]
async fn distortions_change_what_they_name() {
    let jev = MockJev::start().await.unwrap();
    let text = async |distortion| {
        jev.script().once(Behaviour::Distorted(distortion));
        ask(&jev, "n").await.unwrap().text().await.unwrap()
    };
    let reply = async |distortion| serde_json::from_str::<Value>(&text(distortion).await).unwrap();
    assert!(
        reply(Distortion::Missing("keep".into())).await["answers"]
            .get("keep")
            .is_none()
    );
    assert_eq!(
        reply(Distortion::WrongType("action".into())).await["answers"]["action"]["type"],
        "noul"
    );
    assert_eq!(
        reply(Distortion::Noul("keep".into(), json!(1.5))).await["answers"]["keep"]["noul"],
        1.5
    );
    assert_eq!(
        reply(Distortion::UnknownChoice("action".into())).await["answers"]["action"]["choice"],
        "escalate"
    );
    assert!(
        reply(Distortion::Extra("bonus".into())).await["answers"]
            .get("bonus")
            .is_some()
    );
    assert!(reply(Distortion::UnknownFields).await.get("routing").is_some());
    assert!(reply(Distortion::NoUsage).await.get("usage").is_none());
    assert!(reply(Distortion::NoModel).await.get("model").is_none());
    assert!(text(Distortion::Huge(2 << 20)).await.len() > 2 << 20);
    assert!(text(Distortion::BareNan("keep".into())).await.contains(":NaN"));
}

#[tokio::test]
async fn a_redirect_points_elsewhere() {
    let (jev, other) = (MockJev::start().await.unwrap(), MockJev::start().await.unwrap());
    jev.script().once(Behaviour::redirect(&other.base_url()));
    let response = ask(&jev, "n").await.unwrap();
    assert_eq!(response.status(), 307);
    assert_eq!(
        response.headers()["location"],
        format!("{}/v1/systemone", other.base_url())
    );
    assert_eq!(other.counters().received, 0);
}

#[tokio::test]
async fn silence_lasts_until_the_client_leaves() {
    let jev = MockJev::start().await.unwrap();
    jev.script().once(Behaviour::Silent);
    let asking = {
        let (client, url) = (
            http_client::build().unwrap(),
            format!("{}/v1/systemone", jev.base_url()),
        );
        tokio::spawn(client.post(url).json(&question_set("n")).bearer_auth(KEY).send())
    };
    poll::until("the request", WITHIN, || jev.counters().in_flight == 1)
        .await
        .unwrap();
    asking.abort();
    poll::until("the client's leaving", WITHIN, || jev.counters().in_flight == 0)
        .await
        .unwrap();
    assert!(jev.counters().by_status.is_empty());
}

#[tokio::test]
async fn a_slow_answer_is_the_right_answer() {
    let jev = MockJev::start().await.unwrap();
    jev.script().once(Behaviour::slow(Duration::from_millis(20)));
    assert_eq!(ask(&jev, "n").await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_stopped_mock_refuses_and_comes_back_on_its_port() {
    let jev = MockJev::start().await.unwrap();
    let address = jev.address();
    jev.stop().await;
    assert!(ask(&jev, "n").await.unwrap_err().is_connect());
    jev.restart().await.unwrap();
    assert_eq!(jev.address(), address);
    assert_eq!(ask(&jev, "n").await.unwrap().status(), 200);
}
