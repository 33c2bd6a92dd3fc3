/**
 * The gateways that share a store, as one of them sees them. Each sends a beat every few seconds and is gone when none has come
 * for three of them. A question goes to all; those that do not answer in time are counted as missing.
 */
import { randomBytes } from 'node:crypto'
import type {
  AskOptions,
  GatewayState,
  ListedGateway,
  NamedReplies,
  NamedReply,
  RoleAnswer,
  RoleCall,
} from '../../core/fleet.ts'
import { isObject, parseObject } from '../../core/json.ts'
import type { News, NewsStore, NewsStoreOptions } from '../../news/news-store.ts'
import { decodeMessage, encodeMessage, type FleetMessage } from './fleet-messages.ts'
import { processName } from './fleet-place.ts'
import type { ProcessNotice, ReceivedNotice } from './notice.ts'

export type FleetOptions = {
  /** The name of this gateway. */
  readonly node: string
  readonly open: (options: NewsStoreOptions) => NewsStore
  /** Answers a query in all processes of this gateway. `within`: ms. */
  readonly answer: (ask: string, within: number) => Promise<NamedReplies>
  readonly onNotice: (received: ReceivedNotice) => void
  /** The store cannot be used, for this reason, or can again (null). */
  readonly onState: (problem: string | null) => void
}

/** ms. `gone`: without a message. `late`: age of a question whose asker no longer waits. `answer`: for the state of this gateway. */
const TIMES = { beat: 4_000, gone: 12_500, late: 5_000, answer: 1_000 }
/** ms for which a role is kept without being claimed again. */
const ROLE = 20_000
/** The query of which a beat is made. */
const BEAT = JSON.stringify({ do: 'beat' })

type SeenGateway = { readonly state: GatewayState; readonly seenAt: number }

type AskedQuestion = { readonly waiting: Set<string>; readonly replies: NamedReply[]; readonly done: () => void }

export class Fleet {
  readonly node: string
  readonly #options: FleetOptions
  readonly #store: NewsStore
  /** The other gateways. */
  readonly #members = new Map<string, SeenGateway>()
  readonly #questions = new Map<string, AskedQuestion>()
  readonly #instance = randomBytes(6).toString('base64url')
  readonly #timer: NodeJS.Timeout
  #count = 0
  #problem: string | null = null
  #own: GatewayState | null = null

