-- The script with which the lease protocol was first checked. It is not used: the tests hold the scripts of lua/ against it.

-- The store's side of a token bucket (DESIGN.md, section 6): one hash of seven integers, O(1).
-- KEYS[1] the bucket. ARGV: amount, tick (us; a millionth of the unit), burst, epoch (us), scarce (tokens that the rate yields in the retry floor, up),
-- op (acquire | refund | debit), needed, want, then the facts: 2 x (epoch, spent, returned), (epoch, unused, mark).
-- `used` and `refilled` are in millionths of a token. All numbers stay below 2^53.
-- Reply: granted (0|1), extra, epoch, lease left (us), retry after (us), free, mark.
local K, A = KEYS[1], {}
for i = 1, #ARGV do A[i] = tonumber(ARGV[i]) end
local amount, tick, burst, length, scarce, op, needed, want = A[1], A[2], A[3], A[4], A[5], ARGV[6], A[7], A[8]
local now = A[18]                                       -- tests only
if not now then local t = redis.call('TIME') now = t[1] * 1000000 + t[2] end
local M = 1000000
local h = redis.call('HMGET', K, 'used', 'at', 'epoch', 'out', 'out_before', 'refilled', 'carry')
local used, at, epoch = tonumber(h[1]) or 0, tonumber(h[2]) or now, tonumber(h[3]) or now
local out, before, refilled = tonumber(h[4]) or 0, tonumber(h[5]) or 0, tonumber(h[6]) or 0
local carry = tonumber(h[7]) or 0

local function refill(till)                             -- never below what is out; time at that floor is never counted
  local least, ticks = (out + before) * M, math.floor((till - at) / tick)
  local part = amount * (till - at - ticks * tick) + carry
  local more = math.floor(part / tick)
  local gain = math.min(amount * ticks + more, math.max(0, used - least))
  used, refilled, at = math.max(used - gain, least), refilled + gain, till
  carry = used == least and 0 or part - more * tick
end
if now < at then                                        -- the clock went back: a new epoch, never named before
  out, before, refilled, at = out + before, 0, 0, now
  epoch = (epoch - now) % length == 0 and now - 1 or now
end
for _ = 1, 2 do
  if now >= epoch + length then
    epoch = epoch + length
    refill(math.max(epoch, at))
    out, before, refilled = 0, out, 0
  end
end
if now > epoch then epoch = epoch + math.floor((now - epoch) / length) * length end
refill(now)

local function leave(e, n)                              -- n tokens are no longer out
  if e == epoch then n = math.min(n, out) out = out - n
  elseif e == epoch - length then n = math.min(n, before) before = before - n
  else n = 0 end
  return n
end
local granted, extra, retry, free = 1, 0, 0, 0
if op == 'acquire' then
  for i = 9, 12, 3 do leave(A[i], A[i + 1]) used = used - leave(A[i], A[i + 2]) * M end
  if A[16] > 0 and A[15] == epoch then
    used = used - math.max(0, A[16] * M - (refilled - A[17]))
    carry = 0
  end
  free = math.floor((burst * M - used) / M)
  if needed > math.max(free, 0) then
    granted = 0
    retry = math.min(math.ceil(((needed - burst) * M + used) / amount) * tick, 315360000000000)
  else
    free = free - needed
    local part = math.floor(free / 2)
    if part < scarce then part = free end
    extra = math.max(0, math.min(want, part))
    used, out, free = used + (needed + extra) * M, out + extra, free - extra
  end
elseif op == 'refund' then
  extra, carry = math.min(needed * M, used - (out + before) * M), 0
  used, refilled = used - extra, refilled + extra
else
  if math.floor((burst * M - used) / M) < needed then granted = 0 end
  used = math.max(used, math.min(used + needed * M, 2 * burst * M))
end
local F = '%.0f'
redis.call('HSET', K, 'used', F:format(used), 'at', F:format(at), 'epoch', F:format(epoch), 'out', F:format(out),
  'out_before', F:format(before), 'refilled', F:format(refilled), 'carry', F:format(carry))
local last = epoch + 2 * length + math.ceil(used / amount) * tick
redis.call('PEXPIRE', K, F:format(math.min(math.ceil((last - now) / 1000), 315360000000)))
return {granted, extra, epoch, epoch + 2 * length - now, retry, free, refilled}
