/**
 * Records of the usage journal: each is one line, a JSON list whose first item is the type. Lists take half the time and bytes
 * of objects. Amounts are whole nano-dollars, times are ms since 1970. The types:
 * - `o`: an attempt begins. Its text is kept, and decoded only if its end is never recorded.
 * - `e`: a request ends, with the ends of its attempts. It contains all that its row has.
 * - `c`: an attempt has ended, and its request goes on.
 * - `i`: an incident.
 * - `s`: what spans of a request state beside its row; only with telemetry.
 * - `h`: the shape of a request; only with `drill.shapes`.
 */
import { BoundedMap } from '../../core/bounded-map.ts'
import type { Incident } from '../../core/incident.ts'
import {
  type AttemptClosed,
  type AttemptOpened,
  type ChargeList,
  chargesIn,
  type IncidentNoted,
  NO_TOKENS,
  parseCharge,
  type RequestEnded,
  type ShapeNoted,
  type SpanFacts,
  type SpanNoted,
} from '../../core/journal.ts'
import { MAX_COST } from '../../core/money.ts'
import { chargedCost } from '../../policy/accounts/charge.ts'

const [OPENED, CLOSED, ENDED, INCIDENT, SPAN, SHAPE] = ['o', 'c', 'e', 'i', 's', 'h'] as const

/** Maximum characters of a text of `tags` and of `decision`. A record then takes less than 32 KB. */
const MAX_TEXT = 512
const MAX_TAGS = 1_024
const MAX_DECISION = 8_192
const MAX_REQUIRE = 100
const MAX_GUARDS = 500
/** Names of an incident, and characters of each. */
const MAX_LISTED = 50
const MAX_NAME = 100

/** The values of a row in the order of its columns. */
export type RecordValues = readonly (string | number | null)[]

/** Lists of budget charges, each followed by the amount that each of its counters is charged. */
export type Spends = readonly (ChargeList | number)[]

// ── Encoding ─────────────────────────────────────────────────────────────────────────────────────────────────────────

type EncodedEnd = { readonly attempt: number; readonly text: string; readonly spends: Spends }

type EncodedCall = {
  readonly number: number
  /** Attempts that have begun and not ended. */
  readonly open: AttemptOpened[]
  /** Ends of attempts that no line contains yet. */
  ends: readonly EncodedEnd[]
  isEnded: boolean
}

/** Makes the lines of a process's records. Ends of attempts are held until their request ends or `takeHeld` is called. */
export class RecordEncoder {
  /** Calls with attempts whose requests have not ended, or whose attempts have not. */
  readonly #calls = new Map<number, EncodedCall>()
  /** Calls with ends that are held, and some that have none any more. */
  #held: EncodedCall[] = []

  /** Whether the call has begun an attempt and has not ended. */
  knows(call: number): boolean {
    return this.#calls.has(call)
  }

  /** The line of an attempt that begins. */
  open(record: AttemptOpened): string {
    const call = this.#calls.get(record.call)
    if (call) call.open.push(record)
    else this.#calls.set(record.call, { number: record.call, open: [record], ends: NO_ENDS, isEnded: false })
    return `${JSON.stringify(openedList(record))}\n`
  }

  /** The attempt is not made after all, or its record cannot be written. */
  forget(record: AttemptOpened): void {
    const call = this.#calls.get(record.call)
    const at = call?.open.indexOf(record) ?? -1
    if (at >= 0) call?.open.splice(at, 1)
  }

  /** Holds the end of an attempt. Returns whether its beginning is known. */
  close(record: AttemptClosed): boolean {
    const call = this.#calls.get(record.call)
    const at = call ? call.open.findIndex(({ attempt }) => attempt === record.attempt) : -1
    const opened = call?.open[at]
    if (!call || !opened) return false
    if (call.open.length === 1) call.open.pop()
    else call.open.splice(at, 1)
    const charged = chargedCost(written(record.cost), written(opened.reserved) ?? 0)
    const text = endText(endList(opened, record, charged))
    const end = { attempt: record.attempt, text, spends: spendsFor(opened, charged) }
    if (call.ends.length === 0) this.#held.push(call)
    call.ends = call.ends.length === 0 ? [end] : [...call.ends, end]
    return true
  }

  /** The line of a request that ends, with the ends of its attempts that are held. */
  end(record: RequestEnded): string {
    const call = this.#calls.get(record.call)
    const ends = call ? this.#takeEnds(call) : NO_ENDS
    if (call && call.open.length > 0) call.isEnded = true
    else this.#calls.delete(record.call)
    const [first = NO_END] = ends
    const list = ends.length > 1 ? ends.map(({ text }) => text).join() : first.text
    const spends = ends.length > 1 ? ends.flatMap((end) => end.spends) : first.spends
    return `["${ENDED}",${record.call},${spends.length === 0 ? '[]' : JSON.stringify(spends)},${list.length},${JSON.stringify(endedList(record))},${nameOf(record)}[${list}]]\n`
  }

