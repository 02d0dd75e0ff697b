use std::fmt::Write;

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use clap::Parser;
use http::{Method, Request};
use tower::ServiceExt;

use super::*;
use crate::clock::Clock;
use crate::engine::{Engine, EngineSettings};
use crate::limit::Micros;
use crate::policy::{Defaults, load_texts};
use crate::replica::Replica;
use crate::request::{Descriptor, Entry, LimitOverride, RateLimitRequest};
use crate::settings::ResponseSettings;

/// When the policy of these tests came into force.
const EARLIER: Now = Now { monotonic: Micros(18_000_000), utc: Micros(1_699_999_958_000_000) };

const START: Now = Now { monotonic: Micros(60_000_000), utc: Micros(1_700_000_000_000_000) };

const POLICY: &str = r#"domain: api
plans:
  free: {requests_per_unit: 60, unit: minute}
  gold: {requests_per_unit: 6000, unit: minute, burst: 500}
descriptors:
  - key: tenant
    plan: free
    tenants: {acme: gold, "partner-*": gold}
    descriptors:
      - key: path
        value: /export*
        share_threshold: true
        rate_limit:
          - {requests_per_unit: 10, unit: second}
          - {requests_per_unit: 250, unit: day, algorithm: fixed_window, failure_mode: closed}
  - {key: beta, shadow_mode: true, metadata: {owner: web}, rate_limit: {unlimited: true, name: beta}}
  - {key: nothing}
"#;

fn replica_of(texts: &[(&str, &str)]) -> Arc<Replica> {
    let policy = load_texts(texts, &Defaults::default()).unwrap().policy;
    Replica::new(Engine::new(policy, EngineSettings::default(), EARLIER), Arc::new(Clock::start()), None, None)
}

fn replica() -> Arc<Replica> {
    replica_of(&[("api.yaml", POLICY)])
}

/// Lets a request through that costs so many hits.
fn spend(replica: &Replica, entries: &[(&str, &str)], hits: u64, limit: Option<LimitOverride>) {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let entries = entries.iter().map(|(key, value)| Entry { key: bytes(key), value: bytes(value) }).collect();
    let descriptor = Descriptor { entries, limit, hits_addend: Some(hits), is_negative_hits: false };
    let request = RateLimitRequest { domain: "api".into(), descriptors: vec![descriptor], hits_addend: 0 };
    replica.engine.decide(&request, START).unwrap();
}

/// A page's address with what it answers, as text five seconds after the start.
fn shown(replica: &Replica, address: &str) -> String {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let later = Now { monotonic: START.monotonic + Micros(5_000_000), utc: START.utc + Micros(5_000_000) };
    let Rendered { status, content_type, body } = match path {
        "/policy" => render(replica, query, None, later, &pages::POLICY),
        "/explain" => render(replica, query, None, later, &pages::EXPLAIN),
        "/buckets" => render(replica, query, None, later, &pages::BUCKETS),
        _ => panic!("{path}"),
    };
    format!("GET {address}\n{status}, {content_type}\n\n{body}")
}

#[test]
fn the_policy_in_text_and_json() {
    insta::assert_snapshot!(shown(&replica(), "/policy"));
    insta::assert_snapshot!(shown(&replica(), "/policy?format=json&limit=2"));
    insta::assert_snapshot!(shown(&replica(), "/policy?offset=1&limit=2"));
}

#[test]
fn an_explanation_shows_what_is_in_the_buckets() {
    let replica = replica();
    spend(&replica, &[("tenant", "initech"), ("path", "/export/all")], 7, None);
    insta::assert_snapshot!(shown(&replica, "/explain?domain=api&entry=tenant=initech&entry=path=/export/me"));
    insta::assert_snapshot!(shown(&replica, "/explain?descriptor=tenant=partner-2&format=json"));
}

#[test]
fn a_bucket_is_found_by_its_name_and_by_its_descriptor() {
    let replica = replica();
    spend(&replica, &[("tenant", "acme")], 501, None);
    spend(&replica, &[("tenant", "acme")], 500, None);
    spend(&replica, &[("tenant", "a|b%")], 20, None);
    spend(&replica, &[("tenant", "x"), ("path", "/export")], 3, None);
    let limit = Some(LimitOverride { requests_per_unit: 5, unit: 4 });
    spend(&replica, &[("user", "7")], 2, limit);
    let found = [
        "/buckets?domain=api&entry=tenant=acme",
        "/buckets?key={api|tenant=acme}:minute",
        "/buckets?key=%7Bapi%7Ctenant%3Da%257Cb%2525%7D%3Aminute",
        "/buckets?key=comporta:{api|tenant=x|path~/export*}:day:fixed_window",
        "/buckets?descriptor=tenant=x,path=/export/anything",
        "/buckets?key={api|user=7}:day",
        "/buckets?key={api|tenant=acme}:minute&format=json",
    ];
    insta::assert_snapshot!(found.map(|address| shown(&replica, address)).join("\n"));
}

