/** The connections of a thread to one database, which its pools share: a server has few, and each costs it a process. */
import pg from 'pg'
import { type ClientOptions, clientOf, errorFrom, PostgresClient } from './postgres-client.ts'

/**
 * Receives what others send by `NOTIFY`. Notices wake those who would otherwise look at intervals, and are news, not data: those
 * that are sent without a connection are lost, poolers that hand out connections by transaction pass none on, and one may come
 * twice. So the receiver looks at intervals too, with which a lost connection is replaced.
 */
export type NoticeReceiver = {
  readonly channels: readonly string[]
  readonly onNotice: (channel: string, payload: string) => void
}

/**
 * Of the pools that share a thread (`POSTGRES_THREAD`). Those of which a gateway has one may take a second one: in its only process,
 * or in the supervisor of its workers.
 */
export const SHARED_CONNECTIONS = { max: 1, applicationName: 'headgate shared' } as const

/** ms, but for `life` in s. `wait`: for a free connection. `idle`: until it is closed. */
const TIMES = { wait: 15_000, idle: 30_000, life: 1_800 }

/** By URL. */
const known = new Map<string, Connections>()

export class Connections {
  readonly #url: string
  readonly #pool: pg.Pool
  readonly #receivers = new Set<NoticeReceiver>()
  #users = 0

  /** Throws a `PostgresError` if the URL cannot be read. The first user names the connections. */
  static of({ max, ...options }: ClientOptions & { readonly max: number }): Connections {
    const { url } = options
    const found = known.get(url) ?? new Connections(options)
    known.set(url, found)
    found.#users++
    found.#pool.options.max = Math.max(found.#pool.options.max, max)
    return found
  }

  private constructor(options: ClientOptions) {
    clientOf(options)
    this.#url = options.url
    this.#pool = new pg.Pool({
      Client: class extends PostgresClient {
        constructor() {
          super(options)
        }
      },
      max: 1,
      connectionTimeoutMillis: TIMES.wait,
      idleTimeoutMillis: TIMES.idle,
      maxLifetimeSeconds: TIMES.life,
      allowExitOnIdle: true,
    })
    // An idle connection was lost: the next call makes another.
    this.#pool.on('error', () => {})
    this.#pool.on('connect', (client) => {
      client.on('notification', ({ channel, payload = '' }) => {
        for (const { channels, onNotice } of this.#receivers) if (channels.includes(channel)) onNotice(channel, payload)
      })
      this.#listen(
        client,
        [...this.#receivers].flatMap(({ channels }) => channels),
      )
    })
  }

  /** A connection; it is returned with its `release`. Throws a `PostgresError`. */
  async take(): Promise<pg.PoolClient> {
    try {
      return await this.#pool.connect()
    } catch (error) {
      throw errorFrom(error)
    }
  }

  /** Connections that are made from now on receive its notices, and so does one of the others. */
  add(receiver: NoticeReceiver): void {
    this.#receivers.add(receiver)
    if (this.#pool.totalCount === 0) return
    this.take().then(
      (client) => {
        this.#listen(client, receiver.channels)
        client.release()
      },
      () => {},
    )
  }

  /** Resolves when the last user has left and its transactions have ended. */
  async leave(receiver: NoticeReceiver | undefined): Promise<void> {
    if (receiver) this.#receivers.delete(receiver)
    this.#users--
    if (this.#users > 0) return
    if (known.get(this.#url) === this) known.delete(this.#url)
    await this.#pool.end()
  }

  /** Sent before what the user of the connection sends. */
  #listen(client: pg.ClientBase, channels: readonly string[]): void {
    if (channels.length === 0) return
    const text = channels.map((channel) => `LISTEN ${pg.escapeIdentifier(channel)}`).join('; ')
    // A connection on which it fails is lost, which its user notices.
    client.query(text).catch(() => {})
  }
}
