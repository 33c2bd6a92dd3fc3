/**
 * Simulated upstreams: each provider, key and deployment is a Markov chain over the modes of a table, and a call runs a
 * script of its current mode.
 */
import { type Failure, fail } from '../../src/core/failure.ts'
import type { Cancel, OngoingCall, UpstreamListener } from '../../src/core/world.ts'
import { between, type Chance, drawing, exponential, integer, logNormal, pick } from './chance.ts'
import { type Answer, answer, errorEvent, errorText, type Style } from './wires.ts'

/** The true meaning of a response, for comparison with the gateway's classification. */
export type Meaning =
  /** A response, or a failure of the upstream. */
  | 'answer'
  | 'health'
  | 'rate'
  | 'quota'
  | 'auth'
  | 'denied'
  | 'missing'
  | 'request'
  | 'policy'
  | 'context'
  | 'conflict'
  | 'empty'

export type Poison = 'request' | 'policy' | 'context'

export type Step =
  | {
      readonly after: number
      readonly act: 'head'
      readonly status: number
      readonly headers: Readonly<Record<string, string>>
      /** A wait (ms) sent as a date of the wall clock. */
      readonly dated?: number
    }
  | { readonly after: number; readonly act: 'bytes'; readonly chunk: Uint8Array; readonly finished?: true }
  | { readonly after: number; readonly act: 'end' }
  | { readonly after: number; readonly act: 'fail'; readonly failure: Failure }
  /** No further step, forever. */
  | { readonly after: number; readonly act: 'silence' }

export type Script = {
  readonly steps: readonly Step[]
  readonly meaning: Meaning
  /** It contains the complete response with its end. */
  readonly complete: boolean
  /** It contains an unreadable event. */
  readonly gaps: boolean
  readonly words: number
  /** The requested wait in ms. */
  readonly wait: number | null
}

export type Scene = {
  readonly style: Style
  readonly stream: boolean
  readonly usage: boolean
  readonly tag: string
  readonly connectTimeout: number
  /** The key of the call, which some upstreams repeat in errors. */
  readonly secret: string
  readonly chance: Chance
  readonly poison: Poison | null
}

type Draft = { -readonly [name in keyof Script]: Script[name] } & { steps: Step[] }

const SSE = { 'content-type': 'text/event-stream' }
const JSON_TYPE = { 'content-type': 'application/json' }
const HTML = '<!doctype html><html><body>Bad gateway</body></html>'

class Writing {
  readonly scene: Scene
  readonly draft: Draft
  constructor(scene: Scene, meaning: Meaning) {
    this.scene = scene
    this.draft = { steps: [], meaning, complete: false, gaps: false, words: 0, wait: null }
  }
  head(after: number, status: number, headers: Readonly<Record<string, string>>, dated?: number): this {
    this.draft.steps.push({ after, act: 'head', status, headers, ...(dated !== undefined && { dated }) })
    return this
  }
  /** Splits text at random, with up to `gap` ms between pieces, and marks the piece that reaches `finished`. */
  text(text: string, gap: number, finished = -1, most = 5): this {
    const bytes = Buffer.from(text)
    const at = finished === -1 ? Number.POSITIVE_INFINITY : Buffer.byteLength(text.slice(0, finished))
    const { chance } = this.scene
    const cuts = Array.from({ length: integer(chance, 0, most - 1) }, () => Math.floor(chance() * bytes.length)).sort(
      (a, b) => a - b,
    )
    let from = 0
    for (const until of [...cuts, bytes.length]) {
      if (until === from) continue
      const chunk = bytes.subarray(from, until)
      const marked = until >= at && from < at
      this.draft.steps.push({
        after: from === 0 ? 0 : chance() * gap,
        act: 'bytes',
        chunk,
        ...(marked && { finished: true }),
      })
      from = until
    }
    return this
  }
  end(after = 0): this {
    this.draft.steps.push({ after, act: 'end' })
    return this
  }
  fail(after: number, failure: Failure): this {
    this.draft.steps.push({ after, act: 'fail', failure })
    return this
  }
  silence(): this {
    this.draft.steps.push({ after: 0, act: 'silence' })
    return this
  }
  get script(): Script {
    return this.draft
  }
}

const latency = (chance: Chance): number => Math.min(1_500, 20 + logNormal(chance, 250, 0.7))

const answerFor = (
  { style, stream, usage, tag, chance }: Scene,
  words = integer(chance, 1, 12),
): Answer & { words: number } => ({
  ...answer({ style, stream, usage }, words, tag),
  words,
})

