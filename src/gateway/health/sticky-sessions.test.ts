/**
 * 10,000 sessions against vendors that cache prompts: how much of their input is read from caches, beside an oracle that sees all
 * caches. The vendors drop what is not used for their time, refuse during outages, and report reads and writes as they do.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type PromptCache, promptCacheOf } from '../../core/prompt-cache.ts'
import type { Instance, ProviderKey } from '../../core/provider.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import { orderCandidates, orderKeys } from '../../policy/routing/order.ts'
import { cachedFor, conversationName, sessionRandom, stickyPlan } from '../../policy/routing/stickiness.ts'
import { StickyTargets } from './sticky-targets.ts'

/** `statesWrites`: as Anthropic's usage does; OpenAI's states reads only. */
type Vendor = { readonly id: string; readonly weight: number; readonly idle: number; readonly statesWrites: boolean }

const VENDORS: readonly Vendor[] = [
  { id: 'anthropic', weight: 6, idle: 300_000, statesWrites: true },
  { id: 'bedrock', weight: 3, idle: 300_000, statesWrites: true },
  { id: 'openai', weight: 1, idle: 600_000, statesWrites: false },
]
const KEYS = ['k1', 'k2', 'k3'].map((id) => ({ id, weight: 1 }) as ProviderKey)

const ruleOf = (idle: number): PromptCache => ({
  least: 1_024,
  life: { sure: idle, most: idle },
  from: 'answer',
  automatic: false,
  owner: 'unknown',
  source: '',
  read: '',
})

const candidates = VENDORS.map(({ id, weight, idle }): Candidate => {
  const provider = { name: id, title: id, order: 0, speaks: [], auth: 'none', promptCache: [ruleOf(idle)] } as const
  const instance: Instance = {
    id,
    provider,
    baseUrl: `http://${id}`,
    keys: KEYS,
    models: [],
    speaks: [],
    variables: {},
  }
  return { instance, model: 'm', because: '', weight }
})
const vendorOf = ({ instance }: Candidate): Vendor => {
  const found = VENDORS.find(({ id }) => id === instance.id)
  assert(found)
  return found
}

/** The same numbers each time. */
const chance = sessionRandom('seed of the simulation')

/** Each vendor is away for some minutes of each hour, at its own times. */
const isAway = ({ id }: Vendor, at: number): boolean => (at + id.length * 700_000) % 3_600_000 < 240_000

/** The prompts that one session has in caches: the length of the prefix, and when it was last used. */
type Caches = Map<string, { readonly tokens: number; readonly at: number }>

const read = (caches: Caches, { id, idle }: Vendor, key: string, at: number): number => {
  const found = caches.get(`${id} ${key}`)
  return found && at - found.at < idle ? found.tokens : 0
}

type Turn = { readonly at: number; readonly tokens: number }

const turnsOf = (): readonly Turn[] => {
  const turns: Turn[] = []
  let [at, tokens] = [chance() * 3_600_000, 2_000 + chance() * 20_000]
  for (let left = 2 + Math.floor(chance() * 20); left > 0; left--) {
    turns.push({ at, tokens })
    // Agents go on within seconds, and people take their time.
    at += chance() < 0.8 ? 2_000 + chance() * 30_000 : chance() * 420_000
    tokens += 200 + chance() * 3_000
  }
  return turns
}

/** The target of a turn that the policy chooses: the first that is not away. */
type Choose = (session: string, turn: Turn, caches: Caches) => readonly [Candidate, string]

const simulate = (sessions: readonly (readonly Turn[])[], choose: Choose, note: Note = () => {}) => {
  let [all, cached] = [0, 0]
  for (const [n, turns] of sessions.entries()) {
    const caches: Caches = new Map()
    for (const turn of turns) {
      const [candidate, key] = choose(`ses_${n}`, turn, caches)
      const vendor = vendorOf(candidate)
      const cacheRead = read(caches, vendor, key, turn.at)
      caches.set(`${vendor.id} ${key}`, { tokens: turn.tokens, at: turn.at })
      all += turn.tokens
      cached += cacheRead
      const cacheWrite = vendor.statesWrites ? turn.tokens - cacheRead : 0
      note(`ses_${n}`, { candidate, key, at: turn.at, usage: { cacheRead, cacheWrite } })
    }
  }
  return cached / all
}
type Note = (
  session: string,
  answer: {
    readonly candidate: Candidate
    readonly key: string
    readonly at: number
    readonly usage: { readonly cacheRead: number; readonly cacheWrite: number }
  },
) => void

const view = { latency: () => 0, price: () => 0 }
const keyView = { inFlight: () => 0, totalInFlight: () => 0, quotaLeft: () => undefined, requestNumber: 0 }
const available = (turn: Turn) => (one: Candidate) => !isAway(vendorOf(one), turn.at)

/** The gateway's policy: weights drawn by session, and the remembered target first. */
const sticky = (sessions: readonly (readonly Turn[])[], stickiness: NonNullable<Plan['stickiness']>) => {
  let now = 0
  const targets = new StickyTargets(
    () => now,
    () => {},
  )
  const name = (session: string) => conversationName('client', session, 'm')
  const choose: Choose = (session, turn) => {
    now = turn.at
    const draw = stickiness === 'off' ? chance : sessionRandom(session)
    const plan: Plan = {
      by: 'route',
      candidates: orderCandidates(candidates, 'weighted', view, draw),
      skipped: [],
      stickiness,
    }
    const remembered = stickiness === 'off' ? null : targets.of(name(session))
    const made = remembered ? stickyPlan(plan, remembered) : plan
    const candidate = made.candidates.find(available(turn)) ?? made.candidates[0]
    assert(candidate)
    const key = made.sticky?.candidate === candidate ? made.sticky.key : firstKey()
    return [candidate, key]
  }
  return simulate(sessions, choose, (session, { candidate, key, at, usage }) => {
    now = at
    const ms = cachedFor(usage, promptCacheOf(candidate.instance.provider, candidate.model))
    if (ms > 0) targets.note(name(session), { instance: candidate.instance.id, key, model: 'm' }, ms)
  })
}

const firstKey = (): string => {
  for (const { id } of orderKeys(KEYS, 'spread', keyView, chance)) return id
  return ''
}

/** Knows what every cache has, and takes the target that has most. */
const oracle: Choose = (session, turn, caches) => {
  const open = orderCandidates(candidates, 'weighted', view, sessionRandom(session)).filter(available(turn))
  let best: readonly [Candidate, string, number] | undefined
  for (const one of open)
    for (const { id } of KEYS) {
      const tokens = read(caches, vendorOf(one), id, turn.at)
      if (!best || tokens > best[2]) best = [one, id, tokens]
    }
  const [candidate, key] = best ?? [candidates[0], 'k1']
  assert(candidate)
  return [candidate, key]
}

test('sticky sessions: of 10,000 sessions with outages and weights, the cached share is at least 95 % of what an oracle reaches', (t) => {
  const sessions = Array.from({ length: 10_000 }, turnsOf)
  const [best, made, keys, none] = [
    simulate(sessions, oracle),
    sticky(sessions, 'provider'),
    sticky(sessions, 'key'),
    sticky(sessions, 'off'),
  ]
  const percent = (share: number) => `${(100 * share).toFixed(1)} %`
  t.diagnostic(`oracle ${percent(best)}, provider ${percent(made)}, key ${percent(keys)}, off ${percent(none)}`)
  assert(made >= 0.95 * best, `${percent(made)} of ${percent(best)}`)
  assert(none < 0.5 * best, `without stickiness ${percent(none)}`)
})
