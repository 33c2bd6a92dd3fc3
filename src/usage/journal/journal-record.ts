/**
 * Records of the usage journal: each is one line, a JSON list whose first item is the type. Each request writes at least
 * three, and lists take half the time and bytes of objects. A new item is added at the end: readers ignore items that they
 * do not know. Amounts are whole nano-dollars, times are ms since 1970.
 */
import type { PriceSource, UsageSource } from '../../core/accounts.ts'
import type { Incident } from '../../core/incident.ts'
import {
  type AttemptClosed,
  type AttemptOpened,
  type BudgetCharge,
  type CacheResult,
  type IncidentNoted,
  type JournalRecord,
  parseCharge,
  type RecordedOutcome,
  type RequestEnded,
  type RequestOutcome,
} from '../../core/journal.ts'
import { MAX_COST } from '../../core/money.ts'

// ── Encoding ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const [OPENED, CLOSED, ENDED, INCIDENT] = ['o', 'c', 'r', 'i'] as const

/** Maximum characters of a text of `tags` and of `decision`. A record then takes less than 32 KB. */
const MAX_TEXT = 512
const MAX_TAGS = 1_024
const MAX_DECISION = 8_192
/** Names of an incident, and characters of each. */
const MAX_LISTED = 50
const MAX_NAME = 100

/** One line with its newline. */
export const encodeRecord = (record: JournalRecord): string => `${JSON.stringify(listOf(record))}\n`

const listOf = (record: JournalRecord): readonly unknown[] => {
  switch (record.type) {
    case 'attempt_opened':
      return openedList(record)
    case 'attempt_closed':
      return closedList(record)
    case 'request_ended':
      return endedList(record)
    case 'incident':
      return incidentList(record)
    default:
      throw new Error(`unknown record ${JSON.stringify(record satisfies never)}`)
  }
}

const truncated = (text: string, most = MAX_TEXT): string => (text.length > most ? text.slice(0, most) : text)
const optional = (text: string | null, most?: number): string | null => (text === null ? null : truncated(text, most))

/** An amount that can be read again; null: unknown. */
const written = (value: number | null): number | null => (value !== null && isAmount(value) ? value : null)
const isAmount = (value: number): boolean => Number.isSafeInteger(value) && Math.abs(value) <= MAX_COST

const openedList = (record: AttemptOpened) => [
  OPENED,
  record.call,
  record.attempt,
  record.at,
  truncated(record.request),
  optional(record.key),
  optional(record.team),
  truncated(record.style),
  optional(record.tag),
  truncated(record.provider),
  truncated(record.model),
  truncated(record.credential),
  record.hedge ? 1 : 0,
  written(record.reserved) ?? 0,
  record.charges,
  optional(record.route),
  optional(record.client),
  optional(record.clientRequestId),
]

const closedList = (record: AttemptClosed) => [
  CLOSED,
  record.call,
  record.attempt,
  record.at,
  record.outcome,
  optional(record.kind),
  record.status,
  optional(record.message),
  record.firstContentMs,
  record.tokens.input,
  record.tokens.output,
  record.tokens.cacheRead,
  record.tokens.cacheWrite,
  record.tokens.cacheWrite1h,
  record.tokens.reasoning,
  record.tokens.audioInput,
  record.tokens.audioOutput,
  record.usageSource,
  written(record.cost),
  record.priceSource,
  optional(record.priceVersion),
]

const endedList = (record: RequestEnded) => [
  ENDED,
  record.call,
  truncated(record.request),
  record.received,
  record.at,
  truncated(record.style),
  record.stream ? 1 : 0,
  truncated(record.asked),
  optional(record.route),
  optional(record.provider),
  optional(record.model),
  optional(record.key),
  optional(record.team),
  optional(record.person),
  optional(record.endUser),
  optional(record.tags, MAX_TAGS),
  optional(record.tag),
  record.outcome,
  record.status,
  optional(record.code),
  optional(record.message),
  optional(record.trail),
  // JSON that is cut would not be JSON.
  record.decision === null || record.decision.length > MAX_DECISION ? null : record.decision,
  record.cache,
  record.firstContentMs,
  record.overheadUs,
  written(record.saved) ?? 0,
  optional(record.trace),
  optional(record.client),
  optional(record.clientRequestId),
]

const incidentList = ({ at, incident }: IncidentNoted) => [
  INCIDENT,
  at,
  incident.id,
  incident.providers.slice(0, MAX_LISTED).map((one) => truncated(one, MAX_NAME)),
  incident.models.slice(0, MAX_LISTED).map((one) => truncated(one, MAX_NAME)),
  optional(incident.base_url),
  incident.begin,
  incident.end,
  incident.ended_by,
  truncated(incident.cause),
  optional(incident.request),
  incident.failures,
  incident.rerouted,
  incident.lost,
]

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
const PRICE_SOURCES: readonly PriceSource[] = ['upstream', 'override', 'catalogue', 'assumed', 'none']
const CACHE_RESULTS: readonly CacheResult[] = ['off', 'bypass', 'miss', 'hit', 'shared']

/** Decodes a line without its newline. Undefined if it is malformed. */
export const decodeRecord = (line: string): JournalRecord | undefined => {
  try {
    const [type, ...items] = list(JSON.parse(line))
    return decoderOf(type)(items)
  } catch {
    return undefined
  }
}

