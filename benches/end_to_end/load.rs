//! Sends requests, and notes when the answers come.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes};
use comporta::clock::Clock;
use comporta::limit::Micros;
use comporta::server::BoxError;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use hdrhistogram::Histogram;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::pacer::{ask_at, no_latencies};

/// An Envoy has a connection for each of its worker threads.
const CONNECTIONS: usize = 4;

/// Requests under way when there are always as many.
const UNDER_WAY: usize = 64;

/// The most requests of a part of a run that has no rate.
const MOST_REQUESTS: u64 = 5_000_000;

const PATIENCE: Duration = Duration::from_secs(5);
const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A client with its connections, on the thread that calls it.
pub(crate) struct Client {
    runtime: Runtime,
    lane: Rc<Lane>,
}

struct Lane {
    clock: Arc<Clock>,
    channels: Vec<Channel>,
    requests: Vec<Bytes>,
    /// Requests sent so far.
    sent: Cell<u64>,
    tally: RefCell<Tally>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) ok: u64,
    pub(crate) over_limit: u64,
    /// What went wrong first, and how often something did.
    pub(crate) failure: Option<(Status, u64)>,
    /// In microseconds.
    pub(crate) latencies: Histogram<u64>,
    /// From the first request to the last answer.
    pub(crate) seconds: f64,
}

impl Client {
    pub(crate) fn connect(server: SocketAddr, requests: Vec<Bytes>) -> Result<Self, BoxError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let endpoint = Endpoint::new(format!("http://{server}"))?.tcp_nodelay(true).connect_timeout(PATIENCE);
        let mut channels = Vec::new();
        for _ in 0..CONNECTIONS {
            channels.push(runtime.block_on(endpoint.connect())?);
        }
        let (clock, tally) = (Arc::new(Clock::start()), RefCell::new(Tally::new()?));
        Ok(Self { runtime, lane: Rc::new(Lane { clock, channels, requests, sent: Cell::new(0), tally }) })
    }

    /// Keeps as many requests under way as it takes to keep the server busy.
    pub(crate) fn ask_all_the_time(&self, time: Duration) -> Result<Tally, BoxError> {
        let tasks = LocalSet::new();
        let start = self.lane.clock.now().monotonic;
        let (end, most) = (start + Micros::from(time), self.lane.sent.get() + MOST_REQUESTS);
        for _ in 0..UNDER_WAY {
            let lane = Rc::clone(&self.lane);
            tasks.spawn_local(async move {
                while lane.clock.now().monotonic < end && lane.sent.get() < most {
                    lane.ask(lane.clock.now().monotonic).await;
                }
            });
        }
        self.runtime.block_on(tasks);
        self.lane.take_tally(start)
    }

    /// Asks so many times a second, whatever the answers: a request that is late for whatever reason counts from when it was
    /// due.
    pub(crate) fn ask_at(&self, rate: u64, time: Duration) -> Result<Tally, BoxError> {
        let tasks = LocalSet::new();
        let start = self.lane.clock.now().monotonic;
        self.runtime.block_on(tasks.run_until(ask_at(&self.lane.clock, rate, time, |due, place| {
            let lane = Rc::clone(&self.lane);
            tasks.spawn_local(async move {
                lane.ask(due).await;
                drop(place);
            });
            Ok(())
        })))?;
        self.lane.take_tally(start)
    }
}

impl Lane {
    async fn ask(&self, due: Micros) {
        let turn = self.sent.get();
        self.sent.set(turn + 1);
        let place = usize::try_from(turn).unwrap_or(0);
        let request = self.requests[place % self.requests.len()].clone();
        let mut client = Grpc::new(self.channels[place % CONNECTIONS].clone());
        let answer = timeout(PATIENCE, async {
            client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            client.unary(Request::new(request), PathAndQuery::from_static(PATH), EncodedRequest).await
        });
        let answer = answer.await.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")));
        let latency = self.clock.now().monotonic - due;
        let mut tally = self.tally.borrow_mut();
        match answer {
            Ok(response) => {
                let is_ok = response.get_ref().overall_code() == Code::Ok;
                *(if is_ok { &mut tally.ok } else { &mut tally.over_limit }) += 1;
                tally.latencies.saturating_record(latency.0);
            }
            Err(status) => tally.failure.get_or_insert((status, 0)).1 += 1,
        }
    }

    fn take_tally(&self, start: Micros) -> Result<Tally, BoxError> {
        let mut tally = self.tally.replace(Tally::new()?);
        tally.seconds = Duration::from_micros((self.clock.now().monotonic - start).0).as_secs_f64();
        if let Some((status, count)) = tally.failure {
            return Err(format!("{count} requests failed, the first with {status}").into());
        }
        Ok(tally)
    }
}

impl Tally {
    fn new() -> Result<Self, BoxError> {
        Ok(Self { ok: 0, over_limit: 0, failure: None, latencies: no_latencies()?, seconds: 0.0 })
    }

    pub(crate) const fn answers(&self) -> u64 {
        self.ok + self.over_limit
    }
}

/// Sends bytes that were encoded before, so that the load takes less of the machine that it shares with the server.
struct EncodedRequest;

impl Codec for EncodedRequest {
    type Encode = Bytes;
    type Decode = RateLimitResponse;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for EncodedRequest {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, request: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(request);
        Ok(())
    }
}

impl Decoder for EncodedRequest {
    type Item = RateLimitResponse;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<RateLimitResponse>, Status> {
        RateLimitResponse::decode(buffer).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}
