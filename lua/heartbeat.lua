-- Says that a replica is there, and counts those that are.
--
-- KEYS[1]  a sorted set: the replicas, by the time of Redis (in ms) at which each was last heard of
-- ARGV[1]  the name of the replica
-- ARGV[2]  after so many ms without a word a replica is taken for gone
--
-- Returns how many there are, this one included, and 1 if this one was not among them, else 0.

local replicas, name, longest_silence = KEYS[1], ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local is_new = redis.call('ZADD', replicas, now, name)
redis.call('ZREMRANGEBYSCORE', replicas, '-inf', now - longest_silence)

-- After Redis's clock has gone back, nobody would be taken for gone until it has come to the old time again.
for _, early in ipairs(redis.call('ZRANGEBYSCORE', replicas, '(' .. now, '+inf')) do
    redis.call('ZADD', replicas, now, early)
end

redis.call('PEXPIRE', replicas, longest_silence)
return {redis.call('ZCARD', replicas), is_new}
