/**
 * The faults of a provider, by name: `cut@40`, `status=429;retry-after=2#1`. One vocabulary for the fault suite, for replayed
 * tapes and for the demo provider. Imports nothing, so that each of them can use this file. Pure.
 */

/** `at`: complete events of the response before the fault. `attempt`: the only attempt that has it, from 1. */
export type Fault = { readonly attempt?: number } & (
  | { readonly kind: 'status'; readonly status: number; readonly retryAfter?: number }
  | { readonly kind: 'reset' | 'silence' | 'cut-in-tool' | 'no-done' }
  | { readonly kind: 'slow'; readonly ms: number }
  | { readonly kind: 'cut' | 'malformed' | 'error'; readonly at: number }
  | { readonly kind: 'stall'; readonly at: number; readonly ms: number }
)
export type FaultKind = Fault['kind']

type FaultRow = {
  /** How it is written. */
  readonly form: string
  readonly about: string
  readonly takes: { readonly at?: true; readonly value?: readonly [least: number, most: number] }
}

/** ms of `slow` and `stall`: ten minutes. */
const MS = [0, 600_000] as const
const MOST_EVENTS = 1_000_000
const MOST_ATTEMPTS = 1_000
const MOST_SECONDS = 86_400

export const FAULTS: { readonly [kind in FaultKind]: FaultRow } = {
  status: {
    form: 'status=N[;retry-after=S]',
    about: 'an error response with this status',
    takes: { value: [400, 599] },
  },
  reset: { form: 'reset', about: 'the connection is reset before the response', takes: {} },
  silence: { form: 'silence', about: 'no byte of a response, the connection stays open', takes: {} },
  slow: { form: 'slow=MS', about: 'the response begins MS later', takes: { value: MS } },
  cut: { form: 'cut@N', about: 'the connection is closed after N events', takes: { at: true } },
  'cut-in-tool': { form: 'cut-in-tool', about: 'the connection is closed in the arguments of a tool call', takes: {} },
  stall: { form: 'stall@N=MS', about: 'no event for MS after N events', takes: { at: true, value: MS } },
  malformed: { form: 'malformed@N', about: 'an event that is not JSON after N events', takes: { at: true } },
  error: { form: 'error@N', about: 'an error event after N events, then the end', takes: { at: true } },
  'no-done': { form: 'no-done', about: 'the end of a stream without its last marker', takes: {} },
}
// The keys of the table above.
const KINDS = Object.keys(FAULTS) as readonly FaultKind[]
const FORMS = KINDS.map((kind) => FAULTS[kind].form).join(', ')