  /** Begins at once. Throws if the address of the store cannot be read. */
  constructor(options: FleetOptions) {
    this.node = options.node
    this.#options = options
    this.#store = options.open({
      node: options.node,
      onNews: (news) => {
        for (const one of news) {
          try {
            this.#receive(one)
          } catch {
            // A gateway of another version has written it. The messages after it are read all the same.
          }
        }
      },
      onState: (problem) => this.#setProblem(problem),
    })
    this.#timer = setInterval(() => void this.#beat(false), TIMES.beat).unref()
    void this.#beat(true)
  }

  /** All gateways, this one first. */
  gateways(): readonly ListedGateway[] {
    const now = performance.now()
    const others = [...this.#others()].map(([node, { state, seenAt }]) => ({
      node,
      ...state,
      seen_ms: Math.round(now - seenAt),
    }))
    const own = this.#own ? [{ node: this.node, ...this.#own, seen_ms: 0 }] : []
    return [...own, ...others.toSorted((a, b) => (a.node < b.node ? -1 : 1))]
  }

  /** The processes of all gateways, as far as this one has had news of them. */
  processes(): number {
    return this.gateways().reduce((sum, { processes }) => sum + processes.of, 0)
  }

  /** The answers of the other gateways. Does not reject. */
  async ask(ask: string, { within, isKept }: AskOptions): Promise<NamedReplies> {
    const others = [...this.#others()]
    const of = others.reduce((sum, [, { state }]) => sum + state.processes.of, 0)
    if (others.length === 0 && !isKept) return { of, replies: [] }
    const id = `${this.#instance}-${++this.#count}`
    const replies: NamedReply[] = []
    const answered = new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, within)
      const done = () => {
        clearTimeout(timer)
        resolve()
      }
      this.#questions.set(id, { waiting: new Set(others.map(([node]) => node)), replies, done })
      if (others.length === 0) done()
      this.#send({ is: 'ask', id, ask, within, isKept }).catch(done)
    })
    await answered
    this.#questions.delete(id)
    return { of, replies }
  }

  /** Sends a notice to all other gateways, or to one. Without the store it is lost: notices are hints. */
  tell(notice: ProcessNotice, to: string | null = null): void {
    this.#send({ is: 'notice', notice }, to).catch(() => {})
  }

  /** A role that one gateway has at a time, and what it has saved. Rejects while the store cannot be used. */
  async runRole(role: string, call: RoleCall): Promise<RoleAnswer> {
    switch (call.do) {
      case 'claim':
        return this.#store.claim(role, ROLE)
      case 'release':
        await this.#store.release(role)
        return null
      case 'load':
        return this.#store.load(role)
      case 'save':
        await this.#store.save(role, call.body)
        return null
      default:
        throw new Error(`unknown call ${JSON.stringify(call satisfies never)}`)
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#send({ is: 'beat', state: null }).catch(() => {})
    await this.#store.close()
  }

  *#others(): Iterable<[string, SeenGateway]> {
    const now = performance.now()
    for (const [node, member] of this.#members) {
      if (now - member.seenAt > TIMES.gone) this.#members.delete(node)
      else yield [node, member]
    }
  }

  #setProblem(problem: string | null): void {
    if (problem === this.#problem) return
    this.#problem = problem
    this.#options.onState(problem)
  }

  /** Rejects while the store cannot be used. */
  #send(message: FleetMessage, to: string | null = null, isUrgent = true): Promise<void> {
    if (this.#problem !== null) return Promise.reject(new Error(this.#problem))
    return this.#store.send([{ to, body: encodeMessage(message), isUrgent }])
  }

  async #beat(isFirst: boolean): Promise<void> {
    try {
      this.#own = stateOf(await this.#options.answer(BEAT, TIMES.answer))
      if (this.#own) await this.#send({ is: 'beat', state: this.#own }, null, isFirst)
    } catch {
      // The store reports why.
    }
  }

  #receive({ from, body, age }: News): void {
    const message = decodeMessage(body)
    if (!message) return
    switch (message.is) {
      case 'beat':
        return this.#onBeat(from, message.state, age)
      case 'ask':
        if (message.isKept || age < TIMES.late) void this.#answer(from, message)
        return
      case 'answer':
        return this.#onAnswer(from, message)
      case 'notice':
        return this.#options.onNotice({ notice: message.notice, from, age })
      default:
        // Of a newer version.
        message satisfies never
    }
  }

  #onBeat(from: string, state: GatewayState | null, age: number): void {
    const seenAt = performance.now() - age
    if (state === null) this.#members.delete(from)
    else if (seenAt >= (this.#members.get(from)?.seenAt ?? Number.NEGATIVE_INFINITY))
      this.#members.set(from, { state, seenAt })
  }

  async #answer(from: string, { id, ask, within }: Extract<FleetMessage, { is: 'ask' }>): Promise<void> {
    // A query that this version does not know has no reply; the other gateway need not wait for one.
    const { of, replies } = await this.#options.answer(ask, within).catch((): NamedReplies => ({ of: 1, replies: [] }))
    // Without an answer the other gateway counts this one as missing.
    await this.#send({ is: 'answer', id, of, replies }, from).catch(() => {})
  }

  #onAnswer(from: string, { id, replies }: Extract<FleetMessage, { is: 'answer' }>): void {
    const question = this.#questions.get(id)
    if (!question) return
    for (const { name, reply } of replies) question.replies.push({ name: processName(from, name), reply })
    question.waiting.delete(from)
    if (question.waiting.size === 0) question.done()
  }
}

const RANK = { ok: 0, degraded: 1, draining: 2 } as const

/** The state of a gateway from the answers of its processes to the query `beat`; null: none has answered. */
const stateOf = ({ of, replies }: NamedReplies): GatewayState | null => {
  // `answerHere` of the same program.
  const states = replies.map(({ reply }) => parseObject(reply)).filter(isObject) as unknown as readonly GatewayState[]
  const [first] = states
  if (!first) return null
  const statuses = states.map(({ status }) => status)
  return {
    version: first.version,
    status: statuses.toSorted((a, b) => RANK[b] - RANK[a])[0] ?? 'ok',
    problems: [...new Set(states.flatMap(({ problems }) => problems))],
    lag_ms: Math.max(...states.map(({ lag_ms }) => lag_ms)),
    started_at: states.map(({ started_at }) => started_at).toSorted()[0] ?? first.started_at,
    requests_in_progress: states.reduce((sum, one) => sum + one.requests_in_progress, 0),
    processes: { answered: states.length, of },
  }
}