const begin = (scene: Scene, meaning: Meaning, wait = latency(scene.chance)): Writing =>
  new Writing(scene, meaning).head(wait, 200, scene.stream ? SSE : JSON_TYPE)

const answering = (scene: Scene, gap: number, wait?: number): Writing => {
  const reply = answerFor(scene)
  const writing = begin(scene, 'answer', wait)
  writing.draft.complete = true
  writing.draft.words = reply.words
  return writing.text(reply.text, gap, reply.finished)
}

type ErrorReply = {
  readonly type: string
  readonly message: string
  readonly code?: string
  readonly headers?: Readonly<Record<string, string>>
}

const refusing =
  (meaning: Meaning, status: number, { type, message, code, headers = {} }: ErrorReply) =>
  (scene: Scene): Script =>
    new Writing(scene, meaning)
      .head(latency(scene.chance) / 2, status, { ...JSON_TYPE, ...headers })
      .text(errorText(scene.style, type, message, code), 50, -1, 2)
      .end().script

/** A 429 or similar response with a retry time. */
const waiting =
  (meaning: Meaning, status: number, type: string, how: 'seconds' | 'ms' | 'date' | 'none') =>
  (scene: Scene): Script => {
    const wait =
      how === 'seconds' || how === 'date' ? integer(scene.chance, 1, 40) * 1_000 : integer(scene.chance, 50, 20_000)
    const headers: Record<string, string> =
      how === 'seconds'
        ? { 'retry-after': String(wait / 1_000) }
        : how === 'ms'
          ? { 'retry-after-ms': String(wait) }
          : {}
    const writing = new Writing(scene, meaning).head(
      latency(scene.chance) / 2,
      status,
      { ...JSON_TYPE, ...headers },
      how === 'date' ? wait : undefined,
    )
    if (how !== 'none') writing.draft.wait = wait
    return writing.text(errorText(scene.style, type, 'Slow down.', type), 20, -1, 2).end().script
  }

const broken =
  (failure: Failure) =>
  (scene: Scene): Script =>
    new Writing(scene, 'health').fail(between(scene.chance, 1, 80), failure).script

/** A stream cut before its finish reason, or a body cut anywhere. */
const cut = (scene: Scene, how: 'end' | 'reset' | 'silence' | 'comments'): Script => {
  const reply = answerFor(scene)
  const at = Math.floor(scene.chance() * (scene.stream ? reply.finish : reply.text.length - 1))
  const writing = begin(scene, 'health').text(reply.text.slice(0, at), 200)
  writing.draft.words = reply.words
  if (how === 'end') return writing.end(20).script
  if (how === 'reset')
    return writing.fail(20, fail('reset', 'The connection broke in the middle of the answer.')).script
  if (how === 'comments' && scene.stream)
    for (let n = 0; n < 60; n++) writing.draft.steps.push({ after: 4_000, act: 'bytes', chunk: COMMENT })
  return writing.silence().script
}

const COMMENT = Buffer.from(': wait\n\n')

const inStream =
  (type: string, code: string, after: 'first' | 'lifecycle' | 'content') =>
  (scene: Scene): Script => {
    const event = errorEvent(scene.style, type, 'Something broke.', code)
    if (!scene.stream)
      return begin(scene, 'health')
        .text(errorText(scene.style, type, 'Something broke.', code), 20)
        .end().script
    const reply = answerFor(scene)
    const until = after === 'first' ? 0 : after === 'lifecycle' ? reply.content : endOfEvent(reply.text, middle(reply))
    const writing = begin(scene, 'health').text(reply.text.slice(0, until) + event, 100, Number.MAX_SAFE_INTEGER)
    writing.draft.words = reply.words
    return writing.end(10).script
  }

/** After the first word, before the end. */
const middle = ({ content, finish }: Answer): number => Math.min(finish, content + 1)
const endOfEvent = (text: string, from: number): number => text.indexOf('\n\n', from) + 2

