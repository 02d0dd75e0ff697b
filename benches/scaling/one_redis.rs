//! The second part: what one Redis carries.

use std::sync::Arc;
use std::time::Duration;

use comporta::limit::Algorithm;
use comporta::server::BoxError;

use super::drive::{Taken, as_often_as_possible, at_a_rate, so_often};
use super::servers::{Server, stores_at};
use super::table::{count, print_head, print_row, short, whole};
use super::work::{Calls, Floor, Kind, Work};

/// Questions under way when nothing else is said: enough to keep Redis busy.
pub(crate) const UNDER_WAY: usize = 64;

const WARM_UP: Duration = Duration::from_millis(500);

/// Replicas that ask at the same time, each on its own connection.
const REPLICAS: usize = 16;

/// So many calls a second docs/scaling.md plans for.
const PLANNED: u64 = 5_000;

const COLUMNS: [&str; 20] = [
    "script",
    "question",
    "keys",
    "connections",
    "under way",
    "calls a second",
    "Redis, µs of a core",
    "in the script, µs",
    "client and benchmark, µs of a core",
    "p50, µs",
    "p99, µs",
    "others, cores",
    "at half as many: Redis, µs of a core",
    "p50, µs",
    "p99, µs",
    "others, cores",
    "at 5,000: Redis, µs of a core",
    "p50, µs",
    "p99, µs",
    "others, cores",
];

/// What is measured, in one row.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// None for what is not ours.
    algorithm: Option<Algorithm>,
    kind: Kind,
    keys: usize,
    connections: usize,
    under_way: usize,
}

/// Measures everything, each row on a Redis of its own, each part for so long.
pub(crate) async fn print(many_keys: usize, time: Duration) -> Result<(), BoxError> {
    println!("\n# One Redis");
    let version = Server::start()?.command::<String>(&["INFO", "server"])?;
    let version = version.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or("unknown").to_owned();
    print_head(&format!("## Calls to one Redis {version}, without I/O threads"), &COLUMNS);
    for row in rows(many_keys) {
        print_row(&measure(row, time).await?);
    }
    print_head("## Memory of a key", &["script", "keys", "length of a name", "bytes for each"]);
    for algorithm in Algorithm::ALL {
        print_row(&weigh(algorithm, many_keys).await?);
    }
    Ok(())
}

fn rows(many_keys: usize) -> Vec<Row> {
    let floor = |kind, under_way| Row { algorithm: None, kind, keys: 1, connections: 1, under_way };
    let mut rows = vec![floor(Kind::Ping, 1), floor(Kind::Ping, UNDER_WAY)];
    rows.extend([floor(Kind::Nothing, 1), floor(Kind::Nothing, UNDER_WAY)]);
    let ours = |algorithm, kind, keys, under_way| {
        let algorithm = Some(algorithm);
        Row { algorithm, kind, keys, connections: 1, under_way }
    };
    for algorithm in Algorithm::ALL {
        rows.extend(Kind::OURS.map(|kind| ours(algorithm, kind, 1, UNDER_WAY)));
        rows.extend([10_000, many_keys].map(|keys| ours(algorithm, Kind::Ask, keys, UNDER_WAY)));
        rows.push(ours(algorithm, Kind::Renew, 10_000, UNDER_WAY));
    }
    let asks = |under_way| ours(Algorithm::TokenBucket, Kind::Ask, 10_000, under_way);
    rows.extend([1, 8, 512].map(asks));
    rows.extend([REPLICAS, UNDER_WAY].map(|under_way| Row { connections: REPLICAS, ..asks(under_way) }));
    rows
}

