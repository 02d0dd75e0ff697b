//! The operators' pages show a bucket in the store and what is borrowed of it.

use crate::harness::{Comporta, Redis, Setup, http};

const POLICY: &str = "
domain: d
descriptors:
  - {key: shared, rate_limit: {requests_per_unit: 10, unit: hour}}
  - {key: own, rate_limit: {requests_per_unit: 10, unit: hour, scope: replica}}
";

fn take(comporta: &Comporta, key: &str, hits: u32) {
    let body = format!(
        r#"{{"domain": "d", "descriptors": [{{"entries": [{{"key": "{key}", "value": "x"}}], "hitsAddend": {hits}}}]}}"#
    );
    assert_eq!(http::post_json(comporta.addresses.http, "/json", &body).unwrap().status, 200);
}

fn page(comporta: &Comporta, path: &str) -> http::Response {
    http::get(comporta.addresses.admin, path).unwrap()
}

#[test]
fn a_bucket_is_shown_as_the_store_has_it_whichever_replica_is_asked() {
    let redis = Redis::start();
    let setups = [(); 2].map(|()| Setup::new(POLICY).flags(["--redis-url".to_owned(), redis.url()]));
    let [one, other] = setups.each_ref().map(Setup::start);
    take(&one, "shared", 3);
    take(&one, "own", 4);

    for path in ["/buckets?entry=shared=x&format=json", "/buckets?key=%7Bd%7Cshared%3Dx%7D%3Ahour&format=json"] {
        for replica in [&one, &other] {
            let bucket = page(replica, path).json()["buckets"][0].clone();
            assert_eq!(bucket["state"]["store"]["used"], 3, "{bucket}");
            assert_eq!(bucket["state"]["store"]["remaining"], 7, "{bucket}");
            assert_eq!(bucket["state"]["store"]["key"], "comporta:{d|shared=x}:hour");
        }
    }
    let here = page(&one, "/explain?entry=shared=x&format=json").json()["limits"][0]["state"].clone();
    assert_eq!((&here["lease"]["held"], &here["store"]["used"]), (&0.into(), &3.into()), "{here}");
    let own = page(&one, "/buckets?entry=own=x&format=json").json()["buckets"][0]["state"].clone();
    assert_eq!((&own["used"], &own["store"], &own["lease"]), (&4.into(), &().into(), &().into()), "{own}");

    let text = page(&one, "/buckets?entry=shared=x").body;
    assert!(text.contains("3 used, 7 remaining"), "{text}");
    assert!(text.contains("here: 0 borrowed and not spent"), "{text}");
}