  /** Lines of the ends that are held. */
  takeHeld(): readonly string[] {
    const held = this.#held
    this.#held = []
    return held.flatMap((call) => {
      const ends = this.#takeEnds(call)
      if (call.isEnded && call.open.length === 0) this.#calls.delete(call.number)
      return ends.map(
        ({ attempt, text, spends }) => `["${CLOSED}",${call.number},${attempt},${JSON.stringify(spends)},${text}]\n`,
      )
    })
  }

  /** A map keeps what was deleted from it until a full collection, so an ended call refers to nothing. */
  #takeEnds(call: EncodedCall): readonly EncodedEnd[] {
    const { ends } = call
    call.ends = NO_ENDS
    if (this.#held.at(-1) === call) this.#held.pop()
    return ends
  }
}

/** The name of its session, which the row has not. */
const nameOf = ({ sessionName }: RequestEnded): string =>
  sessionName === null ? '' : `${JSON.stringify(truncated(sessionName))},`

const NO_ENDS: readonly EncodedEnd[] = []
const NO_SPENDS: Spends = []
const spendsFor = ({ charges }: Pick<AttemptOpened, 'charges'>, charged: number): Spends =>
  charges === '' ? NO_SPENDS : [charges, charged]
const NO_END: EncodedEnd = { attempt: 0, text: '', spends: NO_SPENDS }

export const encodeIncident = ({ at, incident }: IncidentNoted): string =>
  `${JSON.stringify([
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
  ])}\n`

export const encodeSpan = ({ at, request, attempt, facts }: SpanNoted): string =>
  `${JSON.stringify([SPAN, at, request, attempt, facts])}\n`

export const encodeShape = ({ at, route, access, provider, shape, weight }: ShapeNoted): string =>
  `${JSON.stringify([SHAPE, at, truncated(route), truncated(access), optional(provider), truncated(shape), weight])}\n`

const truncated = (text: string, most = MAX_TEXT): string => (text.length > most ? text.slice(0, most) : text)
const optional = (text: string | null, most?: number): string | null => (text === null ? null : truncated(text, most))

/** An amount that can be read again; null: unknown. */
const written = (value: number | null): number | null => (value !== null && isAmount(value) ? value : null)
const isAmount = (value: unknown): boolean => Number.isSafeInteger(value) && Math.abs(Number(value)) <= MAX_COST

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

/** `at` null: when is unknown. */
type KnownEnd = Omit<AttemptClosed, 'type' | 'call' | 'attempt' | 'at'> & { readonly at: number | null }

/** Most attempts have none, so their items are not written. */
const NO_UNITS: readonly never[] = []

/** The items of `LISTED`. */
const endList = (opened: AttemptOpened, record: KnownEnd, charged: number): RecordValues => {
  const { tokens } = record
  return [
    opened.attempt,
    opened.at,
    record.at,
    truncated(opened.provider),
    truncated(opened.model),
    truncated(opened.credential),
    opened.hedge ? 1 : 0,
    record.outcome,
    optional(record.kind),
    record.status,
    optional(record.message),
    record.firstContentMs,
    tokens.input,
    tokens.output,
    tokens.cacheRead,
    tokens.cacheWrite,
    tokens.cacheWrite1h,
    tokens.reasoning,
    tokens.audioInput,
    tokens.audioOutput,
    record.usageSource,
    written(opened.reserved) ?? 0,
    written(record.cost),
    charged,
    record.priceSource,
    optional(record.priceVersion),
    ...(record.units ? [truncated(record.units.unit), record.units.count] : NO_UNITS),
  ]
}

/** Postgres has no JSON with half a surrogate pair or a null character, which JSON has as escapes, and the list of attempts is JSON there. */
const endText = (values: RecordValues): string => {
  const text = JSON.stringify(values)
  return text.includes('\\u') ? JSON.stringify(values.map(cleaned)) : text
}
const cleaned = (value: RecordValues[number]): RecordValues[number] =>
  typeof value === 'string' ? value.toWellFormed().replaceAll('\0', '\ufffd') : value

