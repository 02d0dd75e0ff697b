//! A network between a replica and Redis, in which things can be made to go wrong while they use it.

use std::net::SocketAddr;
use std::time::Duration;

use fastrand::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::free_address;

/// Linux sends a lost packet again after so long, then after twice as long, and so on.
const FIRST_RETRANSMISSION: Duration = Duration::from_millis(200);
const MOST_LOSSES: u32 = 5;

/// Longer than any test.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// What befalls the connections. When it changes, what was held up until then passes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nothing.
    None,
    /// Each reply comes later, by this and a random part of that; order is kept.
    Late(Duration, Duration),
    /// Half of all packets are lost. A stream shows that as time: the packet comes when it is sent again, and what
    /// follows waits for it.
    HalfLost,
    /// Nothing passes, and connections stay open. New ones are accepted, and hear nothing.
    Partitioned,
    /// Connections are closed, and new ones at once.
    Cut,
    /// Half of a reply passes, then the connection is closed.
    Truncated,
    /// As many random bytes pass as a reply has.
    Garbled,
}

/// Passes what comes to its address on to a server. Dropped, it closes everything.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    trouble: watch::Sender<Trouble>,
    _runtime: Runtime,
}

impl Proxy {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let address = free_address();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let (trouble, _) = watch::channel(Trouble::None);
        runtime.spawn(accept_all(listener, server, trouble.subscribe()));
        Self { address, trouble, _runtime: runtime }
    }

    /// Has this befall all connections from now on, in place of what has until now.
    pub(crate) fn suffer(&self, trouble: Trouble) {
        self.trouble.send_replace(trouble);
    }
}

async fn accept_all(listener: TcpListener, server: SocketAddr, trouble: watch::Receiver<Trouble>) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        tokio::spawn(connect(client, server, trouble.clone()));
    }
}

/// Whichever ends first ends both directions.
async fn connect(client: TcpStream, server: SocketAddr, mut trouble: watch::Receiver<Trouble>) {
    // A server that is not there shows to the client as a connection that is closed.
    let Ok(server) = TcpStream::connect(server).await else { return };
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = pass(from_client, to_server, trouble.clone(), request);
    let replies = pass(from_server, to_client, trouble.clone(), reply);
    tokio::select! {
        _ = trouble.wait_for(|trouble| *trouble == Trouble::Cut) => {}
        () = requests => {}
        () = replies => {}
    }
}

/// Bytes on their way.
struct Packet {
    bytes: Vec<u8>,
    /// How long they are held up.
    late_by: Duration,
    /// The connection is closed behind them.
    is_last: bool,
}

/// What becomes of bytes in this trouble.
type Fate = fn(Vec<u8>, Trouble, &mut Rng) -> Packet;

fn request(bytes: Vec<u8>, trouble: Trouble, random: &mut Rng) -> Packet {
    let late_by = match trouble {
        Trouble::HalfLost => retransmission(random),
        Trouble::Partitioned => FOR_EVER,
        _ => Duration::ZERO,
    };
    Packet { bytes, late_by, is_last: false }
}

fn reply(mut bytes: Vec<u8>, trouble: Trouble, random: &mut Rng) -> Packet {
    match trouble {
        Trouble::Truncated => bytes.truncate(bytes.len() / 2),
        Trouble::Garbled => random.fill(&mut bytes),
        _ => {}
    }
    let late_by = match trouble {
        Trouble::Late(always, at_most) => always + at_most.mul_f64(random.f64()),
        Trouble::HalfLost => retransmission(random),
        Trouble::Partitioned => FOR_EVER,
        _ => Duration::ZERO,
    };
    Packet { bytes, late_by, is_last: trouble == Trouble::Truncated }
}

/// How long it takes until a packet has come through that is lost every second time.
fn retransmission(random: &mut Rng) -> Duration {
    let losses = (0..MOST_LOSSES).take_while(|_| random.bool()).count();
    FIRST_RETRANSMISSION * ((1 << losses) - 1)
}

async fn pass(from: OwnedReadHalf, to: OwnedWriteHalf, trouble: watch::Receiver<Trouble>, fate: Fate) {
    let (on_their_way, arriving) = unbounded_channel();
    tokio::select! {
        () = receive(from, &on_their_way, trouble.clone(), fate) => {}
        () = deliver(to, arriving, trouble) => {}
    }
}

/// What has come in, when, in which trouble.
type Sent = (Packet, Instant, Trouble);

async fn receive(
    mut from: OwnedReadHalf,
    on_their_way: &UnboundedSender<Sent>,
    trouble: watch::Receiver<Trouble>,
    fate: Fate,
) {
    let (mut buffer, mut random) = ([0; 16 * 1024], Rng::new());
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let trouble = *trouble.borrow();
        let packet = fate(buffer[..length].to_vec(), trouble, &mut random);
        if on_their_way.send((packet, Instant::now(), trouble)).is_err() {
            return;
        }
    }
}

async fn deliver(mut to: OwnedWriteHalf, mut arriving: UnboundedReceiver<Sent>, mut trouble: watch::Receiver<Trouble>) {
    while let Some((packet, sent, suffered)) = arriving.recv().await {
        tokio::select! {
            () = sleep_until(sent + packet.late_by) => {}
            _ = trouble.wait_for(|trouble| *trouble != suffered) => {}
        }
        if to.write_all(&packet.bytes).await.is_err() || packet.is_last {
            return;
        }
    }
}
