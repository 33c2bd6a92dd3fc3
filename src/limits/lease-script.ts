/**
 * The scripts of leases in Redis: `policy/accounts/lease.ts` for counters in hashes. They use commands that Redis 6, Redis 7 and
 * Valkey have. A counter is a hash with its sum and a field for each process, of which a script reads its own, and a sorted set
 * of the processes by their last question. Both have the same hash tag; no two counters share one.
 *
 * A counter is that of the server process which began it: one that was started again, or a replica that has taken over, may have
 * it as it was earlier, and begins it from the ledger.
 */
import { createHash } from 'node:crypto'
import { LEASE_GRACE, LEASE_PAUSE, LEASE_SHORT } from '../policy/accounts/lease.ts'

export type RedisScript = { readonly text: string; readonly sha: string }

const CLOCK = `
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function server()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
end
`

/** ms after the last question for which a counter is certainly that of this server: to ask for its name costs as much as a question. */
const SAME_SERVER = 1_000

/**
 * KEYS: the counter, its processes. ARGV: process, boot, seq, id, kind, limit, refill, granted, used, held, need, want, lapse,
 * life, seed, how it is seeded (empty: not at all), leaves, a new ID, ms without grants, run, before, left; then the parts of
 * runs in the seed, two for each: run, spent.
 */
