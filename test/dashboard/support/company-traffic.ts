/**
 * A week of requests of the company, in the order of their arrival. A function of its arguments: the same seed and time give the
 * same requests.
 */
import { type BilledTokens, NO_TOKENS, type RequestOutcome } from '../../../src/core/journal.ts'
import { between, type Chance, drawing, fork, integer, logNormal, pick } from '../../../tools/sim/chance.ts'
import {
  KEY_KINDS,
  KEYS,
  LIMITED,
  PRICES,
  ROUTES,
  type RouteName,
  SPENT,
  splitTarget,
  TARGETS,
  type TargetName,
  TEAMS,
  TRIAL_SHARE,
} from './company-teams.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
/** Days of requests. */
export const DAYS = 7

export type MadeAttempt = {
  readonly target: TargetName
  /** ms after the request was received. */
  readonly from: number
  readonly ms: number
  readonly firstMs: number | null
  readonly outcome: 'ok' | 'failed' | 'interrupted' | 'client_gone'
  readonly kind: string | null
  readonly status: number | null
  readonly message: string | null
  readonly tokens: BilledTokens
  /** Nano-dollars; null: no price is known. */
  readonly nano: number | null
}

export type MadeRequest = {
  readonly id: string
  readonly at: number
  /** The name of the key; null: the request has no valid key. */
  readonly key: string | null
  readonly team: string | null
  readonly route: RouteName | null
  /** The model as the client named it. */
  readonly asked: string
  readonly client: string
  readonly style: string
  readonly stream: boolean
  readonly endUser: string | null
  readonly session: string | null
  readonly attempts: readonly MadeAttempt[]
  /** Targets that were skipped because their circuit was open. */
  readonly skipped: readonly TargetName[]
  readonly outcome: RequestOutcome
  readonly status: number
  readonly code: string | null
  readonly message: string | null
  /** The answer was in the response cache, from this target. */
  readonly cached: TargetName | null
  readonly saved: number
}

/** An outage as the gateway would have recorded it. */
export type MadeOutage = {
  readonly provider: 'groq' | 'openai'
  readonly model: string
  readonly begin: number
  readonly end: number
  readonly cause: string
  readonly failures: number
  readonly rerouted: number
  readonly lost: number
  /** The request that had the first failure. */
  readonly request: string
}

export type CompanyTraffic = { readonly requests: readonly MadeRequest[]; readonly outages: readonly MadeOutage[] }

/** Nano-dollars of tokens at a target; null: no price is known. */
export const costOf = (target: TargetName, { input, cacheRead, output }: BilledTokens): number | null => {
  const price = PRICES[target]
  if (price === null) return null
  const [fresh, cached, out] = price
  return Math.round(((input - cacheRead) * fresh + cacheRead * cached + output * out) * 1_000)
}

/** Letters of an identifier. */
const letters = (chance: Chance, count: number): string =>
  Array.from({ length: count }, () => String.fromCharCode(97 + integer(chance, 0, 25))).join('')

// ── Who asks for what ─────────────────────────────────────────────────────────────────────────────────────────────────

const drawTeam = drawing(TEAMS.map((team, at) => [team, 1 / (at + 1) ** 0.75] as const))
const drawKey = drawing(KEY_KINDS.map((kind) => [kind, KEYS[kind]] as const))

type Use = { readonly asked: string; readonly client: string; readonly style: string; readonly tokens: number }
/** How a team of this kind uses models, by the beginning of its name. */
const USES: readonly (readonly [start: string, draw: (chance: Chance) => Use])[] = (
  [
    [
      'data-science',
      [
        ['claude-opus-4-5', 'python', 'messages', 9_000, 5],
        ['smart', 'python', 'chat', 6_000, 5],
      ],
    ],
    [
      'research',
      [
        ['agent', 'langchain', 'chat', 14_000, 6],
        ['gpt-5', 'openai-sdk', 'responses', 8_000, 3],
        ['house/qwen3-coder', 'python', 'chat', 3_000, 1],
      ],
    ],
    [
      'developer',
      [
        ['claude-sonnet-4-5', 'claude-code', 'messages', 24_000, 7],
        ['agent', 'claude-code', 'messages', 18_000, 3],
      ],
    ],
    [
      'search',
      [
        ['embed', 'openai-sdk', 'embeddings', 2_500, 6],
        ['fast', 'openai-sdk', 'chat', 900, 4],
      ],
    ],
    [
      'customer',
      [
        ['fast', 'ai-sdk', 'chat', 2_200, 6],
        ['smart', 'ai-sdk', 'chat', 3_400, 3],
        ['bulk', 'node', 'chat', 1_500, 1],
      ],
    ],
    ['translation', [['bulk', 'node', 'chat', 1_800, 10]]],
    [
      '',
      [
        ['fast', 'openai-sdk', 'chat', 1_400, 4],
        ['trial', 'openai-sdk', 'chat', 2_000, 3],
        ['bulk', 'python', 'chat', 1_600, 2],
        ['smart', 'anthropic-sdk', 'messages', 3_000, 1],
      ],
    ],
  ] as const
).map(([start, rows]) => [
  start,
  drawing(rows.map(([asked, client, style, tokens, weight]) => [{ asked, client, style, tokens }, weight] as const)),
])

