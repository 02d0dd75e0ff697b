-- A fixed window that all replicas share. One call does one thing to one window, at one instant of this server's clock.
-- docs/leases.md tells what leases are, and why no more than the limit can ever be admitted.
--
-- KEYS[1] is the window: a hash of whole numbers. Without a hash, nothing is used. Times are microseconds since 1970 by
-- this server's clock, and lengths of time are microseconds too.
--
--   used    hits taken in this window, leases included; above the amount it is overdrawn
--   window  the number of the window: how many whole periods lie between 1970 and its begin
--
-- Leases end with the window, so nothing needs to be known of them but what is returned. The window never goes back: if
-- the clock does, the window stays until that time comes again.
--
-- ARGV
--
--    1  operation  acquire, refund or debit
--    2  hits       acquire: hits that a request waits for; all of them or none are granted. With 0, and a want of 0, it
--                  only looks and takes in facts
--                  refund: hits that were spent and come back, as far as any are used
--                  debit: hits that are taken even if they are not free
--    3  want       acquire: further hits to borrow, as many as may be
--    4  amount     hits that a window admits
--    5  scarce     hits that are so few that whoever asks first may borrow all of them
--    6  period     how long a window is
--    7  how many facts about leases follow: three arguments for each
--         window   the window in which the lease was granted
--         spent    hits of it that were spent; they stay used
--         returned hits of it that will not be spent
--    8  how many facts about unused hits follow those: three arguments for each
--         window   the window in which they were granted as `hits`
--         hits     how many
--         mark     has no meaning here
--
-- At the end a test may put 'now' and the time that it shall be. Every other argument but the first is a number.
--
-- The reply is seven whole numbers
--
--    1  granted      1 if the hits were granted or a debit passes, else 0; a refund is always granted
--    2  extra        hits that are borrowed; of a refund, the hits that came back
--    3  window       the number of the window
--    4  lease_time   how long what is borrowed may be spent: until the window ends
--    5  retry_after  if the hits were refused, how long until the window ends, at most ten years
--    6  used         as in the hash
--    7  mark         0
--
-- Every number is whole and exact: below 2^53, up to which doubles hold whole numbers.

local GRACE = 60000000
local TEN_YEARS = 315360000000000

local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

local key = KEYS[1]
local operation, hits, want = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local amount, scarce, period = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local lease_facts, unused_facts = tonumber(ARGV[7]), tonumber(ARGV[8])
local FIRST_FACT = 9

local function read_clock()
  local after_facts = FIRST_FACT + 3 * (lease_facts + unused_facts)
  if ARGV[after_facts] == 'now' then
    return tonumber(ARGV[after_facts + 1])
  end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local now = read_clock()

local stored = redis.call('HMGET', key, 'used', 'window')
local used = tonumber(stored[1]) or 0
local window = tonumber(stored[2]) or 0

-- Whether any hits were taken or given back.
local moved = false

-- Settle: bring the window to the present.

local function settle()
  local window_now = floor(now / period)
  if window_now > window then
    window, used = window_now, 0
  end
end

local function time_left()
  return (window + 1) * period - now
end

-- Facts: what became of hits that were granted earlier. Each is told at most once, and counts in its window alone.

-- Puts hits back, as far as any are used. Returns how many.
local function give_back(returned)
  local given = min(returned, used)
  used = used - given
  moved = moved or given > 0
  return given
end

local function learn_facts()
  local place = FIRST_FACT
  for _ = 1, lease_facts do
    if tonumber(ARGV[place]) == window then
      give_back(tonumber(ARGV[place + 2]))
    end
    place = place + 3
  end
  for _ = 1, unused_facts do
    if tonumber(ARGV[place]) == window then
      give_back(tonumber(ARGV[place + 1]))
    end
    place = place + 3
  end
end

-- Grant.

local function free()
  return max(0, amount - used)
end

-- At most half of what is free is lent, so that other replicas find some; but all of it when half is less than the rate
-- yields before anybody asks again.
local function lend()
  local most = floor(free() / 2)
  if most < scarce then
    most = free()
  end
  local extra = min(want, most)
  used = used + extra
  return extra
end

-- The operations. Each returns what it granted, the extra, and how long to wait.

local function acquire()
  learn_facts()
  if hits > free() then
    return 0, 0, min(time_left(), TEN_YEARS)
  end
  used = used + hits
  local extra = lend()
  moved = moved or hits + extra > 0
  return 1, extra, 0
end

local function refund()
  return 1, give_back(hits), 0
end

-- The balance goes below zero by one amount at most.
local function debit()
  local passes = hits <= free()
  local overdrawn = min(used + hits, 2 * amount)
  if overdrawn > used then
    used, moved = overdrawn, true
  end
  return passes and 1 or 0, 0, 0
end

-- Keep.

local function whole(number)
  return string.format('%.0f', number)
end

-- The window is kept a little longer than it lasts, so that a clock that goes back a little still finds it.
local function store()
  redis.call('HSET', key, 'used', whole(used), 'window', whole(window))
  local lifetime = time_left() + min(period, GRACE)
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
-- A call that moves nothing writes nothing: what is only looked at, or refused, need not be copied to other servers.
if moved then
  store()
end
return {granted, extra, window, time_left(), retry_after, used, 0}
