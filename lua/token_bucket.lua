-- A token bucket that all replicas share. One call does one thing to one bucket, at one instant of this server's clock.
-- docs/leases.md tells what leases are, and why no more than the limit can ever be admitted.
--
-- KEYS[1] is the bucket: a hash of whole numbers. A bucket without a hash is full. Times are microseconds since 1970 by
-- this server's clock, and lengths of time are microseconds too.
--
--   used        millionths of a token taken and not yet refilled, leases included; above the burst it is overdrawn
--   at          the time up to which refill is settled
--   carry       amount * microseconds that have passed and not yet yielded a millionth; less than a tick
--   epoch       the time at which the current epoch began, and its name
--   out         tokens leased in this epoch that are not known to be spent
--   out_before  the same of the epoch before
--   refilled    millionths refilled in this epoch, refunds included
--
-- ARGV
--
--    1  operation     acquire, refund or debit
--    2  hits          acquire: tokens that a request waits for; all of them or none are granted. With 0, and a want of 0,
--                     it only looks and takes in facts
--                     refund: tokens that were spent and come back, as far as any are used
--                     debit: tokens that are taken even if they are not free
--    3  want          acquire: further tokens to borrow, as many as may be
--    4  burst         the most tokens that the bucket holds
--    5  scarce        tokens that are so few that whoever asks first may borrow all of them
--    6  epoch_length  how long an epoch is
--    7  amount        tokens that flow back in a period, at least 1
--    8  tick          a millionth of the period, in which `amount` millionths flow back
--    9  how many facts about leases follow: three arguments for each
--         epoch       the epoch in which the lease was granted
--         spent       tokens of it that were spent since this was last told
--         returned    tokens of it that will not be spent
--   10  how many facts about unused tokens follow those: three arguments for each
--         epoch       the epoch in which they were granted as `hits`
--         hits        how many
--         mark        the mark with which they were granted
--
-- At the end a test may put 'now' and the time that it shall be. Every other argument but the first is a number.
--
-- The reply is seven whole numbers
--
--    1  granted       1 if the hits were granted or a debit passes, else 0; a refund is always granted
--    2  extra         tokens that are borrowed; of a refund, the tokens that came back
--    3  epoch         the name of the current epoch
--    4  lease_time    how long what is borrowed may be spent
--    5  retry_after   if the hits were refused, how long until so many are free, at most ten years
--    6  used          as in the hash
--    7  mark          `refilled` of the hash
--
-- Every number is whole and exact: below 2^53, up to which doubles hold whole numbers, as long as amount * tick is.
-- The work is the same for every bucket, however many replicas there are.

local TOKEN = 1000000
local MOST_EXACT = 9007199254740991
local TEN_YEARS = 315360000000000

local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

local key = KEYS[1]
local operation, hits, want = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local burst, scarce, epoch_length = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local amount, tick = tonumber(ARGV[7]), tonumber(ARGV[8])
local lease_facts, unused_facts = tonumber(ARGV[9]), tonumber(ARGV[10])
local FIRST_FACT = 11

local function read_clock()
  local after_facts = FIRST_FACT + 3 * (lease_facts + unused_facts)
  if ARGV[after_facts] == 'now' then
    return tonumber(ARGV[after_facts + 1])
  end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local now = read_clock()

local stored = redis.call('HMGET', key, 'used', 'at', 'carry', 'epoch', 'out', 'out_before', 'refilled')
local used = tonumber(stored[1]) or 0
local at = tonumber(stored[2]) or now
local carry = tonumber(stored[3]) or 0
local epoch = tonumber(stored[4]) or now
local out = tonumber(stored[5]) or 0
local out_before = tonumber(stored[6]) or 0
local refilled = tonumber(stored[7]) or 0

-- Whether any tokens were taken, given back or reported spent, or the clock has gone back.
local moved = false

-- Settle: bring the bucket to the present.

-- Replicas may still spend so much. `used` is never below it, whatever else happens.
local function millionths_out()
  return (out + out_before) * TOKEN
end

-- It reaches the end of what is exact only when the largest of bursts is refunded again and again in one epoch.
local function count_refilled(millionths)
  refilled = min(refilled + millionths, MOST_EXACT)
end

-- Lets tokens flow back until a time, but never those that are out. Time during which nothing else is used is never
-- counted later: so it carries nothing either.
local function refill(till)
  local elapsed = till - at
  at = till
  -- The carry is added to the remainder and not to the product, which alone may be as large as doubles can hold.
  local product = amount * (elapsed % tick)
  local rest = product % tick + carry
  local yield = amount * floor(elapsed / tick) + floor(product / tick) + floor(rest / tick)
  local refillable = used - millionths_out()
  if yield < refillable then
    carry = rest % tick
  else
    yield = refillable
    carry = 0
  end
  used = used - yield
  count_refilled(yield)
end

-- Leases of the epoch before the one that ends are over.
local function begin_epoch(begins)
  refill(max(begins, at))
  epoch, out, out_before, refilled = begins, 0, out, 0
end

