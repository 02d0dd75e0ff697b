//! An Envoy that is set up as `examples/envoy/` sets it up, but for what a test changes, and the Comporta that it asks.

use std::fs;
use std::net::SocketAddr;

use crate::harness::http::{self, Response};
use crate::harness::{Comporta, Envoy, Setup, fill_in, free_address, project_path};

pub(super) const EXAMPLE: &str = "examples/envoy/envoy.yaml";

/// Something that stands in the example, and what a test has in its place.
pub(super) type Change = (&'static str, &'static str);

/// An Envoy in front of a service, and the Comporta that it asks.
pub(super) struct Gateway {
    pub(super) comporta: Comporta,
    pub(super) setup: Setup,
    pub(super) envoy: Envoy,
    /// Where Envoy listens for clients.
    pub(super) public: SocketAddr,
}

impl Gateway {
    pub(super) fn start(setup: Setup, changes: &[Change]) -> Self {
        let comporta = setup.start();
        let (public, service, admin) = (free_address(), free_address(), free_address());
        let at = |address: SocketAddr| format!("address: {}, port_value: {}}}", address.ip(), address.port());
        let mut values = vec![
            ("address: 127.0.0.1, port_value: 10000}", at(public)),
            ("address: 127.0.0.1, port_value: 10001}", at(service)),
            ("address: 127.0.0.1, port_value: 9901}", at(admin)),
            ("address: 127.0.0.1, port_value: 8081}", at(comporta.addresses.grpc)),
            // A machine that runs many tests at once may pause for longer than users should wait.
            ("timeout: 0.1s", "timeout: 10s".to_owned()),
        ];
        values.extend(changes.iter().map(|&(marker, value)| (marker, value.to_owned())));
        let config = fill_in(&fs::read_to_string(project_path(EXAMPLE)).unwrap(), &values);
        let envoy = Envoy::start(&config, admin);
        Self { comporta, setup, envoy, public }
    }

    pub(super) fn with_policy(policy: &str) -> Self {
        Self::start(Setup::new(policy), &[])
    }

    pub(super) fn get(&self, path: &str, tenant: &[u8]) -> Response {
        http::get_with(self.public, path, &[("x-tenant", tenant)]).unwrap()
    }

    /// The statuses of so many requests, one after the other.
    pub(super) fn statuses(&self, count: usize, path: &str, tenant: &[u8]) -> Vec<u16> {
        (0..count).map(|_| self.get(path, tenant).status).collect()
    }
}

/// A header's value as a number.
pub(super) fn number(response: &Response, header: &str) -> u32 {
    let value = response.header(header).unwrap_or_else(|| panic!("no {header} in {response:?}"));
    value.parse().unwrap_or_else(|_| panic!("{header} is {value:?}"))
}
