/**
 * The scripts that count limits and budgets in Redis. They decide as `policy/accounts/attempt-admission.ts` does, over the counters
 * of all processes together. Times are those of Redis, in ms; amounts are whole nano-dollars.
 *
 * A slot is a hash with the requests in progress of each process. A rate is a hash with a token bucket. A budget is a hash
 * with what each process has reserved (`h:PROCESS`) and what each node has spent (`u:NODE`). `KEYS[1]` is the set of
 * processes, `ARGV[1]` the process and `ARGV[2]` its node. A process that is not in the set, or has not sent a beat for 15 s,
 * counts no more: its fields are removed by the next script that reads them, and its own scripts answer `unknown`.
 */
import { createHash } from 'node:crypto'

export type CounterScript = { readonly text: string; readonly sha: string }

const CLOCK = `
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local process, node = ARGV[1], ARGV[2]
`

const MEMBER = `${CLOCK}
local beat = redis.call('ZSCORE', KEYS[1], process)
if not beat or tonumber(beat) < now - 15000 then return {'unknown'} end
`

const COUNTERS = `${MEMBER}
local alive, cursor = {}, 3
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], now - 15000, '+inf')) do alive[name] = true end

local function whole(amount) return string.format('%.0f', amount) end
local function exact(amount) return string.format('%.17g', amount) end
local function argument()
  cursor = cursor + 1
  return ARGV[cursor - 1]
end
local function number() return tonumber(argument()) end

-- Requests in progress of all processes.
local function requests(key)
  local fields, sum = redis.call('HGETALL', key), 0
  for at = 1, #fields, 2 do
    if alive[fields[at]] then sum = sum + fields[at + 1] else redis.call('HDEL', key, fields[at]) end
  end
  return sum
end

-- The level of a bucket. A bucket that is not there has the level that the process knows.
local function level(key, limit, known)
  local bucket = redis.call('HMGET', key, 'level', 'at', 'limit')
  if not bucket[1] then return known, now end
  local earlier, at = tonumber(bucket[3]), tonumber(bucket[2])
  local found = math.min(earlier, tonumber(bucket[1]) + math.max(0, now - at) * earlier / 60000)
  if earlier ~= limit then found = limit - (earlier - found) end
  return found, math.max(at, now)
end
local function fill(key, limit, found, at)
  redis.call('HSET', key, 'level', exact(math.min(limit, found)), 'at', whole(at), 'limit', exact(limit))
  local minutes = limit > 0 and math.max(2, 1 + (limit - found) / limit) or 2
  redis.call('PEXPIRE', key, whole(math.min(minutes, 1440) * 60000))
end

-- What a budget has spent and reserved, what this node has spent, and what this process has reserved.
local function figures(key)
  local fields, used, held, own, reserved = redis.call('HGETALL', key), 0, 0, nil, 0
  for at = 1, #fields, 2 do
    local kind, name, amount = string.sub(fields[at], 1, 2), string.sub(fields[at], 3), tonumber(fields[at + 1])
    if kind == 'u:' then
      used = used + amount
      if name == node then own = amount end
    elseif alive[name] then
      held = held + amount
      if name == process then reserved = amount end
    else redis.call('HDEL', key, fields[at]) end
  end
  return used, held, own, reserved
end
-- Raises what this node has spent to what it knows.
local function raise(key, spent, life, own)
  -- A process that knows of nothing has not read its ledger, where resets may have made the field negative.
  if spent == 0 or own and own >= spent then return 0 end
  redis.call('HSET', key, 'u:' .. node, whole(spent))
  redis.call('PEXPIRE', key, life)
  return spent - (own or 0)
end
local function hold(key, amount, life)
  local field = 'h:' .. process
  local held = math.max(0, tonumber(redis.call('HGET', key, field) or '0') + amount)
  if held == 0 then redis.call('HDEL', key, field) else
    redis.call('HSET', key, field, whole(held))
    redis.call('PEXPIRE', key, life)
  end
end
`

/** Time in ms for which a slot is kept without a request or `keep`. */
export const SLOT_LIFE = 300_000