/** The hours of the week in which people work, in UTC. */
const hourWeight = (at: number): number => {
  const date = new Date(at)
  const hour = date.getUTCHours()
  const byHour = hour < 6 ? 0.25 : hour < 8 ? 0.6 : hour < 18 ? 1.3 : hour < 22 ? 0.6 : 0.35
  return byHour * (date.getUTCDay() % 6 === 0 ? 0.4 : 1)
}

/** Quarters of an hour with their requests. */
const arrivals = (chance: Chance, now: number, count: number): readonly number[] => {
  const slots = Array.from({ length: DAYS * 24 * 4 }, (_, at) => now - DAYS * DAY + (at * HOUR) / 4)
  const total = slots.reduce((sum, slot) => sum + hourWeight(slot), 0)
  return slots.flatMap((slot) => {
    const size = Math.floor((hourWeight(slot) * count) / total + chance())
    return Array.from({ length: size }, () => slot + Math.floor((chance() * HOUR) / 4)).sort((a, b) => a - b)
  })
}

// ── Attempts ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const FAILURES = {
  overloaded: [503, 'The service is down for maintenance (cluster eu-2).'],
  rate_limited: [429, 'Rate limit reached for requests per minute.'],
  timeout: [504, 'No first byte within 30000 ms.'],
  status: [500, 'The server had an error while processing your request.'],
} as const
type Kind = keyof typeof FAILURES

const SPEED: Readonly<Record<string, number>> = { groq: 90, openai: 420, anthropic: 610, house: 240 }

type Asker = { readonly chance: Chance; readonly tokens: number; readonly style: string }

const failed = ({ chance }: Asker, target: TargetName, kind: Kind, from: number): MadeAttempt => {
  const [status, message] = FAILURES[kind]
  const ms = kind === 'timeout' ? 30_000 : integer(chance, 12, 400)
  const nothing = { firstMs: null, tokens: NO_TOKENS, nano: 0 }
  return { target, from, ms, outcome: 'failed', kind, status: kind === 'timeout' ? null : status, message, ...nothing }
}

const answered = ({ chance, tokens, style }: Asker, target: TargetName, from: number): MadeAttempt => {
  const [provider] = splitTarget(target)
  const input = Math.max(20, Math.round(logNormal(chance, tokens, 0.7)))
  const output = style === 'embeddings' ? 0 : Math.max(5, Math.round(logNormal(chance, 260, 0.8)))
  const isCached = provider === 'anthropic' && tokens > 5_000 && chance() < 0.7
  const billed = { ...NO_TOKENS, input, output, cacheRead: isCached ? Math.floor(input * 0.8) : 0 }
  const firstMs = Math.round(logNormal(chance, SPEED[provider] ?? 300, 0.4))
  const ms = firstMs + Math.round((output * 1_000) / between(chance, 50, 140))
  const nano = costOf(target, billed)
  return { target, from, ms, firstMs, outcome: 'ok', kind: null, status: 200, message: null, tokens: billed, nano }
}

/** The targets of a name, in the order of this request. */
const planOf = (asked: string, { chance, tokens }: Asker): readonly TargetName[] => {
  switch (asked) {
    case 'fast':
    case 'smart':
    case 'bulk':
    case 'embed':
      return ROUTES[asked]
    case 'trial':
      return chance() * 100 < TRIAL_SHARE ? ROUTES.trial : [ROUTES.trial[1], ROUTES.trial[0]]
    case 'agent':
      return tokens < 16_000 && chance() < 0.6 ? ROUTES.agent : ROUTES.agent.slice(1)
    default:
      return TARGETS.filter((target) => target === asked || splitTarget(target)[1] === asked)
  }
}

const isRoute = (name: string): name is RouteName => Object.hasOwn(ROUTES, name)

// ── Requests ──────────────────────────────────────────────────────────────────────────────────────────────────────────