async fn measure(row: Row, time: Duration) -> Result<Vec<String>, BoxError> {
    let server = Server::start()?;
    let Row { algorithm, kind, keys, connections, under_way } = row;
    let run = match (algorithm, kind) {
        (None, Kind::Ping) => Run::of(&server, &Arc::new(Floor::ping(connection(&server).await?)), row, time).await?,
        (None, _) => Run::of(&server, &Arc::new(Floor::script(connection(&server).await?).await?), row, time).await?,
        (Some(algorithm), _) => {
            let calls = Calls::new(stores_at(&server.url(), connections).await?, kind, algorithm, keys);
            Run::of(&server, &Arc::new(calls), row, time).await?
        }
    };
    let Run { busiest, in_script, at_rates } = run;
    let mut columns = vec![
        algorithm.map_or("", Algorithm::name).to_owned(),
        kind.name().to_owned(),
        count(keys),
        connections.to_string(),
        under_way.to_string(),
        whole(busiest.calls_a_second()),
        short(busiest.server_micros()),
        in_script.map_or_else(String::new, short),
        short(busiest.client_micros()),
        short(busiest.percentile(50.0)),
        short(busiest.percentile(99.0)),
        short(busiest.others),
    ];
    for taken in at_rates {
        let figures = [taken.server_micros(), taken.percentile(50.0), taken.percentile(99.0), taken.others];
        columns.extend(figures.map(short));
    }
    columns.resize(COLUMNS.len(), String::new());
    Ok(columns)
}

/// What one row has taken.
struct Run {
    busiest: Taken,
    /// Microseconds a call, as Redis itself counts them; not where there is no script.
    in_script: Option<f64>,
    /// At half as many calls a second, and as many as are planned for; not where only one is under way.
    at_rates: Vec<Taken>,
}

impl Run {
    async fn of(server: &Server, work: &Arc<impl Work>, row: Row, time: Duration) -> Result<Self, BoxError> {
        let process = [server.process()?];
        so_often(work, UNDER_WAY, row.keys as u64).await?;
        as_often_as_possible(work, row.under_way, WARM_UP, &process).await?;
        server.command::<()>(&["CONFIG", "RESETSTAT"])?;
        let busiest = as_often_as_possible(work, row.under_way, time, &process).await?;
        let counted = |of, name| server.statistic("commandstats", of, name);
        let (scripts, in_script) = (counted("cmdstat_evalsha", "calls")?, counted("cmdstat_evalsha", "usec_per_call")?);
        let others = counted("cmdstat_eval", "calls")?;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let (calls, heartbeats) = (busiest.calls as f64, row.connections as f64 * (time.as_secs_f64() + 2.0));
        if row.algorithm.is_some() && ((scripts - calls).abs() > heartbeats || others > 0.0) {
            return Err(format!("{calls} calls made Redis run {scripts} scripts, and {others} by their texts").into());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
        let half = (busiest.calls_a_second() / 2.0) as u64;
        let in_script = (row.kind != Kind::Ping).then_some(in_script);
        let mut at_rates = Vec::new();
        if row.under_way > 1 {
            for rate in [half, PLANNED] {
                at_rates.push(at_a_rate(work, rate, time, &process).await?);
            }
        }
        Ok(Self { busiest, in_script, at_rates })
    }
}

async fn connection(server: &Server) -> Result<redis::aio::MultiplexedConnection, BoxError> {
    Ok(redis::Client::open(server.url())?.get_multiplexed_async_connection().await?)
}

/// What a key takes, with the tables that it is in.
async fn weigh(algorithm: Algorithm, keys: usize) -> Result<[String; 4], BoxError> {
    let server = Server::start()?;
    let used = || -> Result<f64, BoxError> {
        Ok(server.number("memory", "used_memory")?.ok_or("Redis does not tell what memory it uses")?)
    };
    let stores = stores_at(&server.url(), 1).await?;
    let before = used()?;
    let calls = Arc::new(Calls::new(stores, Kind::Renew, algorithm, keys));
    so_often(&calls, UNDER_WAY, keys as u64).await?;
    let there: u32 = server.command(&["DBSIZE"])?;
    let bytes = (used()? - before) / f64::from(there);
    let name: String = server.command(&["RANDOMKEY"])?;
    Ok([algorithm.name().to_owned(), whole(there.into()), name.len().to_string(), whole(bytes)])
}