/**
 * KEYS: slots, rates, budgets. Takes from every counter, or from none; `check`: from none. Returns `yes` or `no`, and the
 * values of the counters: of a budget what all have spent and reserved, and what others have.
 */
const RESERVE = `${COUNTERS}
local check, first, tokens, cost = argument() == 'check', argument() == '1', number(), number()
local slots, rates, budgets = number(), number(), number()
local room, reply, taken = true, {'no'}, {}
for at = 2, 1 + slots do
  local limit, live = number(), requests(KEYS[at])
  if first and live >= limit then room = false end
  taken[at] = {live}
end
for at = 2 + slots, 1 + slots + rates do
  local unit, limit, known = argument(), number(), number()
  local amount = unit == 'tokens' and tokens or first and 1 or 0
  local found, when = level(KEYS[at], limit, known)
  if amount > 0 and not (limit > 0 and found >= math.min(amount, limit)) then room = false end
  taken[at] = {found, amount, limit, when}
end
for at = 2 + slots + rates, 1 + slots + rates + budgets do
  local hard, granted, life, spent, others = argument() == 'hard', number(), argument(), number(), number()
  local used, held, own, reserved = figures(KEYS[at])
  used = used + raise(KEYS[at], spent, life, own)
  -- After a flush, other processes may not have stored again what they have spent and reserved.
  used = used + math.max(0, others - (used + held - reserved - math.max(spent, own or spent)))
  if hard and used + held + cost > granted then room = false end
  taken[at] = {used, held, life, own and math.max(own, spent) or spent, reserved}
end
local takes = room and not check
if room then reply[1] = 'yes' end
for at = 2, 1 + slots do
  local live = taken[at][1]
  if takes and first then
    live = live + 1
    redis.call('HINCRBY', KEYS[at], process, 1)
    redis.call('PEXPIRE', KEYS[at], ${SLOT_LIFE})
  end
  reply[#reply + 1] = whole(live)
end
for at = 2 + slots, 1 + slots + rates do
  local found, amount, limit, when = unpack(taken[at])
  if takes and amount ~= 0 then
    found = found - amount
    fill(KEYS[at], limit, found, when)
  end
  reply[#reply + 1] = exact(found)
end
for at = 2 + slots + rates, 1 + slots + rates + budgets do
  local used, held, life, own, reserved = unpack(taken[at])
  if takes and cost > 0 then
    held, reserved = held + cost, reserved + cost
    hold(KEYS[at], cost, life)
  end
  for _, amount in ipairs({used, held, used - own, held - reserved}) do reply[#reply + 1] = whole(amount) end
end
return reply
`

/** KEYS: rates of tokens, budgets. Replaces a reservation by its charge. */
const SETTLE = `${COUNTERS}
local tokens, held, charge, rates, budgets = number(), number(), number(), number(), number()
for at = 2, 1 + rates do
  local limit, known = number(), number()
  local found, when = level(KEYS[at], limit, known)
  fill(KEYS[at], limit, found - tokens, when)
end
for at = 2 + rates, 1 + rates + budgets do
  local life, spent, field = argument(), number(), 'u:' .. node
  if held ~= 0 then hold(KEYS[at], -held, life) end
  local own = redis.call('HGET', KEYS[at], field)
  redis.call('HSET', KEYS[at], field, whole(own and math.max(tonumber(own) + charge, spent) or spent))
  redis.call('PEXPIRE', KEYS[at], life)
end
return {'ok'}
`

/** KEYS: slots. A request has ended. */
const RELEASE = `${MEMBER}
for at = 2, #KEYS do
  if redis.call('HINCRBY', KEYS[at], process, -1) <= 0 then redis.call('HDEL', KEYS[at], process) end
end
return {'ok'}
`

/** KEYS: a budget. Corrects what this node has spent. */
const ADJUST = `${COUNTERS}
local amount, life, spent, field = number(), argument(), number(), 'u:' .. node
local own = redis.call('HGET', KEYS[2], field)
redis.call('HSET', KEYS[2], field, whole(own and tonumber(own) + amount or spent))
redis.call('PEXPIRE', KEYS[2], life)
return {'ok'}
`

