//! A fixed address behind which there is one server or another.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use super::free_address;

/// Passes what comes to its address on to a server. Dropped, it closes everything.
#[derive(Debug)]
pub(crate) struct Forwarder {
    pub(crate) address: SocketAddr,
    server: Arc<Mutex<SocketAddr>>,
    _runtime: Runtime,
}

impl Forwarder {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let address = free_address();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_io().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let server = Arc::new(Mutex::new(server));
        runtime.spawn(forward_all(listener, Arc::clone(&server)));
        Self { address, server, _runtime: runtime }
    }

    /// Connections that are made from now on lead to this server. Those that are there stay as they are.
    pub(crate) fn lead_to(&self, server: SocketAddr) {
        *self.server.lock() = server;
    }
}

async fn forward_all(listener: TcpListener, server: Arc<Mutex<SocketAddr>>) {
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        let server = *server.lock();
        tokio::spawn(async move {
            // A server that is not there, or a connection that breaks, shows to the client as one that is closed.
            if let Ok(mut connection) = TcpStream::connect(server).await {
                let _ = copy_bidirectional(&mut client, &mut connection).await;
            }
        });
    }
}
