//! The store in a real Redis, through the library.

use crate::harness::RedisSetup;

#[test]
fn the_harness_starts_stops_and_restarts_a_redis() {
    for setup in [RedisSetup::new(), RedisSetup::new().on_socket(), RedisSetup::new().password("secret")] {
        let mut redis = setup.start();
        redis.command::<()>(&["SET", "key", "1"]);
        assert_eq!(redis.keys(), ["key"]);
        assert_eq!(redis.command_counts()["set"], 1);
        redis.kill();
        assert!(redis.try_command::<()>(&["PING"]).is_err());
        redis.restart();
        assert_eq!(redis.keys(), [""; 0]);
    }
}