const LEASE = `${CLOCK}
local process, boot, seq, id, kind = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local limit, refill, granted = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local used, held, need, want = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])
local lapse, seeded, leaves = tonumber(ARGV[13]), ARGV[16], ARGV[17] == '1'
local spent, run, before, left = tonumber(ARGV[15]), ARGV[20], tonumber(ARGV[21]), ARGV[22]
local function text(amount) return string.format('%.17g', amount) end
local function entry(name)
  local value = redis.call('HGET', KEYS[1], 'p:' .. name)
  if not value then return nil end
  local b, s, g, u, h, d, t, r = string.match(value, '^(%S*) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  return {boot = tonumber(b), seq = tonumber(s), granted = tonumber(g), used = tonumber(u), held = tonumber(h),
    shift = tonumber(d), total = tonumber(t), run = r}
end
local function record()
  for n = 23, #ARGV, 2 do redis.call('HSET', KEYS[1], 'r:' .. ARGV[n], ARGV[n + 1]) end
end
local function partOf(name)
  for n = 23, #ARGV, 2 do if ARGV[n] == name then return tonumber(ARGV[n + 1]) end end
  return -1
end
local c = redis.call('HMGET', KEYS[1], 'id', 'sum', 'used', 'held', 'at', 'since', 'quiet', 'short', 'server')
if not c[1] or (now - c[5] > ${SAME_SERVER} and c[9] ~= server()) then
  if seeded == '' then return {'unseeded'} end
  redis.call('DEL', KEYS[1], KEYS[2])
  redis.call('HSET', KEYS[1], 'server', server())
  c = {ARGV[18], spent, spent, 0, now, now, now + tonumber(ARGV[19]), 0}
  record()
  seeded = ''
end
if id ~= '' and id ~= c[1] then return {'unseeded'} end
local sum, all, reserved, at, since = tonumber(c[2]), tonumber(c[3]), tonumber(c[4]), tonumber(c[5]), tonumber(c[6])
local quiet, short = tonumber(c[7]), tonumber(c[8])
local function takeBack(name, one)
  local charged = kind == 'budget' and one.held or 0
  sum = sum - (one.granted - one.used - charged)
  all = all + charged
  reserved = reserved - one.held
  redis.call('HDEL', KEYS[1], 'p:' .. name)
  redis.call('ZREM', KEYS[2], name)
end
local own = entry(process)
if own and (own.boot > boot or own.boot == boot and seq <= own.seq) then return {'stale', text(own.boot)} end
if id ~= '' and not (own and own.boot == boot) then return {'lapsed', redis.call('HGET', KEYS[1], 'r:' .. run) or ''} end
if own and own.boot ~= boot then
  if kind == 'budget' and seeded == '' then return {'restarted'} end
  takeBack(process, own)
  local part = partOf(own.run)
  if part >= 0 then
    local missing = math.max(0, part - own.total) - own.held
    sum, all = sum + missing, all + missing
  end
  own = nil
end
local shift = own and own.shift or 0
if not own and kind == 'budget' then
  shift = tonumber(redis.call('HGET', KEYS[1], 'r:' .. run) or (left == c[1] and before or 0)) - before
end
redis.call('HDEL', KEYS[1], 'r:' .. run)
local stated, total = id == '' and shift or 0, before + used
granted, used = granted - stated, used - stated
local back = math.min(math.max(0, all), math.max(0, now - at) * refill)
all, sum = all - back, sum - back
if now - at > ${LEASE_PAUSE} then since = now end
at = math.max(at, now)
if seeded == 'raise' or seeded == 'add' then
  local missing = seeded == 'add' and spent or math.max(0, spent - all)
  sum, all = sum + missing, all + missing
  if seeded == 'add' then record() end
  quiet = math.max(quiet, now + tonumber(ARGV[19]))
end
sum = sum + granted - (own and own.granted or 0)
all = all + used - (own and own.used or 0)
reserved = reserved + held - (own and own.held or 0)
local gone = false
if now - since >= math.min(lapse, ${LEASE_GRACE}) then
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. text(now - lapse), 'LIMIT', 0, 20)) do
    local one = entry(name)
    if not one then redis.call('ZREM', KEYS[2], name)
    elseif name ~= process and kind == 'budget' and seeded ~= 'gone' then gone = true
    elseif name ~= process then
      takeBack(name, one)
      if kind == 'budget' then
        local charged = math.max(one.total + one.held, partOf(one.run))
        sum, all = sum + charged - one.total - one.held, all + charged - one.total - one.held
        redis.call('HSET', KEYS[1], 'r:' .. one.run, text(charged))
      end
    end
  end
end
local users = math.max(1, redis.call('ZCARD', KEYS[2]) + (own and 0 or 1))
local free, room = math.max(0, granted - used - held), math.max(0, limit - sum)
local share = math.floor((room + free) / (2 * users))
local wanted = now < short and 0 or math.min(want, share)
local more = (leaves or now < quiet) and 0 or math.min(room, math.max(0, need, wanted - free))
sum = sum + more
if more < need then short = now + ${LEASE_SHORT} end
redis.call('HSET', KEYS[1], 'id', c[1], 'sum', text(sum), 'used', text(all), 'held', text(reserved), 'at', text(at), 'since', text(since), 'quiet', text(quiet),
  'short', text(short))
if leaves then
  redis.call('HDEL', KEYS[1], 'p:' .. process)
  redis.call('ZREM', KEYS[2], process)
else
  local value = text(boot) .. ' ' .. text(seq) .. ' ' .. text(granted + more) .. ' ' .. text(used) .. ' ' .. text(held)
    .. ' ' .. text(shift) .. ' ' .. text(total) .. ' ' .. run
  redis.call('HSET', KEYS[1], 'p:' .. process, value)
  redis.call('ZADD', KEYS[2], now, process)
end
redis.call('PEXPIRE', KEYS[1], ARGV[14])
redis.call('PEXPIRE', KEYS[2], ARGV[14])
return {'ok', c[1], text(more), text(sum), text(all), text(reserved), text(users), now < short and '1' or '0', text(stated),
  gone and '1' or '0'}
`

/** KEYS: the processes, the epoch. ARGV: process, a new epoch, ms after which a process is gone. A sign of life. */
const BEAT = `${CLOCK}
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. string.format('%.0f', now - ARGV[3]))
redis.call('SETNX', KEYS[2], ARGV[2])
return {redis.call('GET', KEYS[2]) .. ' ' .. server(), string.format('%.0f', redis.call('ZCARD', KEYS[1]))}
`

const script = (text: string): RedisScript => ({ text, sha: createHash('sha1').update(text).digest('hex') })

export const SCRIPTS = { lease: script(LEASE), beat: script(BEAT) } as const
