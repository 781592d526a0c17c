//! Takes the pictures of the page `/cluster` for the docs: real data planes over a real Redis, one of them killed.
//!
//! ```text
//! Redis <- heartbeats - 4 data planes, each with a hostname of its own - /cluster -> browser -> docs/images/members*.png
//! ```
//! Of the four, one asks a Jev that does not answer and so holds a lock, one has not got the newest routing table, and one
//! is killed: the pictures are taken while its heartbeat is missing, before it ends.

#![allow(clippy::print_stdout, reason = "a tool talks to people")]

mod browser;
mod group;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use jevmetrics_testkit::poll;

use crate::browser::{Browser, Shot};
use crate::group::Group;

/// Any failure ends it; its text is all that matters.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A heartbeat is missing after 15 s.
const WITHIN: Duration = Duration::from_mins(1);

/// Takes pictures of the page of members.
#[derive(Debug, Parser)]
struct Arguments {
    /// The folder that they are put into.
    #[arg(long, default_value = "docs/images")]
    folder: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    match take(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("screenshot: failed: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn take(arguments: &Arguments) -> Result<(), Failure> {
    let browser = Browser::find()?;
    let mut group = Group::start().await?;
    group.kill_the_last().await?;
    poll::eventually("the killed one being stale", WITHIN, async || group.shows().await).await?;
    let url = group.page();
    let shots = [
        Shot {
            file: arguments.folder.join("members.png"),
            width: 1280,
            height: 660,
            scale: 1,
        },
        Shot {
            file: arguments.folder.join("members-phone.png"),
            width: 390,
            height: 1500,
            scale: 1,
        },
    ];
    let [desktop, phone] = &shots;
    tokio::try_join!(browser.take(&url, desktop), browser.take(&url, phone))?;
    // What was to be seen may have ended while the browser was slow.
    group
        .shows()
        .await
        .map_err(|shown| format!("the pictures came too late, take them again: {shown}"))?;
    for shot in &shots {
        println!(
            "{}: {} KB",
            shot.file.display(),
            std::fs::metadata(&shot.file)?.len() / 1024
        );
    }
    Ok(())
}
