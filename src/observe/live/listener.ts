/** One stream of live events, which are written together every so often, since each write is a system call. A client that reads slowly loses events and receives `event: gap`; it delays nothing. */
import type { ResponseWriter } from '../../core/http-exchange.ts'
import type { LiveEvent, LiveTopic } from './live-event.ts'

/** The state of a budget for viewers of `teams` (null: all). */
export type LiveBudget = { readonly id: string; readonly teams: readonly string[] | null; readonly data: string }

/** A new listener. */
export type ListenOptions = {
  readonly topics: readonly LiveTopic[]
  /** `Last-Event-ID`: the last event that the client has received; null: none. */
  readonly after: string | null
  /** IDs of the teams whose events the client may receive now; null: all. `ended`: its session or token has ended. */
  readonly teams: () => Promise<readonly string[] | null | 'ended'>
  /** The state of all budgets now; an empty list if it cannot be read. Does not reject. */
  readonly budgets: () => Promise<readonly LiveBudget[]>
  /** Whether a sample of the requests is enough, if the client may see those of all teams. */
  readonly sample: boolean
  /** The ID of the token, or the kind of another actor. */
  readonly actor: string
  readonly reply: ResponseWriter
}

/** Events and characters that wait: for the next write, or for a slow client. */
const WAITING = { events: 1_000, characters: 1_048_576 }
/** Checks, one each second, after which a client that accepts nothing is disconnected. */
const MAX_STALLED = 60

/** An event as it is sent. */
export const frameOf = ({ id, name, data }: LiveEvent): string =>
  `${id === '' ? '' : `id: ${id}\n`}event: ${name}\ndata: ${data}\n\n`

export class LiveListener {
  readonly topics: readonly LiveTopic[]
  readonly actor: string
  readonly #options: ListenOptions
  #teams: readonly string[] | null
  /** Events that are not written yet. */
  #waiting: string[] = []
  #characters = 0
  #isFull = false
  #stalled = 0
  /** Events lost since the last gap that was sent. Null: an unknown number. */
  #lost: number | null = 0
  #isChecking = false
  /** Requests since the last write that are not in the sample. */
  #more = 0

  constructor(options: ListenOptions, teams: readonly string[] | null) {
    this.#options = options
    this.topics = options.topics
    this.actor = options.actor
    this.#teams = teams
    const { reply } = options
    reply.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      // For nginx, which otherwise collects the events.
      'x-accel-buffering': 'no',
    })
    this.#write('retry: 1000\n\n')
  }

  /** Whether the client can do without requests that are not in the sample. */
  get isSampled(): boolean {
    return this.#teams === null && this.#options.sample
  }

  /** Counts requests that are not in the sample. */
  skip(count = 1): void {
    if (this.topics.includes('requests')) this.#more += count
  }

  /** Takes an event if it concerns this client, for the next `flush`. `ofAll`: its `frameOf`. */
  push(event: LiveEvent, ofAll: string): void {
    const { topic, teams, isExtra, dataForTeams } = event
    if (!this.topics.includes(topic)) return
    if (isExtra && this.isSampled) return this.skip()
    const allowed = this.#teams
    if (teams !== null && allowed !== null && !teams.some((team) => allowed.includes(team))) return
    const text = allowed !== null && dataForTeams !== undefined ? frameOf({ ...event, data: dataForTeams }) : ofAll
    const hasPlace = () => this.#waiting.length < WAITING.events && this.#characters + text.length <= WAITING.characters
    if (!hasPlace()) this.flush()
    if (hasPlace()) {
      this.#waiting.push(text)
      this.#characters += text.length
      return
    }
    this.#lost = this.#lost === null ? null : this.#lost + this.#waiting.length + 1
    this.#waiting = []
    this.#characters = 0
  }

  /** Reports that events are missing here; null: it is not known how many. */
  gap(lost: number | null): void {
    this.#lost = this.#lost === null || lost === null ? null : this.#lost + lost
    this.flush()
  }

  /** Sends the state of the process, so that a client without other events detects a dead stream. */
  beat(data: string): void {
    if (!this.#isFull) this.#write(`event: beat\ndata: ${data}\n\n`)
  }

  /** Checks once a second whether the stream may continue. Returns whether it is over. */
  async check(): Promise<boolean> {
    if (this.#isFull && ++this.#stalled >= MAX_STALLED) {
      this.#options.reply.abort()
      return true
    }
    if (this.#isChecking) return false
    this.#isChecking = true
    try {
      const teams = await this.#options.teams()
      if (teams !== 'ended') this.#teams = teams
      return teams === 'ended'
    } catch {
      // Without a check nothing more may be sent.
      return true
    } finally {
      this.#isChecking = false
    }
  }

  budgets(): Promise<readonly LiveBudget[]> {
    return this.#options.budgets()
  }

  end(): void {
    this.flush()
    this.#options.reply.end()
  }

  #write(text: string): void {
    if (this.#options.reply.write(text)) return
    this.#isFull = true
    this.#options.reply.onDrain(() => {
      this.#isFull = false
      this.#stalled = 0
      this.flush()
    })
  }

  /** Writes what waits, unless the client is slow. */
  flush(): void {
    if (this.#isFull) return
    if (this.#lost !== 0) {
      const data = JSON.stringify({ lost: this.#lost })
      this.#lost = 0
      this.#write(`event: gap\ndata: ${data}\n\n`)
    }
    if (this.#more > 0) {
      this.#waiting.push(`event: more\ndata: ${JSON.stringify({ requests: this.#more })}\n\n`)
      this.#more = 0
    }
    if (this.#waiting.length === 0) return
    const text = this.#waiting.join('')
    this.#waiting = []
    this.#characters = 0
    this.#write(text)
  }
}
