/**
 * Records of the usage journal, one JSON object per line. Members have short names on disk, because each request writes
 * at least three records. Amounts are whole nano-dollars, times are ms since 1970.
 */
import type { PriceSource, UsageSource } from '../../core/accounts.ts'
import { isObject, type JsonObject } from '../../core/json.ts'

export type JournalRecord = AttemptOpened | AttemptClosed | RequestEnded

/** Identifies a request within its process. Request IDs may repeat, since clients can set them. */
type CallNumber = { readonly call: number }

/** Written before the attempt is sent. */
export type AttemptOpened = CallNumber & {
  readonly type: 'attempt_opened'
  /** The request's ID. */
  readonly request: string
  /** Number of the attempt within the request, from 0. */
  readonly attempt: number
  readonly at: number
  readonly key: string | null
  readonly team: string | null
  /** API style of the client. */
  readonly style: string
  /** The value of the tag by which usage is grouped. */
  readonly tag: string | null
  readonly provider: string
  readonly model: string
  /** Fingerprint of the provider's key. */
  readonly credential: string
  readonly hedge: boolean
  readonly reserved: number
  readonly charges: readonly BudgetCharge[]
}

/** A budget counter that pays for the attempt, in the period in which the request was received. */
export type BudgetCharge = { readonly counter: string; readonly periodStart: number }

export type AttemptClosed = CallNumber & {
  readonly type: 'attempt_closed'
  readonly attempt: number
  readonly at: number
  readonly outcome: RecordedOutcome
  /** Kind of failure. */
  readonly kind: string | null
  readonly status: number | null
  readonly firstContentMs: number | null
  readonly tokens: BilledTokens
  readonly usageSource: UsageSource
  /** Null: no price is known. */
  readonly cost: number | null
  readonly priceSource: PriceSource
  readonly priceVersion: string | null
}

export type RecordedOutcome = 'ok' | 'failed' | 'interrupted' | 'client_gone' | 'abandoned' | 'unknown'

/** `input` includes cached tokens, `output` includes reasoning; `cacheWrite` includes `cacheWrite1h`. */
export type BilledTokens = {
  readonly input: number
  readonly output: number
  readonly cacheRead: number
  readonly cacheWrite: number
  readonly cacheWrite1h: number
  readonly reasoning: number
  readonly audioInput: number
  readonly audioOutput: number
}

/** Written once, when the request ends. */
export type RequestEnded = CallNumber & {
  readonly type: 'request_ended'
  readonly request: string
  readonly received: number
  readonly at: number
  readonly style: string
  readonly stream: boolean
  /** The model as the client named it. */
  readonly asked: string
  readonly route: string | null
  /** The target that answered. */
  readonly provider: string | null
  readonly model: string | null
  readonly key: string | null
  readonly team: string | null
  readonly person: string | null
  readonly endUser: string | null
  /** JSON object of texts. */
  readonly tags: string | null
  readonly tag: string | null
  readonly outcome: RequestOutcome
  readonly status: number
  readonly code: string | null
  readonly trail: string | null
  readonly cache: CacheResult
  readonly firstContentMs: number | null
  readonly overheadUs: number | null
  /** What an answer from the cache would have cost. */
  readonly saved: number
  /** `traceparent` of the request. */
  readonly trace: string | null
}

export type RequestOutcome = 'answered' | 'refused' | 'interrupted' | 'client_gone' | 'unknown'
export type CacheResult = 'off' | 'bypass' | 'miss' | 'hit' | 'shared'

export const NO_TOKENS: BilledTokens = {
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  cacheWrite1h: 0,
  reasoning: 0,
  audioInput: 0,
  audioOutput: 0,
}

// ── Encoding ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Maximum characters of a text and of `tags`. A record then takes less than 32 KB. */
const MAX_TEXT = 512
const MAX_TAGS = 1_024

/** One line with its newline. `JSON.stringify` of one object is faster here than concatenation. */
export const encodeRecord = (record: JournalRecord): string => `${JSON.stringify(membersOf(record))}\n`

