//! A Cluster, through the library.

use comporta::store::Store;

use super::heartbeat::wait_until_replicas_are;
use super::{connected, start, take};
use crate::harness::{Cluster, Flavour};

#[tokio::test]
async fn replicas_are_counted_where_their_key_is() {
    let cluster = Cluster::start(Flavour::Redis);
    let (one, other) = (connected(&cluster.url()).await, start(&cluster.url()));
    wait_until_replicas_are(&one, 2).await;
    wait_until_replicas_are(&other, 2).await;
    let owner = cluster.owner("test:replicas");
    assert_eq!(cluster.node(owner).command::<u64>(&["ZCARD", "test:replicas"]), 2);
    other.stop().await;
    wait_until_replicas_are(&one, 1).await;
    let errors = cluster.error_counts();
    assert_eq!(errors.get("CROSSSLOT"), None, "{errors:?}");
}

#[tokio::test]
async fn a_user_with_few_rights_suffices() {
    let cluster = Cluster::start(Flavour::Redis);
    let rights = "+eval +evalsha +time +hmget +hset +pexpire +zadd +zrem +zcard +zrangebyscore +zremrangebyscore +role \
                  +script|load +config|get +cluster|slots +cluster|info +asking";
    for node in cluster.nodes() {
        let user = ["ACL", "SETUSER", "few", "on", ">secret", "resetchannels", "~test:*", "-@all"];
        node.command::<()>(&user.into_iter().chain(rights.split(' ')).collect::<Vec<_>>());
    }
    let store = connected(&format!("redis-cluster://few:secret@{}", cluster.setup().seeds())).await;
    wait_until_replicas_are(&store, 1).await;

    let key = "test:{test|key=a}:hour";
    let migration = cluster.migration(key, (cluster.owner(key) + 1) % 3);
    migration.begin();
    migration.move_keys();
    assert_eq!(store.call(&take("a", 1)).await.unwrap().used, 2, "ASK is followed");
    migration.finish();
    assert_eq!(store.call(&take("a", 1)).await.unwrap().used, 3, "MOVED is followed");
    store.stop().await;
    for node in cluster.nodes() {
        let denied = node.command::<Vec<redis::Value>>(&["ACL", "LOG"]);
        assert!(denied.is_empty(), "{denied:?}");
    }
}
