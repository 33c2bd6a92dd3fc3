/** Journal records for tests of the ledger. */
import {
  type AttemptClosed,
  type AttemptOpened,
  budgetCharge,
  chargeList,
  type JournalRecord,
  NO_TOKENS,
  type RequestEnded,
} from '../../src/core/journal.ts'
import {
  decodeLine,
  encodeIncident,
  encodeShape,
  type JournalLine,
  RecordEncoder,
} from '../../src/usage/journal/journal-record.ts'

/** 2026-11-22, 10:00 UTC. */
export const NOON = 1_795_341_600_000

export const openedRecord = (call: number, changes: Partial<AttemptOpened> = {}): AttemptOpened => ({
  type: 'attempt_opened',
  call,
  request: `req_${call}`,
  attempt: 0,
  at: NOON + call,
  key: 'key_a',
  team: 'team_a',
  style: 'chat',
  tag: null,
  provider: 'openai',
  model: 'gpt-5-mini',
  credential: 'a1f3',
  hedge: false,
  reserved: 500,
  charges: chargeList([budgetCharge('bud_a', NOON)]),
  route: 'fast',
  client: 'openai-sdk',
  clientRequestId: null,
  ...changes,
})

export const closedRecord = (call: number, changes: Partial<AttemptClosed> = {}): AttemptClosed => ({
  type: 'attempt_closed',
  call,
  attempt: 0,
  at: NOON + call + 100,
  outcome: 'ok',
  kind: null,
  status: 200,
  message: null,
  firstContentMs: 30,
  tokens: { ...NO_TOKENS, input: 10, output: 5 },
  units: null,
  usageSource: 'exact',
  cost: 70,
  priceSource: 'catalogue',
  priceVersion: 'cat:2026-11-21',
  ...changes,
})

export const endedRecord = (call: number, changes: Partial<RequestEnded> = {}): RequestEnded => ({
  type: 'request_ended',
  call,
  request: `req_${call}`,
  received: NOON + call,
  at: NOON + call + 110,
  style: 'chat',
  stream: true,
  asked: 'fast',
  route: 'fast',
  provider: 'openai',
  model: 'gpt-5-mini',
  key: 'key_a',
  team: 'team_a',
  person: null,
  endUser: null,
  tags: null,
  tag: null,
  outcome: 'answered',
  status: 200,
  code: null,
  message: null,
  decision: null,
  trail: 'openai#a1f3:200',
  cache: 'off',
  firstContentMs: 31,
  overheadUs: 120,
  saved: 0,
  require: null,
  session: null,
  agent: null,
  guards: null,
  sessionName: null,
  trace: null,
  client: 'openai-sdk',
  clientRequestId: null,
  ...changes,
})

/**
 * The lines of records, as a writer makes them. Ends of attempts without their request's end in the list are lines of their
 * own. `encoder`: that of the process.
 */
export const journalLines = (
  records: readonly JournalRecord[],
  encoder: RecordEncoder = new RecordEncoder(),
): readonly string[] => {
  const lines: string[] = []
  const ends = new Set(records.flatMap((record) => (record.type === 'request_ended' ? [record.call] : [])))
  for (const record of records)
    switch (record.type) {
      case 'attempt_opened':
        lines.push(encoder.open(record))
        break
      case 'attempt_closed':
        if (!encoder.close(record)) lines.push(...unknownEnd(record))
        else if (!ends.has(record.call)) lines.push(...encoder.takeHeld())
        break
      case 'request_ended':
        lines.push(encoder.end(record))
        break
      case 'incident':
        lines.push(encodeIncident(record))
        break
      case 'shape':
        lines.push(encodeShape(record))
    }
  return [...lines, ...encoder.takeHeld()]
}

/** The line of an attempt whose beginning is unknown. */
const unknownEnd = (record: AttemptClosed): readonly string[] => {
  const encoder = new RecordEncoder()
  encoder.open(openedRecord(record.call, { attempt: record.attempt }))
  encoder.close(record)
  return encoder.takeHeld()
}

/** Decoded lines of records. Throws if one is malformed. */
export const decodedLines = (records: readonly JournalRecord[], encoder?: RecordEncoder): readonly JournalLine[] =>
  journalLines(records, encoder).map((line) => {
    const decoded = decodeLine(line.slice(0, -1))
    if (!decoded) throw new TypeError(`malformed: ${line}`)
    return decoded
  })