type Draft = Pick<MadeRequest, 'at' | 'key' | 'team' | 'asked' | 'client' | 'style' | 'session' | 'endUser'>
type Result = Partial<Omit<MadeRequest, keyof Draft>>

const finished = (chance: Chance, draft: Draft, result: Result): MadeRequest => ({
  id: `req_${letters(chance, 20)}`,
  route: isRoute(draft.asked) ? draft.asked : null,
  stream: draft.style !== 'embeddings' && chance() < 0.7,
  ...{ attempts: [], skipped: [], outcome: 'answered', status: 200, code: null, message: null, cached: null, saved: 0 },
  ...draft,
  ...result,
})

const refusal = (status: number, code: string, message: string): Result => ({
  ...{ outcome: 'refused', status, code, message },
})
const REFUSALS = {
  401: refusal(401, 'invalid_api_key', 'POST /v1/chat/completions: The API key is not known here.'),
  402: refusal(402, 'budget_exceeded', 'The budget of this request for the month is spent.'),
  404: refusal(404, 'model_not_found', 'The model "gpt-5o" is not known here. GET /v1/models lists the known names.'),
  429: refusal(429, 'rate_limit_exceeded', 'This key or team has reached its limit of requests per minute.'),
} as const

/** A request that nothing prevents: it is answered, sometimes by the cache or after a failure. */
const usual = (draft: Draft, asker: Asker): Result => {
  const { chance } = asker
  const [first, ...others] = planOf(draft.asked, asker)
  if (first === undefined) return REFUSALS[404]
  const luck = chance()
  const [next] = others
  if (draft.asked === 'bulk' && luck < 0.3) {
    const { nano } = answered(asker, first, 0)
    return { cached: first, saved: nano ?? 0 }
  }
  if (luck > 0.985 && next !== undefined) {
    const kind = pick<Kind>(chance, ['rate_limited', 'rate_limited', 'timeout', 'status'])
    const lost = failed(asker, first, kind, 1)
    return { attempts: [lost, answered(asker, next, lost.ms + 2)] }
  }
  if (luck > 0.982) {
    const lost = failed(asker, first, 'status', 1)
    const { message } = lost
    return { attempts: [lost], outcome: 'refused', status: 502, code: 'status', message }
  }
  const whole = answered(asker, first, 1)
  if (luck > 0.972)
    return {
      attempts: [{ ...whole, outcome: 'client_gone', kind: 'client_gone', ms: Math.ceil(whole.ms / 2) }],
      ...{ outcome: 'client_gone', status: 499, code: 'client_gone', message: 'The client has left.' },
    }
  if (luck > 0.969)
    return {
      attempts: [{ ...whole, outcome: 'interrupted', kind: 'truncated', message: 'The answer ended early.' }],
      ...{ outcome: 'interrupted', code: 'truncated', message: 'The answer ended early.' },
    }
  return { attempts: [whole] }
}

const draftOf = (chance: Chance, at: number, team: string = drawTeam(chance)): readonly [Draft, Asker] => {
  const key = `${team}-${drawKey(chance)}`
  const [, draw] = USES.find(([start]) => team.startsWith(start)) ?? []
  if (!draw) throw new Error(`no use for ${team}`)
  const { tokens, ...use } = draw(chance)
  const endUser = team.startsWith('customer-') ? `customer-${String(integer(chance, 1, 60)).padStart(4, '0')}` : null
  const session = use.client === 'claude-code' ? `${key}-${Math.floor(at / (2 * HOUR))}` : null
  return [
    { at, key, team, session, endUser, ...use },
    { chance, tokens, style: use.style },
  ]
}

/** A request of any team, without what becomes of it. */
export const nextRequest = (chance: Chance, at: number): MadeRequest => finished(chance, draftOf(chance, at)[0], {})

const made = (chance: Chance, at: number): MadeRequest => {
  const [draft, asker] = draftOf(chance, at)
  const luck = chance()
  if (luck < 0.005) return finished(chance, { ...draft, key: null, team: null, asked: '' }, REFUSALS[401])
  if (draft.key === LIMITED && luck < 0.3) return finished(chance, draft, REFUSALS[429])
  if (luck < 0.017) return finished(chance, { ...draft, asked: 'gpt-5o' }, REFUSALS[404])
  return finished(chance, draft, usual(draft, asker))
}

