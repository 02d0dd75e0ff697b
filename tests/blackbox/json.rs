//! The HTTP face: `POST /json` for functions and curl, and the probes.

use serde_json::{Value, json};

use crate::harness::http::{self, Response};
use crate::harness::{Comporta, Setup};

const POLICY: &str = "
domain: d
descriptors:
  - {key: k, rate_limit: {name: daily, unit: day, requests_per_unit: 2, burst: 2}}
  - {key: minute, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: free, rate_limit: {unlimited: true}}
";

fn serve() -> (Setup, Comporta) {
    Comporta::with_policy(POLICY)
}

fn post(comporta: &Comporta, body: &str) -> Response {
    http::post_json(comporta.addresses.http, "/json", body).unwrap()
}

/// A request for one descriptor of one entry.
fn hit(key: &str) -> String {
    json!({"domain": "d", "descriptors": [{"entries": [{"key": key, "value": "v"}]}]}).to_string()
}

/// Asserts that a body is refused as the caller's mistake, and returns what the refusal says.
fn refusal(comporta: &Comporta, body: &str) -> String {
    let response = post(comporta, body);
    assert_eq!(response.status, 400, "{body} is answered {response:?}");
    response.body
}

#[test]
fn a_request_within_its_limit_is_200_and_one_over_it_429() {
    let (_setup, comporta) = serve();
    assert_eq!(post(&comporta, &hit("k")).status, 200);
    assert_eq!(post(&comporta, &hit("k")).json()["overallCode"], "OK");
    let refused = post(&comporta, &hit("k"));
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["overallCode"], "OVER_LIMIT");
    assert_eq!(refused.json()["statuses"][0]["code"], "OVER_LIMIT");
}

#[test]
fn an_answer_is_proto3_json_with_its_zeros() {
    let (_setup, comporta) = serve();
    post(&comporta, &hit("k"));
    let response = post(&comporta, &hit("k"));
    assert_eq!(response.header("content-type"), Some("application/json"));
    let status = &response.json()["statuses"][0];
    assert_eq!(status["currentLimit"], json!({"name": "daily", "requestsPerUnit": 2, "unit": "DAY"}));
    assert_eq!(status["limitRemaining"], 0);
    let reset = status["durationUntilReset"].as_str().and_then(|text| text.strip_suffix('s')).unwrap();
    let seconds: u32 = reset.parse().expect("whole seconds");
    assert!((86_390..=86_400).contains(&seconds), "two a day are back after a day, not after {seconds} s");
}

#[test]
fn a_descriptor_without_a_limit_is_ok_and_shows_none() {
    let (_setup, comporta) = serve();
    let none = post(&comporta, &hit("unknown")).json();
    assert_eq!(none["statuses"][0]["code"], "OK");
    assert_eq!(none["statuses"][0]["limitRemaining"], 0);
    assert_eq!(none["statuses"][0]["currentLimit"], Value::Null);
    let unlimited = post(&comporta, &hit("free")).json();
    assert_eq!(unlimited["statuses"][0]["limitRemaining"], u32::MAX);
}

#[test]
fn both_spellings_of_a_field_are_read() {
    let (_setup, comporta) = serve();
    for (body, remaining) in [
        (r#"{"domain":"d","hitsAddend":2,"descriptors":[{"entries":[{"key":"minute","value":"a"}]}]}"#, 3),
        (r#"{"domain":"d","hits_addend":2,"descriptors":[{"entries":[{"key":"minute","value":"b"}]}]}"#, 3),
        (r#"{"domain":"d","descriptors":[{"entries":[{"key":"minute","value":"c"}],"hitsAddend":3}]}"#, 2),
        (r#"{"domain":"d","descriptors":[{"entries":[{"key":"minute","value":"d"}],"hits_addend":"3"}]}"#, 2),
        (
            r#"{"domain":"d","descriptors":[{"entries":[{"key":"x","value":"e"}],"limit":{"requestsPerUnit":9,"unit":"HOUR"}}]}"#,
            8,
        ),
        (
            r#"{"domain":"d","descriptors":[{"entries":[{"key":"x","value":"f"}],"limit":{"requests_per_unit":9,"unit":3}}]}"#,
            8,
        ),
    ] {
        let response = post(&comporta, body);
        assert_eq!(response.status, 200, "{body}: {response:?}");
        assert_eq!(response.json()["statuses"][0]["limitRemaining"], remaining, "{body}");
    }
}

#[test]
fn a_field_that_is_null_is_a_field_that_is_absent() {
    let (_setup, comporta) = serve();
    let body = r#"{"domain":"d","hitsAddend":null,"descriptors":[
        {"entries":[{"key":"minute","value":"v"}],"limit":null,"hitsAddend":null,"isNegativeHits":null}]}"#;
    let response = post(&comporta, body);
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.json()["statuses"][0]["limitRemaining"], 4);
}

#[test]
fn negative_hits_are_given_back() {
    let (_setup, comporta) = serve();
    post(&comporta, &hit("k"));
    post(&comporta, &hit("k"));
    let back =
        r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}],"hitsAddend":1,"isNegativeHits":true}]}"#;
    assert_eq!(post(&comporta, back).json()["statuses"][0]["limitRemaining"], 1);
    let back = back.replace("isNegativeHits", "is_negative_hits");
    assert_eq!(post(&comporta, &back).json()["statuses"][0]["limitRemaining"], 2);
}