/** What a line states, as the records that it was made of. */
export const eventsOf = (
  line: JournalLine,
): readonly { readonly type: JournalRecord['type']; readonly call: number }[] => {
  if (line.type === 'incident' || line.type === 'span' || line.type === 'shape') return []
  const { call } = line
  if (line.type === 'opened') return [{ type: 'attempt_opened', call }]
  if (line.type === 'closed') return [{ type: 'attempt_closed', call }]
  return [...line.attempts.map(() => ({ type: 'attempt_closed', call }) as const), { type: 'request_ended', call }]
}

/** A record without a null and without the value of another member. A new member of a record needs a value here. */
type Filled<Record> = { readonly [Name in keyof Record]-?: NonNullable<Record[Name]> }

export const filledOpened: Filled<AttemptOpened> = {
  type: 'attempt_opened',
  call: 7,
  request: 'req_7',
  attempt: 3,
  at: NOON + 7,
  key: 'key_f',
  team: 'team_f',
  style: 'messages',
  tag: 'tag_f',
  provider: 'anthropic',
  model: 'claude-sonnet-4-5',
  credential: 'b7c2',
  hedge: true,
  reserved: 501,
  charges: chargeList([budgetCharge('bud_f', NOON)]),
  route: 'route_f',
  client: 'claude-code',
  clientRequestId: 'theirs_f',
}

export const filledClosed: Filled<AttemptClosed> = {
  type: 'attempt_closed',
  call: 7,
  attempt: 3,
  at: NOON + 107,
  outcome: 'failed',
  kind: 'timeout',
  status: 504,
  message: 'Timed out.',
  firstContentMs: 31,
  tokens: {
    input: 11,
    output: 12,
    cacheRead: 13,
    cacheWrite: 14,
    cacheWrite1h: 15,
    reasoning: 16,
    audioInput: 17,
    audioOutput: 18,
  },
  units: { unit: 'seconds', count: 19 },
  usageSource: 'estimated',
  cost: 71,
  priceSource: 'override',
  priceVersion: 'cat:2026-11-20',
}

export const filledEnded: Filled<RequestEnded> = {
  type: 'request_ended',
  call: 7,
  request: 'req_7',
  received: NOON + 7,
  at: NOON + 117,
  style: 'messages',
  stream: true,
  asked: 'fast_f',
  route: 'route_f',
  provider: 'anthropic',
  model: 'claude-sonnet-4-5',
  key: 'key_f',
  team: 'team_f',
  person: 'person_f',
  endUser: 'user_f',
  tags: '{"project":"tag_f"}',
  tag: 'tag_f',
  outcome: 'interrupted',
  status: 502,
  code: 'stream_interrupted',
  message: 'The stream broke.',
  trail: 'anthropic#b7c2:504',
  decision: '{"by":"route"}',
  cache: 'miss',
  firstContentMs: 32,
  overheadUs: 121,
  saved: 9,
  require: 'region=eu; retention=0',
  session: 'ses_kdvbwqhzmrtc',
  agent: 'agent_f',
  guards: 'pii/request/mask/EMAIL:2',
  sessionName: 'session_f',
  trace: '00-f',
  client: 'claude-code',
  clientRequestId: 'theirs_f',
}

/** The same record with another value of one member, for each member that is not in `fixed`. */
export const changedOnce = <Record extends object>(
  record: Record,
  fixed: readonly (keyof Record & string)[],
): readonly (readonly [name: string, record: Record])[] =>
  Object.entries(record)
    .filter(([name]) => !fixed.some((one) => one === name))
    .map(([name, value]) => [name, { ...record, [name]: otherThan(name, value) }])

const otherThan = (name: string, value: unknown): unknown => {
  if (OTHER[name] !== undefined) return OTHER[name]
  if (typeof value === 'boolean') return !value
  if (typeof value === 'number') return value + 1_000
  if (typeof value === 'string') return `${value}_other`
  throw new TypeError(`there is no other value of ${name}`)
}

/** Members with few values, or with a form. */
const OTHER: Readonly<Record<string, unknown>> = {
  charges: chargeList([budgetCharge('bud_other', NOON)]),
  outcome: 'unknown',
  usageSource: 'exact',
  priceSource: 'none',
  cache: 'hit',
  tokens: { ...NO_TOKENS, input: 99 },
  units: { unit: 'images/1024x1024', count: 2 },
}