/** The number of edits from one word to the other. */
const edits = (one: string, other: string): number => {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (const [index, char] of [...one].entries()) {
    const next = [index + 1]
    for (let column = 1; column <= other.length; column++) {
      const replaced = (row[column - 1] ?? 0) + (char === other[column - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[column] ?? 0) + 1, (next[column - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[other.length] ?? 0
}

/** The most similar name, if it is similar at all: for "did you mean". */
export const nearestName = (written: string, names: readonly string[]): string | undefined => {
  const short = written.slice(0, 40).toLowerCase()
  const ranked = names.map((name) => ({ name, far: edits(short, name.toLowerCase()) })).sort((a, b) => a.far - b.far)
  const [best] = ranked
  return best && best.far <= Math.max(2, Math.floor(best.name.length / 2)) ? best.name : undefined
}

export type ParsedFaults =
  | { readonly ok: true; readonly faults: readonly Fault[] }
  | { readonly ok: false; readonly problem: string }

/** Longest text that is read, in characters. */
const LONGEST = 500

/** Parses faults that are separated by commas, such as `status=500#1, cut@3#2`. The problem names the nearest fault. */
export const parseFaults = (text: string): ParsedFaults => {
  if (text.length > LONGEST) return { ok: false, problem: `The faults are too long (limit ${LONGEST} characters).` }
  const faults: Fault[] = []
  for (const part of text.split(',')) {
    const parsed = parseFault(part.trim())
    if (typeof parsed === 'string') return { ok: false, problem: parsed }
    faults.push(parsed)
  }
  return { ok: true, faults }
}

const FAULT = /^([a-z-]+)(?:@(\d+))?(?:=(\d+))?(?:;retry-after=(\d+))?(?:#(\d+))?$/

const parseFault = (text: string): Fault | string => {
  const word = /^[A-Za-z-]+/.exec(text)?.[0] ?? text
  const kind = KINDS.find((one) => one === word)
  if (!kind) {
    const near = nearestName(word, KINDS)
    return `Unknown fault "${text}".${near ? ` Did you mean ${near}?` : ''} The faults are ${FORMS}; #N: attempt N only.`
  }
  const { form, takes } = FAULTS[kind]
  const [, , ...found] = FAULT.exec(text) ?? []
  const [at, value, after, attempt] = found.map((digits) => (digits === undefined ? undefined : Number(digits)))
  const wrong = `Invalid fault "${text}": write ${form}, or ${form}#N for attempt N only.`
  if (found.length === 0 || (at !== undefined) !== (takes.at ?? false)) return wrong
  if ((value !== undefined) !== (takes.value !== undefined) || (after !== undefined && kind !== 'status')) return wrong
  for (const [name, given, least, most] of [
    ['value', value, ...(takes.value ?? MS)],
    ['number of events', at, 0, MOST_EVENTS],
    ['retry-after', after, 0, MOST_SECONDS],
    ['attempt', attempt, 1, MOST_ATTEMPTS],
  ] as const)
    if (given !== undefined && (given < least || given > most))
      return `Invalid fault "${text}": the ${name} ${given} is not from ${least} to ${most}.`
  // Each kind has exactly the members that its row takes, which was checked.
  return {
    kind,
    ...(kind === 'status' ? { status: value } : value !== undefined && { ms: value }),
    ...(at !== undefined && { at }),
    ...(after !== undefined && { retryAfter: after }),
    ...(attempt !== undefined && { attempt }),
  } as Fault
}

/** The fault of an attempt, from 1: one for this attempt before one for all. */
const faultOf = (faults: readonly Fault[], attempt: number): Fault | undefined =>
  faults.find((fault) => fault.attempt === attempt) ?? faults.find((fault) => fault.attempt === undefined)

/** Requests whose attempts are counted at once. */
const MOST_COUNTED = 1_000

/** Numbers the attempts of requests, which it knows by a key. The count of a request ends with an attempt without a fault. */
export class FaultCounter {
  readonly #attempts = new Map<string, number>()

  /** The fault of the next attempt of this request. */
  next(key: string, faults: readonly Fault[]): Fault | undefined {
    const attempt = (this.#attempts.get(key) ?? 0) + 1
    this.#attempts.delete(key)
    const fault = faultOf(faults, attempt)
    if (!fault) return undefined
    this.#attempts.set(key, attempt)
    const [oldest] = this.#attempts.keys()
    if (this.#attempts.size > MOST_COUNTED && oldest !== undefined) this.#attempts.delete(oldest)
    return fault
  }
}

/** A part of a body: text, or bytes of a binary stream. `after`: ms since the part before, or since the head. */
export type Piece = { readonly after: number; readonly data: string | Uint8Array }

export type FaultyResponse = {
  /** Null: nothing arrives. `after`: ms since the request. */
  readonly head: {
    readonly after: number
    readonly status: number
    readonly headers: Readonly<Record<string, string>>
  } | null
  /** A stream has one event a piece (`splitEvents`); a body of one piece is a whole answer. */
  readonly pieces: readonly Piece[]
  /** `complete`: as HTTP requires. `closed`: without the end of the body. `open`: nothing more, and no end. */
  readonly end: 'complete' | 'closed' | 'reset' | 'open'
}

/** Text of a stream of events as one piece for each event; what is no stream of events stays whole. */
export const splitEvents = (text: string): readonly string[] =>
  text.match(/[\s\S]*?(?:\r\n\r\n|\n\n|\r\r|$)/g)?.filter(Boolean) ?? []

/** A tool call's arguments in the styles of OpenAI (chat and responses), Anthropic and Google. */
const TOOL_PART = /"arguments"\s*:\s*"[^"]|input_json_delta|function_call_arguments\.delta|"functionCall"|"tool_use"/
const LAST_MARKER = /^data: ?\[DONE\]\s*$|^event: ?message_stop\b|^data: ?\{\s*"type"\s*:\s*"message_stop"/m
const STREAMED = /^(?:event|data|id|retry|:)/

const textOf = ({ data }: Piece): string => (typeof data === 'string' ? data : '')

/** What an attempt receives in place of a complete response. */
export const applyFault = (fault: Fault, response: FaultyResponse): FaultyResponse => {
  const { head } = response
  const pieces = parts(response.pieces)
  /** Events before the fault: it happens, also in a shorter stream. */
  const at = Math.max(0, Math.min('at' in fault ? fault.at : 0, pieces.length - 1))
  const [before, rest] = [pieces.slice(0, at), pieces.slice(at)]
  switch (fault.kind) {
    case 'status':
      return errorResponse(fault.status, fault.retryAfter, head?.after ?? 0)
    case 'reset':
      return { head: null, pieces: [], end: 'reset' }
    case 'silence':
      return { head: null, pieces: [], end: 'open' }
    case 'slow':
      return { ...response, head: head && { ...head, after: head.after + fault.ms } }
    case 'cut':
      return { ...response, pieces: before, end: 'closed' }
    case 'cut-in-tool':
      return { ...response, pieces: cutInTool(pieces), end: 'closed' }
    case 'stall':
      return {
        ...response,
        pieces: [
          ...before,
          ...rest.map((piece, index) => (index ? piece : { ...piece, after: piece.after + fault.ms })),
        ],
      }
    case 'malformed':
      return { ...response, pieces: [...before, { after: 0, data: 'data: {"malformed": \n\n' }, ...rest] }
    case 'error':
      return { ...response, pieces: [...(isStream(pieces) ? before : []), errorEvent(pieces)], end: 'complete' }
    case 'no-done':
      return { ...response, pieces: response.pieces.filter((piece) => !LAST_MARKER.test(textOf(piece))) }
    default:
      throw new Error(`unknown fault ${JSON.stringify(fault satisfies never)}`)
  }
}

const isStream = (pieces: readonly Piece[]): boolean => {
  const [first] = pieces
  return first !== undefined && (typeof first.data !== 'string' || STREAMED.test(first.data))
}

/** The pieces; a whole answer in two halves, so that a fault can happen within it. */
const parts = (pieces: readonly Piece[]): readonly Piece[] => {
  const [only] = pieces
  if (pieces.length !== 1 || !only || isStream(pieces)) return pieces
  const middle = Math.ceil(only.data.length / 2)
  return [
    { after: only.after, data: only.data.slice(0, middle) },
    { after: 0, data: only.data.slice(middle) },
  ]
}

/** Until half of the second event with arguments; without one, until half of the body. */
const cutInTool = (pieces: readonly Piece[]): readonly Piece[] => {
  const found = pieces.flatMap((piece, index) => (TOOL_PART.test(textOf(piece)) ? [index] : []))
  const at = found[1] ?? found[0] ?? Math.floor(pieces.length / 2)
  const cut = pieces[at]
  if (!cut) return []
  return [...pieces.slice(0, at), { ...cut, data: cut.data.slice(0, Math.ceil(cut.data.length / 2)) }]
}

const MESSAGE = 'The fault that was requested.'

/** In the form that clients of OpenAI and of Anthropic read. */
const errorResponse = (status: number, retryAfter: number | undefined, after: number): FaultyResponse => {
  const [type, code] =
    status === 429
      ? ['rate_limit_error', 'rate_limit_exceeded']
      : status === 529
        ? ['overloaded_error', 'overloaded']
        : status < 500
          ? ['invalid_request_error', 'invalid_request']
          : ['server_error', 'server_error']
  const data = JSON.stringify({ type: 'error', error: { type, message: MESSAGE, code, param: null } })
  const headers = {
    'content-type': 'application/json',
    ...(retryAfter !== undefined && { 'retry-after': String(retryAfter) }),
  }
  return { head: { after, status, headers }, pieces: [{ after: 0, data }], end: 'complete' }
}

/** An error event in the style of the stream; in place of a whole answer, a body with an error. */
const errorEvent = (pieces: readonly Piece[]): Piece => {
  const start = pieces.slice(0, 3).map(textOf).join('')
  const openai = { error: { message: MESSAGE, type: 'server_error', code: 'server_error', param: null } }
  if (!isStream(pieces)) return { after: 0, data: JSON.stringify(openai) }
  if (start.includes('message_start')) {
    const body = { type: 'error', error: { type: 'overloaded_error', message: MESSAGE } }
    return { after: 0, data: `event: error\ndata: ${JSON.stringify(body)}\n\n` }
  }
  if (start.includes('response.created')) {
    const body = { type: 'error', code: 'server_error', message: MESSAGE, param: null, sequence_number: pieces.length }
    return { after: 0, data: `event: error\ndata: ${JSON.stringify(body)}\n\n` }
  }
  return { after: 0, data: `data: ${JSON.stringify(openai)}\n\n` }
}