#[test]
fn each_descriptor_has_a_status_in_its_place() {
    let (_setup, comporta) = serve();
    let entries = |key: &str| json!({"entries": [{"key": key, "value": "v"}]});
    let body = json!({"domain": "d", "descriptors": [entries("minute"), entries("none"), entries("k")]}).to_string();
    let statuses = post(&comporta, &body).json()["statuses"].clone();
    let units: Vec<_> = statuses.as_array().unwrap().iter().map(|s| s["currentLimit"]["unit"].clone()).collect();
    assert_eq!(units, [json!("MINUTE"), Value::Null, json!("DAY")]);
}

#[test]
fn an_unknown_field_is_refused_with_its_name() {
    let (_setup, comporta) = serve();
    assert!(refusal(&comporta, r#"{"domain":"d","descriptor":[]}"#).contains("descriptor"));
    let nested = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","val":"v"}]}]}"#;
    assert!(refusal(&comporta, nested).contains("val"));
}

#[test]
fn what_is_not_a_json_object_is_refused_with_what_to_send() {
    let (_setup, comporta) = serve();
    let in_a_list = r#"["d", [{"entries": [{"key": "k", "value": "v"}]}], 1]"#;
    for body in ["", "{", "domain=d", "[]", "null", "\u{0}", in_a_list] {
        assert!(refusal(&comporta, body).contains("JSON"), "{body:?} is refused without a word on JSON");
    }
}

#[test]
fn what_cannot_be_a_request_is_refused_with_the_reason() {
    let (_setup, comporta) = serve();
    assert!(refusal(&comporta, r#"{"descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#).contains("domain"));
    assert!(refusal(&comporta, r#"{"domain":"d","descriptors":[]}"#).contains("descriptor"));
    let unit = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k"}],"limit":{"requestsPerUnit":1,"unit":"EON"}}]}"#;
    assert!(refusal(&comporta, unit).contains("MINUTE"), "it names the units that there are");
    for hits in ["-1", "1.5", "4294967296", "\"many\""] {
        let body = format!(r#"{{"domain":"d","hitsAddend":{hits},"descriptors":[{{"entries":[{{"key":"k"}}]}}]}}"#);
        refusal(&comporta, &body);
    }
    assert_eq!(post(&comporta, &hit("k")).json()["statuses"][0]["limitRemaining"], 1, "refusals take nothing");
}

/// A request padded with spaces to so many bytes.
fn padded(bytes: usize) -> String {
    let request = hit("k");
    let padding = " ".repeat(bytes - request.len());
    request + &padding
}

#[test]
fn a_body_of_4_mib_is_read_and_one_byte_more_is_refused_with_what_to_do() {
    const MOST: usize = 4 * 1024 * 1024;
    let (_setup, comporta) = serve();
    assert_eq!(post(&comporta, &padded(MOST)).status, 200);
    let refused = post(&comporta, &padded(MOST + 1));
    assert_eq!(refused.status, 413);
    let error = refused.json()["error"].as_str().unwrap().to_owned();
    assert!(error.contains("4 MiB") && error.contains("send fewer or shorter descriptors"), "{error}");
}

#[test]
fn a_body_far_above_4_mib_does_not_end_the_service() {
    let (_setup, comporta) = serve();
    let body = hit(&"x".repeat(4 * 1024 * 1024));
    // The service need not read such a body to its end, so the answer may be lost with the connection.
    if let Ok(response) = http::post_json(comporta.addresses.http, "/json", &body) {
        assert_eq!(response.status, 413);
    }
    assert_eq!(post(&comporta, &hit("k")).status, 200);
}

#[test]
fn only_post_is_answered_and_only_on_known_paths() {
    let (_setup, comporta) = serve();
    assert_eq!(http::get(comporta.addresses.http, "/json").unwrap().status, 405);
    assert_eq!(http::get(comporta.addresses.http, "/jsn").unwrap().status, 404);
}

#[test]
fn the_content_type_that_curl_sends_by_itself_will_do() {
    let (_setup, comporta) = serve();
    let headers: [(&str, &[u8]); 1] = [("content-type", b"application/x-www-form-urlencoded")];
    let response = http::request(comporta.addresses.http, "POST", "/json", &headers, hit("k").as_bytes()).unwrap();
    assert_eq!(response.status, 200, "{response:?}");
}

#[test]
fn probes_pass_while_it_serves() {
    let (_setup, comporta) = serve();
    for path in ["/healthcheck", "/livez", "/readyz"] {
        assert_eq!(http::get(comporta.addresses.http, path).unwrap().status, 200, "{path}");
    }
}
