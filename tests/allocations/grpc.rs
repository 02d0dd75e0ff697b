//! How often memory is allocated from the bytes of a request to the bytes of its answer, by everything that runs in the
//! server: ours, and one of tonic that answers at once.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use allocation_counter::measure;
use clap::{CommandFactory, FromArgMatches, Parser};
use comporta::clock::Clock;
use comporta::engine::Engine;
use comporta::policy::{Defaults, load_texts};
use comporta::replica::Replica;
use comporta::server::{self, Listeners, PortTls, StopSignals};
use comporta::settings::ServeSettings;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use prost::Message;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio_stream::wrappers::TcpListenerStream;

use crate::http2::Connection;
use crate::{COUNTED, ENOUGH, WARM_UP, null_server, policy, request};

const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A server that runs on this thread.
struct Server {
    runtime: Runtime,
    address: SocketAddr,
}

impl Server {
    fn ours(descriptors: usize) -> Self {
        #[derive(Parser)]
        struct Arguments {
            #[command(flatten)]
            settings: ServeSettings,
        }
        let any_port = "127.0.0.1:0";
        let arguments =
            ["comporta", "--grpc-addr", any_port, "--http-addr", any_port, "--admin-addr", any_port, "--policy", "."];
        // Whoever runs the tests may have settings in the environment.
        let command = Arguments::command().mut_args(|argument| argument.env(None::<&str>));
        let settings = Arguments::from_arg_matches(&command.get_matches_from(arguments)).unwrap().settings;
        let runtime = new_runtime();
        let address = runtime.block_on(async {
            let clock = Arc::new(Clock::start());
            let policy = load_texts(&[("policy.yaml", &policy(ENOUGH, descriptors))], &Defaults::default()).unwrap();
            let engine = Engine::new(policy.policy, settings.engine(), clock.now());
            let replica = Replica::new(engine, clock, None, None);
            let listeners = Listeners::bind(&settings).unwrap();
            let address = listeners.grpc.local_addr().unwrap();
            let signals = StopSignals::new().unwrap();
            tokio::spawn(async move {
                let (prepared, left) = (async {}, async {});
                server::serve(listeners, PortTls::default(), replica, &settings, prepared, left, signals)
                    .await
                    .unwrap();
            });
            address
        });
        Self { runtime, address }
    }

    fn null() -> Self {
        let runtime = new_runtime();
        let address = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = tonic::transport::Server::builder().add_service(null_server::service(false));
            tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
            address
        });
        Self { runtime, address }
    }

    /// Allocations for one request, once all is warm. What is allocated once in many requests, such as buffers, is less
    /// than one, and falls away.
    fn allocations_per_request(&self, descriptors: usize) -> u64 {
        let message = request(descriptors).encode_to_vec();
        let (send_requests, requests) = mpsc::channel::<(u64, oneshot::Sender<()>)>();
        let address = self.address;
        let client = std::thread::spawn(move || {
            let mut connection = Connection::open(address, METHOD);
            for (count, done) in requests {
                for _ in 0..count {
                    let answer = RateLimitResponse::decode(connection.call(&message)).unwrap();
                    assert_eq!((answer.overall_code(), answer.statuses.len()), (Code::Ok, descriptors));
                }
                done.send(()).unwrap();
            }
        });
        let answer = |count| {
            let (done, is_done) = oneshot::channel();
            send_requests.send((count, done)).unwrap();
            let patience = Duration::from_secs(60);
            self.runtime.block_on(async { tokio::time::timeout(patience, is_done).await }).unwrap().unwrap();
        };
        answer(WARM_UP);
        let allocations = measure(|| answer(COUNTED)).count_total;
        drop(send_requests);
        client.join().unwrap();
        allocations / COUNTED
    }
}

fn new_runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Five of the 13 are ours: the lists of descriptors, of entries and of statuses, the bytes of the answer, and where the
/// request is kept while it is answered. The rest is hyper's and h2's. More descriptors have more lists.
#[test]
fn a_request_over_grpc_allocates_less_than_with_tonic() {
    for (descriptors, ours, null) in [(1, 13, 42), (10, 30, 71)] {
        let allocations = (
            Server::ours(descriptors).allocations_per_request(descriptors),
            Server::null().allocations_per_request(descriptors),
        );
        assert_eq!(allocations, (ours, null), "{descriptors} descriptors");
    }
}