const membersOf = (record: JournalRecord): object => {
  switch (record.type) {
    case 'attempt_opened':
      return openedMembers(record)
    case 'attempt_closed':
      return closedMembers(record)
    case 'request_ended':
      return endedMembers(record)
    default:
      throw new Error(`unknown record ${JSON.stringify(record satisfies never)}`)
  }
}

const truncated = (text: string, most = MAX_TEXT): string => (text.length > most ? text.slice(0, most) : text)
/** Members without a value are omitted. */
const optional = (text: string | null, most?: number): string | undefined =>
  text === null ? undefined : truncated(text, most)

const openedMembers = (record: AttemptOpened) => ({
  e: 'o',
  i: record.call,
  id: truncated(record.request),
  n: record.attempt,
  at: record.at,
  k: optional(record.key),
  tm: optional(record.team),
  st: truncated(record.style),
  tv: optional(record.tag),
  p: truncated(record.provider),
  m: truncated(record.model),
  u: truncated(record.credential),
  h: record.hedge ? 1 : undefined,
  rs: record.reserved,
  b: record.charges.map(({ counter, periodStart }) => [counter, periodStart]),
})

const closedMembers = (record: AttemptClosed) => ({
  e: 'c',
  i: record.call,
  n: record.attempt,
  at: record.at,
  o: record.outcome,
  f: optional(record.kind),
  s: record.status ?? undefined,
  t: [
    record.tokens.input,
    record.tokens.output,
    record.tokens.cacheRead,
    record.tokens.cacheWrite,
    record.tokens.cacheWrite1h,
    record.tokens.reasoning,
    record.tokens.audioInput,
    record.tokens.audioOutput,
  ],
  us: record.usageSource,
  c: record.cost ?? undefined,
  ps: record.priceSource,
  pv: optional(record.priceVersion),
  ft: record.firstContentMs ?? undefined,
})

const endedMembers = (record: RequestEnded) => ({
  e: 'r',
  i: record.call,
  id: truncated(record.request),
  at: record.received,
  end: record.at,
  st: truncated(record.style),
  sm: record.stream ? 1 : undefined,
  ask: truncated(record.asked),
  rt: optional(record.route),
  p: optional(record.provider),
  m: optional(record.model),
  k: optional(record.key),
  tm: optional(record.team),
  pe: optional(record.person),
  eu: optional(record.endUser),
  tg: optional(record.tags, MAX_TAGS),
  tv: optional(record.tag),
  how: record.outcome,
  s: record.status,
  cd: optional(record.code),
  tl: optional(record.trail),
  ch: record.cache,
  ft: record.firstContentMs ?? undefined,
  ov: record.overheadUs ?? undefined,
  sv: record.saved === 0 ? undefined : record.saved,
  tp: optional(record.trace),
})

// ── Decoding ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const ATTEMPT_OUTCOMES: readonly RecordedOutcome[] = [
  'ok',
  'failed',
  'interrupted',
  'client_gone',
  'abandoned',
  'unknown',
]
const REQUEST_OUTCOMES: readonly RequestOutcome[] = ['answered', 'refused', 'interrupted', 'client_gone', 'unknown']
const USAGE_SOURCES: readonly UsageSource[] = ['exact', 'estimated']
const PRICE_SOURCES: readonly PriceSource[] = ['upstream', 'override', 'catalogue', 'none']
const CACHE_RESULTS: readonly CacheResult[] = ['off', 'bypass', 'miss', 'hit', 'shared']

/** Decodes a line without its newline. Undefined if it is malformed. Unknown members are ignored. */
export const decodeRecord = (line: string): JournalRecord | undefined => {
  try {
    const value: unknown = JSON.parse(line)
    return isObject(value) ? decodeMembers(value) : undefined
  } catch {
    return undefined
  }
}

const decodeMembers = (value: JsonObject): JournalRecord => {
  switch (value.e) {
    case 'o':
      return decodeOpened(value)
    case 'c':
      return decodeClosed(value)
    case 'r':
      return decodeEnded(value)
    default:
      throw new TypeError('unknown type of record')
  }
}