const decoderOf = (type: unknown): ((items: readonly unknown[]) => JournalRecord) => {
  switch (type) {
    case OPENED:
      return decodeOpened
    case CLOSED:
      return decodeClosed
    case ENDED:
      return decodeEnded
    case INCIDENT:
      return decodeIncident
    default:
      throw new TypeError('unknown type of record')
  }
}

const decodeOpened = (items: readonly unknown[]): AttemptOpened => {
  const [call, attempt, at, request, key, team, style, tag, ...target] = items
  const [provider, model, credential, hedge, reserved, charges, route, client, clientRequestId] = target
  return {
    type: 'attempt_opened',
    call: integer(call),
    attempt: integer(attempt),
    at: time(at),
    request: string(request),
    key: optionalText(key),
    team: optionalText(team),
    style: string(style),
    tag: optionalText(tag),
    provider: string(provider),
    model: string(model),
    credential: string(credential),
    hedge: flag(hedge),
    reserved: amount(reserved),
    charges: list(charges).map(charge),
    route: optionalText(route),
    client: optionalText(client),
    clientRequestId: optionalText(clientRequestId),
  }
}

const charge = (value: unknown): BudgetCharge => {
  const found = string(value)
  parseCharge(found)
  return found
}

const decodeClosed = (items: readonly unknown[]): AttemptClosed => {
  const [call, attempt, at, outcome, kind, status, message, firstContentMs, ...charge] = items
  const [input, output, cacheRead, cacheWrite, cacheWrite1h, reasoning, audioInput, audioOutput, ...costs] = charge
  const [usageSource, cost, priceSource, priceVersion] = costs
  return {
    type: 'attempt_closed',
    call: integer(call),
    attempt: integer(attempt),
    at: time(at),
    outcome: oneOf(ATTEMPT_OUTCOMES, outcome),
    kind: optionalText(kind),
    status: optionalInteger(status),
    message: optionalText(message),
    firstContentMs: optionalInteger(firstContentMs),
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
    usageSource: oneOf(USAGE_SOURCES, usageSource),
    cost: cost === null ? null : amount(cost),
    priceSource: oneOf(PRICE_SOURCES, priceSource),
    priceVersion: optionalText(priceVersion),
  }
}

const decodeEnded = (items: readonly unknown[]): RequestEnded => {
  const [call, request, received, at, style, stream, asked, route, provider, model, ...owner] = items
  const [key, team, person, endUser, tags, tag, ...result] = owner
  const [outcome, status, code, message, trail, decision, cache, ...figures] = result
  const [firstContentMs, overheadUs, saved, trace, client, clientRequestId] = figures
  return {
    type: 'request_ended',
    call: integer(call),
    request: string(request),
    received: time(received),
    at: time(at),
    style: string(style),
    stream: flag(stream),
    asked: string(asked),
    route: optionalText(route),
    provider: optionalText(provider),
    model: optionalText(model),
    key: optionalText(key),
    team: optionalText(team),
    person: optionalText(person),
    endUser: optionalText(endUser),
    tags: optionalText(tags),
    tag: optionalText(tag),
    outcome: oneOf(REQUEST_OUTCOMES, outcome),
    status: integer(status),
    code: optionalText(code),
    message: optionalText(message),
    trail: optionalText(trail),
    decision: optionalText(decision),
    cache: oneOf(CACHE_RESULTS, cache),
    firstContentMs: optionalInteger(firstContentMs),
    overheadUs: optionalInteger(overheadUs),
    saved: amount(saved),
    trace: optionalText(trace),
    client: optionalText(client),
    clientRequestId: optionalText(clientRequestId),
  }
}

const ENDED_BY: readonly NonNullable<Incident['ended_by']>[] = ['recovered', 'operator', 'restart', 'removed']

const decodeIncident = (items: readonly unknown[]): IncidentNoted => {
  const [at, id, providers, models, base_url, begin, end, ended_by, cause, request, failures, rerouted, lost] = items
  return {
    type: 'incident',
    at: time(at),
    incident: {
      id: string(id),
      providers: list(providers).map(string),
      models: list(models).map(string),
      base_url: optionalText(base_url),
      begin: time(begin),
      end: end === null ? null : time(end),
      ended_by: ended_by === null ? null : oneOf(ENDED_BY, ended_by),
      cause: string(cause),
      request: optionalText(request),
      failures: integer(failures),
      rerouted: integer(rerouted),
      lost: integer(lost),
    },
  }
}

const integer = (value: unknown): number => {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value
  throw new TypeError('not an integer')
}

const amount = (value: unknown): number => {
  const found = integer(value)
  if (Math.abs(found) <= MAX_COST) return found
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

const flag = (value: unknown): boolean => {
  if (value === 0 || value === 1) return value === 1
  throw new TypeError('not a flag')
}

const list = (value: unknown): readonly unknown[] => {
  if (Array.isArray(value)) return value
  throw new TypeError('not a list')
}

const optionalInteger = (value: unknown): number | null => (value === null ? null : integer(value))
/** Undefined: an item that was added after the record was written. */
const optionalText = (value: unknown): string | null => (value === null || value === undefined ? null : string(value))

const oneOf = <T extends string>(values: readonly T[], value: unknown): T => {
  const found = values.find((one) => one === value)
  if (found === undefined) throw new TypeError('unknown value')
  return found
}
