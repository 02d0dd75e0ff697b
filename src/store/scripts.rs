//! The scripts that do in Redis what a [`StoreCall`] asks, and the language that they speak.
//!
//! What they do is told in the scripts themselves, in `lua/`. This knows nothing of connections.

use redis::{RedisWrite, ToRedisArgs, Value};
use smallvec::{SmallVec, smallvec};

use super::{Facts, Operation, Reply, StoreCall, StoreError, epoch_length, scarce_hits};
use crate::limit::{Algorithm, Limit, Micros};
use crate::policy::Visible;

/// One of the scripts. Its only key is the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Script {
    TokenBucket,
    FixedWindow,
}

impl Script {
    pub const ALL: [Self; 2] = [Self::TokenBucket, Self::FixedWindow];

    /// The script that serves the buckets of a limit.
    #[must_use]
    pub const fn of(limit: &Limit) -> Self {
        match limit.algorithm() {
            Algorithm::TokenBucket => Self::TokenBucket,
            Algorithm::FixedWindow => Self::FixedWindow,
        }
    }

    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::TokenBucket => include_str!("../../lua/token_bucket.lua"),
            Self::FixedWindow => include_str!("../../lua/fixed_window.lua"),
        }
    }
}

/// An argument of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    Word(&'static str),
    Number(u64),
}

impl ToRedisArgs for Argument {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        match self {
            Self::Word(word) => word.write_redis_args(out),
            Self::Number(number) => number.write_redis_args(out),
        }
    }
}

/// All arguments of a script but the key. A call that tells of one lease needs no allocation.
pub type Arguments = SmallVec<[Argument; 13]>;

/// The arguments with which [`Script::of`] the call's limit does what the call asks.
#[must_use]
pub fn arguments(call: &StoreCall) -> Arguments {
    let nothing = Facts::default();
    let (operation, hits, want, facts) = match &call.operation {
        Operation::Acquire { needed, want, facts } => ("acquire", *needed, *want, facts),
        Operation::Refund { hits } => ("refund", *hits, 0, &nothing),
        Operation::Debit { hits } => ("debit", *hits, 0, &nothing),
    };
    let limit = &call.limit;
    let (capacity, length) = (limit.capacity().into(), epoch_length(limit).0);
    let mut arguments: Arguments = smallvec![Argument::Word(operation)];
    let mut push = |numbers: &[u64]| arguments.extend(numbers.iter().map(|&number| Argument::Number(number)));
    push(&[hits, want, capacity, scarce_hits(limit), length]);
    if limit.algorithm() == Algorithm::TokenBucket {
        push(&[limit.amount().into(), limit.tick()]);
    }
    push(&[facts.leased.len() as u64, facts.unused.len() as u64]);
    for fact in &facts.leased {
        push(&[fact.epoch, fact.spent, fact.returned]);
    }
    for fact in &facts.unused {
        push(&[fact.epoch, fact.hits, fact.mark]);
    }
    arguments
}

/// What a script has answered to an operation with this [`most_extra`](Operation::most_extra). Anything that no script of
/// ours answers is [`StoreError::Malformed`]: hits that nobody has asked for would be admitted.
pub fn reply(answer: &Value, most_extra: u64) -> Result<Reply, StoreError> {
    whole_numbers(answer)
        .and_then(|numbers| match numbers {
            // Who is refused borrows nothing.
            [granted @ (0 | 1), extra, epoch, lease_time, retry_after, used, mark] if extra <= granted * most_extra => {
                Some(Reply {
                    granted: granted == 1,
                    extra,
                    epoch,
                    lease_time: Micros(lease_time),
                    retry_after: Micros(retry_after),
                    used,
                    mark,
                })
            }
            _ => None,
        })
        .ok_or_else(|| {
            // Not all of it is escaped.
            let answer = format!("{:.200}", format!("{answer:?}"));
            StoreError::Malformed(format!("the script answered {}", Visible(&answer)))
        })
}

/// Lua counts in floats. Up to this number they are exact, and no script of ours goes beyond it.
const LARGEST_NUMBER: u64 = 1 << 53;

