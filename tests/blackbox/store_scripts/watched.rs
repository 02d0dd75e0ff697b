//! A script, run word for word, and what it does to the server while it runs.

use comporta::limit::Micros;
use comporta::store::scripts::{self, Script};
use comporta::store::{Reply, StoreCall};
use redis::{Cmd, Connection, ToRedisArgs};

/// A script that a server has loaded, in a wrapper that shows what it keeps. The answer is a text: see [`Seen`].
///
/// `PEXPIRE` is not done but told: time is what the test says, and the server, whose own clock runs at another speed, must
/// not remove what is still there. Numbers are shown with all their digits, so that a fraction is seen.
#[derive(Debug)]
pub(super) struct Watched {
    hash: String,
}

impl Watched {
    pub(super) fn load(text: &str, connection: &mut Connection) -> Self {
        let wrapper = format!(
            "local server, lifetime = redis, ''
             local redis = {{
               call = function(command, ...)
                 if command == 'PEXPIRE' then
                   lifetime = select(2, ...)
                   return 1
                 end
                 return server.call(command, ...)
               end,
             }}
             local function script()
             {text}
             end
             local reply = script()
             for place, number in ipairs(reply) do
               reply[place] = string.format('%.17g', number)
             end
             local fields = server.call('HGETALL', KEYS[1])
             return table.concat(reply, ' ') .. '; ' .. table.concat(fields, ' ') .. '; ' .. lifetime"
        );
        Self { hash: redis::cmd("SCRIPT").arg("LOAD").arg(wrapper).query(connection).unwrap() }
    }

    /// The command that runs it with these arguments.
    pub(super) fn command(&self, bucket: &str, arguments: impl IntoIterator<Item: ToRedisArgs>) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.hash).arg(1).arg(bucket);
        for argument in arguments {
            command.arg(argument);
        }
        command
    }
}

/// The scripts of `lua/`.
#[derive(Debug)]
pub(super) struct Scripts {
    token_bucket: Watched,
    fixed_window: Watched,
}

impl Scripts {
    pub(super) fn load(connection: &mut Connection) -> Self {
        let mut load = |script: Script| Watched::load(script.text(), connection);
        Self { token_bucket: load(Script::TokenBucket), fixed_window: load(Script::FixedWindow) }
    }

    /// The command that does what a call asks at this time.
    pub(super) fn command(&self, call: &StoreCall, now: Micros) -> Cmd {
        let script = match Script::of(&call.limit) {
            Script::TokenBucket => &self.token_bucket,
            Script::FixedWindow => &self.fixed_window,
        };
        let mut command = script.command(&call.bucket, scripts::arguments(call));
        command.arg("now").arg(now.0);
        command
    }
}

/// What a script has answered and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The numbers of the reply.
    pub(super) reply: [i64; 7],
    /// What the hash holds: names and numbers, in its order.
    pub(super) fields: String,
    /// For how many milliseconds the bucket is to be kept from now on, if that was set.
    pub(super) lifetime_millis: Option<u64>,
}

impl Seen {
    pub(super) fn parse(text: &str) -> Self {
        let parts: Vec<_> = text.split("; ").collect();
        let [reply, fields, lifetime] = parts[..] else { panic!("the wrapper answered {text}") };
        let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("{word} is not a whole number in {text}"));
        let reply: Vec<i64> = reply.split(' ').map(number).collect();
        Self {
            reply: reply.try_into().unwrap_or_else(|_| panic!("not seven numbers in {text}")),
            fields: fields.to_owned(),
            lifetime_millis: (!lifetime.is_empty()).then(|| lifetime.parse().unwrap()),
        }
    }
}

/// A reply as the numbers of which it was made.
pub(super) fn numbers(reply: &Reply) -> [i64; 7] {
    let Reply { granted, extra, epoch, lease_time, retry_after, used, mark } = *reply;
    [granted.into(), extra, epoch, lease_time.0, retry_after.0, used, mark].map(u64::cast_signed)
}

/// The fields of a bucket, as [`Seen`] shows them.
pub(super) fn text_of_fields(fields: &[(&str, u64)]) -> String {
    fields.iter().map(|(name, number)| format!("{name} {number}")).collect::<Vec<_>>().join(" ")
}