const decodeOpened = (value: JsonObject): AttemptOpened => ({
  type: 'attempt_opened',
  call: integer(value.i),
  request: string(value.id),
  attempt: integer(value.n),
  at: time(value.at),
  key: optionalText(value.k),
  team: optionalText(value.tm),
  style: string(value.st),
  tag: optionalText(value.tv),
  provider: string(value.p),
  model: string(value.m),
  credential: string(value.u),
  hedge: value.h === 1,
  reserved: amount(value.rs),
  charges: array(value.b).map((charge) => {
    const [counter, periodStart] = array(charge)
    return { counter: string(counter), periodStart: time(periodStart) }
  }),
})

const decodeClosed = (value: JsonObject): AttemptClosed => {
  const [input, output, cacheRead, cacheWrite, cacheWrite1h, reasoning, audioInput, audioOutput] = array(value.t)
  return {
    type: 'attempt_closed',
    call: integer(value.i),
    attempt: integer(value.n),
    at: time(value.at),
    outcome: oneOf(ATTEMPT_OUTCOMES, value.o),
    kind: optionalText(value.f),
    status: optionalInteger(value.s),
    firstContentMs: optionalInteger(value.ft),
    tokens: {
      input: amount(input),
      output: amount(output),
      cacheRead: amount(cacheRead),
      cacheWrite: amount(cacheWrite),
      cacheWrite1h: amount(cacheWrite1h),
      reasoning: amount(reasoning),
      audioInput: amount(audioInput),
      audioOutput: amount(audioOutput),
    },
    usageSource: oneOf(USAGE_SOURCES, value.us),
    cost: value.c === undefined ? null : amount(value.c),
    priceSource: oneOf(PRICE_SOURCES, value.ps),
    priceVersion: optionalText(value.pv),
  }
}

const decodeEnded = (value: JsonObject): RequestEnded => ({
  type: 'request_ended',
  call: integer(value.i),
  request: string(value.id),
  received: time(value.at),
  at: time(value.end),
  style: string(value.st),
  stream: value.sm === 1,
  asked: string(value.ask),
  route: optionalText(value.rt),
  provider: optionalText(value.p),
  model: optionalText(value.m),
  key: optionalText(value.k),
  team: optionalText(value.tm),
  person: optionalText(value.pe),
  endUser: optionalText(value.eu),
  tags: optionalText(value.tg),
  tag: optionalText(value.tv),
  outcome: oneOf(REQUEST_OUTCOMES, value.how),
  status: integer(value.s),
  code: optionalText(value.cd),
  trail: optionalText(value.tl),
  cache: oneOf(CACHE_RESULTS, value.ch),
  firstContentMs: optionalInteger(value.ft),
  overheadUs: optionalInteger(value.ov),
  saved: value.sv === undefined ? 0 : amount(value.sv),
  trace: optionalText(value.tp),
})

const integer = (value: unknown): number => {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value
  throw new TypeError('not an integer')
}

/** Larger values would overflow sums: 10^15 nano-dollars are a million dollars for one attempt. */
const amount = (value: unknown): number => {
  const found = integer(value)
  if (Math.abs(found) <= 1e15) return found
  throw new TypeError('not an amount')
}

/** The range of JavaScript's dates (ECMA-262, section 21.4.1.1). */
const time = (value: unknown): number => {
  const found = integer(value)
  if (Math.abs(found) <= 8.64e15) return found
  throw new TypeError('not a time')
}

const string = (value: unknown): string => {
  if (typeof value === 'string') return value
  throw new TypeError('not a text')
}

const array = (value: unknown): readonly unknown[] => {
  if (Array.isArray(value)) return value
  throw new TypeError('not a list')
}

const optionalInteger = (value: unknown): number | null => (value === undefined ? null : integer(value))
const optionalText = (value: unknown): string | null => (value === undefined ? null : string(value))

const oneOf = <T extends string>(values: readonly T[], value: unknown): T => {
  const found = values.find((one) => one === value)
  if (found === undefined) throw new TypeError('unknown value')
  return found
}
