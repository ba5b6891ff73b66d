-- The admission rule over Redis data types: what src/gate decides on an Envoy's own ledger, decided here for a fleet.
-- Integers in doubles: exact up to 2^53, which is why limits in a fleet are at most 10^8 a minute.
--
-- KEYS: 1 state and windows of the pool, 2 its flows, 3 the calls that wait, 4.. one marker for each operation.
-- ARGV: 1 time in microseconds or '-' for the store's clock, 2 policy and a number that is given back, 3.. operations; numbers
-- separated by commas.
-- Answer: one line for each operation, joined by ';'.

local call, fmt, pack, unpk = redis.call, string.format, cmsgpack.pack, cmsgpack.unpack
local min, max, insert, remove = math.min, math.max, table.insert, table.remove
local KS, KF, KB = KEYS[1], KEYS[2], KEYS[3]
local INF = 2 ^ 63
local ALL, SLOT, SLOTS, EXACT = 32768, 500000, 121, 2 ^ 53

local function numbers(text)
  local list = {}
  for number in text:gmatch('[^,]+') do insert(list, tonumber(number)) end
  return list
end
local function line(list)
  for index, value in ipairs(list) do
    if type(value) == 'number' then list[index] = fmt('%.0f', value) end
  end
  return table.concat(list, ',')
end
local function div(a, b) return (a - a % b) / b end
local function ceil(a, b)
  local rest = a % b
  return rest > 0 and (a - rest) / b + 1 or a / b
end
local function less(a, b) return a > b and a - b or 0 end
-- a * b / c without leaving 2^53 on the way, for c * b below it.
local function muldiv(a, b, c)
  local rest = a % c
  local product = rest * b
  return (a - rest) / c * b + (product - product % c) / c
end
local function muldivup(a, b, c)
  local rest = a % c
  return (a - rest) / c * b + ceil(rest * b, c)
end

-- Policy.
local P = numbers(ARGV[2])
local STRICT, BURST, TTL, SLOTCAP = P[7] == 1, min(P[6], 6e7), P[8], P[5]
local PERIOD = STRICT and 60500000 or 6e7

-- State.
local S, F, I, M, dirty, inflight, total, fresh, crowded
-- Calls that wait.
local queued = 0
-- What is lent: numbers of the half seconds in which parts end, and of each part five amounts.
local LENT
local moment
if ARGV[1] == '-' then
  local time = call('TIME')
  moment = time[1] * 1e6 + time[2]
else
  moment = tonumber(ARGV[1])
end

local U, R, stepped, learned, price
-- Nothing has changed since all was brought up to this moment but calls that were told to wait; and what is known while that holds.
local still, curved, weighed
-- Many calls are asked for in this request.
local many = #ARGV > 9
-- Calls as they are stored, by their blocks: whole, what those behind them look at, and the rest.
local blocks, briefs, rests = {}, {}, {}

