/**
 * The clients of the scenario: an open loop of whole answers, streams, conversations, retries with an Idempotency-Key and
 * background responses, with keys that have limits or budgets. Each request is recorded with what was wrong with it.
 */
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type JsonObject, list, object, parseObject, text } from '../../src/core/json.ts'
import { eventsIn, isComplete, type Style } from '../e2e/support/stage.ts'
import { secretOf } from './fleet.ts'
import { answerTo } from './provider.ts'

/**
 * A store that may be away: without counters a `strict` budget refuses; without the storage of responses a conversation cannot be
 * continued, and repeats of an Idempotency-Key at another gateway are not recognised.
 */
export type Lost = 'counters' | 'responses'

/** A request to the balancer, and its answer. */
export type Exchange = {
  /** The name of the operation that it belongs to, which is also its `x-request-id`. */
  readonly name: string
  readonly begun: number
  /** 0: the connection broke. */
  status: number
  body: string
  /** ms to the first byte of the answer. */
  first: number
  ended: boolean
  /** In progress while a gateway was killed, so that it may have been on a connection to it. */
  spared: boolean
  /** Stores that were away, from a gateway at least, while it was in progress. */
  without: ReadonlySet<Lost>
  limit: string | undefined
}

/** The end of an operation of one or more requests; `problem`: null if everything was as it should be. */
export type Outcome = { readonly name: string; readonly kind: string; readonly problem: string | null }

export type Ask = {
  readonly name: string
  readonly secret: string
  readonly path: string
  readonly body?: JsonObject
  readonly headers?: Readonly<Record<string, string>>
}

export class Client {
  readonly exchanges: Exchange[] = []
  readonly outcomes: Outcome[] = []
  readonly #url: string
  readonly #agent = new Agent({ keepAlive: true })
  readonly #open = new Set<Exchange>()
  #lost: ReadonlySet<Lost> = new Set()
  #isSparing = false

  constructor(url: string) {
    this.#url = url
  }