// ── Outages ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** groq answers 503 for 125 s: four requests open its circuit, and a probe fails every 20 s. Some clients name its model. */
const groqOutage = (chance: Chance, begin: number): readonly MadeRequest[] =>
  Array.from({ length: 70 }, (_, n) => {
    const at = begin + Math.floor((n * 125_000) / 70)
    const [draft, asker] = draftOf(chance, at, pick(chance, ['customer-support-emea', 'search-ranking', 'mobile-ios']))
    const [groq, openai] = ROUTES.fast
    const isTried = n < 4 || n % 11 === 0
    if (n % 17 === 5)
      return finished(
        chance,
        { ...draft, asked: groq, style: 'chat' },
        {
          ...{ attempts: isTried ? [failed(asker, groq, 'overloaded', 1)] : [], skipped: isTried ? [] : [groq] },
          ...{ outcome: 'refused', status: 503, code: 'no_target_available', message: `${groq} is unavailable.` },
        },
      )
    const chat = { ...draft, asked: 'fast', style: 'chat' }
    const lost = failed(asker, groq, 'overloaded', 1)
    return finished(
      chance,
      chat,
      isTried
        ? { attempts: [lost, answered({ ...asker, style: 'chat' }, openai, lost.ms + 2)] }
        : { attempts: [answered({ ...asker, style: 'chat' }, openai, 1)], skipped: [groq] },
    )
  })

/** A quarter of the requests to openai gets an error for 60 s. */
const openaiOutage = (chance: Chance, begin: number): readonly MadeRequest[] =>
  Array.from({ length: 60 }, (_, n) => {
    const [draft, asker] = draftOf(chance, begin + n * 1_000, pick(chance, ['checkout-payments', 'finance-reporting']))
    const [openai, house] = ROUTES.trial
    const trial = { ...draft, asked: 'trial', style: 'chat' }
    const chat = { ...asker, style: 'chat' }
    if (n % 4 !== 0) return finished(chance, trial, { attempts: [answered(chat, openai, 1)] })
    const lost = failed(asker, openai, 'status', 1)
    return finished(chance, trial, { attempts: [lost, answered(chat, house, lost.ms + 2)] })
  })

/** What the gateway would have recorded of the requests of an outage. */
const outageOf = (
  provider: MadeOutage['provider'],
  times: Pick<MadeOutage, 'begin' | 'end' | 'model' | 'cause'>,
  requests: readonly MadeRequest[],
): MadeOutage => {
  const isMet = ({ attempts, skipped }: MadeRequest) =>
    attempts.some(({ target, outcome }) => outcome === 'failed' && target.startsWith(provider)) || skipped.length > 0
  const met = requests.filter(isMet)
  const isFailure = ({ outcome }: MadeAttempt) => outcome === 'failed'
  return {
    provider,
    ...times,
    failures: met.reduce((sum, { attempts }) => sum + attempts.filter(isFailure).length, 0),
    rerouted: met.filter(({ outcome }) => outcome === 'answered').length,
    lost: met.filter(({ outcome }) => outcome !== 'answered').length,
    request: met[0]?.id ?? '',
  }
}

// ── The week ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Requests of the spent key are refused when 60 % of those of the month have been served. */
const withSpentKey = (requests: readonly MadeRequest[], monthStart: number): readonly MadeRequest[] => {
  const own = requests.filter(({ key, at }) => key === SPENT && at >= monthStart)
  const last = own[Math.floor(own.length * 0.6)]?.at ?? Number.POSITIVE_INFINITY
  return requests.map((one) =>
    one.key === SPENT && one.at > last
      ? { ...one, attempts: [], skipped: [], cached: null, saved: 0, ...REFUSALS[402] }
      : one,
  )
}

/** About `count` requests of the seven days before `now`, in ms since 1970. */
export const companyTraffic = (now: number, count: number, seed = 1): CompanyTraffic => {
  const chance = fork(seed, 0)
  const groq = { begin: now - 5 * HOUR - 720_000, model: 'llama-3.3-70b-versatile', cause: 'overloaded' }
  const openai = { begin: now - 26 * HOUR, model: 'gpt-5-mini', cause: 'status' }
  const ofGroq = groqOutage(fork(seed, 1), groq.begin)
  const ofOpenai = openaiOutage(fork(seed, 2), openai.begin)
  const times = arrivals(fork(seed, 3), now - 60_000, count - ofGroq.length - ofOpenai.length)
  const calm = times.map((at) => made(chance, at))
  const date = new Date(now)
  const month = Date.UTC(date.getUTCFullYear(), date.getUTCMonth())
  const all = [...calm, ...ofGroq, ...ofOpenai].sort((a, b) => a.at - b.at)
  return {
    requests: withSpentKey(all, month),
    outages: [
      outageOf('groq', { ...groq, end: groq.begin + 125_000 }, ofGroq),
      outageOf('openai', { ...openai, end: openai.begin + 60_000 }, ofOpenai),
    ],
  }
}