export const MODES = {
  healthy: (scene: Scene): Script => answering(scene, 120).end().script,
  slow: (scene: Scene): Script => answering(scene, 4_000, logNormal(scene.chance, 6_000, 1)).end().script,
  /** The finish reason is sent, `[DONE]` is not. */
  no_done: (scene: Scene): Script => {
    const reply = answerFor(scene)
    const writing = begin(scene, 'answer').text(reply.text.slice(0, reply.terminator), 100, reply.finished)
    Object.assign(writing.draft, { complete: true, words: reply.words })
    return writing.end(20).script
  },
  /** The response is complete, but the body does not end. */
  lingering: (scene: Scene): Script => answering(scene, 100).silence().script,
  /** Bytes after the terminator, and a connection error. */
  late_bytes: (scene: Scene): Script => {
    if (!scene.stream) return cut(scene, 'reset')
    const writing = answering(scene, 100).text(`: late\n\ndata: {"error":{"message":"late"}}\n\n`, 40)
    return writing.fail(30, fail('reset', 'The connection broke in the middle of the answer.')).script
  },
  limited_s: waiting('rate', 429, 'rate_limit_error', 'seconds'),
  limited_ms: waiting('rate', 429, 'rate_limit_error', 'ms'),
  limited_date: waiting('rate', 429, 'rate_limit_error', 'date'),
  limited: waiting('rate', 429, 'rate_limit_error', 'none'),
  /** Anthropic's 413 refers to the size of the request itself. */
  token_rate: (scene: Scene): Script =>
    scene.style === 'messages'
      ? waiting('rate', 429, 'rate_limit_error', 'none')(scene)
      : refusing('rate', 413, {
          type: 'tokens',
          message: 'Request too large for the tokens of a minute.',
          code: 'rate_limit_exceeded',
        })(scene),
  overloaded: waiting('health', 503, 'overloaded_error', 'none'),
  overloaded_s: waiting('health', 529, 'overloaded_error', 'seconds'),
  error: refusing('health', 500, { type: 'server_error', message: 'The server had an error.' }),
  /** The error repeats the key. */
  quoting: (scene: Scene): Script =>
    refusing('health', 500, { type: 'server_error', message: `Could not use ${scene.secret} for this.` })(scene),
  html_error: (scene: Scene): Script =>
    new Writing(scene, 'health').head(60, 502, { 'content-type': 'text/html' }).text(HTML, 5).end().script,
  html_200: (scene: Scene): Script =>
    new Writing(scene, 'health').head(60, 200, { 'content-type': 'text/html' }).text(HTML, 5).end().script,
  redirect: (scene: Scene): Script =>
    new Writing(scene, 'health').head(60, 302, { location: 'https://elsewhere.test/' }).end().script,
  conflict: refusing('conflict', 409, { type: 'conflict_error', message: 'The item is locked.' }),
  timeout_408: refusing('health', 408, { type: 'timeout_error', message: 'The request timed out.' }),
  refused: broken(fail('refused', 'The connection was refused (ECONNREFUSED).', { unsent: true })),
  dns: broken(fail('dns', 'The host name is not known (ENOTFOUND).', { unsent: true })),
  dns_again: broken(
    fail('dns', 'The name server gave no answer (EAI_AGAIN).', { unsent: true, upstream: { code: 'EAI_AGAIN' } }),
  ),
  tls: broken(fail('tls', 'No secure connection could be made (CERT_HAS_EXPIRED).', { unsent: true })),
  reset: broken(fail('reset', 'The connection was closed without an answer.')),
  not_http: broken(fail('not_http', 'What came back is not HTTP.')),
  no_connection: (scene: Scene): Script =>
    scene.connectTimeout === 0
      ? new Writing(scene, 'health').silence().script
      : new Writing(scene, 'health').fail(
          scene.connectTimeout,
          fail('connect_timeout', `No connection was made within ${scene.connectTimeout} ms.`, { unsent: true }),
        ).script,
  no_head: (scene: Scene): Script => new Writing(scene, 'health').silence().script,
  head_only: (scene: Scene): Script => begin(scene, 'health').silence().script,
  comments_only: (scene: Scene): Script => {
    const writing = begin(scene, 'health')
    for (let n = 0; n < 60; n++) writing.draft.steps.push({ after: 2_000, act: 'bytes', chunk: COMMENT })
    return writing.silence().script
  },
  truncated: (scene: Scene): Script => cut(scene, 'end'),
  cut_off: (scene: Scene): Script => cut(scene, 'reset'),
  stalling: (scene: Scene): Script => cut(scene, 'silence'),
  trickling: (scene: Scene): Script => cut(scene, 'comments'),
  error_first: inStream('server_error', 'server_error', 'first'),
  error_lifecycle: inStream('server_error', 'server_error', 'lifecycle'),
  error_middle: inStream('server_error', 'server_error', 'content'),
  overloaded_inside: inStream('overloaded_error', 'server_is_overloaded', 'lifecycle'),
  malformed: (scene: Scene): Script =>
    begin(scene, 'health')
      .text(scene.stream ? 'data: {"choices":[{"del\n\n' : '{"choices": [}', 20)
      .end().script,
  /** One text event is unreadable; the following are valid. */
  malformed_middle: (scene: Scene): Script => {
    if (!scene.stream) return begin(scene, 'health').text('[]', 1).end().script
    const reply = answerFor(scene)
    const at = endOfEvent(reply.text, middle(reply))
    const text = `${reply.text.slice(0, at)}data: {"oops\n\n${reply.text.slice(at)}`
    const writing = begin(scene, scene.style === 'chat' ? 'answer' : 'health').text(
      text,
      60,
      text.length - (reply.text.length - reply.finished),
    )
    Object.assign(writing.draft, { complete: true, gaps: true, words: reply.words })
    return writing.end().script
  },
  empty: (scene: Scene): Script => {
    const reply = answerFor(scene, 0)
    const writing = begin(scene, 'empty').text(reply.text, 40, reply.finished)
    writing.draft.complete = true
    return writing.end().script
  },
  unauthorized: refusing('auth', 401, {
    type: 'authentication_error',
    message: 'The key is not valid.',
    code: 'invalid_api_key',
  }),
  quota: refusing('quota', 429, {
    type: 'insufficient_quota',
    message: 'You exceeded your current quota.',
    code: 'insufficient_quota',
  }),
  payment: refusing('quota', 402, { type: 'billing_error', message: 'Insufficient balance.' }),
  denied: refusing('denied', 403, { type: 'permission_error', message: 'This key may not use this model.' }),
  missing: refusing('missing', 404, {
    type: 'not_found_error',
    message: 'The model does not exist.',
    code: 'model_not_found',
  }),
} as const satisfies { readonly [name: string]: (scene: Scene) => Script }
export type Mode = keyof typeof MODES

