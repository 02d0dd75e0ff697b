//! Redis servers, one or a Cluster, that write nothing to disk.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use comporta::server::BoxError;
use comporta::store::redis::{KeyPrefix, RedisAddress, RedisSettings, RedisStore};
use redis::FromRedisValue;
use tempfile::TempDir;

use super::process::{Process, free_address};
use super::redis_server::start_redis;

/// Primaries of a Cluster.
const SHARDS: u16 = 3;

const SLOTS: u16 = 16_384;

/// A node of a Cluster listens for the others so far above its own port.
const BUS_OFFSET: u16 = 10_000;

const LOOKS: u32 = 500;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A server. Dropped, it ends.
pub(crate) struct Server {
    process: Process,
    address: SocketAddr,
    _folder: TempDir,
}

impl Server {
    /// One that has all keys.
    pub(crate) fn start() -> Result<Self, BoxError> {
        Self::start_at(free_address()?, &[])
    }

    fn start_at(address: SocketAddr, flags: &[&str]) -> Result<Self, BoxError> {
        let folder = TempDir::new()?;
        Ok(Self { process: start_redis(address, folder.path(), flags)?, address, _folder: folder })
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub(crate) fn process(&self) -> Result<i32, BoxError> {
        self.process.id()
    }

    /// Does a command, on a connection of its own.
    pub(crate) fn command<T: FromRedisValue>(&self, words: &[&str]) -> Result<T, BoxError> {
        let mut connection = redis::Client::open(self.url())?.get_connection()?;
        let (name, arguments) = words.split_first().ok_or("no command")?;
        Ok(redis::cmd(name).arg(arguments).query(&mut connection)?)
    }

    /// A number that `INFO` tells. None if it does not: Redis tells of nothing that has never happened.
    pub(crate) fn number(&self, section: &str, name: &str) -> Result<Option<f64>, BoxError> {
        let text: String = self.command(&["INFO", section])?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(line.map(str::parse).transpose()?)
    }

    /// What `INFO commandstats` and `errorstats` tell of a command or an error, such as `calls`.
    pub(crate) fn statistic(&self, section: &str, of: &str, name: &str) -> Result<f64, BoxError> {
        let text: String = self.command(&["INFO", section])?;
        let line = text.lines().find_map(|line| line.strip_prefix(of)?.strip_prefix(':'));
        let value = line.and_then(|line| line.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')));
        Ok(value.map_or(Ok(0.0), str::parse)?)
    }
}

/// Servers that share the keys.
pub(crate) struct Cluster {
    pub(crate) shards: Vec<Server>,
}

impl Cluster {
    /// Starts primaries with as many slots each, and waits until all of them know it.
    pub(crate) fn start() -> Result<Self, BoxError> {
        let flags = ["--cluster-enabled", "yes"];
        let shards =
            (0..SHARDS).map(|_| Server::start_at(free_node_address()?, &flags)).collect::<Result<Vec<_>, _>>()?;
        for (place, shard) in (0..SHARDS).zip(&shards) {
            let [first, end] = [place, place + 1].map(|n| u32::from(SLOTS) * u32::from(n) / u32::from(SHARDS));
            let slots: Vec<_> = (first..end).map(|slot| slot.to_string()).collect();
            let words: Vec<_> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
            shard.command::<()>(&words)?;
            shard.command::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(place + 1).to_string()])?;
            for other in &shards {
                let (host, port) = (other.address.ip().to_string(), other.address.port().to_string());
                shard.command::<()>(&["CLUSTER", "MEET", &host, &port])?;
            }
        }
        for _ in 0..LOOKS {
            let is_whole = |shard: &Server| -> Result<bool, BoxError> {
                let text: String = shard.command(&["CLUSTER", "INFO"])?;
                let knows_all = text.contains(&format!("cluster_known_nodes:{SHARDS}\r\n"));
                Ok(knows_all
                    && text.contains("cluster_state:ok")
                    && text.contains(&format!("cluster_slots_ok:{SLOTS}\r\n")))
            };
            let are_whole = shards.iter().map(is_whole).collect::<Result<Vec<_>, _>>()?;
            if are_whole.iter().all(|is_whole| *is_whole) {
                return Ok(Self { shards });
            }
            sleep(BETWEEN_LOOKS);
        }
        Err("the servers do not form a Cluster".into())
    }

    pub(crate) fn url(&self) -> String {
        let addresses: Vec<_> = self.shards.iter().map(|shard| shard.address.to_string()).collect();
        format!("redis-cluster://{}", addresses.join(","))
    }
}

/// The store as so many replicas have it, each connected. They are more patient: whoever keeps it busy all the time must
/// wait his turn.
pub(crate) async fn stores_at(url: &str, replicas: usize) -> Result<Vec<Arc<RedisStore>>, BoxError> {
    let mut settings = RedisSettings::at(RedisAddress::parse(url)?, KeyPrefix::new("comporta:")?);
    settings.timeout = Duration::from_secs(5);
    let stores = (0..replicas).map(|_| RedisStore::start(&settings)).collect::<Result<Vec<_>, _>>()?;
    for store in &stores {
        store.tried().await;
        store.connected().await;
    }
    Ok(stores)
}

/// An address that is free for a node, and for what the nodes say to each other.
fn free_node_address() -> Result<SocketAddr, BoxError> {
    for _ in 0..LOOKS {
        let address = free_address()?;
        if let Some(bus) = address.port().checked_add(BUS_OFFSET)
            && TcpListener::bind((address.ip(), bus)).is_ok()
        {
            return Ok(address);
        }
    }
    Err("no port is free".into())
}
