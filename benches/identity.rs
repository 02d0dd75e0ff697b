//! What the identity of a bucket costs, a hash of its path: `cargo bench --bench identity`.

use std::hint::black_box;

use comporta::engine::{KeyHasher, KeySeed, Tier};
use comporta::limit::{Algorithm, Limit, Unit};
use comporta::policy::PathPart;
use criterion::{Criterion, criterion_group, criterion_main};

fn identity(c: &mut Criterion) {
    let limit = Limit::per(10, Unit::Second, Algorithm::TokenBucket);
    let path_to_domain = KeyHasher::new(&KeySeed::random(), b"bench");
    for (name, levels, value) in [
        ("one level, 12 bytes", 1, "user-0000001".to_owned()),
        ("four levels, 12 bytes each", 4, "user-0000001".to_owned()),
        ("one level, 1,000 bytes", 1, "x".repeat(1_000)),
    ] {
        let part = PathPart { key: b"user", value: value.as_bytes(), is_shared: false };
        c.bench_function(&format!("identity: {name}"), |b| {
            b.iter(|| {
                let mut hasher = path_to_domain.clone();
                for _ in 0..levels {
                    hasher.part(black_box(part));
                }
                hasher.bucket(&limit, Tier::Process)
            });
        });
    }
}

criterion_group!(benches, identity);
criterion_main!(benches);
