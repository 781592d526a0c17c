//! The ports of a process.

use std::io;

use jevmetrics_api::settings;
use tokio::net::TcpListener;

use crate::receive::serve::{BindError, bind};

/// All that a process listens on.
pub(crate) struct Listeners {
    pub(crate) grpc: TcpListener,
    pub(crate) http: TcpListener,
    pub(crate) peer: TcpListener,
    pub(crate) metrics: TcpListener,
    pub(crate) admin: TcpListener,
}

impl Listeners {
    pub(crate) async fn open(listen: &settings::Listen) -> Result<Self, BindError> {
        Ok(Self {
            grpc: bind("listen.grpc", listen.grpc()).await?,
            http: bind("listen.http", listen.http()).await?,
            peer: bind("listen.peer", listen.peer()).await?,
            metrics: bind("listen.metrics", listen.metrics()).await?,
            admin: bind("listen.admin", listen.admin()).await?,
        })
    }

    /// Port 0 in the settings is any free port: only here can be seen which.
    pub(crate) fn log(&self) -> io::Result<()> {
        tracing::info!(
            grpc = %self.grpc.local_addr()?,
            http = %self.http.local_addr()?,
            peer = %self.peer.local_addr()?,
            metrics = %self.metrics.local_addr()?,
            admin = %self.admin.local_addr()?,
            "listening"
        );
        Ok(())
    }
}
