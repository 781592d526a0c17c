#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use super::{Missing, Options, Passage, Proxy, Redis, RedisError, own_server};
use crate::poll;

const WITHIN: Duration = Duration::from_secs(20);

/// As a data plane comes in: plain, as the user.
async fn as_user(redis: &Redis, words: &[&str]) -> Result<(), redis::RedisError> {
    let coordination = redis.coordination(redis.entrance());
    let Some(crate::process::Source::File { file }) = coordination.password else {
        panic!("no password");
    };
    let info = format!(
        "redis://{}:{}@{}:{}",
        coordination.user.unwrap(),
        std::fs::read_to_string(file).unwrap(),
        coordination.host,
        coordination.port
    );
    let client = redis::Client::open(info)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command.query_async(&mut connection).await
}

async fn start() -> Option<Redis> {
    if let Err(missing) = own_server() {
        assert_eq!(missing, Missing::Foreign, "redis-server must be installed");
        return None;
    }
    let options = Options {
        tls: false,
        ..Options::default()
    };
    Some(Redis::start(options).await.unwrap())
}

#[tokio::test]
async fn the_user_has_its_namespace_and_nothing_else() {
    let Some(redis) = start().await else { return };
    let key = redis.key("leases");
    let script = "redis.call('ZADD', KEYS[1], 1, 'a'); redis.call('PEXPIRE', KEYS[1], 60000)";
    as_user(&redis, &["EVAL", script, "1", &key]).await.unwrap();
    assert!(
        as_user(&redis, &["EVAL", script, "1", "jevmetrics:{other}:leases"])
            .await
            .is_err()
    );
    assert!(as_user(&redis, &["KEYS", "*"]).await.is_err());
    assert!(redis.keys_without_expiry().await.unwrap().is_empty());

    redis.change_password("other").await.unwrap();
    assert!(as_user(&redis, &["EVAL", script, "1", &key]).await.is_err());
    redis.write_password("other").unwrap();
    as_user(&redis, &["EVAL", script, "1", &key]).await.unwrap();
    redis.change_user(&["-zadd"]).await.unwrap();
    assert!(as_user(&redis, &["EVAL", script, "1", &key]).await.is_err());
}

#[tokio::test]
async fn keys_without_an_end_and_outside_are_found() {
    let Some(redis) = start().await else { return };
    redis
        .command::<()>(&["SET", &redis.key("score:v:i"), "1 refused", "PX", "60000"])
        .await
        .unwrap();
    assert!(redis.keys_without_expiry().await.unwrap().is_empty());
    assert!(redis.keys_outside().await.unwrap().is_empty());
    redis
        .command::<()>(&["SET", &redis.key("odd"), "1"])
        .await
        .unwrap();
    redis.command::<()>(&["SET", "elsewhere", "1"]).await.unwrap();
    assert_eq!(redis.keys_without_expiry().await.unwrap(), [redis.key("odd")]);
    assert_eq!(redis.keys_outside().await.unwrap(), ["elsewhere"]);
}

#[tokio::test]
async fn what_scripts_write_is_recorded_to_the_last() {
    let Some(redis) = start().await else { return };
    let watch = redis.watch().await.unwrap();
    let script = "redis.call('SET', KEYS[1], ARGV[1], 'PX', 5000)";
    let key = redis.key("score:v:i");
    for number in 0..100 {
        let payload = number.to_string();
        as_user(&redis, &["EVAL", script, "1", &key, &payload])
            .await
            .unwrap();
    }
    let evidence = watch.evidence().await.unwrap();
    assert_eq!((evidence.publications.len(), evidence.calls), (100, 100));
    assert_eq!(evidence.publications[99].payload, "99");
}

#[tokio::test]
async fn faults_come_and_go() {
    let Some(mut redis) = start().await else { return };
    let key = redis.key("score:v:i");
    let write = [
        "EVAL",
        "#!lua\nredis.call('SET', KEYS[1], '1', 'PX', 60000)",
        "1",
        &key,
    ];
    as_user(&redis, &write).await.unwrap();

    redis.demote().await.unwrap();
    assert!(as_user(&redis, &write).await.is_err());
    redis.promote().await.unwrap();
    as_user(&redis, &write).await.unwrap();

    redis.limit_memory(1).await.unwrap();
    assert!(as_user(&redis, &write).await.is_err());
    redis.limit_memory(0).await.unwrap();
    as_user(&redis, &write).await.unwrap();

    redis.pause().await.unwrap();
    let silent = tokio::time::timeout(Duration::from_millis(200), as_user(&redis, &write)).await;
    assert!(silent.is_err());
    redis.resume().await.unwrap();
    as_user(&redis, &write).await.unwrap();

    let watch = redis.watch().await.unwrap();
    redis.kill().await.unwrap();
    assert!(as_user(&redis, &write).await.is_err());
    redis.restart().await.unwrap();
    assert!(redis.keys("").await.unwrap().is_empty());
    assert!(matches!(watch.evidence().await, Err(RedisError::WatchEnded)));
    as_user(&redis, &write).await.unwrap();
}

#[tokio::test]
async fn over_tls_only_the_own_authority_is_behind_the_entrance() {
    if own_server().is_err() {
        return;
    }
    let options = Options {
        tls: true,
        ..Options::default()
    };
    let redis = Redis::start(options).await.unwrap();
    let proxy = Proxy::before(redis.entrance()).await.unwrap();
    let coordination = redis.coordination(proxy.address());
    assert_eq!(
        (coordination.host.as_str(), coordination.port),
        ("localhost", proxy.address().port())
    );
    assert!(coordination.tls.unwrap().ca_file.unwrap().is_file());
    assert_ne!(redis.entrance(), redis.address());
    // Plain words are not understood there.
    assert!(as_user(&redis, &["PING"]).await.is_err());
}

#[tokio::test]
async fn it_ends_with_its_value() {
    let Some(redis) = start().await else { return };
    let address = redis.address();
    drop(redis);
    let gone = || std::net::TcpStream::connect(address).is_err();
    poll::until("the end", WITHIN, gone).await.unwrap();
}

#[tokio::test]
async fn a_proxy_can_be_put_in_front() {
    let Some(redis) = start().await else { return };
    let proxy = Proxy::before(redis.entrance()).await.unwrap();
    let client = redis::Client::open((proxy.address().ip().to_string(), proxy.address().port())).unwrap();
    let ping = async || {
        let mut connection = client.get_multiplexed_async_connection().await?;
        redis::cmd("PING").query_async::<String>(&mut connection).await
    };
    assert_eq!(ping().await.unwrap(), "PONG");
    proxy.set(Passage::Cut);
    assert!(ping().await.is_err());
}
