//! A primary and its replicas.

use super::{Redis, RedisSetup, wait_for};

/// Servers of which one is the primary, and the others are its replicas.
#[derive(Debug)]
pub(crate) struct Replicated {
    servers: Vec<Redis>,
    /// The place of the primary, as last known.
    primary: usize,
}

impl Replicated {
    /// Starts the first as primary and the others as its replicas, and waits until they are in sync.
    pub(crate) fn start(setups: impl IntoIterator<Item = RedisSetup>) -> Self {
        let servers = setups.into_iter().map(|setup| setup.replicating().start()).collect();
        let replicated = Self { servers, primary: 0 };
        for replica in replicated.replicas() {
            follow(replica, replicated.primary());
        }
        replicated.wait_until_in_sync();
        replicated
    }

    pub(crate) fn primary(&self) -> &Redis {
        &self.servers[self.primary]
    }

    fn replicas(&self) -> impl Iterator<Item = &Redis> {
        let numbered = self.servers.iter().enumerate();
        numbered.filter(|(place, _)| *place != self.primary).map(|(_, server)| server)
    }

    /// Waits until each server but the primary has all that the primary has.
    pub(crate) fn wait_until_in_sync(&self) {
        let primary = format!("master_port:{}\r", self.primary().address().port());
        for replica in self.replicas() {
            wait_for("a replica to be in sync", || {
                let state = replication(replica)?;
                (state.contains(&primary) && state.contains("master_link_status:up\r")).then_some(())
            });
        }
    }

    /// Kills the primary as the kernel would.
    pub(crate) fn kill_primary(&mut self) {
        self.servers[self.primary].kill();
    }

    /// Starts what was killed, on its old address. It takes itself for a primary until it is told otherwise.
    pub(crate) fn restart_killed(&mut self) {
        for server in &mut self.servers {
            if !server.is_running() {
                server.restart();
            }
        }
    }

    /// Waits until somebody has made one of the replicas the primary, so that it can be written to.
    pub(crate) fn wait_for_new_primary(&mut self) {
        self.primary = wait_for("a replica to become the primary", || {
            let is_new = |place: &usize| *place != self.primary && is_primary(&self.servers[*place]);
            (0..self.servers.len()).find(is_new)
        });
    }

    /// Makes a replica the primary, and the primary a replica of it. No connection is closed.
    pub(crate) fn switch(&mut self) {
        let former = self.primary;
        self.primary = (former + 1) % self.servers.len();
        self.primary().command::<()>(&["REPLICAOF", "NO", "ONE"]);
        for replica in self.replicas() {
            follow(replica, self.primary());
        }
    }
}

fn follow(replica: &Redis, primary: &Redis) {
    let address = primary.address();
    replica.command::<()>(&["REPLICAOF", &address.ip().to_string(), &address.port().to_string()]);
}

fn is_primary(server: &Redis) -> bool {
    replication(server).is_some_and(|state| state.contains("role:master\r"))
}

/// What a server says of its part; nothing if it is dead or just reads what its primary sent.
fn replication(server: &Redis) -> Option<String> {
    server.try_command(&["INFO", "replication"]).ok()
}
