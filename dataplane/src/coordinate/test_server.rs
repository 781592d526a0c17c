//! A Redis of the test's own: on a free port, nothing on disk, gone with the test.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ::redis::{Connection, FromRedisValue};

/// Rights of the documented ACL rule; keys and password come from the test.
pub(super) const RIGHTS: &str = "-@all +evalsha +eval +get +set +del +exists +pttl +pexpire +time +hget +hset \
     +zadd +zcard +zrange +zrem +zremrangebyscore +mget";

/// See the head of the module.
pub(super) struct TestServer {
    process: Child,
    pub(super) port: u16,
    options: Vec<String>,
}

impl TestServer {
    /// Starts `redis-server`, as Debian packages it, with these options beyond the usual ones.
    pub(super) fn start(options: &[&str]) -> Self {
        let port = free_port();
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let process = spawn(port, &options);
        let server = Self {
            process,
            port,
            options,
        };
        server.wait_until_up();
        server
    }

    fn wait_until_up(&self) {
        let begin = Instant::now();
        while self.try_admin().is_none() {
            assert!(
                begin.elapsed() < Duration::from_secs(10),
                "redis-server does not come up"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn try_admin(&self) -> Option<Connection> {
        let client = ::redis::Client::open(("127.0.0.1", self.port)).ok()?;
        let mut connection = client.get_connection().ok()?;
        ::redis::cmd("PING").query::<String>(&mut connection).ok()?;
        Some(connection)
    }

    /// Runs a command, given as words, as the default user.
    pub(super) fn command<T: FromRedisValue>(&self, words: &str) -> T {
        let mut words = words.split(' ');
        let mut command = ::redis::cmd(words.next().unwrap());
        for word in words {
            command.arg(word);
        }
        command.query(&mut self.try_admin().unwrap()).unwrap()
    }

    /// Every key has an end and lies in the namespace.
    pub(super) fn assert_all_keys_end(&self, prefix: &str) {
        for key in self.command::<Vec<String>>("KEYS *") {
            assert!(key.starts_with(prefix), "{key}");
            // -2: it ended between the two commands.
            let life: i64 = self.command(&format!("PTTL {key}"));
            assert!(life > 0 || life == -2, "{key} has no end");
        }
    }

    /// As after a crash: everything is forgotten.
    pub(super) fn restart(&mut self) {
        self.kill();
        self.process = spawn(self.port, &self.options);
        self.wait_until_up();
    }

    pub(super) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// `STOP` or `CONT`.
    pub(super) fn signal(&self, signal: &str) {
        let pid = self.process.id().to_string();
        assert!(
            Command::new("kill")
                .args([format!("-{signal}"), pid])
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Free at this moment.
pub(super) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn spawn(port: u16, options: &[String]) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args([
            "--save",
            "",
            "--appendonly",
            "no",
            "--maxmemory-policy",
            "noeviction",
        ])
        .args(options)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server must be installed")
}