-- A function within a function finds what it refers to at once; side by side each would be searched for among all.
return (function()
local function load_upstream(text)
  local started, ended, lowered, reopen, refused, low, exhausted, doublings, flags
  if text == '' then
    started, ended, lowered, reopen, refused, low, exhausted, flags = 0, 0, 0, 0, 1000, 1000, 0, 0
  else
    started, ended, lowered, reopen, refused, low, exhausted, doublings, flags = struct.unpack('<I8I8I8I4I2I2I8BB', text)
  end
  U = {started, ended, lowered, reopen * 1000, refused, low, exhausted, flags % 2 == 1, flags % 4 > 1, text ~= ''}
end

local function load()
  local ok, state = pcall(unpk, call('HGET', KS, 's') or '')
  if not ok or type(state) ~= 'table' or state[1] == 1 then
    if call('EXISTS', KS, KF, KB) > 0 then
      call('DEL', KS, KF, KB)
      return 'corrupt'
    end
    local slot = div(moment, SLOT)
    state = {2, moment, 0, 6e7, 0, 0, 0, 0, 1e6, 0, 0, 0, 0, '', {}, '', 0, slot, 0, 0, slot, 0, 0, slot, 0, 0, slot, 0, 0, {0, 0, 0, 0}, {}, 0, 1, ''}
    fresh = true
  end
  if state[1] ~= 2 then return 'newer' end
  S = state
  M, F, dirty, total, LENT = {}, {}, {}, 0, S[31] or {}
  S[31] = LENT
  for i = 1, 4 do
    local at = 14 + 3 * i
    M[i] = {missing = S[at], head = S[at + 1], used = S[at + 2], from = S[30][i]}
  end
  inflight = {}
  for i = 1, #S[15], 2 do
    inflight[S[15][i]] = S[15][i + 1]
    total = total + S[15][i + 1]
  end
  load_upstream(S[14])
  local stored = call('HGETALL', KF)
  fresh = fresh or #stored == 0
  I = {}
  local numbers = {}
  for i = 1, #stored, 2 do
    local whole, c, t, cw, tw, fin, rate, trust, n, asked, received, twins, back, prices, least, most, s2, s3, s4, flat, stored_blocks =
      pcall(unpk, stored[i + 1])
    if not (whole and stored_blocks) then
      call('DEL', KS, KF, KB)
      return 'corrupt'
    end
    local number = c * 4294967296 + t
    I[number] = {key = stored[i], c = c, t = t, cw = cw, tw = tw, fin = fin, rate = rate, trust = trust, n = n, asked = asked,
      received = received, twins = twins, back = back, prices = prices, least = least, most = most, s2 = s2, s3 = s3, s4 = s4,
      flat = flat, stored = stored_blocks}
    numbers[(i + 1) / 2], queued = number, queued + n
    crowded = crowded or t >= 4294967288
  end
  table.sort(numbers)
  for i = 1, #numbers do F[i] = I[numbers[i]] end
end
-- The blocks of a flow, which most decisions need of few flows only.
local function list(flow)
  local found = flow.b
  if not found then
    found = unpk(flow.stored)
    flow.b = found
  end
  return found
end

-- Meters: a pacing bucket, and the trailing window under it.
local RING = '<' .. ('I4'):rep(128)
local function ring(m)
  if not m.ring then
    local text = m.used > 0 and call('HGET', KS, m.name)
    if text and #text == 512 then
      m.ring = {struct.unpack(RING, text)}
    else
      -- Nothing was noted, or it is damaged.
      m.ring, m.used = {}, 0
      for i = 1, 128 do m.ring[i] = 0 end
    end
  end
  return m.ring
end
local function clear(m)
  m.ring = {}
  for i = 1, 128 do m.ring[i] = 0 end
  m.used, m.changed = 0, true
end
local function held(m, slot)
  if slot > m.head or m.head - slot >= SLOTS or m.used == 0 then return 0 end
  return ring(m)[slot % 128 + 1]
end
local function add(m, slot, amount)
  if slot <= m.head and m.head - slot < SLOTS and slot >= 0 then
    local cells, at = ring(m), slot % 128 + 1
    local more = min(amount, 4294967295 - cells[at])
    cells[at] = cells[at] + more
    m.used, m.changed = m.used + more, true
  end
end
local function lower(m, slot, amount)
  local cells, at = ring(m), slot % 128 + 1
  local lowered = min(amount, cells[at])
  cells[at] = cells[at] - lowered
  m.used, m.changed = m.used - lowered, true
end
local function move(m, to)
  if to <= m.head then return end
  if m.used == 0 then
    m.head = to
  elseif to - m.head >= SLOTS then
    clear(m)
    m.head = to
  else
    local cells = ring(m)
    for slot = m.head + 1 - SLOTS, to - SLOTS do
      local at = slot % 128 + 1
      if cells[at] > 0 then
        m.used, cells[at], m.changed = m.used - cells[at], 0, true
      end
    end
    m.head = to
  end
end
local function window(m, r) return less(less(r.limit, m.used), r.lent) end
local function hold(m, r)
  m.missing = max(m.missing, less(r.capacity, less(r.limit, m.used) * PERIOD + r.lump))
end
-- A provider's bucket stays full until the first call reaches it: ours begins to refill so much later.
local LATE = 80000
local function refill(m, r, from, to)
  if m.missing > 0 then
    local gained = r.rate * less(to, max(from, m.from))
    if gained >= m.missing and not r.unpaced then
      m.from = to - div(gained - m.missing, r.rate) + LATE
    end
    m.missing = less(m.missing, gained)
  end
  if m.from <= to then m.from = 0 end
end
local function restore(m, amount)
  m.missing = less(m.missing, amount * PERIOD)
  if m.missing == 0 then m.from = 0 end
end
local function advance(m, r, from, to)
  local last = div(to, SLOT)
  if not r then
    m.missing, m.from = 0, 0
    return move(m, last)
  end
  if m.missing == 0 and m.used == 0 and m.from == 0 then
    m.head = max(m.head, last)
    return
  end
  if not STRICT or r.unpaced then
    refill(m, r, from, to)
    local before = m.head
    move(m, last)
    if not STRICT then
      local missing = div(m.missing, PERIOD)
      if m.head == before then
        local noted = held(m, before)
        if noted > missing then lower(m, before, noted - missing) end
      end
      for slot = max(before + 1, m.head - SLOTS + 1), m.head do add(m, slot, missing) end
      if missing == 0 and m.used > 0 then clear(m) end
    end
    return
  end
  local at = from
  while div(at, SLOT) < last and m.used > 0 do
    local edge = (div(at, SLOT) + 1) * SLOT
    refill(m, r, at, edge)
    hold(m, r)
    move(m, div(edge, SLOT))
    at = edge
  end
  refill(m, r, at, to)
  hold(m, r)
  move(m, last)
end
local function fits(m, r, amount)
  return m.missing + r.lent * PERIOD + min(amount * PERIOD, r.capacity) <= r.capacity
    and (not STRICT or min(amount, r.limit) <= window(m, r))
end
local function available(m, r)
  local bucket = div(less(r.capacity, m.missing + r.lent * PERIOD), PERIOD)
  return STRICT and min(bucket, window(m, r)) or bucket
end
local function take(m, r, amount, at)
  if m.missing == 0 and amount > 0 and not r.unpaced then
    at = at or S[2]
    local full = less(LATE, less(m.from, at))
    m.from = full > 0 and at + full or 0
  end
  m.missing = m.missing + amount * PERIOD
  if STRICT and amount > 0 then add(m, m.head, amount) end
end
local function give(m, r, slot, amount)
  if STRICT then
    amount = min(amount, held(m, slot))
    if amount == 0 then return 0 end
    lower(m, slot, amount)
    -- From a bucket that was full since, this much is missing at least.
    local taken, least, before = 0, 0, m.missing
    if not r.unpaced then
      for later = m.head, max(slot + 1, m.head - SLOTS + 1), -1 do
        taken = taken + held(m, later)
        least = max(least, less(taken * PERIOD, r.rate * less(S[2], (later + 1) * SLOT + LATE)))
      end
    end
    restore(m, amount)
    m.missing = max(m.missing, min(least, before))
    return amount
  else
    if m.head - slot >= SLOTS then return 0 end
    local lag = div(r.rate * LATE, PERIOD)
    amount = min(amount, div(m.missing, PERIOD))
    for later = slot + 1, m.head do amount = min(amount, less(held(m, later), lag)) end
    if amount == 0 then return 0 end
    for later = slot + 1, m.head do lower(m, later, amount) end
  end
  restore(m, amount)
  return amount
end

-- What the provider taught: a pause, a gradual re-opening, an adapted limit.
local function between(from, to, age, whole)
  if age >= whole then return to end
  return from + div(less(to, from) * age, whole)
end
local function blocked(at)
  local paused = U[9] and U[1] <= at and at < U[2] and U[2] or 0
  local ahead = U[7] - at
  if ahead > 0 and ahead <= 3.6e9 then paused = max(paused, U[7]) end
  return paused > 0 and paused or nil
end
local function scale(at)
  if not U[10] then return 1000 end
  local adapted, reopened = 1000, 1000
  if at >= less(U[3], 5e6) then
    local age, refused, low = less(at, U[3]), U[5], U[6]
    local level = max(div(refused * 900, 1000), low)
    if age < 2e8 then
      adapted = between(low, level, age, 4e7)
    else
      local progress = between(0, 1000, age - 2e8, 8.5e7)
      adapted = level + div(less(1000, level) * div(progress * progress, 1000), 1000)
    end
  end
  if U[9] and at >= U[1] then
    reopened = U[8] and 100 or between(100, 1000, less(at, U[2]), U[4])
  end
  return max(1, min(adapted, reopened, 1000))
end

local function lent(resource)
  local sum = 0
  for i = resource, #LENT, 6 do sum = sum + LENT[i + 1] end
  return sum
end

-- Limits in force.
local function rules(at)
  local R, pace = {opening = {0, 1000, 0}}, scale(at)
  R.paused = blocked(at)
  local opened, settled = R.paused or at, pace
  if R.paused or pace < 1000 then
    settled = scale(opened + 2e7)
    local seconds = 20
    for second = 0, 19 do
      if scale(opened + second * 1e6) >= settled then seconds = second break end
    end
    R.opening = {less(opened, at) + (R.paused and 1e6 or 0), min(1000, div(scale(opened) * 1000, settled)), seconds * 1e6}
  end
  R.limits = {}
  for i = 1, 4 do
    local whole = P[i]
    if whole > 0 then
      local limit = max(1, div(whole * settled, 1000))
      R.limits[i] = limit
      local rate = min(max(1, div(whole * pace, 1000)), limit)
      local unpaced = STRICT and BURST >= 6e7
      local capacity = limit * BURST
      if unpaced then
        capacity = limit * 61000000
      elseif STRICT then
        capacity = div(capacity, 120) * 121 + div(capacity % 120 * 121, 120)
      end
      R[i] = {limit = limit, rate = rate, unpaced = unpaced, capacity = capacity, lump = rate * 2e6, lent = lent(i)}
    end
  end
  R.lent = lent(5)
  return R
end

-- Calls in flight, by the time they began.
local function regrain()
  local grain, head, old = S[9], S[12], inflight
  S[10], S[9], inflight = TTL, max(1e6, div(TTL, 32)), {}
  S[12] = div(head * grain, S[9])
  for age = 0, 63 do
    local count = old[(head - age) % 64]
    if count then
      local at = max(div(less(head, age) * grain, S[9]), less(S[12], 62)) % 64
      inflight[at] = (inflight[at] or 0) + count
    end
  end
end
local function drop(at)
  at = at % 64
  total = total - (inflight[at] or 0)
  inflight[at] = nil
end
local function age_flights(now)
  if TTL ~= S[10] then regrain() end
  local head = div(now, S[9])
  if total == 0 or head - S[12] >= 64 then
    inflight, total, S[12] = {}, 0, max(head, S[12])
    return
  end
  local kept = min(63, ceil(TTL, S[9]) + 1)
  for slot = S[12] + 1, head do
    drop(slot)
    drop(slot - kept)
  end
  S[12] = max(head, S[12])
end
local function ended(began, now, observed)
  if now - began >= TTL then return end
  local slot = div(began, S[9])
  for _, candidate in ipairs{slot, slot + 1, slot - 1} do
    local at = candidate % 64
    if candidate <= S[12] and S[12] - candidate < 63 and inflight[at] then
      inflight[at] = inflight[at] > 1 and inflight[at] - 1 or nil
      total = total - 1
      if observed then
        local span = max(1, now - began)
        S[11] = S[11] == 0 and span or max(1, S[11] - div(S[11], 16) + ceil(span, 16))
      end
      return
    end
  end
end
local function mean() return S[11] == 0 and 2000000 or S[11] end

-- Prices: the time of its most demanding limit that a call takes.
local function set_price(limits, duration)
  price = {}
  for i = 1, 4 do
    price[i] = limits[i] and ceil(6e7 * 1048576, limits[i]) or 0
  end
  price[5] = max(1, SLOTCAP > 0 and ceil(duration, SLOTCAP) or 0)
end
local function by_limits(a, b, c, d)
  local most, factor, product, rest = 0, price[1]
  if factor > 0 then
    product = a * factor
    rest = product % 1048576
    most = rest > 0 and (product - rest) / 1048576 + 1 or product / 1048576
  end
  factor = price[2]
  if factor > 0 then most = max(most, ceil(b * factor, 1048576)) end
  factor = price[3]
  if factor > 0 then most = max(most, ceil(c * factor, 1048576)) end
  factor = price[4]
  if factor > 0 then most = max(most, ceil(d * factor, 1048576)) end
  return most
end
local function dominant(a, b, c, d) return max(price[5], by_limits(a, b, c, d)) end
-- Amounts as the queue carries them: 11 bits of mantissa, rounded up.
local function rounded(amount)
  if amount < 2048 then return amount end
  amount = min(amount, 4294967295)
  local _, bits = math.frexp(amount)
  local step = 2 ^ (bits - 11)
  return min(4294967295, ceil(amount, step) * step)
end
local function amounts(cost)
  local found = {1}
  for i = 2, 4 do found[i] = P[i] > 0 and rounded(cost[i]) or 0 end
  return found
end

-- The queue. The calls of a flow stand in blocks; each block has its sums, so that most are never read.
-- Call: print, back, due, mark (1 twin, 2 promise broken), four amounts. Block: id, calls, sum and least and most of the prices, sums of the
-- amounts, least `back`, all prints as 3 bytes each.
-- Stored of a block are a brief and the rest. Brief: number of the limits by which it is priced, where the second to fourth amounts
-- stand, values for each call; then of each call its due, its price by the limits, and the amounts that any call has. Rest: back, mark.
local WIDTH, BLOCK, BRIEF = 8, 16, 5
local function brief(id)
  local found = briefs[id]
  if not found then
    found = unpk(call('HGET', KB, id))
    briefs[id] = found
  end
  if found[1] ~= S[33] then
    local o2, o3, o4 = found[2], found[3], found[4]
    for i = BRIEF + 1, #found, found[5] do
      found[i + 1] = by_limits(1, o2 > 0 and found[i + o2] or 0, o3 > 0 and found[i + o3] or 0, o4 > 0 and found[i + o4] or 0)
    end
    found[1] = S[33]
  end
  return found
end
local function number_of(text, at)
  local a, b, c = text:byte(at, at + 2)
  return a * 65536 + b * 256 + c
end
local function rest_of(b)
  local found = rests[b[1]]
  if not found then
    found = unpk(call('HGET', KB, b[1] .. 'r'))
    rests[b[1]] = found
  end
  return found
end
local function block(b)
  local found = blocks[b[1]]
  if not found then
    local short, rest, print = brief(b[1]), rest_of(b), 1
    local o2, o3, o4, wide, i = short[2], short[3], short[4], short[5], BRIEF + 1
    found = {}
    for at = 1, #rest, 2 do
      local n = #found
      found[n + 1], found[n + 2], found[n + 3], found[n + 4] = number_of(b[11], print), rest[at], short[i], rest[at + 1]
      found[n + 5], found[n + 6], found[n + 7], found[n + 8] =
        1, o2 > 0 and short[i + o2] or 0, o3 > 0 and short[i + o3] or 0, o4 > 0 and short[i + o4] or 0
      print, i = print + 3, i + wide
    end
    blocks[b[1]] = found
  end
  return found
end
local function bytes(print) return string.char(div(print, 65536), div(print, 256) % 256, print % 256) end
-- Sums of a block of which nothing but the prices may be other than before.
local function price_up(b)
  local calls, unit, prices, least, most = brief(b[1]), price[5], 0, INF, 0
  for i = BRIEF + 2, #calls, calls[5] do
    local own = calls[i]
    if own < unit then own = unit end
    prices = prices + own
    if own < least then least = own end
    if own > most then most = own end
  end
  b[3], b[4], b[5] = prices, least, most
end
local function write(b, calls)
  local s2, s3, s4, wide = 0, 0, 0, 2
  for i = 6, #calls, WIDTH do s2, s3, s4 = s2 + calls[i], s3 + calls[i + 1], s4 + calls[i + 2] end
  local o2, o3, o4 = 0, 0, 0
  if s2 > 0 then o2, wide = wide, wide + 1 end
  if s3 > 0 then o3, wide = wide, wide + 1 end
  if s4 > 0 then o4, wide = wide, wide + 1 end
  local short, rest, prints, back, at, n = {S[33], o2, o3, o4, wide}, {}, {}, INF, BRIEF + 1, 0
  for i = 1, #calls, WIDTH do
    local c2, c3, c4, until_then = calls[i + 5], calls[i + 6], calls[i + 7], calls[i + 1]
    short[at], short[at + 1] = calls[i + 2], by_limits(1, c2, c3, c4)
    if o2 > 0 then short[at + o2] = c2 end
    if o3 > 0 then short[at + o3] = c3 end
    if o4 > 0 then short[at + o4] = c4 end
    rest[2 * n + 1], rest[2 * n + 2] = until_then, calls[i + 3]
    if until_then < back then back = until_then end
    n, at = n + 1, at + wide
    prints[n] = bytes(calls[i])
  end
  briefs[b[1]], rests[b[1]] = short, rest
  b[2], b[6], b[7], b[8], b[9], b[10], b[11] = n, n, s2, s3, s4, back, table.concat(prints)
  price_up(b)
  call('HSET', KB, b[1], pack(short), b[1] .. 'r', pack(rest))
end
-- Of each block of a flow what is asked of it in passing: id, calls, sum and least and most of the prices, sums of the second to
-- fourth amounts, least `back`.
local function passing(flow)
  local flat, n = flow.passing, 0
  if flat then return flat end
  if not flow.b then
    flat = unpk(flow.flat)
    flow.passing = flat
    return flat
  end
  flat = {}
  for _, b in ipairs(flow.b) do
    flat[n + 1], flat[n + 2], flat[n + 3], flat[n + 4], flat[n + 5] = b[1], b[2], b[3], b[4], b[5]
    flat[n + 6], flat[n + 7], flat[n + 8], flat[n + 9] = b[7], b[8], b[9], b[10]
    n = n + 9
  end
  flow.passing = flat
  return flat
end
local function touch(flow) dirty[flow.key], flow.passing, flow.ladder = flow, nil, nil end
local function store(flow, at)
  local b = list(flow)[at]
  local calls = block(b)
  if #calls == 0 then
    call('HDEL', KB, b[1], b[1] .. 'r')
    blocks[b[1]], briefs[b[1]], rests[b[1]] = nil, nil, nil
    remove(list(flow), at)
  else
    write(b, calls)
  end
  touch(flow)
end
-- A call that waits on, as it was but for its times and its mark; false where it is not.
local function restate(flow, at, i, entry)
  local b, first = list(flow)[at], i / WIDTH
  local calls, rest, back = brief(b[1]), rest_of(b), INF
  local place = BRIEF + 1 + first * calls[5]
  for j = 2, 4 do
    local column = calls[j]
    if (column > 0 and calls[place + column] or 0) ~= entry[j + 4] then return false end
  end
  calls[place], rest[2 * first + 1], rest[2 * first + 2] = entry[3], entry[2], entry[4]
  for j = 1, #rest, 2 do if rest[j] < back then back = rest[j] end end
  b[10] = back
  local whole, flat, known = blocks[b[1]], flow.passing, flow.ladder
  if whole then whole[i + 2], whole[i + 3], whole[i + 4] = entry[2], entry[3], entry[4] end
  if flat then flat[9 * at] = back end
  if known then
    for before = 1, at - 1 do first = first + list(flow)[before][2] end
    known[4][first + 1] = entry[3]
  end
  call('HSET', KB, b[1], pack(calls), b[1] .. 'r', pack(rest))
  dirty[flow.key] = flow
  return true
end
local function cut(flow, at, i)
  still = false
  local calls = block(list(flow)[at])
  local twin = calls[i + 4] % 2
  for _ = 1, WIDTH do remove(calls, i + 1) end
  flow.n, flow.twins, queued = flow.n - 1, flow.twins - twin, queued - 1
  store(flow, at)
  return twin
end
local function append(flow, entry)
  if flow.n >= 4095 then return end
  local list_of = list(flow)
  local last = list_of[#list_of]
  if not last or last[2] >= BLOCK then
    S[13] = S[13] + 1
    last = {S[13], 0, 0, INF, 0, 0, 0, 0, 0, INF, ''}
    fresh = true
    blocks[S[13]] = {}
    insert(list_of, last)
  end
  local calls, at = block(last), last[2] * WIDTH
  for i = 1, WIDTH do calls[at + i] = entry[i] end
  write(last, calls)
  if flow.n == 0 then weighed = nil end
  flow.n, flow.twins, queued = flow.n + 1, flow.twins + entry[4] % 2, queued + 1
  touch(flow)
end
local function over(W, flow) return max(W[flow.c] or 0, flow.tw) end
local function push(flow, entry, W)
  local width = 7
  for i = 6, 8 do if entry[i] > 0 then width = width + 2 end end
  while queued >= 4096 or queued * width + #F * 24 > 62800 do
    local most, highest = F[1], -1
    for _, other in ipairs(F) do
      local excess = div(other.n * 256 * over(W, other), other.cw * other.tw)
      if excess >= highest then most, highest = other, excess end
    end
    if most == flow then return end
    local last = #list(most)
    cut(most, last, (list(most)[last][2] - 1) * WIDTH)
  end
  append(flow, entry)
end
local function observe(flow, came, twin)
  flow.ladder = nil
  if came then
    flow.rate = min(ALL, flow.rate + ceil(ALL - flow.rate, 10))
    if twin > 0 then flow.trust = min(255, flow.trust + ceil(255 - flow.trust, 16)) end
  else
    flow.rate = max(819, flow.rate - div(flow.rate, 10))
    if twin > 0 then flow.trust = flow.trust - ceil(flow.trust, 8) end
  end
end
local function raised(sum, service) return min(16777215, sum + ceil(service, 16)) end
local function age_queue(now, in_vain)
  local due = div(now, 2000)
  if #F == 0 then S[6] = due end
  for _ = 1, min(256, less(due, S[6])) do
    for _, flow in ipairs(F) do
      flow.asked = flow.asked - ceil(flow.asked, 16)
      flow.received = flow.received - ceil(flow.received, 16)
      touch(flow)
    end
  end
  S[6] = max(due, S[6])
  for _, flow in ipairs(F) do
    for at = flow.n > 0 and (flow.b or flow.back + 3000 < now) and #list(flow) or 0, 1, -1 do
      if list(flow)[at][10] + 3000 < now then
        local calls, kept = block(list(flow)[at]), {}
        local lost = {}
        for i = 0, #calls - WIDTH, WIDTH do
          if calls[i + 2] + 3000 < now then
            insert(lost, calls[i + 4])
          else
            for j = i + 1, i + WIDTH do kept[#kept + 1] = calls[j] end
          end
        end
        blocks[list(flow)[at][1]] = kept
        for _, mark in ipairs(lost) do
          flow.n, flow.twins, queued = flow.n - 1, flow.twins - mark % 2, queued - 1
          if mark < 2 or in_vain then observe(flow, false, mark % 2) end
        end
        store(flow, at)
      end
    end
  end
end
local function tidy()
  local nobody, V = queued == 0, S[5]
  for at = #F, 1, -1 do
    local flow = F[at]
    if flow.n == 0 then
      if flow.fin < V then
        flow.fin = V
        touch(flow)
      end
      local known = flow.rate < 32113 or flow.trust < 64
      if not (not nobody and flow.fin > V or (known or not nobody) and flow.asked > 0) then
        remove(F, at)
        I[flow.c * 4294967296 + flow.t], dirty[flow.key] = nil, nil
        call('HDEL', KF, flow.key)
      end
    end
  end
  if #F == 0 then
    S[5], S[32] = 0, 0
  elseif V > 2 ^ 45 then
    for _, flow in ipairs(F) do
      flow.fin = less(flow.fin, 2 ^ 44)
      touch(flow)
    end
    S[5] = V - 2 ^ 44
  end
end
local function key_of(class, tenant) return fmt('%03d%010.0f', class, tenant) end
local function find(class, tenant)
  local number = class * 4294967296 + tenant
  local found = I[number]
  if found then return found end
  for at, flow in ipairs(F) do
    if flow.c * 4294967296 + flow.t > number then return nil, at end
  end
  return nil, #F + 1
end
-- More flows than are kept: some of a class stand together, in one of its crowds. A call that was booked there is looked for there.
local UNNAMED, CROWD = 2147483648, 4294967288
local function crowd_of(tenant) return CROWD + tenant % 8 end
local function aligned(text, wanted, from)
  local found = text:find(wanted, from, true)
  while found and found % 3 ~= 1 do found = text:find(wanted, found + 1, true) end
  return found
end
local function home(class, tenant, print)
  local crowd = crowded and find(class, crowd_of(tenant))
  if crowd then
    local wanted = bytes(print)
    for _, b in ipairs(list(crowd)) do if aligned(b[11], wanted, 1) then return crowd end end
  end
  return (find(class, tenant))
end
local function account(class, tenant)
  return find(class, tenant) or crowded and find(class, crowd_of(tenant)) or nil
end
local function drop_flow(at)
  still = false
  local flow = F[at]
  call('HDEL', KF, flow.key)
  I[flow.c * 4294967296 + flow.t], dirty[flow.key], queued = nil, nil, queued - flow.n
  return remove(F, at)
end
local function new_flow(class, tenant, at)
  local flow = {key = key_of(class, tenant), c = class, t = tenant, fin = S[5], rate = ALL, trust = 64, n = 0, asked = 0,
    received = 0, twins = 0, b = {}}
  insert(F, at, flow)
  I[class * 4294967296 + tenant] = flow
  crowded = crowded or tenant >= CROWD
  return flow
end
local function reweigh(flow, class_weight, tenant_weight)
  if flow.t >= CROWD then tenant_weight = min(128, max(1, flow.n)) end
  if flow.tw ~= tenant_weight then weighed = nil end
  flow.cw, flow.tw, dirty[flow.key] = class_weight, tenant_weight, flow
end
local function forget_idle()
  local idle
  for at = #F, 1, -1 do
    local flow = F[at]
    if flow.n == 0 and flow.fin <= S[5] and (not idle or flow.t >= UNNAMED or F[idle].t < UNNAMED) then idle = at end
  end
  if idle then drop_flow(idle) end
  return idle
end
local function fold(least)
  while #F >= 1024 do
    local counts, class, at = {}, nil, nil
    for _, flow in ipairs(F) do
      if flow.t >= least and flow.t < CROWD then counts[flow.c] = (counts[flow.c] or 0) + 1 end
    end
    for index, flow in ipairs(F) do
      if flow.t >= least and flow.t < CROWD and (not class or counts[flow.c] >= counts[class]) then class, at = flow.c, index end
    end
    if not at then return false end
    local flow, calls = drop_flow(at), {}
    for _, b in ipairs(list(flow)) do
      for _, value in ipairs(block(b)) do calls[#calls + 1] = value end
      call('HDEL', KB, b[1], b[1] .. 'r')
      blocks[b[1]], briefs[b[1]], rests[b[1]] = nil, nil, nil
    end
    local crowd, place = find(class, crowd_of(flow.t))
    if crowd then
      crowd.asked, crowd.received = min(16777215, crowd.asked + flow.asked), min(16777215, crowd.received + flow.received)
    else
      crowd = new_flow(class, crowd_of(flow.t), place)
      crowd.rate, crowd.trust, crowd.asked, crowd.received = flow.rate, flow.trust, flow.asked, flow.received
    end
    for i = 0, #calls - WIDTH, WIDTH do
      local entry = {}
      for j = 1, WIDTH do entry[j] = calls[i + j] end
      append(crowd, entry)
    end
    reweigh(crowd, flow.cw)
  end
  return true
end
local function entry(class, tenant, class_weight, tenant_weight, print)
  local flow, at = home(class, tenant, print), nil
  if not flow then
    local own = #F < 1024 or forget_idle() or tenant < UNNAMED and fold(UNNAMED)
    if not own then
      tenant = crowd_of(tenant)
      if not find(class, tenant) and not fold(UNNAMED) and not fold(0) then return nil end
    end
    flow, at = find(class, tenant)
    flow = flow or new_flow(class, tenant, at)
  end
  reweigh(flow, class_weight, tenant_weight)
  if flow.n == 0 then flow.fin = max(flow.fin, S[5]) end
  return flow
end
local function weights(also)
  if still and weighed and also and also.n > 0 then return weighed end
  local W = {}
  for _, flow in ipairs(F) do
    if flow.n > 0 or flow == also then W[flow.c] = (W[flow.c] or 0) + flow.tw end
  end
  if not also or also.n > 0 then weighed = W end
  return W
end
local function virtual(W, flow, service) return muldivup(service * 256, over(W, flow), flow.cw * flow.tw) end
local function service_of(W, flow, span) return muldiv(div(span, 256), flow.cw * flow.tw, over(W, flow)) end
local function serve(W, flow, service)
  local start = flow.fin
  flow.fin = min(start + virtual(W, flow, service), S[5] + 2 ^ 40 - 2 ^ 38 - 1)
  flow.received, dirty[flow.key] = raised(flow.received, service), flow
  local least
  for _, other in ipairs(F) do
    if other.n > 0 and (not least or other.fin < least) then least = other.fin end
  end
  S[5] = max(S[5], least or start)
end

-- Brings everything up to the present.
local function advance_all(from, to)
  local pause = blocked(from)
  if pause then pause = min(pause, to) end
  for i = 1, 4 do
    local m, r = M[i], R[i]
    if pause and r then
      advance(m, r, from, pause)
      m.missing = max(m.missing, r.capacity)
      advance(m, r, pause, to)
    else
      advance(m, r, from, to)
    end
  end
end
local function step()
  stepped = true
  local shifted = max(0, moment + S[3])
  if S[2] - shifted > 5e6 then S[3] = S[2] - moment end
  local from, to = S[2], max(shifted, S[2])
  R = rules(to)
  if PERIOD ~= S[4] then
    for i = 1, 4 do
      clear(M[i])
      M[i].from = 0
      M[i].missing = muldivup(M[i].missing, PERIOD / SLOT, S[4] / SLOT)
    end
    S[4] = PERIOD
  end
  local ended
  while LENT[1] and LENT[1] <= div(to, SLOT) do
    -- What was not given back by now counts as taken now.
    local edge = LENT[1] * SLOT
    advance_all(from, edge)
    for i = 1, 4 do if R[i] then take(M[i], R[i], LENT[i + 1], edge) end end
    for _ = 1, 6 do remove(LENT, 1) end
    from, ended = max(from, edge), true
  end
  advance_all(from, to)
  if ended then R = rules(to) end
  age_flights(to)
  S[2] = to
  set_price(R.limits, mean())
  local priced = table.concat(price, ',', 1, 4)
  if priced ~= S[34] then S[33], S[34] = S[33] + 1, priced end
  priced = priced .. ',' .. price[5]
  if priced ~= S[16] then
    S[16] = priced
    for _, flow in ipairs(F) do
      if flow.n > 0 then
        for _, b in ipairs(list(flow)) do price_up(b) end
        touch(flow)
      end
    end
  end
  local in_vain = not R.paused and (SLOTCAP == 0 or (total + R.lent) * 2 <= SLOTCAP)
  for i = 1, 4 do in_vain = in_vain and (not R[i] or M[i].missing == 0) end
  age_queue(div(to, 1000), in_vain)
  tidy()
  still, curved, weighed = true, nil, nil
end

-- What can be served by when.
local function served_as(o, wait)
  wait = wait - o[1]
  if wait < 0 then return nil end
  local lost = less(1000, o[2])
  if wait >= o[3] then return less(wait, div(lost * o[3], 2000)) end
  return div(o[2] * wait, 1000) + div(lost * div(wait * wait, o[3]), 2000)
end
local function until_served(o, served)
  local low, high = o[1], o[1] + served + o[3]
  if o[3] == 0 or served == 0 then return low + served end
  while low < high do
    local middle = low + div(high - low, 2)
    if (served_as(o, middle) or -1) >= served then high = middle else low = middle + 1 end
  end
  return low
end
-- The meter at the end of a pause, and the pace that will hold then.
local function later(m, r)
  r = {limit = r.limit, rate = r.limit, capacity = r.capacity, unpaced = r.unpaced, lump = r.limit * 2e6, lent = r.lent}
  if R.paused then
    local copy = {missing = m.missing, head = m.head, used = m.used, name = m.name, from = m.from}
    if m.used > 0 then copy.ring = {unpack(ring(m))} end
    m = copy
    advance(m, r, S[2], R.paused)
    m.missing = max(m.missing, r.capacity)
  end
  return m, r
end
local function curve(m, r, now)
  m, r = later(m, r)
  now = R.paused or now
  local unborn = m.missing > 0 and less(m.from, now) * r.rate or 0
  local bucket, freed = r.capacity - m.missing - unborn - r.lent * PERIOD, (r.limit - m.used - r.lent) * PERIOD
  local rate, lump = r.rate, r.lump
  local start = bucket
  if STRICT and m.used == 0 then start = min(bucket, freed) end
  local unpaced = r.unpaced and bucket >= freed
  local c = {rate = rate, o = R.opening, start = start, unpaced = unpaced, full = r.capacity, lump = lump}
  if not STRICT or m.used == 0 then return c end
  local paced, first = unpaced and min(start, lump) or start, (m.head + 1) * SLOT - now
  local paceds, freeds, cells, gain = {paced}, {freed}, ring(m), rate * first
  local at = m.head - SLOTS
  for count = 2, SLOTS + 1 do
    local reached, free = paced + gain, freed + lump
    if reached > free then reached = free end
    if reached > paced then paced = reached end
    freed = freed + cells[(at + count - 1) % 128 + 1] * PERIOD
    paceds[count], freeds[count], gain = paced, freed, rate * SLOT
  end
  c.first, c.paced, c.freed = first, paceds, freeds
  return c
end
local function begins(c, index) return index > 1 and c.first + (index - 2) * SLOT or 0 end
local function allows(c, wait, all, last)
  local paced = all - (c.unpaced and last or less(last, c.full))
  wait = served_as(c.o, wait)
  if not wait then return paced <= min(c.start, 0) end
  if not c.first then return paced <= c.start + c.rate * wait end
  local index = wait >= c.first and min(SLOTS + 1, div(wait - c.first, SLOT) + 2) or 1
  return paced <= c.paced[index] + c.rate * (wait - begins(c, index)) and (index > SLOTS or all <= c.freed[index])
end
local function time_for(c, lacking) return lacking > 0 and ceil(lacking, c.rate) or 0 end
-- Whole periods of what is ahead are taken off where the scaled amount would leave 2^53, down to what is still behind the
-- last step.
local function wait_for(c, ahead, scale, own)
  local whole = 0
  if ahead * scale > EXACT / 2 then
    whole = max(0, div(ahead, c.rate) - 5)
    ahead = ahead - whole * c.rate
  end
  ahead, own = ahead * scale, own * scale
  local paced = ahead + min(own, c.full)
  if not c.first then return until_served(c.o, time_for(c, paced - c.start) + whole * scale) end
  local need, all = c.unpaced and ahead or paced, ahead + own
  -- The first step in which `need` is reached, and the first at which `all` is freed.
  local low, high = 1, SLOTS + 1
  while low < high do
    local middle = div(low + high, 2)
    local reached = c.paced[middle] + c.rate * (middle > 1 and SLOT or c.first)
    if need <= reached and need <= c.freed[middle] + c.lump then high = middle else low = middle + 1 end
  end
  local turn = begins(c, low) + time_for(c, need - c.paced[low])
  low, high = 1, SLOTS + 1
  while low < high do
    local middle = div(low + high, 2)
    if all <= c.freed[middle] then high = middle else low = middle + 1 end
  end
  return until_served(c.o, max(turn, begins(c, low) + time_for(c, all - c.freed[low])) + whole * scale)
end
local function curves()
  if still and curved then return curved end
  local C = {}
  for i = 1, 4 do if R[i] then C[i] = curve(M[i], R[i], S[2]) end end
  if SLOTCAP > 0 then
    local scaled = max(1, ceil(mean(), 1000)) * 1000
    C[5] = {rate = SLOTCAP, o = R.opening, start = (SLOTCAP - total - R.lent) * scaled, full = INF}
  end
  curved = C
  return C
end
local function expected(amount)
  if S[7] == S[8] or S[7] == 0 then return amount end
  local ratio = min(8192, max(128, div(S[8] * 1024, S[7])))
  return muldivup(amount, ratio, 1024)
end

-- Number of the slot of time in which something due then is gathered.
local function slot_of(due, awaited)
  local now = div(S[2], 1000)
  local ahead = less(due, now)
  -- Where slots are limited, nobody is awaited for longer than this.
  if awaited and SLOTCAP > 0 and less(now, due) > 1100 then ahead = 1000 end
  if ahead < 65536 then return div(ahead, 64), ahead end
  if ahead < 262144 then return div(ahead, 1024) + 960, ahead end
  -- What is promised for later holds nothing back yet.
  return ahead < 4194304 and div(ahead, 16384) + 1200 or INF, ahead
end
-- The queue as one call sees it: what stands before it, exactly and as far as it comes back. H gathers by time what is in
-- blocks, of some of them only some calls, and only when it is asked for.
local function due_at(b, i)
  local calls = brief(b[1])
  return calls[BRIEF + 1 + i / WIDTH * calls[5]]
end
-- The price that all calls of a flow have, where they have one.
local function one_price(flat)
  local price = flat[4]
  for at = 1, #flat, 9 do
    if flat[at + 3] ~= price or flat[at + 4] ~= price then return nil end
  end
  return price
end
-- Of what a flow is owed, what further calls of its one price take up, and of the rest what is spare; and what then is.
local function whole_calls(price, owed, rounding, spare)
  local earlier = less(owed, rounding + 1)
  earlier = earlier - earlier % price
  local kept = min(owed - earlier, spare)
  return earlier + kept, spare - kept
end
-- Calls of a flow in a row, for requests that ask of it again and again: what is served when a call has been (itself, the most of those up
-- to it, the least of those from it on), its due, and the second to fourth amounts of those before it. Longer flows are left to
-- their blocks, since each change makes all of it anew.
local LADDER = 64
local function ladder(flow)
  local found = flow.ladder
  if found then return found end
  local rate, unit, flat, waits, n, most = flow.rate, price[5], passing(flow), 0, 0, 0
  local u2, u3, u4, t2, t3, t4 = 0, 0, 0, 0, 0, 0
  for at = 1, #flat, 9 do waits, u2, u3, u4 = waits + flat[at + 2], u2 + flat[at + 5], u3 + flat[at + 6], u4 + flat[at + 7] end
  if waits * rate >= EXACT then return nil end
  -- The tables of the last time are large enough.
  found = flow.rungs or {{}, {}, {}, {}, {}, {}, {}}
  flow.rungs = found
  local served, upto, from, due = found[1], found[2], found[3], found[4]
  local s2, s3, s4 = u2 > 0 and found[5], u3 > 0 and found[6], u4 > 0 and found[7]
  waits = 0
  for at = 1, #flat, 9 do
    local calls = brief(flat[at])
    local o2, o3, o4 = calls[2], calls[3], calls[4]
    for i = BRIEF + 1, #calls, calls[5] do
      local cost, x = calls[i + 1], waits * rate
      if cost < unit then cost = unit end
      x = (x - x % ALL) / ALL + cost
      if x > most then most = x end
      n = n + 1
      served[n], upto[n], due[n] = x, most, calls[i]
      if s2 then
        s2[n] = t2
        if o2 > 0 then t2 = t2 + calls[i + o2] end
      end
      if s3 then
        s3[n] = t3
        if o3 > 0 then t3 = t3 + calls[i + o3] end
      end
      if s4 then
        s4[n] = t4
        if o4 > 0 then t4 = t4 + calls[i + o4] end
      end
      waits = waits + cost
    end
  end
  local least = INF
  for k = n, 1, -1 do
    local own = served[k]
    if own < least then least = own end
    from[k] = least
  end
  n = n + 1
  upto[n], from[n] = INF, INF
  if s2 then s2[n] = t2 end
  if s3 then s3[n] = t3 end
  if s4 then s4[n] = t4 end
  found[8], found[9], found[10], found[11], found[12], found[13] = waits, div(waits * rate, ALL), n - 1, t2, t3, t4
  found[14] = one_price(flat)
  flow.ladder = found
  return found
end
-- The calls of a flow that go first: all before one, and some of those behind it.
local function list_first(whole, flow, known, rest, last, surely, maybe, own_due)
  local flat, served, due, base = passing(flow), known[1], known[4], 0
  for at = 1, #flat, 9 do
    local id, n = flat[at], flat[at + 1]
    if base + n < rest then
      whole[#whole + 1] = {flat[at + 8], id, flow.rate}
    else
      local wide, some = brief(id)[5], {}
      for place = base + 1, min(base + n, last - 1) do
        local own = served[place]
        if own < surely or own <= maybe and due[place] < own_due then some[#some + 1] = BRIEF + 1 + (place - base - 1) * wide end
      end
      if some[1] then whole[#whole + 1] = {flat[at + 8], id, flow.rate, some} end
    end
    base = base + n
    if base >= last - 1 then break end
  end
end
local function stand(flow, place, need, W, horizon)
  local rate, whole, others, got = flow.rate, {}, {}, 0
  local L = {others = others, H = {}, first = INF, whole = whole}
  local H, now = L.H, div(S[2], 1000)
  local function note(calls, i, rate)
    local ahead, slot = calls[i] - now, nil
    if ahead >= 0 and ahead < 65536 then
      slot = (ahead - ahead % 64) / 64
    else
      slot, ahead = slot_of(calls[i], true)
      if slot == INF then return end
    end
    if slot < L.first then L.first = slot end
    -- Needs, the largest of each, and from when all of it counts.
    local h = H[slot]
    if not h then
      h = {0, 0, 0, 0, 0, 0, 0, 0, 0, ahead}
      H[slot] = h
    end
    if h[5] == 0 or (ahead < h[10]) == (slot < 1216) then h[10] = ahead end
    h[1], h[6] = h[1] + rate, 1
    local o2, o3, o4 = calls[2], calls[3], calls[4]
    if o2 > 0 then
      local amount = calls[i + o2]
      h[2] = h[2] + amount * rate
      if amount > h[7] then h[7] = amount end
    end
    if o3 > 0 then
      local amount = calls[i + o3]
      h[3] = h[3] + amount * rate
      if amount > h[8] then h[8] = amount end
    end
    if o4 > 0 then
      local amount = calls[i + o4]
      h[4] = h[4] + amount * rate
      if amount > h[9] then h[9] = amount end
    end
    h[5] = h[5] + rate
  end
  L.note = note
  local A1, A2, A3, A4, A5 = 0, 0, 0, 0, 0
  local own_due = INF
  if place then own_due = due_at(list(flow)[place[1]], place[2]) end
  -- Where slots are limited, those whose time has come go first, in the order of their times.
  local by_time = SLOTCAP > 0 and own_due <= now
  local before, sums = 0, {0, 0, 0, 0, 0}
  for at, b in ipairs(list(flow)) do
    local here = place and place[1] == at
    if here or by_time then
      local calls, some = brief(b[1]), {}
      local wide = calls[5]
      for i = BRIEF + 1, here and BRIEF + place[2] / WIDTH * wide or #calls, wide do if not by_time or calls[i] <= own_due then
        before = before + max(price[5], calls[i + 1])
        sums[1] = sums[1] + 1
        for j = 2, 4 do if calls[j] > 0 then sums[j] = sums[j] + calls[i + calls[j]] end end
        sums[5] = sums[5] + 1000
        insert(some, i)
      end end
      if some[1] then insert(whole, {b[10], b[1], rate, some}) end
      if here then break end
    else
      insert(whole, {b[10], b[1], rate})
      before = before + b[3]
      for j = 1, 4 do sums[j] = sums[j] + b[j + 5] end
      sums[5] = sums[5] + 1000 * b[2]
    end
  end
  -- Requests are rounded when all flows are there.
  sums[1] = sums[1] * rate
  for j = 2, 5 do sums[j] = muldiv(sums[j], rate, ALL) end
  A1, A2, A3, A4, A5 = unpack(sums)
  local own = dominant(min(need[1], 4294967295), min(need[2], 4294967295), min(need[3], 4294967295), min(need[4], 4294967295))
  local tag = flow.fin + virtual(W, flow, muldiv(before, rate, ALL) + own)
  local unit = price[5]
  -- What counts of the rest behind whole calls, two calls in all; other calls of the flow wait.
  local spare, company, named = 2 * own, flow.n > (place and 1 or 0), flow.t < CROWD
  -- A limit of calls in flight counts them as well, and looks at times.
  local climbs = many and SLOTCAP == 0
  for index = 1, #F do
    local other = F[index]
    if other == flow then
      -- Its own calls are counted.
    elseif other.n == 0 then
      others[got + 1], others[got + 2], others[got + 3], others[got + 4], others[got + 5] = need[1], need[2], need[3], need[4], need[5]
      others[got + 6], others[got + 7], others[got + 8] = own, service_of(W, other, less(tag, max(other.fin, S[5]))), other.asked * 16
      got = got + 8
    else
      -- Written out, since it runs for each flow and for the calls about the limit: x * rate / ALL is muldiv where the product is exact.
      local rate, weight, among = other.rate, other.cw * other.tw, W[other.c]
      if among < other.tw then among = other.tw end
      local owed = tag - other.fin
      if owed > 0 then
        owed = (owed - owed % 256) / 256
        local rest = owed % among
        local product = rest * weight
        owed = (owed - rest) / among * weight + (product - product % among) / among
      else
        owed = 0
      end
      local rounding = (weight - weight % among) / among + 2
      local surely, maybe = owed > rounding and owed - rounding or 0, owed + rounding
      local known = climbs and other.n <= LADDER and (other.ladder or ladder(other))
      if known then
        local upto, from, n = known[2], known[3], known[10]
        local a2, a3, a4, k, e1, e2, e3, e4 = known[11], known[12], known[13], 1, 0, 0, 0, 0
        -- Those before the first with `surely` or more up to it go first, those from which on more than `maybe` is served do not.
        if from[1] <= maybe then
          -- Prices differ little as a rule.
          if surely >= upto[n] then
            k = surely > upto[n] and n + 1 or n
          elseif surely > 0 then
            k = surely * n / upto[n]
            k = k - k % 1 + 1
          end
          while k > 1 and upto[k - 1] >= surely do k = k - 1 end
          while upto[k] < surely do k = k + 1 end
          e1 = k - 1
          if a2 > 0 then e2 = known[5][k] end
          if a3 > 0 then e3 = known[6][k] end
          if a4 > 0 then e4 = known[7][k] end
          local rest = k
          while from[k] <= maybe do
            local own, after = known[1][k], k + 1
            if own < surely or own <= maybe and known[4][k] < own_due then
              e1 = e1 + 1
              if a2 > 0 then e2 = e2 + known[5][after] - known[5][k] end
              if a3 > 0 then e3 = e3 + known[6][after] - known[6][k] end
              if a4 > 0 then e4 = e4 + known[7][after] - known[7][k] end
            end
            k = after
          end
          if horizon and e1 > 0 then list_first(whole, other, known, rest, k, surely, maybe, own_due) end
          A1 = A1 + e1 * rate
          if e2 > 0 then A2 = A2 + muldiv(e2, rate, ALL) end
          if e3 > 0 then A3 = A3 + muldiv(e3, rate, ALL) end
          if e4 > 0 then A4 = A4 + muldiv(e4, rate, ALL) end
        end
        owed = owed - known[9]
        if owed > 0 and named and known[14] and (n > 1 or company and known[14] == own) then owed, spare = whole_calls(known[14], owed, rounding, spare) end
        if owed > 0 then
          others[got + 1], others[got + 2], others[got + 3], others[got + 4], others[got + 5] = n, a2, a3, a4, 0
          others[got + 6], others[got + 7], others[got + 8] = known[8], owed, other.asked * 16
          got = got + 8
        end
      else
        local waits = 0
        local a1, a2, a3, a4, a5, e1, e2, e3, e4, e5 = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
        local unread, blocks_of = not other.b and SLOTCAP == 0, nil
        if unread and other.least > maybe then
          -- All of them are later.
          waits = other.prices
          a1, a2, a3, a4, a5 = other.n, other.s2, other.s3, other.s4, 1000 * other.n
        elseif unread and not horizon and muldiv(other.prices, rate, ALL) + other.most < surely then
          waits = other.prices
          a1, a2, a3, a4, a5 = other.n, other.s2, other.s3, other.s4, 1000 * other.n
          e1, e2, e3, e4, e5 = a1, a2, a3, a4, a5
        else
          blocks_of = passing(other)
        end
        for at = 1, blocks_of and #blocks_of or 0, 9 do
          local id, n, prices, least, back = blocks_of[at], blocks_of[at + 1], blocks_of[at + 2], blocks_of[at + 3], blocks_of[at + 8]
          local s2, s3, s4 = blocks_of[at + 5], blocks_of[at + 6], blocks_of[at + 7]
          a1, a2, a3, a4, a5 = a1 + n, a2 + s2, a3 + s3, a4 + s4, a5 + 1000 * n
          local x = waits * rate
          local first = x < EXACT and (x - x % ALL) / ALL or muldiv(waits, rate, ALL)
          local due = SLOTCAP > 0 and back <= now
          if by_time and back > own_due or not due and not by_time and first + least > maybe then
            -- All of them are later.
            waits = waits + prices
          elseif not by_time and muldiv(waits + prices, rate, ALL) + blocks_of[at + 4] < surely then
            if horizon then insert(whole, {back, id, rate}) end
            e1, e2, e3, e4, e5 = e1 + n, e2 + s2, e3 + s3, e4 + s4, e5 + 1000 * n
            waits = waits + prices
          else
            local calls, after, some = brief(id), waits + prices, nil
            local o2, o3, o4 = calls[2], calls[3], calls[4]
            for i = BRIEF + 1, #calls, calls[5] do
              local turn, cost = calls[i], calls[i + 1]
              if cost < unit then cost = unit end
              x = waits * rate
              local before = x < EXACT and (x - x % ALL) / ALL or muldiv(waits, rate, ALL)
              local served, first = before + cost, nil
              if by_time then
                first = turn <= own_due
              elseif due then
                first = served < surely or served <= maybe and turn < own_due or turn <= now
              elseif before + least > maybe then
                -- The rest of the block is later.
                break
              else
                first = served < surely or served <= maybe and turn < own_due
              end
              if first then
                if horizon then
                  some = some or {}
                  some[#some + 1] = i
                end
                e1, e5 = e1 + 1, e5 + 1000
                if o2 > 0 then e2 = e2 + calls[i + o2] end
                if o3 > 0 then e3 = e3 + calls[i + o3] end
                if o4 > 0 then e4 = e4 + calls[i + o4] end
              end
              waits = waits + cost
            end
            waits = after
            if some then insert(whole, {back, id, rate, some}) end
          end
        end
        if e1 > 0 then
          A1 = A1 + e1 * rate
          if e2 > 0 then A2 = A2 + muldiv(e2, rate, ALL) end
          if e3 > 0 then A3 = A3 + muldiv(e3, rate, ALL) end
          if e4 > 0 then A4 = A4 + muldiv(e4, rate, ALL) end
          if e5 > 0 then A5 = A5 + muldiv(e5, rate, ALL) end
        end
        owed = owed - muldiv(waits, rate, ALL)
        if owed > 0 and named and (other.n > 1 or company) then
          local price
          if blocks_of then
            price = one_price(blocks_of)
          elseif other.least == other.most then
            price = other.least
          end
          if price and (other.n > 1 or price == own) then owed, spare = whole_calls(price, owed, rounding, spare) end
        end
        if owed > 0 then
          others[got + 1], others[got + 2], others[got + 3], others[got + 4], others[got + 5] = a1, a2, a3, a4, a5
          others[got + 6], others[got + 7], others[got + 8] = waits, owed, other.asked * 16
          got = got + 8
        end
      end
    end
  end
  L.ahead = {div(A1 + ALL / 2, ALL), A2, A3, A4, A5}
  return L
end
local function scales()
  return {PERIOD, PERIOD, PERIOD, PERIOD, max(1, ceil(mean(), 1000))}
end
local function all_kept(L, C, need)
  local scale, sums, H, order = scales(), {0, 0, 0, 0, 0}, L.H, {}
  -- Numbers are sorted faster than with a function.
  for i, part in ipairs(L.whole) do order[i] = part[1] * 4096 + i end
  table.sort(order)
  for index = 1, #order + 1 do
    -- What is due before the next block begins is complete.
    local later, slots = order[index] and L.whole[order[index] % 4096], {}
    local bound = later and slot_of(later[1]) or INF
    if L.first < bound then
      L.first = INF
      for slot in pairs(H) do
        if slot < bound then insert(slots, slot) else L.first = min(L.first, slot) end
      end
      table.sort(slots)
    end
    for _, slot in ipairs(slots) do
      local h = H[slot]
      local at = h[10] * 1000
      H[slot] = nil
      for j = 1, 5 do
        sums[j] = sums[j] + h[j]
        if C[j] then
          local others = expected(div(j == 5 and sums[j] * 1000 or sums[j], ALL))
          local last = min(others, expected(j < 5 and h[j + 5] or 0))
          if not allows(C[j], j == 5 and at + 250000 or at, (need[j] + others) * scale[j], last * scale[j]) then return false end
        end
      end
    end
    if later then
      local calls, some = brief(later[2]), later[4]
      if some then
        for _, i in ipairs(some) do L.note(calls, i, later[3]) end
      else
        for i = BRIEF + 1, #calls, calls[5] do L.note(calls, i, later[3]) end
      end
    end
  end
  return true
end
-- Parts of 65536 that `a` is of `b`, in two steps: one would leave 2^53.
local function parts(a, b)
  a = a * 256
  local rest = a % b
  local high = (a - rest) / b
  a = (a - high * b) * 256
  return high * 256 + (a - a % b) / b
end
local function wait_given(L, C, need, wait, broken)
  local ahead, scale, turn, others, asked = {unpack(L.ahead)}, scales(), 0, L.others, {}
  for j = 1, 5 do if C[j] then insert(asked, j) end end
  local kinds, steps = #asked, wait and div(wait, 1000) * 2
  for at = 0, #others - 8, 8 do
    local service, whole = others[at + 7], others[at + 6]
    if steps then
      local product = others[at + 8] * steps
      local most = product < EXACT and (product - product % 32000) / 32000 or muldiv(others[at + 8], steps, 32000)
      if most < service then service = most end
    end
    if service > 0 and whole > 0 then
      local ratio = parts(service, whole)
      for place = 1, kinds do
        local j = asked[place]
        local sum = others[at + j]
        local product = sum * ratio
        ahead[j] = ahead[j] + (product < EXACT and (product - product % 65536) / 65536 or muldiv(sum, ratio, 65536))
      end
    end
  end
  for j = 1, 5 do
    if C[j] then
      local least = wait_for(C[j], expected(ahead[j]), scale[j], need[j])
      turn = max(turn, j == 5 and not broken and least + div(least, 7) or least)
    end
  end
  return min(turn, 86400e6)
end

-- Decisions.
local function shortage(cost)
  if R.paused then return 'p' end
  for i = 1, 4 do
    if R[i] and not fits(M[i], R[i], cost[i]) then return 'e' end
  end
  if SLOTCAP > 0 and total + R.lent + cost[5] > max(SLOTCAP, cost[5]) then return 'c' end
end
local function take_all(cost, slots, age)
  for i = 1, 4 do
    local m, r = M[i], R[i]
    if r and age then
      -- What a bucket regained since then is not missing in it.
      if r.rate * age < r.capacity then m.missing = m.missing + cost[i] * PERIOD end
      if STRICT and cost[i] > 0 then add(m, div(S[2] - age, SLOT), cost[i]) end
    elseif r then
      take(m, r, cost[i])
    end
  end
  if slots > 0 and (not age or age < TTL) then
    local slot = age and min(S[12], div(S[2] - age, S[9])) or S[12]
    if S[12] - slot > 62 then return end
    local at = slot % 64
    inflight[at] = (inflight[at] or 0) + slots
    total = total + slots
  end
end
-- Where the call with this print stands: the earliest due of those that look the same.
local function recognise(flow, print, parked, now)
  local best, place
  local wanted = bytes(print)
  for at, b in ipairs(list(flow)) do
    if not best or b[10] < best then
      local found = aligned(b[11], wanted, 1)
      while found do
        local rest, before = rest_of(b), (found - 1) / 3
        local back = rest[2 * before + 1]
        if not best or back < best then best, place = back, {at, before * WIDTH} end
        found = aligned(b[11], wanted, found + 1)
      end
    end
  end
  if not place then return nil, 0 end
  if now + 50 >= best or parked or flow.twins >= max(2, div(flow.trust * flow.trust, 16)) then return place, 0 end
  return nil, 1, now + 250 >= best and place or nil
end
local function cancel(flow, print)
  local last, place
  for at, b in ipairs(list(flow)) do
    local calls = block(b)
    for i = 1, #calls, WIDTH do
      if calls[i] == print and (not last or calls[i + 1] >= last) then
        last, place = calls[i + 1], {at, i - 1}
      end
    end
  end
  if place then cut(flow, place[1], place[2]) end
end
local function told_of(wait, o)
  if wait <= max(o[11], o[12]) then return wait end
  -- Before its turn: at the end of the longest that may be told, each time another moment.
  local most, told = div(o[11], 1000), S[32] or 0
  local last = max(div(most, 8), min(div(most, 2), 1000))
  local _, bits = math.frexp(max(1, min(last, 4096)))
  local times = 2 ^ (bits - 1)
  local stride = div(times * 618, 1000)
  stride = stride + (stride % 2 == 0 and 1 or 0)
  S[32] = (told + 1) % 65536
  return max(1, less(most, div(told * stride % times * last, times))) * 1000
end
local function admit(o)
  -- o: 1-4 flow, 5-9 cost, 10 print, 11 longest told, 12 longest parked, 13 parked
  local cost = {o[5], o[6], o[7], o[8], o[9]}
  local short = shortage(cost)
  local nobody = queued == 0
  if nobody and not short then
    take_all(cost, 1)
    return {'A', S[2]}
  end
  local flow = entry(o[1], o[2], o[3], o[4], o[10])
  if not flow then
    local told = told_of(INF, o)
    return {'W', told, told, short or 'o'}
  end
  local W, need = weights(flow), {o[5], o[6], o[7], o[8], 1000}
  local place, twin, nearly = recognise(flow, o[10], o[13] == 1, div(S[2], 1000))
  local carried = amounts(cost)
  local service = dominant(carried[1], carried[2], carried[3], carried[4])
  if not place then flow.asked = raised(flow.asked, service) end
  local L, C
  if not short then
    L = stand(flow, place, need, W, true)
    local kept = not L.whole[1]
    if not kept then
      C = curves()
      kept = all_kept(L, C, need)
    end
    if kept then
      nearly = place or nearly
      if nearly then observe(flow, true, cut(flow, nearly[1], nearly[2])) end
      serve(W, flow, service)
      take_all(cost, 1)
      return {'A', S[2]}
    end
    short = 'o'
  else
    L = stand(flow, place, need, W, false)
  end
  local broken = place and due_at(list(flow)[place[1]], place[2]) <= ceil(S[2], 1000)
  C = C or curves()
  local wait = wait_given(L, C, need, nil, broken)
  if broken and SLOTCAP > 0 and short ~= 'e' and div(wait * 3, 10) <= o[12] then wait = div(wait * 3, 10) end
  if not broken then
    local nearer = wait_given(L, C, need, wait)
    wait = nearer ~= wait and wait_given(L, C, need, nearer) or wait
  end
  if SLOTCAP > 0 and short ~= 'e' and div(wait * 7, 8) <= o[12] then wait = min(wait, o[12]) end
  wait = ceil(min(max(wait, 20000), 86400e6), 1000) * 1000
  local told = told_of(wait, o)
  local back, later, bits = ceil(S[2] + told, 1000), min(4294967295, ceil(ceil(less(wait, told), 1000), 500)), 1
  while bits < 32768 and ceil(later, bits) > 15 do bits = bits * 2 end
  local entry = {o[10], back, back + min(15, ceil(later, bits)) * bits * 500, twin + (broken and 2 or 0),
    carried[1], carried[2], carried[3], carried[4]}
  if place then
    local b = list(flow)[place[1]]
    local mark = rest_of(b)[2 * place[2] / WIDTH + 2]
    entry[4] = mark % 2 + ((broken or mark > 1) and 2 or 0)
    if not restate(flow, place[1], place[2], entry) then
      local calls = block(b)
      for i = 1, WIDTH do calls[place[2] + i] = entry[i] end
      store(flow, place[1])
    end
  else
    push(flow, entry, W)
  end
  return {'W', wait, told, short}
end
local function charge(o, ends)
  if queued > 0 then
    local found = ends and home(o[1], o[2], o[10])
    if found then
      local place, _, nearly = recognise(found, o[10], o[13] == 1, div(S[2], 1000))
      place = place or nearly
      if place then observe(found, true, cut(found, place[1], place[2])) end
    end
    local flow = entry(o[1], o[2], o[3], o[4], o[10])
    if flow then
      local carried = amounts{o[5], o[6], o[7], o[8]}
      serve(weights(flow), flow, dominant(carried[1], carried[2], carried[3], carried[4]))
    end
  end
  local age = not ends and o[14] and min(o[14], 6e7)
  take_all({o[5], o[6], o[7], o[8]}, min(1, o[9]), age)
  return {'A', S[2] - (age or 0)}
end
-- Leases.
local function lend(o)
  -- 1-5 wanted, 6 how long
  local refused = {'L', 0, 0, 0, 0, 0, 0}
  if queued > 0 or R.paused or scale(S[2]) ~= 1000 then return refused end
  local ends = div(S[2] + min(o[6], 5e6), SLOT) + 1
  local lease, any = {'L', ends, 0, 0, 0, 0, 0}, false
  for i = 1, 5 do
    local limit, whole, free, out
    if i == 5 then
      if SLOTCAP > 0 then limit, whole, free, out = SLOTCAP, SLOTCAP, less(SLOTCAP, total + R.lent), R.lent end
    elseif R[i] then
      local r = R[i]
      limit, whole, free, out = r.limit, min(r.limit, div(r.capacity, PERIOD)), available(M[i], r), r.lent
    end
    if limit then
      local granted = min(o[i], less(div(limit, 25), out), less(free, ceil(whole, 4)))
      if granted < min(o[i], 1) then return refused end
      lease[i + 2], any = granted, any or granted > 0
    end
  end
  if not any then return refused end
  local at = 1
  while LENT[at] and LENT[at] < ends do at = at + 6 end
  if LENT[at] ~= ends then
    for i = 1, 6 do insert(LENT, at, i < 6 and 0 or ends) end
  end
  for i = 1, 5 do LENT[at + i] = LENT[at + i] + lease[i + 2] end
  R = rules(S[2])
  return lease
end
local function give_back(ends, a)
  if ends <= div(S[2], SLOT) then
    for i = 1, 4 do if R[i] then give(M[i], R[i], ends, a[i]) end end
    return
  end
  for at = 1, #LENT, 6 do
    if LENT[at] == ends then
      local left = 0
      for i = 1, 5 do
        LENT[at + i] = less(LENT[at + i], a[i])
        left = left + LENT[at + i]
      end
      if left == 0 then for _ = 1, 6 do remove(LENT, at) end end
      R = rules(S[2])
      return
    end
  end
end
local function draw(o)
  -- as a charge, and 14 where the lease ends
  give_back(o[14], {o[5], o[6], o[7], o[8], min(1, o[9])})
  return charge(o, o[14])
end
local function settle(o)
  -- 1-4 flow, 5-9 reserved, 10 taken at, 11 how (1 used, 0 unused), 12-15 used
  local taken = min(o[10], S[2])
  local done = {'S', 0, 0, 0, 0, 0, 0, 0, 0, 0}
  if S[2] - taken >= TTL then
    done[2] = 1
    return done
  end
  if o[9] > 0 then ended(taken, S[2], o[11] == 1) end
  for i = 1, 4 do
    if R[i] then
      local reserved, used = o[4 + i], o[11 + i]
      if reserved > used then done[2 + i] = give(M[i], R[i], div(taken, SLOT), reserved - used) end
      if used > reserved then
        take(M[i], R[i], used - reserved)
        done[6 + i] = used - reserved
      end
    end
  end
  set_price({P[1] > 0 and P[1] or nil, P[2] > 0 and P[2] or nil, P[3] > 0 and P[3] or nil, P[4] > 0 and P[4] or nil}, 0)
  local a, b = amounts{0, o[6], o[7], o[8]}, amounts{0, o[13], o[14], o[15]}
  local reserved, used = dominant(a[1], a[2], a[3], a[4]), dominant(b[1], b[2], b[3], b[4])
  S[7] = S[7] - ceil(S[7], 128) + reserved
  S[8] = S[8] - ceil(S[8], 128) + used
  local flow = account(o[1], o[2])
  if flow and queued > 0 then
    local W, more, fewer = weights(flow), less(used, reserved), less(reserved, used)
    flow.received = less(raised(flow.received, more), raised(0, fewer))
    local fin = less(flow.fin + (more > 0 and virtual(W, flow, more) or 0), fewer > 0 and virtual(W, flow, fewer) or 0)
    flow.fin = min(max(fin, less(S[5], 2 ^ 38)), S[5] + 2 ^ 40 - 2 ^ 38 - 1)
    touch(flow)
  end
  set_price(R.limits, mean())
  return done
end
-- Takes back a decision of which nobody heard; should it still be on its way, it will find the marker.
local function undo(o, done)
  local taken = done and done:match('^A,(%d+)')
  if taken then
    o[10], o[11], o[12], o[13], o[14], o[15] = tonumber(taken), 0, 0, 0, 0, 0
    settle(o)
  elseif done and done:sub(1, 1) == 'L' then
    local lease = numbers(done:sub(3))
    give_back(remove(lease, 1), lease)
  elseif done and done:sub(1, 1) == 'W' then
    local flow = home(o[1], o[2], o[10])
    if flow then cancel(flow, o[10]) end
  end
  return {'S'}
end
local function adopt(o)
  -- 1 resource, 2 remaining, 3 reset (negative: not told)
  local m, r = M[o[1]], R[o[1]]
  if r then
    local there = STRICT and window(m, r) or less(less(r.limit, div(m.missing, PERIOD)), r.lent)
    local excess = less(there, o[2])
    local reset = o[3]
    if reset < 0 or reset > 6e7 then
      take(m, r, excess)
    elseif excess > 0 then
      local least = less(r.capacity, o[2] * PERIOD)
      m.missing = max(m.missing, r.unpaced and min(least, r.rate * reset) or least)
      if STRICT and m.missing > 0 and m.missing <= least then
        m.from = min(max(m.from, S[2]) + div(excess * PERIOD, r.rate), S[2] + 2e6)
      end
      local evenly = excess * PERIOD <= r.limit * (reset + 2e6)
      local slot, freed = m.head + 1, 0
      while STRICT and freed < excess do
        local since, by_then = less(slot * SLOT, S[2]), excess
        if since < reset then
          by_then = evenly and div(excess * since, reset) or 0
        end
        add(m, slot - SLOTS, by_then - freed)
        slot, freed = slot + 1, by_then
      end
    end
  end
  return {'S'}
end
local function hex(bytes)
  return (bytes:gsub('.', function(char) return fmt('%02x', char:byte()) end))
end
local function learn(text)
  local old, new = text:match('^(%x*),(%x*)$')
  local present = hex(S[14])
  if old ~= present then return {'U', 0, present} end
  S[14] = new:gsub('%x%x', function(pair) return string.char(tonumber(pair, 16)) end)
  load_upstream(S[14])
  learned = true
  return {'U', 1, new}
end
-- Of each resource what is left and when all of it is; calls in flight, calls waiting, scale, pause, Jain's index.
local function standings()
  if not stepped then step() elseif learned then R = rules(S[2]) end
  local out = {'T', S[2]}
  for i = 1, 4 do
    if R[i] then
      insert(out, R.paused and 0 or available(M[i], R[i]))
      local m, r = later(M[i], R[i])
      local reset = until_served(R.opening, ceil(less(m.missing, r.unpaced and r.capacity - r.limit * PERIOD or 0), r.limit))
      if STRICT then
        if m.used > 0 then
          local leaves = 0
          for slot = m.head, m.head - SLOTS + 1, -1 do
            if held(m, slot) > 0 then
              leaves = less((slot + SLOTS) * SLOT, S[2])
              break
            end
          end
          reset = max(reset, leaves)
        end
      end
      insert(out, reset)
    else
      insert(out, 0)
      insert(out, 0)
    end
  end
  insert(out, less(SLOTCAP, total + R.lent))
  insert(out, total > 0 and mean() or 0)
  insert(out, total)
  insert(out, queued)
  insert(out, scale(S[2]))
  insert(out, R.paused and R.paused - S[2] or 0)
  local W, due, got, had = weights(), {}, {}, 0
  local entitled, sum, squares, count = 0, 0, 0, 0
  for index = 1, #F do
    local flow = F[index]
    if flow.n > 0 then
      local weight, among = flow.cw * flow.tw, W[flow.c]
      if among < flow.tw then among = flow.tw end
      local rest, received = weight % among, flow.received
      local product = rest * 1000000
      local part = (weight - rest) / among * 1000000 + (product - product % among) / among
      count = count + 1
      due[count], got[count], entitled, had = part, received, entitled + part, had + received
    end
  end
  for index = 1, count do
    local part, received = due[index] * 1000, got[index] * 1000
    part = (part - part % entitled) / entitled
    received = had > 0 and (received - received % had) / had * 1000 or 0
    if part < 1 then part = 1 end
    local ratio = min(1000000, (received - received % part) / part)
    sum, squares = sum + ratio, squares + ratio * ratio
  end
  insert(out, count > 1 and squares > 0 and min(1000, div(sum * sum * 1000, count * squares)) or 1000)
  insert(out, hex(S[14]))
  insert(out, P[9])
  return out
end
local function save()
  for i = 1, 4 do
    local m, at = M[i], 14 + 3 * i
    S[at], S[at + 1], S[at + 2], S[30][i] = m.missing, m.head, m.used, m.from
    if m.changed and m.used > 0 then call('HSET', KS, m.name, struct.pack(RING, unpack(m.ring))) end
  end
  S[15] = {}
  for at, count in pairs(inflight) do
    insert(S[15], at)
    insert(S[15], count)
  end
  for key, flow in pairs(dirty) do
    if flow.b then
      local back, prices, least, most, s2, s3, s4 = INF, 0, INF, 0, 0, 0, 0
      for _, b in ipairs(flow.b) do
        back, prices, least, most = min(back, b[10]), prices + b[3], min(least, b[4]), max(most, b[5])
        s2, s3, s4 = s2 + b[7], s3 + b[8], s4 + b[9]
      end
      flow.back, flow.prices, flow.least, flow.most, flow.s2, flow.s3, flow.s4 = back, prices, least, most, s2, s3, s4
      flow.flat, flow.stored = pack(passing(flow)), pack(flow.b)
    end
    call('HSET', KF, key, pack(flow.c, flow.t, flow.cw, flow.tw, flow.fin, flow.rate, flow.trust, flow.n, flow.asked, flow.received,
      flow.twins, flow.back, flow.prices, flow.least, flow.most, flow.s2, flow.s3, flow.s4, flow.flat,
      flow.stored))
  end
  local renews = fresh or S[2] - S[29] > 1e7
  if renews then S[29] = S[2] end
  call('HSET', KS, 's', pack(S))
  -- Only what is there can be told to expire.
  if renews then
    for _, key in ipairs{KS, KF, KB} do call('PEXPIRE', key, fmt('%.0f', div(TTL, 1000) + 120000)) end
  end
end

local unwell = load()
if unwell then return unwell end
for i = 1, 4 do M[i].name = i end
local answers = {}
for index = 3, #ARGV do
  local kind, o = ARGV[index]:sub(1, 1), ARGV[index]:sub(2)
  local marker = KEYS[index + 1]
  local done = marker and kind ~= 'h' and call('GET', marker)
  -- A charge follows a decision that was lost on its way: what that one took is not taken again.
  if not done or kind == 'z' or kind == 'c' and done:sub(1, 1) ~= 'A' then
    if not still then step() end
    if kind == 'u' then
      done = learn(o)
    elseif kind == 'h' then
      call('ZADD', marker, S[2], o)
      call('ZREMRANGEBYSCORE', marker, '-inf', S[2] - 1e7)
      call('PEXPIRE', marker, 60000)
      done = {'H', call('ZCARD', marker)}
    else
      o = numbers(o)
      if kind == 'a' then
        done = admit(o)
      elseif kind == 's' then
        done = settle(o)
      elseif kind == 'r' then
        done = adopt(o)
      elseif kind == 'l' then
        done = lend(o)
      elseif kind == 'd' then
        done = draw(o)
      elseif kind == 'g' then
        give_back(remove(o, 1), o)
        done = {'S'}
      elseif kind == 'z' then
        done = undo(o, done)
      else
        local flow = (kind == 'x' or done) and home(o[1], o[2], o[10])
        if flow then cancel(flow, o[10]) end
        done = kind == 'c' and charge(o) or {'S'}
      end
    end
    still = still and done[1] == 'W'
    done = line(done)
    if marker and kind ~= 'h' then call('SET', marker, done, 'PX', 120000) end
  end
  insert(answers, done)
end
insert(answers, line(standings()))
save()
return table.concat(answers, ';')
end)()