const POISONED: { readonly [poison in Poison]: (scene: Scene) => Script } = {
  request: refusing('request', 400, { type: 'invalid_request_error', message: 'The value is not valid.' }),
  policy: (scene) =>
    refusing('policy', 400, {
      type: scene.style === 'messages' ? 'content_policy_violation' : 'invalid_request_error',
      message: 'It was refused.',
      code: 'content_policy_violation',
    })(scene),
  context: refusing('context', 400, {
    type: 'invalid_request_error',
    message: 'prompt is too long: 9000 tokens > 8000 maximum',
    code: 'context_length_exceeded',
  }),
}

export const scriptFor = (mode: Mode, scene: Scene): Script => {
  const answers = mode === 'healthy' || mode === 'slow' || mode === 'no_done' || mode === 'lingering'
  return answers && scene.poison ? POISONED[scene.poison](scene) : MODES[mode](scene)
}

const rowsOf = (modes: readonly (readonly [Mode, number])[]) => drawing(modes)

/** Failure modes of a whole provider. */
const PROVIDER_TROUBLE = rowsOf([
  ['refused', 3],
  ['dns', 1],
  ['dns_again', 1],
  ['tls', 1],
  ['reset', 2],
  ['not_http', 1],
  ['no_connection', 2],
  ['no_head', 2],
  ['error', 3],
  ['html_error', 1],
  ['html_200', 1],
  ['overloaded', 2],
  ['redirect', 1],
  ['truncated', 2],
])
/** Failure modes of a key. */
const KEY_TROUBLE = rowsOf([
  ['unauthorized', 2],
  ['quota', 2],
  ['payment', 1],
])
/** Failure modes of a key at a model. */
const DEPLOYMENT_TROUBLE = rowsOf([
  ['slow', 6],
  ['no_done', 3],
  ['lingering', 2],
  ['late_bytes', 2],
  ['limited_s', 3],
  ['limited_ms', 3],
  ['limited_date', 2],
  ['limited', 3],
  ['token_rate', 1],
  ['overloaded', 2],
  ['overloaded_s', 2],
  ['error', 6],
  ['quoting', 2],
  ['html_200', 1],
  ['redirect', 1],
  ['conflict', 1],
  ['timeout_408', 1],
  ['reset', 2],
  ['no_head', 2],
  ['head_only', 2],
  ['comments_only', 1],
  ['truncated', 4],
  ['cut_off', 4],
  ['stalling', 3],
  ['trickling', 1],
  ['error_first', 2],
  ['error_lifecycle', 2],
  ['error_middle', 2],
  ['overloaded_inside', 1],
  ['malformed', 2],
  ['malformed_middle', 2],
  ['empty', 2],
  ['denied', 1],
  ['missing', 1],
])

/** Mean ms of good and bad periods, and the probability of a good mode at the start. */
export type Reliability = { readonly good: number; readonly bad: number }
export const RELIABILITIES: readonly [Reliability, ...Reliability[]] = [
  { good: 200_000, bad: 3_000 },
  { good: 30_000, bad: 8_000 },
  { good: 8_000, bad: 8_000 },
  { good: 4_000, bad: 20_000 },
]

