/**
 * Notices of other gateways, by `NOTIFY`. They wake those who would otherwise look at intervals, and are news, not data: one
 * may be lost with the connection, and poolers that hand out connections by transaction pass none on.
 */
import pg from 'pg'
import { type ClientOptions, clientOf, errorFrom, type PostgresClient } from './postgres-client.ts'

export type PostgresNotice = { readonly channel: string; readonly payload: string }

export type NoticeOptions = {
  readonly url: string
  readonly applicationName: string
  readonly channels: readonly string[]
  readonly onNotice: (notice: PostgresNotice) => void
  /** It listens from now on: notices before may have been missed, so that all must be looked for. Also the first time. */
  readonly onGap: () => void
  /** Why it does not listen, or that it does (null). */
  readonly onState?: (problem: string | null) => void
}

export type NoticeListener = {
  /** Notices arrive. */
  readonly isLive: boolean
  stop(): Promise<void>
}

/** ms. `check`: between two checks of the connection, whose loss a listener would not notice. `retry`: first and longest pause. */
const TIMES = { answer: 5_000, check: 15_000, retry: { first: 100, most: 10_000 } }

/** Connects, and again after each loss until it is stopped. Throws a `PostgresError` if the URL cannot be read. */
export const listen = (options: NoticeOptions): NoticeListener => {
  const listener = new PostgresListener(options)
  listener.connect(clientOf(listener.options))
  return listener
}

class PostgresListener implements NoticeListener {
  readonly options: NoticeOptions & ClientOptions
  #client: PostgresClient | null = null
  #timer: NodeJS.Timeout | undefined
  #failures = 0
  #isStopped = false
  isLive = false

  constructor(options: NoticeOptions) {
    this.options = { ...options, answerTimeout: TIMES.answer }
  }

  connect(client: PostgresClient): void {
    const { onNotice } = this.options
    this.#client = client
    client.on('notification', ({ channel, payload = '' }) => onNotice({ channel, payload }))
    client.on('error', (error) => this.#failed(client, error))
    client.on('end', () => this.#failed(client, null))
    void this.#begin(client)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.isLive = false
    clearTimeout(this.#timer)
    await this.#client?.end().catch(() => {})
  }

  async #begin(client: PostgresClient): Promise<void> {
    const { channels, onGap, onState } = this.options
    try {
      await client.connect()
      await client.query(channels.map((channel) => `LISTEN ${pg.escapeIdentifier(channel)}`).join('; '))
    } catch (error) {
      return this.#failed(client, error)
    }
    if (client !== this.#client || this.#isStopped) return
    this.#failures = 0
    this.isLive = true
    this.#check(client)
    onState?.(null)
    onGap()
  }

  /** A connection whose other end has gone without a word is found by a query. */
  #check(client: PostgresClient): void {
    this.#timer = setTimeout(() => {
      client.query('SELECT 1').then(
        () => client === this.#client && !this.#isStopped && this.#check(client),
        (error: unknown) => this.#failed(client, error),
      )
    }, TIMES.check)
  }

  #failed(client: PostgresClient, error: unknown): void {
    if (client !== this.#client || this.#isStopped) return
    this.#client = null
    this.isLive = false
    void client.end().catch(() => {})
    this.#connectLater(error)
  }

  #connectLater(error: unknown): void {
    this.options.onState?.(errorFrom(error ?? new Error('')).message)
    const { first, most } = TIMES.retry
    // Gateways that have lost one server do not return at one time.
    const pause = Math.min(most, first * 2 ** this.#failures++) * (0.5 + Math.random() / 2)
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      try {
        this.connect(clientOf(this.options))
      } catch (problem) {
        this.#connectLater(problem)
      }
    }, pause)
  }
}
