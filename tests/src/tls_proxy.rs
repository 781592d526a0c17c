//! TLS around what speaks plaintext: in front of a server, or between a client and a server that wants TLS.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A port that passes on what it takes. Dropping it closes the port.
#[derive(Debug)]
pub struct TlsProxy {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl TlsProxy {
    /// Speaks TLS with clients and plaintext with `server`.
    ///
    /// # Errors
    /// No port.
    pub async fn before(server: SocketAddr, config: Arc<ServerConfig>) -> io::Result<Self> {
        let acceptor = TlsAcceptor::from(config);
        Self::start(move |client| {
            let acceptor = acceptor.clone();
            async move {
                let mut client = acceptor.accept(client).await?;
                let mut server = TcpStream::connect(server).await?;
                server.set_nodelay(true)?;
                copy_bidirectional(&mut client, &mut server).await.map(drop)
            }
        })
        .await
    }

    /// Speaks plaintext with clients and TLS with `server`, which must be `name`.
    ///
    /// # Errors
    /// No port.
    pub async fn to(
        server: SocketAddr,
        name: ServerName<'static>,
        config: Arc<ClientConfig>,
    ) -> io::Result<Self> {
        let connector = TlsConnector::from(config);
        Self::start(move |mut client| {
            let (connector, name) = (connector.clone(), name.clone());
            async move {
                let server = TcpStream::connect(server).await?;
                server.set_nodelay(true)?;
                let mut server = connector.connect(name, server).await?;
                copy_bidirectional(&mut client, &mut server).await.map(drop)
            }
        })
        .await
    }

    async fn start<F, R>(pass: F) -> io::Result<Self>
    where
        F: Fn(TcpStream) -> R + Send + Sync + 'static,
        R: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let _ = client.set_nodelay(true);
                // Its end concerns its two sides only.
                tokio::spawn(pass(client));
            }
        });
        Ok(Self { address, accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for TlsProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