  /** Runs a function that kills a gateway: requests that are in progress meanwhile may break. */
  async sparing(kill: () => Promise<void>): Promise<void> {
    for (const exchange of this.#open) exchange.spared = true
    this.#isSparing = true
    await kill()
    this.#isSparing = false
  }

  /** From now on these stores are away. */
  lose(lost: readonly Lost[]): void {
    this.#lost = new Set(lost)
    for (const exchange of this.#open) exchange.without = new Set([...exchange.without, ...lost])
  }

  record(outcome: Outcome): void {
    this.outcomes.push(outcome)
  }

  /** Sends a request and reads its answer to the end. Never rejects. */
  send({ name, secret, path, body, headers = {} }: Ask, url = this.#url): Promise<Exchange> {
    const begun = performance.now()
    const exchange: Exchange = {
      name,
      begun,
      status: 0,
      body: '',
      first: 0,
      ended: false,
      spared: this.#isSparing,
      without: this.#lost,
      limit: undefined,
    }
    this.exchanges.push(exchange)
    this.#open.add(exchange)
    return new Promise((resolve) => {
      const finish = (status: number) => {
        if (!this.#open.delete(exchange)) return
        exchange.status = status
        resolve(exchange)
      }
      const sent = request(
        url + path,
        {
          method: body === undefined ? 'GET' : 'POST',
          agent: this.#agent,
          headers: {
            authorization: `Bearer ${secret}`,
            'content-type': 'application/json',
            'x-request-id': name,
            ...headers,
          },
        },
        (answer) => {
          exchange.first = performance.now() - begun
          exchange.limit = text(answer.headers['x-headgate-limit'])
          answer.setEncoding('utf8')
          answer.on('data', (piece: string) => {
            exchange.body += piece
          })
          answer.once('close', () => {
            exchange.ended = answer.complete
            finish(answer.complete ? (answer.statusCode ?? 0) : 0)
          })
        },
      )
      sent.once('error', () => finish(0))
      sent.end(body === undefined ? undefined : JSON.stringify(body))
    })
  }

  close(): void {
    this.#agent.destroy()
  }
}

// ── Operations ───────────────────────────────────────────────────────────────────────────────────────────────────

/** The key without limits. */
const OPEN = secretOf('open')

type Operation = (client: Client, name: string) => Promise<string | null>

const BODIES = {
  chat: (name: string) => ({ model: 'm', max_tokens: 100, messages: [{ role: 'user', content: name }] }),
  responses: (name: string) => ({ model: 'm', max_output_tokens: 100, input: name }),
} as const
const PATHS = { chat: '/v1/chat/completions', responses: '/v1/responses' } as const

const described = ({ status, body }: Exchange): string => `status ${status}: ${body.slice(0, 300)}`

/** The text of a whole answer. */
const wholeText = (style: Style, body: JsonObject | undefined): string | undefined =>
  style === 'chat'
    ? text(object(object(list(body?.choices)[0])?.message)?.content)
    : text(object(list(object(list(body?.output)[0])?.content)[0])?.text)

const streamedText = (style: Style, body: string): string =>
  eventsIn(body)
    .map((event) =>
      style === 'chat' ? event.choices?.[0]?.delta?.content : /text\.delta$/.test(event.type) && event.delta,
    )
    .filter((piece) => typeof piece === 'string')
    .join('')

/** Null, or what is wrong with the answer. */
const problemOf = (exchange: Exchange, style: Style, expected: string): string | null => {
  if (exchange.status !== 200) return described(exchange)
  const isStream = !exchange.body.startsWith('{')
  if (isStream && !isComplete(style, exchange.body)) return `incomplete: ${exchange.body.slice(-300)}`
  const found = isStream ? streamedText(style, exchange.body) : wholeText(style, parseObject(exchange.body))
  return found === expected ? null : `another text: ${exchange.body.slice(0, 300)}`
}

/** ms before a request is sent again that a gateway without its storage has refused. */
const PAUSE = 250

/**
 * What clients send again: a request that broke because a gateway was killed, and one that was refused because the storage of
 * responses is away.
 */
const sendAgain = async (client: Client, ask: Ask): Promise<Exchange> => {
  for (;;) {
    const exchange = await client.send(ask)
    const isRefused = exchange.status === 503 && exchange.body.includes('"storage_unavailable"')
    if (!exchange.spared && !(isRefused && exchange.without.has('responses'))) return exchange
    if (exchange.status === 200) return exchange
    await sleep(PAUSE)
  }
}

const ask =
  (style: Style, stream: boolean): Operation =>
  async (client, name) => {
    const exchange = await client.send({
      name,
      secret: OPEN,
      path: PATHS[style],
      body: { ...BODIES[style](name), stream },
    })
    return exchange.spared ? null : problemOf(exchange, style, answerTo(name, 1))
  }

/** Five turns, whole and streamed in turn, each of which continues the one before; less if one could not be stored, and says so. */
const conversation: Operation = async (client, name) => {
  let previous: string | undefined
  for (let turn = 1; turn <= 5; turn++) {
    const own = `${name}.${turn}`
    const stream = turn % 2 === 0
    const body = { ...BODIES.responses(own), stream, ...(previous !== undefined && { previous_response_id: previous }) }
    const exchange = await sendAgain(client, { name: own, secret: OPEN, path: PATHS.responses, body })
    const problem = problemOf(exchange, 'responses', answerTo(own, turn))
    if (problem !== null) return `turn ${turn}: ${problem}`
    const answer = stream ? object(eventsIn(exchange.body).at(-1)?.response) : parseObject(exchange.body)
    // It says that it cannot be continued.
    if (answer?.store === false && exchange.without.has('responses')) return null
    previous = text(answer?.id)
  }
  return null
}

/** The same request twice with one Idempotency-Key: the second one while the first is in progress, or after it. */
const retry: Operation = async (client, name) => {
  const isLate = Number(name.split('-')[1]) % 2 === 0
  const twice = { name, secret: OPEN, path: PATHS.chat, body: BODIES.chat(name), headers: { 'idempotency-key': name } }
  const first = sendAgain(client, twice)
  await (isLate ? first : sleep(10))
  const answers = await Promise.all([first, sendAgain(client, twice)])
  return answers.map((each) => problemOf(each, 'chat', answerTo(name, 1))).find((problem) => problem !== null) ?? null
}

/** A background response, polled until it has ended. */
const background: Operation = async (client, name) => {
  const body = { ...BODIES.responses(name), background: true }
  const created = await sendAgain(client, { name, secret: OPEN, path: PATHS.responses, body })
  const id = text(parseObject(created.body)?.id)
  if (created.status !== 200 || id === undefined) return described(created)
  for (;;) {
    const seen = await sendAgain(client, { name, secret: OPEN, path: `${PATHS.responses}/${id}` })
    if (seen.status !== 200) return `polled: ${described(seen)}`
    const status = text(parseObject(seen.body)?.status)
    if (status !== 'queued' && status !== 'in_progress') return problemOf(seen, 'responses', answerTo(name, 1))
    await sleep(100)
  }
}

const isLimited = ({ status, limit }: Exchange, refusal: number, name: string): boolean =>
  status === refusal && (limit ?? '').startsWith(`${name};`)

const REFUSALS: { readonly [kind: string]: (exchange: Exchange) => boolean } = {
  rate: (exchange) => isLimited(exchange, 429, 'requests'),
  slots: (exchange) => isLimited(exchange, 429, 'concurrent'),
  hard: (exchange) => isLimited(exchange, 402, 'budget'),
  // A strict budget refuses while its counters cannot be reached.
  strict: (exchange) => exchange.without.has('counters') && isLimited(exchange, 503, 'budget'),
}

/** A request of a key whose limit may refuse it, and must say so. */
const limited =
  (kind: string, key: string): Operation =>
  async (client, name) => {
    const exchange = await client.send({ name, secret: secretOf(key), path: PATHS.chat, body: BODIES.chat(name) })
    return exchange.spared || REFUSALS[kind]?.(exchange) ? null : problemOf(exchange, 'chat', answerTo(name, 1))
  }

/** A request of the budget that this part of the scenario spends. */
const SPENDING = null

/** What begins in turn; a request each, but for conversations with 5, retries with 2, and background responses. */
const CYCLE: readonly (readonly [kind: string, run: Operation] | typeof SPENDING)[] = [
  ['whole', ask('chat', false)],
  ['stream', ask('chat', true)],
  SPENDING,
  ['conversation', conversation],
  ['rate', limited('rate', 'rate')],
  SPENDING,
  ['answer', ask('responses', false)],
  ['stream', ask('chat', true)],
  SPENDING,
  ['retry', retry],
  ['strict', limited('strict', 'strict')],
  SPENDING,
  ['events', ask('responses', true)],
  ['background', background],
  ['whole', ask('chat', false)],
  SPENDING,
  ['stream', ask('chat', true)],
  ['rate', limited('rate', 'rate')],
  ['events', ask('responses', true)],
  ['whole', ask('chat', false)],
]

/** Operations that begin each second: with those of several requests, about 100 requests a second. */
export const RATE = Number(process.env.SCENARIO_RATE ?? 60)
/** ms */
const TICK = 25
/** Clients of the key with a limit of requests in progress, and ms between an answer and the next request of one. */
const SLOTS = { clients: 12, pause: 300 } as const

export type Load = {
  /** Resolves when so many further operations have begun. */
  pass(count: number): Promise<void>
  /** Begins nothing more; resolves when everything has ended. */
  stop(): Promise<void>
}

/** An open loop: operations begin at their times, also if earlier ones have not ended. `spending`: the key of the budget. */
export const startLoad = (client: Client, spending: () => string): Load => {
  const running = new Set<Promise<void>>()
  let begun = 0
  const next = () => {
    const key = spending()
    const [kind, run] = CYCLE[begun % CYCLE.length] ?? [key, limited('hard', key)]
    const name = `${kind}-${begun++}`
    const ended = run(client, name).then(
      (problem) => client.record({ name, kind, problem }),
      (error: unknown) => client.record({ name, kind, problem: String(error) }),
    )
    running.add(ended)
    void ended.then(() => running.delete(ended))
  }
  let due = 0
  const timer = setInterval(() => {
    due += (RATE * TICK) / 1_000
    for (; due >= 1; due--) next()
  }, TICK)
  let isOver = false
  const slots = Array.from({ length: SLOTS.clients }, async (_, at) => {
    const run = limited('slots', 'slots')
    for (let turn = 0; !isOver; turn++) {
      const name = `slots-${at}.${turn}`
      client.record({ name, kind: 'slots', problem: await run(client, name) })
      await sleep(SLOTS.pause)
    }
  })
  return {
    async pass(count) {
      for (const end = begun + count; begun < end; ) await sleep(TICK)
    },
    async stop() {
      clearInterval(timer)
      isOver = true
      await Promise.all(slots)
      await Promise.all(running)
    },
  }
}
