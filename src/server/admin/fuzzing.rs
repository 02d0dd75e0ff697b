#![expect(clippy::expect_used, clippy::missing_panics_doc, reason = "a finding is a panic")]

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::{JSON, pages, render};
use crate::clock::Clock;
use crate::engine::{Engine, EngineSettings};
use crate::fuzzing::{POLICY, assert_printable};
use crate::limit::{Micros, Now};
use crate::policy::{Defaults, load_texts};
use crate::replica::Replica;

const NOW: Now = Now { monotonic: Micros(60_000_000), utc: Micros(1_700_000_000_000_000) };

/// Answers what stands after the `?` of every page's address.
pub fn admin_query(bytes: &[u8]) {
    let Ok(query) = str::from_utf8(bytes) else { return };
    let policy = load_texts(&[("api.yaml", POLICY)], &Defaults::default()).expect("the policy has no faults").policy;
    let engine = Engine::new(policy, EngineSettings { max_buckets: 64, ..EngineSettings::default() }, NOW);
    let replica = Replica::new(engine, Arc::new(Clock::start()), None, None);
    for accept in [None, Some("application/json")] {
        for page in [
            render(&replica, query, accept, NOW, &pages::POLICY),
            render(&replica, query, accept, NOW, &pages::EXPLAIN),
            render(&replica, query, accept, NOW, &pages::BUCKETS),
        ] {
            assert!(matches!(page.status, StatusCode::OK | StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND));
            if page.content_type == JSON {
                assert!(page.body.parse::<Value>().is_ok(), "this is no JSON: {}", page.body);
            } else {
                assert_printable(&page.body);
            }
        }
    }
}