/** The items of `ENDED_COLUMNS`. */
const endedList = (record: RequestEnded) => [
  truncated(record.request),
  optional(record.clientRequestId),
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
  optional(record.client),
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
  Math.max(0, record.at - record.received),
  record.overheadUs,
  written(record.saved) ?? 0,
  optional(record.require, MAX_REQUIRE),
  optional(record.session),
  optional(record.agent),
  optional(record.guards, MAX_GUARDS),
  optional(record.trace),
]

// ── Decoding ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A decoded line. `text`: the line without its newline. `at`: ms since 1970. */
export type JournalLine = OpenedLine | ClosedLine | EndedLine | IncidentNoted | SpanNoted | ShapeNoted

export type OpenedLine = {
  readonly type: 'opened'
  readonly call: number
  readonly attempt: number
  readonly at: number
  readonly text: string
}

/** The end of an attempt, in the order of `LISTED`. */
export type ListedValues = RecordValues

export type ClosedLine = {
  readonly type: 'closed'
  readonly call: number
  readonly attempt: number
  readonly at: number
  readonly end: ListedValues
  readonly spends: Spends
  readonly text: string
}

/**
 * `values`: in the order of `ENDED_COLUMNS`. `sessionName`: null: its session has none. `list`: the text of the attempts, without
 * brackets.
 */
export type EndedLine = {
  readonly type: 'ended'
  readonly call: number
  readonly at: number
  readonly values: RecordValues
  readonly sessionName: string | null
  readonly spends: Spends
  readonly attempts: readonly ListedValues[]
  readonly list: string
  readonly text: string
}

/** Decodes a line without its newline. Undefined if it is malformed. */
export const decodeLine = (text: string): JournalLine | undefined => {
  try {
    return text.startsWith(OPENED, 2) ? openedLine(text) : decodedLine(text, JSON.parse(text))
  } catch {
    return undefined
  }
}

