//! Dynamic metadata, as asked for over gRPC.

use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use serde_json::{Map, Value, json};

use crate::harness::grpc::{self, Client, ask, request};
use crate::harness::{Comporta, Setup};

const RULES: usize = 5;

fn serve(policy: &str, flags: &[&str]) -> (Setup, Comporta) {
    let setup = Setup::new(policy).flags([&["--response-dynamic-metadata"], flags].concat());
    let comporta = setup.start();
    (setup, comporta)
}

/// Rules that agree and disagree, at the top and below it: `mine` and `shared.mine` are in all of them.
fn rules_with_metadata() -> String {
    let rules = (0..RULES).map(|rule| {
        let metadata = metadata_of(&[rule]);
        format!(
            "  - {{key: rule{rule}, rate_limit: {{unit: second, requests_per_unit: 1000000}}, metadata: {metadata}}}\n"
        )
    });
    format!("domain: d\ndescriptors:\n{}", rules.collect::<String>())
}

/// The metadata of these rules together: of what all of them have, the first one's.
fn metadata_of(rules: &[usize]) -> Value {
    let (mut top, mut shared) = (Map::new(), Map::new());
    for fields in [&mut top, &mut shared] {
        fields.insert("mine".to_owned(), json!(["rule", rules[0].to_string()]));
        fields.extend(rules.iter().map(|rule| (format!("only{rule}"), json!(format!("rule {rule}")))));
    }
    top.insert("shared".to_owned(), Value::Object(shared));
    Value::Object(top)
}

/// What an answer says besides the decision.
fn told(answer: &RateLimitResponse) -> Value {
    grpc::struct_to_json(answer.dynamic_metadata.as_ref().expect("dynamic metadata"))
}

/// Asks for these rules and for one that does not exist, and returns the metadata of the answer.
async fn metadata_for(client: &mut Client, rules: &[usize]) -> Value {
    let descriptors: Vec<_> = rules.iter().map(|rule| format!("rule{rule}=x")).chain(["none=x".to_owned()]).collect();
    let answer = ask(client, request("d", descriptors.iter().map(String::as_str))).await.unwrap();
    told(&answer)["metadata"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_two_clients_at_once_get_the_metadata_of_their_own_rules_and_no_other() {
    let (_setup, comporta) = serve(&rules_with_metadata(), &[]);
    let clients = (0..1_usize << RULES).map(|combination| {
        let mut client = comporta.client();
        tokio::spawn(async move {
            let mut rules: Vec<_> = (0..RULES).filter(|rule| combination & (1 << rule) != 0).collect();
            for number in 0..50 {
                let wanted = if rules.is_empty() { Value::Null } else { metadata_of(&rules) };
                assert_eq!(metadata_for(&mut client, &rules).await, wanted, "request {number} for the rules {rules:?}");
                rules.reverse();
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    for rule in 0..RULES {
        let metadata = metadata_for(&mut comporta.client(), &[rule]).await;
        assert_eq!(metadata, metadata_of(&[rule]), "the policy is as it was");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_passes_is_refused_by_nobody() {
    // The first quota is used up, the second is not: what would be a refusal is none.
    const QUOTAS: &str = "
domain: d
descriptors:
  - {key: small, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: large, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 9}}
";
    const ENFORCED: &str = "{domain: d, descriptors: [{key: small, rate_limit: {unit: year, requests_per_unit: 1}}]}";
    for (policy, flags) in [(QUOTAS, &[][..]), (ENFORCED, &["--shadow-mode"][..])] {
        let (_setup, comporta) = serve(policy, flags);
        let mut client = comporta.client();
        for wanted in [json!([]), json!(["small=x"])] {
            let answer = ask(&mut client, request("d", ["small=x", "large=x"])).await.unwrap();
            let told = told(&answer);
            assert_eq!((&told["refusedBy"], &told["wouldRefuse"]), (&json!([]), &wanted), "{flags:?}");
        }
    }
}
