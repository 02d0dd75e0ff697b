use redis::{Value, from_redis_value_ref};

/// The policy by which a server forgets keys when its memory is full, if it may forget ours: from the answer to
/// `CONFIG GET maxmemory*`. All our keys have a time to live, so all policies but one take them.
pub(super) fn policy_that_evicts(settings: &Value) -> Option<String> {
    let settings: Vec<(String, String)> = from_redis_value_ref(settings).ok()?;
    let setting = |wanted: &str| settings.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let policy = setting("maxmemory-policy")?;
    let is_bounded = setting("maxmemory")? != "0";
    (is_bounded && policy != "noeviction").then(|| policy.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(maxmemory: &str, policy: &str) -> Value {
        let words = ["maxmemory-samples", "5", "maxmemory", maxmemory, "maxmemory-policy", policy];
        Value::Array(words.iter().map(|word| Value::BulkString(word.as_bytes().to_vec())).collect())
    }

    #[test]
    fn only_a_bounded_memory_with_a_policy_evicts() {
        assert_eq!(policy_that_evicts(&settings("0", "allkeys-lru")), None);
        assert_eq!(policy_that_evicts(&settings("1048576", "noeviction")), None);
        assert_eq!(policy_that_evicts(&settings("1048576", "volatile-ttl")).as_deref(), Some("volatile-ttl"));
        assert_eq!(policy_that_evicts(&Value::Nil), None);
        assert_eq!(policy_that_evicts(&Value::Int(3)), None);
        assert_eq!(policy_that_evicts(&Value::Array(vec![Value::Int(3)])), None);
    }
}
