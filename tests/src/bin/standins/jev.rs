//! `jev`: the mock of Jev on an address, with the right key in a file that is followed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use jevmetrics_testkit::mock_jev::{KEY, MockJev, Options};

use crate::{Failure, control};

/// Between two looks at the key.
const LOOK: Duration = Duration::from_secs(1);
/// Between two times that recorded requests are forgotten: only counters are shown.
const FORGET: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where it answers.
    #[arg(long, default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// File with the right key; another content is taken within a second. Without it the key is `test-key`.
    #[arg(long)]
    key_file: Option<PathBuf>,
    /// Where `GET /counts` answers.
    #[arg(long)]
    control: Option<SocketAddr>,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let key = match &arguments.key_file {
        Some(file) => read(file)?,
        None => KEY.to_owned(),
    };
    let options = Options {
        key: key.clone(),
        listen: arguments.listen,
        ..Options::default()
    };
    let jev = MockJev::start_with(options)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", arguments.listen))?;
    println!("jev: {}", jev.base_url());
    let jev = Arc::new(jev);
    let forget = async {
        loop {
            tokio::time::sleep(FORGET).await;
            jev.forget_requests();
        }
    };
    let router = Router::new()
        .route(
            "/counts",
            get(async |State(jev): State<Arc<MockJev>>| Json(jev.counters())),
        )
        .with_state(Arc::clone(&jev));
    tokio::select! {
        () = forget => {}
        () = follow(arguments.key_file.as_deref(), key, &jev) => {}
        ended = serve(arguments.control, router) => ended?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn serve(control: Option<SocketAddr>, router: Router) -> Result<(), Failure> {
    match control {
        Some(address) => control::serve(address, router).await,
        None => std::future::pending().await,
    }
}

/// Makes the file's content the right key whenever it is another one.
async fn follow(file: Option<&Path>, mut key: String, jev: &MockJev) {
    let Some(file) = file else {
        return std::future::pending().await;
    };
    loop {
        tokio::time::sleep(LOOK).await;
        // A Secret that is being replaced may be away for a moment.
        if let Ok(next) = read(file)
            && next != key
        {
            jev.set_key(&next);
            key = next;
            println!("jev: another key");
        }
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    Ok(text.trim().to_owned())
}