-- All that is out is taken over by a new epoch. Its name must never have been used: facts about the old epochs must not
-- touch it. Names are a whole number of epochs apart, so one that is out of step with them is new. That is written even
-- if nothing else is: tokens flow back only from then on.
local function follow_clock_back()
  local in_step = (epoch - now) % epoch_length == 0
  epoch = in_step and now - 1 or now
  at, out, out_before, refilled = now, out + out_before, 0, 0
  moved = true
end

-- It goes piece by piece, because refill stops at what is out and so depends on when leases end. After the ends of two
-- epochs nothing is out any more, and however many more there were, they are one piece.
local function settle()
  if now < at then
    follow_clock_back()
  end
  for _ = 1, 2 do
    if now >= epoch + epoch_length then
      begin_epoch(epoch + epoch_length)
    end
  end
  if now >= epoch + epoch_length then
    begin_epoch(now - (now - epoch) % epoch_length)
  end
  refill(now)
end

-- Facts: what became of tokens that were granted earlier. Each is told at most once, and is true whenever it arrives.

-- So many tokens leased in this epoch are no longer out, as far as any are. Of leases that are over, nothing is out.
local function leave(lease_epoch, tokens)
  local left = 0
  if lease_epoch == epoch then
    left = min(tokens, out)
    out = out - left
  elseif lease_epoch == epoch - epoch_length then
    left = min(tokens, out_before)
    out_before = out_before - left
  end
  moved = moved or left > 0
  return left
end

-- Spent tokens stay used and begin to flow back; returned ones are free at once.
local function learn_of_lease(lease_epoch, spent, returned)
  leave(lease_epoch, spent)
  used = used - leave(lease_epoch, returned) * TOKEN
end

-- Tokens were taken at a mark and never spent. What has been refilled since then has given them back already. When
-- nobody knows any more what has been refilled, it may have been all of them.
local function learn_of_unused(grant_epoch, tokens, mark)
  if grant_epoch ~= epoch then
    return
  end
  if refilled < MOST_EXACT then
    local refilled_since = max(0, refilled - mark)
    local not_yet_refilled = max(0, tokens * TOKEN - refilled_since)
    used = used - min(not_yet_refilled, used - millionths_out())
  end
  carry = 0
  moved = true
end

local function learn_facts()
  local place = FIRST_FACT
  for _ = 1, lease_facts do
    learn_of_lease(tonumber(ARGV[place]), tonumber(ARGV[place + 1]), tonumber(ARGV[place + 2]))
    place = place + 3
  end
  for _ = 1, unused_facts do
    learn_of_unused(tonumber(ARGV[place]), tonumber(ARGV[place + 1]), tonumber(ARGV[place + 2]))
    place = place + 3
  end
end

-- Grant.

-- Whole tokens that can be taken.
local function free()
  return max(0, floor((burst * TOKEN - used) / TOKEN))
end

-- At most half of what is free is lent, so that other replicas find some; but all of it when half is less than the rate
-- yields before anybody asks again.
local function lend()
  local most = floor(free() / 2)
  if most < scarce then
    most = free()
  end
  local extra = min(want, most)
  used, out = used + extra * TOKEN, out + extra
  return extra
end

-- How long until the hits are free, in whole ticks.
local function wait()
  local missing = (hits - burst) * TOKEN + used
  return min(ceil(missing / amount) * tick, TEN_YEARS)
end

-- The operations. Each returns what it granted, the extra, and how long to wait.

local function acquire()
  learn_facts()
  if hits > free() then
    return 0, 0, wait()
  end
  used = used + hits * TOKEN
  local extra = lend()
  moved = moved or hits + extra > 0
  return 1, extra, 0
end

-- What is out is not given back: it may still be spent.
local function refund()
  local given = min(hits * TOKEN, used - millionths_out())
  if given > 0 then
    used, carry, moved = used - given, 0, true
    count_refilled(given)
  end
  return 1, floor(given / TOKEN), 0
end

-- The balance goes below zero by one burst at most.
local function debit()
  local passes = hits <= free()
  local overdrawn = min(used + hits * TOKEN, 2 * burst * TOKEN)
  if overdrawn > used then
    used, moved = overdrawn, true
  end
  return passes and 1 or 0, 0, 0
end

-- Keep.

local function whole(number)
  return string.format('%.0f', number)
end

-- The bucket is kept until all leases are over, and then for as long as it takes to be full.
local function store()
  redis.call('HSET', key, 'used', whole(used), 'at', whole(at), 'carry', whole(carry), 'epoch', whole(epoch),
    'out', whole(out), 'out_before', whole(out_before), 'refilled', whole(refilled))
  local lifetime = min(epoch + 2 * epoch_length - now + ceil(used / amount) * tick, TEN_YEARS)
  redis.call('PEXPIRE', key, whole(ceil(lifetime / 1000)))
end

settle()
local granted, extra, retry_after
if operation == 'acquire' then
  granted, extra, retry_after = acquire()
elseif operation == 'refund' then
  granted, extra, retry_after = refund()
else
  granted, extra, retry_after = debit()
end
-- A call that moves nothing writes nothing. Settling uses the amount of the limit that asks, and a request may bring a
-- low limit of its own: to look, or to be refused, must not destroy what a faster limit of the same bucket has earned.
if moved then
  store()
end
return {granted, extra, epoch, epoch + 2 * epoch_length - now, retry_after, used, refilled}