/** KEYS: slots, rates, budgets. Sets what this process has in progress, and adds what it has used while it was alone. */
const RESTORE = `${COUNTERS}
local slots, rates, budgets = number(), number(), number()
for at = 2, 1 + slots do
  redis.call('HSET', KEYS[at], process, argument())
  redis.call('PEXPIRE', KEYS[at], ${SLOT_LIFE})
end
for at = 2 + slots, 1 + slots + rates do
  local limit, known, used = number(), number(), number()
  local found, when = level(KEYS[at], limit, known)
  fill(KEYS[at], limit, found - used, when)
end
for at = 2 + slots + rates, 1 + slots + rates + budgets do
  local life, spent, held = argument(), number(), number()
  local _, _, own = figures(KEYS[at])
  raise(KEYS[at], spent, life, own)
  if held > 0 then hold(KEYS[at], held, life) end
end
return {'ok'}
`

/** KEYS: budgets. Sets what other nodes have spent, if it is not known. */
const ADOPT = `${MEMBER}
for at = 2, #KEYS do
  local life, name, spent = ARGV[3 * at - 3], ARGV[3 * at - 2], ARGV[3 * at - 1]
  if redis.call('HSETNX', KEYS[at], 'u:' .. name, spent) == 1 then redis.call('PEXPIRE', KEYS[at], life) end
end
return {'ok'}
`

/** KEYS: budgets. What others have spent and reserved, one after the other. */
const FIGURES = `${COUNTERS}
local reply = {'ok'}
for at = 2, #KEYS do
  local used, held, own, reserved = figures(KEYS[at])
  reply[#reply + 1] = whole(used - (own or 0))
  reply[#reply + 1] = whole(held - reserved)
end
return reply
`

/** KEYS: sets of owners. Returns the owners of each, separated by spaces. */
const OWNERS = `${MEMBER}
local reply = {'ok'}
for at = 2, #KEYS do
  local owners = redis.call('SMEMBERS', KEYS[at])
  reply[#reply + 1] = table.concat(owners, ' ', 1, math.min(#owners, 10000))
end
return reply
`
/** KEYS: a set of owners. ARGV: ms that it is kept, and new owners. */
const OWNED = `${MEMBER}
for at = 4, #ARGV do redis.call('SADD', KEYS[2], ARGV[at]) end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return {'ok'}
`

/** KEYS: slots with requests in progress, which last longer than their keys. */
const KEEP = `${MEMBER}
for at = 2, #KEYS do redis.call('PEXPIRE', KEYS[at], ${SLOT_LIFE}) end
return {'ok'}
`

const PEERS = `
local reply = redis.call('ZRANGEBYSCORE', KEYS[1], now - 15000, '+inf')
table.insert(reply, 1, 'ok')
return reply
`

/** Adds the process, and removes the names (`ARGV[3]` and later) that it had before. Returns all processes. */
const JOIN = `${CLOCK}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. (now - 15000))
for at = 3, #ARGV do redis.call('ZREM', KEYS[1], ARGV[at]) end
redis.call('ZADD', KEYS[1], now, process)
redis.call('PEXPIRE', KEYS[1], 3600000)
${PEERS}`

/** Returns all processes. */
const BEAT = `${MEMBER}
redis.call('ZADD', KEYS[1], now, process)
redis.call('PEXPIRE', KEYS[1], 3600000)
${PEERS}`

const LEAVE = `
redis.call('ZREM', KEYS[1], ARGV[1])
return {'ok'}
`

const script = (text: string): CounterScript => ({ text, sha: createHash('sha1').update(text).digest('hex') })

export const SCRIPTS = {
  join: script(JOIN),
  beat: script(BEAT),
  leave: script(LEAVE),
  reserve: script(RESERVE),
  settle: script(SETTLE),
  release: script(RELEASE),
  adjust: script(ADJUST),
  restore: script(RESTORE),
  adopt: script(ADOPT),
  figures: script(FIGURES),
  owners: script(OWNERS),
  owned: script(OWNED),
  keep: script(KEEP),
} as const