#[test]
fn a_bucket_that_is_not_there_is_full() {
    let absent = [
        "/buckets?key={api|tenant=acme}:minute",
        "/buckets?domain=api&entry=tenant=x&entry=path=/export",
        "/buckets?key={api|tenant=acme}:hour",
        "/buckets?key={api|tenant=x|path=/export}:second",
        "/buckets?key={other|tenant=acme}:minute&format=json",
        "/buckets?entry=nothing=x",
        "/buckets?domain=apu&entry=tenant=x",
    ];
    insta::assert_snapshot!(absent.map(|address| shown(&replica(), address)).join("\n"));
}

#[test]
fn a_bad_question_is_answered_with_a_good_one() {
    let replica = replica_of(&[("api.yaml", POLICY), ("web.yaml", "domain: web")]);
    let bad = [
        "/explain",
        "/explain?entry=tenant=acme",
        "/explain?domain=api&entry=tenant",
        "/explain?domain=api&entries=tenant=acme",
        "/explain?domain=api&entry=tenant=100%",
        "/explain?domain=api&entry=tenant=acme&format=xml",
        "/buckets",
        "/buckets?key=tenant",
        "/buckets?key={api|tenant=a%}:minute",
        "/buckets?key={api|tenant=%ff}:minute",
        "/buckets?key={api|tenant=a%25zz}:minute",
        "/buckets?key={api|tenant=acme}:fortnight&domain=api",
        "/buckets?key={api|tenant=acme}:%1b&format=json",
        "/policy?limit=many",
        "/policy?page=2",
    ];
    insta::assert_snapshot!(bad.map(|address| shown(&replica, address)).join("\n"));
}

#[test]
fn json_is_for_those_who_name_it() {
    for (accept, is_json) in [
        (None, false),
        (Some("*/*"), false),
        (Some("text/html,application/xhtml+xml,*/*;q=0.8"), false),
        (Some("application/json"), true),
        (Some("text/plain;q=0.5, Application/JSON ; q=1"), true),
    ] {
        assert_eq!(accepts_json(accept), is_json, "{accept:?}");
    }
    let text = render(&replica(), "format=text", Some("application/json"), START, &pages::POLICY);
    assert_eq!(text.content_type, TEXT);
}

#[test]
fn a_hundred_thousand_rules_are_shown_page_by_page() {
    let mut text = String::from("domain: d\ndescriptors:\n");
    for n in 0..100_000 {
        writeln!(text, "- {{key: tenant, value: tenant-{n}, rate_limit: {{unit: day, requests_per_unit: 1}}}}")
            .unwrap();
    }
    let replica = replica_of(&[("d.yaml", &text)]);
    let page = shown(&replica, "/policy?limit=1000000&offset=50000");
    assert!(page.contains("rules: 100000, here those from 50001 to 51000\n"), "{}", &page[..500]);
    assert!(page.ends_with("more: /policy?offset=51000\n"));
    assert!(page.contains("d: tenant=tenant-50000\n    1 per day | d.yaml:50003\n"));
    let explanation = shown(&replica, "/explain?entry=tenant=tenant-12345x");
    assert!(explanation.contains("not the 100000 exact values: \"tenant-12345\", "), "{explanation}");
}

/// What the router answers: status, headers that matter, body.
async fn asked(method: Method, path: &str) -> String {
    #[derive(Parser)]
    struct NoArguments {
        #[command(flatten)]
        response: ResponseSettings,
    }
    let response = NoArguments::parse_from(["comporta"]).response;
    let app = Arc::new(App::new(replica(), Vec::new(), response));
    let request = Request::builder().method(&method).uri(path).body(Body::empty()).unwrap();
    let response = router(app).oneshot(request).await.unwrap();
    let header = |name| response.headers().get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let (kind, allow, status) = (header(header::CONTENT_TYPE), header(header::ALLOW), response.status());
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    format!("{method} {path}\n{status}, {kind}, {allow}\n\n{}", String::from_utf8_lossy(&body))
}

#[tokio::test]
async fn every_address_says_what_there_is() {
    let answers = [
        asked(Method::GET, "/").await,
        asked(Method::HEAD, "/").await,
        asked(Method::HEAD, "/explain?entry=tenant=x").await,
        asked(Method::GET, "/explain?entry=nothing=x").await,
        asked(Method::GET, "/polic%79?x").await,
        asked(Method::POST, "/policy").await,
        asked(Method::DELETE, "/").await,
        asked(Method::POST, "/nowhere").await,
    ];
    insta::assert_snapshot!(answers.join("\n"));
}