/** Evaluated lazily, at the next call. */
class Chain {
  readonly #chance: Chance
  readonly #reliability: Reliability
  readonly #trouble: (chance: Chance) => Mode
  #mode: Mode = 'healthy'
  #until: number

  constructor(chance: Chance, reliability: Reliability, trouble: (chance: Chance) => Mode, now: number) {
    this.#chance = chance
    this.#reliability = reliability
    this.#trouble = trouble
    this.#until = now
    // A run may begin in a bad mode.
    this.#mode = chance() * (reliability.good + reliability.bad) < reliability.good ? this.#trouble(chance) : 'healthy'
  }

  at(now: number): Mode {
    while (now >= this.#until) {
      const well = this.#mode !== 'healthy'
      this.#mode = well ? 'healthy' : this.#trouble(this.#chance)
      this.#until += 1 + exponential(this.#chance, well ? this.#reliability.good : this.#reliability.bad)
    }
    return this.#mode
  }
}

/** The modes of all upstreams. */
export class UpstreamModes {
  readonly #chance: Chance
  readonly #reliability: Reliability
  readonly #start: number
  readonly #chains = new Map<string, Chain>()
  /** All upstreams stay healthy from now on. */
  allHealthy = false

  constructor(chance: Chance, now: number) {
    this.#chance = chance
    this.#reliability = pick(chance, RELIABILITIES)
    this.#start = now
  }

  at(now: number, provider: string, key: string, deployment: string): Mode {
    if (this.allHealthy) return 'healthy'
    const { good, bad } = this.#reliability
    const ofProvider = this.#chain(provider, { good: good * 3, bad }, PROVIDER_TROUBLE).at(now)
    if (ofProvider !== 'healthy') return ofProvider
    const ofKey = this.#chain(key, { good: good * 4, bad: bad * 2 }, KEY_TROUBLE).at(now)
    return ofKey === 'healthy' ? this.#chain(deployment, this.#reliability, DEPLOYMENT_TROUBLE).at(now) : ofKey
  }

  #chain(id: string, reliability: Reliability, trouble: (chance: Chance) => Mode): Chain {
    const known = this.#chains.get(id)
    if (known) return known
    const chain = new Chain(this.#chance, reliability, trouble, this.#start)
    this.#chains.set(id, chain)
    return chain
  }
}

export type PlayerDeps = {
  readonly after: (ms: number, run: () => void) => Cancel
  readonly date: () => number
  /** Called before each step. */
  readonly onStep: (step: Step) => void
}

/** Plays a script to a listener under the rules of `Dial`: no call before `dial` has returned, after `abort`, or while paused. */
export class ScriptPlayer implements OngoingCall {
  readonly #steps: readonly Step[]
  readonly #listener: UpstreamListener
  readonly #deps: PlayerDeps
  #next = 0
  #paused = false
  #timer: Cancel = () => {}
  /** The script has ended or was aborted. */
  over = false
  aborted = false

  constructor({ steps }: Script, listener: UpstreamListener, deps: PlayerDeps) {
    this.#steps = steps
    this.#listener = listener
    this.#deps = deps
    this.#wait()
  }

  abort(): void {
    if (!this.over) this.aborted = true
    this.over = true
    this.#timer()
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    if (!this.over) this.#wait()
  }

  #wait(): void {
    const step = this.#steps[this.#next]
    if (step && step.act !== 'silence') this.#timer = this.#deps.after(step.after, () => this.#take(step))
  }

  #take(step: Step): void {
    this.#next++
    const last = step.act === 'end' || step.act === 'fail'
    if (last) this.over = true
    this.#deps.onStep(step)
    switch (step.act) {
      case 'head': {
        const { status, headers, dated } = step
        const all: Readonly<Record<string, string>> =
          dated === undefined ? headers : { ...headers, 'retry-after': httpDate(this.#deps.date() + dated) }
        this.#listener.onHeaders(status, (name) => all[name])
        break
      }
      case 'bytes':
        if (!this.#listener.onBody(step.chunk)) this.#paused = true
        break
      case 'end':
        this.#listener.onEnd()
        break
      case 'fail':
        this.#listener.onFailure(step.failure)
        break
      case 'silence':
        break
      default:
        throw new Error(`unknown step ${JSON.stringify(step satisfies never)}`)
    }
    if (!this.over && !this.#paused) this.#wait()
  }
}

/** Rounds up to whole seconds, so that the sent value is never too short. */
const httpDate = (ms: number): string => new Date(Math.ceil(ms / 1_000) * 1_000).toUTCString()