/// The seven numbers of an answer, if they are seven, and none is negative or larger than any that our scripts know.
fn whole_numbers(answer: &Value) -> Option<[u64; 7]> {
    let Value::Array(items) = answer else { return None };
    let mut numbers = [0; 7];
    if items.len() != numbers.len() {
        return None;
    }
    for (number, item) in numbers.iter_mut().zip(items) {
        let Value::Int(integer) = item else { return None };
        *number = u64::try_from(*integer).ok().filter(|number| *number <= LARGEST_NUMBER)?;
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Unit;
    use crate::store::{LeaseFact, UnusedFact};

    fn words(call: &StoreCall) -> String {
        let mut words = Vec::new();
        for argument in arguments(call) {
            words.extend(argument.to_redis_args());
        }
        String::from_utf8(words.join(&b' ')).unwrap()
    }

    #[test]
    fn a_call_is_written_as_the_scripts_read_it() {
        let facts = Facts {
            leased: [
                LeaseFact { epoch: 700, spent: 1, returned: 2 },
                LeaseFact { epoch: 800, spent: 0, returned: u64::MAX },
            ]
            .into_iter()
            .collect(),
            unused: [UnusedFact { epoch: 800, hits: 3, mark: 4 }].into_iter().collect(),
        };
        let limit = Limit::new(600, Unit::Minute, 2, Some(50), Algorithm::TokenBucket).unwrap();
        let mut call =
            StoreCall { bucket: "b".into(), limit, operation: Operation::Acquire { needed: 5, want: 7, facts } };
        assert_eq!(words(&call), "acquire 5 7 50 1 30000000 600 120 2 1 700 1 2 800 0 18446744073709551615 800 3 4");
        call.limit = Limit::per(600, Unit::Hour, Algorithm::FixedWindow);
        assert_eq!(words(&call), "acquire 5 7 600 1 3600000000 2 1 700 1 2 800 0 18446744073709551615 800 3 4");
        call.operation = Operation::Refund { hits: 9 };
        assert_eq!(words(&call), "refund 9 0 600 1 3600000000 0 0");
        call.operation = Operation::Debit { hits: 9 };
        assert_eq!(words(&call), "debit 9 0 600 1 3600000000 0 0");
    }

    #[test]
    fn seven_whole_numbers_are_a_reply() {
        let answer = Value::Array([1, 2, 3, 4, 5, 6, 7].map(Value::Int).to_vec());
        let reply = reply(&answer, 2).unwrap();
        assert_eq!((reply.granted, reply.extra, reply.epoch, reply.used, reply.mark), (true, 2, 3, 6, 7));
        assert_eq!((reply.lease_time, reply.retry_after), (Micros(4), Micros(5)));
    }

    #[test]
    fn nothing_else_is_a_reply() {
        let numbers = |numbers: &[i64]| Value::Array(numbers.iter().copied().map(Value::Int).collect());
        let mut with_text = vec![Value::Int(1); 6];
        with_text.push(Value::BulkString(b"7".to_vec()));
        for answer in [
            Value::Nil,
            Value::Okay,
            Value::Int(1),
            Value::BulkString(b"1".to_vec()),
            Value::Array(with_text),
            numbers(&[]),
            numbers(&[1; 6]),
            numbers(&[1; 8]),
            numbers(&[2, 0, 0, 0, 0, 0, 0]),
            numbers(&[-1, 0, 0, 0, 0, 0, 0]),
            numbers(&[1, 0, 0, 0, 0, i64::MIN, 0]),
            numbers(&[1, 0, 0, 0, 0, i64::MAX, 0]),
            numbers(&[1, 0, 0, (1 << 53) + 1, 0, 0, 0]),
        ] {
            assert!(matches!(reply(&answer, 1), Err(StoreError::Malformed(_))), "{answer:?}");
        }
    }

    #[test]
    fn hits_that_nobody_has_asked_for_are_not_taken() {
        let reply = |granted, extra, operation: &Operation| {
            let numbers = [granted, extra, 3, 4, 5, 6, 7].map(Value::Int);
            reply(&Value::Array(numbers.to_vec()), operation.most_extra()).is_ok()
        };
        let acquire = Operation::Acquire { needed: 5, want: 2, facts: Facts::default() };
        assert!(reply(1, 2, &acquire) && reply(0, 0, &acquire));
        assert!(!reply(1, 3, &acquire) && !reply(1, i64::MAX, &acquire));
        assert!(!reply(0, 1, &acquire), "who is refused borrows nothing");
        assert!(reply(1, 2, &Operation::Refund { hits: 2 }) && !reply(1, 3, &Operation::Refund { hits: 2 }));
        assert!(reply(1, 0, &Operation::Debit { hits: 2 }) && !reply(1, 1, &Operation::Debit { hits: 2 }));
    }
}
