//! The tests' own connection: as the default user, over plain TCP, past every proxy.

use std::net::SocketAddr;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue};

use super::error::RedisError;

/// For connecting, and for one command.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn connect(server: SocketAddr) -> Result<MultiplexedConnection, RedisError> {
    let client = Client::open((server.ip().to_string(), server.port()))?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    Ok(client
        .get_multiplexed_async_connection_with_config(&config)
        .await?)
}

/// Runs one command, given as words.
pub(super) async fn run<T: FromRedisValue>(server: SocketAddr, words: &[&str]) -> Result<T, RedisError> {
    run_over(&mut connect(server).await?, words).await
}

async fn run_over<T: FromRedisValue>(
    connection: &mut MultiplexedConnection,
    words: &[&str],
) -> Result<T, RedisError> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    Ok(command.query_async(connection).await?)
}

/// All keys whose names match.
pub(super) async fn keys(server: SocketAddr, pattern: &str) -> Result<Vec<String>, RedisError> {
    let mut connection = connect(server).await?;
    let (mut cursor, mut keys) = ("0".to_owned(), Vec::new());
    loop {
        let words = ["SCAN", &cursor, "MATCH", pattern, "COUNT", "1000"];
        let (next, mut some): (String, Vec<String>) = run_over(&mut connection, &words).await?;
        keys.append(&mut some);
        if next == "0" {
            keys.sort_unstable();
            keys.dedup();
            return Ok(keys);
        }
        cursor = next;
    }
}

/// What is left of the lives of keys, in milliseconds: -1 without an end, -2 if it is gone meanwhile.
pub(super) async fn lives(server: SocketAddr, keys: &[String]) -> Result<Vec<i64>, RedisError> {
    let mut connection = connect(server).await?;
    let mut lives = Vec::with_capacity(keys.len());
    for some in keys.chunks(1_000) {
        let mut pipeline = redis::pipe();
        for key in some {
            pipeline.cmd("PTTL").arg(key);
        }
        let mut some: Vec<i64> = pipeline.query_async(&mut connection).await?;
        lives.append(&mut some);
    }
    Ok(lives)
}

/// Removes all keys of a prefix and a user, from a thread that may wait: for the end of a test.
pub(super) fn clear(server: SocketAddr, pattern: &str, user: &str) -> Result<(), RedisError> {
    let client = Client::open((server.ip().to_string(), server.port()))?;
    let mut connection = client.get_connection_with_timeout(PATIENCE)?;
    let keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query(&mut connection)?;
    for some in keys.chunks(1_000) {
        redis::cmd("DEL").arg(some).query::<()>(&mut connection)?;
    }
    redis::cmd("ACL")
        .arg("DELUSER")
        .arg(user)
        .query::<()>(&mut connection)?;
    Ok(())
}
