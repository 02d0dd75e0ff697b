//! The third part: what a Cluster adds.

use std::sync::Arc;
use std::time::Duration;

use comporta::limit::Algorithm;
use comporta::server::BoxError;

use super::drive::{as_often_as_possible, so_often};
use super::one_redis::UNDER_WAY;
use super::servers::{Cluster, Server, stores_at};
use super::table::{count, print_head, print_row, short, whole};
use super::work::{Calls, Kind};

const COLUMNS: [&str; 11] = [
    "servers",
    "keys",
    "calls a second",
    "servers, µs of a core a call",
    "client and benchmark, µs of a core a call",
    "p50, µs",
    "keys on each, %",
    "calls on each, %",
    "redirects",
    "connections to each",
    "others, cores",
];

/// The same calls, to one server and to a Cluster.
pub(crate) async fn print(time: Duration) -> Result<(), BoxError> {
    println!("\n# A Cluster");
    print_head("## The same calls to one server and to a Cluster of three", &COLUMNS);
    for keys in [1, 100, 10_000] {
        let server = Server::start()?;
        print_row(&measure("one", &server.url(), std::slice::from_ref(&server), keys, time).await?);
        let cluster = Cluster::start()?;
        print_row(&measure("three", &cluster.url(), &cluster.shards, keys, time).await?);
    }
    Ok(())
}

async fn measure(
    name: &str,
    url: &str,
    servers: &[Server],
    keys: usize,
    time: Duration,
) -> Result<Vec<String>, BoxError> {
    let processes = servers.iter().map(Server::process).collect::<Result<Vec<_>, _>>()?;
    let calls = Arc::new(Calls::new(stores_at(url, 1).await?, Kind::Ask, Algorithm::TokenBucket, keys));
    so_often(&calls, UNDER_WAY, (keys as u64).max(10_000)).await?;
    for server in servers {
        server.command::<()>(&["CONFIG", "RESETSTAT"])?;
    }
    let taken = as_often_as_possible(&calls, UNDER_WAY, time, &processes).await?;
    let of_each = |figure: &dyn Fn(&Server) -> Result<f64, BoxError>| -> Result<Vec<f64>, BoxError> {
        servers.iter().map(figure).collect()
    };
    let keys_of_each = of_each(&|server| Ok(server.command::<u32>(&["DBSIZE"])?.into()))?;
    let calls_of_each = of_each(&|server| server.statistic("commandstats", "cmdstat_evalsha", "calls"))?;
    let redirects = of_each(&|server| server.statistic("errorstats", "errorstat_MOVED", "count"))?;
    let clients: Vec<_> = of_each(&|server| {
        // The one that asks is a client, too.
        Ok(server.number("clients", "connected_clients")?.unwrap_or(0.0) - 1.0)
    })?;
    Ok(vec![
        name.to_owned(),
        count(keys),
        whole(taken.calls_a_second()),
        short(taken.server_micros()),
        short(taken.client_micros()),
        short(taken.percentile(50.0)),
        parts(&keys_of_each),
        parts(&calls_of_each),
        whole(redirects.iter().sum()),
        clients.iter().map(|&clients| whole(clients)).collect::<Vec<_>>().join(", "),
        short(taken.others),
    ])
}

/// Of their sum, in percent.
fn parts(values: &[f64]) -> String {
    let all: f64 = values.iter().sum();
    values.iter().map(|value| format!("{:.1}", 100.0 * value / all)).collect::<Vec<_>>().join(", ")
}