const OPENED_START = /^\["o",(\d{1,16}),(\d{1,9}),(\d{1,16}),/

const openedLine = (text: string): OpenedLine | undefined => {
  const found = OPENED_START.exec(text)
  if (!found || !text.endsWith(']')) return undefined
  return { type: 'opened', call: Number(found[1]), attempt: Number(found[2]), at: Number(found[3]), text }
}

const decodedLine = (text: string, value: unknown): JournalLine => {
  const items = list(value)
  switch (items[0]) {
    case CLOSED:
      return closedLine(text, items)
    case ENDED:
      return endedLine(text, items)
    case INCIDENT:
      return decodeIncident(items.slice(1))
    case SPAN:
      return decodeSpan(items)
    case SHAPE:
      return decodeShape(items)
    default:
      throw new TypeError('unknown type of record')
  }
}

const closedLine = (text: string, [, call, attempt, spends, end]: readonly unknown[]): ClosedLine => {
  const values = listedValues(end)
  const at = typeof values[2] === 'number' ? values[2] : 0
  return {
    type: 'closed',
    call: integer(call),
    attempt: integer(attempt),
    at,
    end: values,
    spends: spendsOf(spends),
    text,
  }
}

const endedLine = (text: string, [, call, spends, length, row, ...rest]: readonly unknown[]): EndedLine => {
  const values = checked(list(row), ENDED_KINDS)
  return {
    type: 'ended',
    call: integer(call),
    at: Number(values[3]),
    values,
    sessionName: rest.length > 1 ? string(rest[0]) : null,
    spends: spendsOf(spends),
    attempts: list(rest.at(-1)).map(listedValues),
    list: text.slice(-integer(length) - 2, -2),
    text,
  }
}

/** Decodes the line of an attempt that began. Throws if it is malformed. */
export const decodeOpened = (text: string): AttemptOpened => {
  const [, call, attempt, at, request, key, team, style, tag, ...target] = list(JSON.parse(text))
  const [provider, model, credential, hedge, reserved, charges, route, client, clientRequestId] = target
  return {
    type: 'attempt_opened',
    call: integer(call),
    attempt: integer(attempt),
    at: integer(at),
    request: string(request),
    key: optionalText(key),
    team: optionalText(team),
    style: string(style),
    tag: optionalText(tag),
    provider: string(provider),
    model: string(model),
    credential: string(credential),
    hedge: hedge === 1,
    reserved: integer(reserved),
    charges: checkedCharges(charges),
    route: optionalText(route),
    client: optionalText(client),
    clientRequestId: optionalText(clientRequestId),
  }
}

/** The end of an attempt whose process ended: when is unknown, and its provider may bill what was reserved. */
export const lostEnd = (text: string): Pick<ClosedLine, 'end' | 'spends'> => {
  const opened = decodeOpened(text)
  const charged = chargedCost(null, opened.reserved)
  const closed = {
    at: null,
    outcome: 'unknown',
    kind: null,
    status: null,
    message: null,
    firstContentMs: null,
    tokens: NO_TOKENS,
    units: null,
    usageSource: 'estimated',
    cost: charged,
    priceSource: 'none',
    priceVersion: null,
  } as const
  const end = endList(opened, closed, charged).map(cleaned)
  return { end, spends: spendsFor(opened, charged) }
}

const ENDED_BY: readonly NonNullable<Incident['ended_by']>[] = ['recovered', 'operator', 'restart', 'removed']

const decodeIncident = (items: readonly unknown[]): IncidentNoted => {
  const [at, id, providers, models, base_url, begin, end, ended_by, cause, request, failures, rerouted, lost] = items
  const by = ENDED_BY.find((one) => one === ended_by)
  if (by === undefined && ended_by !== null) throw new TypeError('unknown value')
  return {
    type: 'incident',
    at: integer(at),
    incident: {
      id: string(id),
      providers: list(providers).map(string),
      models: list(models).map(string),
      base_url: optionalText(base_url),
      begin: integer(begin),
      end: end === null ? null : integer(end),
      ended_by: by ?? null,
      cause: string(cause),
      request: optionalText(request),
      failures: integer(failures),
      rerouted: integer(rerouted),
      lost: integer(lost),
    },
  }
}

const decodeSpan = ([, at, request, attempt, facts]: readonly unknown[]): SpanNoted => {
  if (typeof facts !== 'object' || facts === null) throw new TypeError('malformed')
  return {
    type: 'span',
    at: integer(at),
    request: string(request),
    attempt: attempt === null ? null : integer(attempt),
    // The writer is this program.
    facts: facts as SpanFacts,
  }
}

const decodeShape = ([, at, route, access, provider, shape, weight]: readonly unknown[]): ShapeNoted => ({
  type: 'shape',
  at: integer(at),
  route: string(route),
  access: string(access),
  provider: optionalText(provider),
  shape: string(shape),
  weight: integer(weight),
})

/**
 * Kinds of values, one letter each: `t` a text, `i` an integer, `a` an amount, `d` a time; in capitals, or null. An unknown
 * text is stored as it is: the writer is this program.
 */
const LISTED_KINDS = 'idDtttitTITIaaaaaaaataAatT'
const WITH_UNITS = `${LISTED_KINDS}ta`
const ENDED_KINDS = 'tTdDtitTTTTTTTTTTtiTTTTtIIIaTTTTT'

/** The range of JavaScript's dates (ECMA-262, section 21.4.1.1). */
const LATEST = 8.64e15

const checked = (values: readonly unknown[], kinds: string): RecordValues => {
  for (let at = 0; at < kinds.length; at++)
    if (!isOfKind(values[at], kinds.charCodeAt(at))) throw new TypeError('malformed')
  // Checked above.
  return values as RecordValues
}

const listedValues = (value: unknown): ListedValues => {
  const values = list(value)
  return checked(values, values.length > LISTED_KINDS.length ? WITH_UNITS : LISTED_KINDS)
}

const NULLABLE = 97
const [TEXT, INTEGER, AMOUNT] = ['T', 'I', 'A'].map((letter) => letter.charCodeAt(0))

const isOfKind = (value: unknown, letter: number): boolean => {
  if (value === null) return letter < NULLABLE
  const kind = letter < NULLABLE ? letter : letter - 32
  if (kind === TEXT) return typeof value === 'string'
  if (!Number.isSafeInteger(value)) return false
  return kind === INTEGER || Math.abs(value as number) <= (kind === AMOUNT ? MAX_COST : LATEST)
}

const spendsOf = (value: unknown): Spends => {
  const found = list(value)
  for (let at = 0; at < found.length; at += 2) {
    checkedCharges(found[at])
    if (!isAmount(found[at + 1])) throw new TypeError('not an amount')
  }
  // Checked above.
  return found as Spends
}

const checkedCharges = (value: unknown): ChargeList => {
  const charges = string(value)
  if (checkedLists.get(charges)) return charges
  for (const charge of list(chargesIn(charges))) parseCharge(string(charge))
  checkedLists.set(charges, true)
  return charges
}
/** Most requests charge the same counters as earlier ones. */
const checkedLists = new BoundedMap<true>()

const integer = (value: unknown): number => {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value
  throw new TypeError('not an integer')
}

const string = (value: unknown): string => {
  if (typeof value === 'string') return value
  throw new TypeError('not a text')
}

const list = (value: unknown): readonly unknown[] => {
  if (Array.isArray(value)) return value
  throw new TypeError('not a list')
}

const optionalText = (value: unknown): string | null => (value === null ? null : string(value))
