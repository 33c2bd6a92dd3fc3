/**
 * Messages in a table of Postgres. `NOTIFY` wakes those who would otherwise look each second, so that a pooler that passes no
 * notices on makes messages late. Messages have the order of their numbers, because a lock is held from the number to the
 * commit: it is that of this table only, and a notice waits for one of the server anyway.
 */
import { SHARED_CONNECTIONS } from '../storage/sql/postgres/connections.ts'
import { PostgresPool, type PostgresRow } from '../storage/sql/postgres/pool.ts'
import type { SharedDatabase } from '../storage/sql/shared-database.ts'
import { CREATE_NEWS, NEWS_SCHEMA } from './news-schema.ts'
import { NEWS_TIMES, type News, type NewsStore, type NewsStoreOptions, type OutgoingNews } from './news-store.ts'

const CHANNEL = 'headgate_news'
/** Messages of one look. */
const MOST = 500
/** Messages whose numbers are known, so that they are not read twice after a lost connection. */
const MOST_KNOWN = 20_000
/** ms between two removals of old messages, up to twice that. */
const REMOVAL = 60_000

const SEND = `WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtext('headgate news'))),
  added AS (INSERT INTO message (sender, recipient, body)
    SELECT $1, nullif(one.recipient, ''), one.body
    FROM held, unnest($2::text[], $3::text[]) WITH ORDINALITY AS one (recipient, body, place) ORDER BY one.place)
  SELECT pg_notify('${CHANNEL}', name) FROM unnest($4::text[]) AS name`

/** The last number, and the messages after `$1`, or of the last `$3` ms if that is null. */
const LOOK = `SELECT last, id, sender, body, at::text AS at, extract(epoch FROM clock_timestamp() - at) * 1000 AS age
  FROM (SELECT coalesce(max(id), 0) AS last FROM message) AS newest
  LEFT JOIN (SELECT * FROM message
    WHERE CASE WHEN $1::bigint IS NULL THEN at > clock_timestamp() - $3::float8 * interval '1 ms' ELSE id > $1::bigint END
      AND sender <> $2 AND (recipient IS NULL OR recipient = $2) ORDER BY id LIMIT ${MOST}) AS found ON true
  ORDER BY id`

const CLAIM = `INSERT INTO role AS held (name, holder, until)
  VALUES ($1, $2, clock_timestamp() + $3::float8 * interval '1 ms')
  ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
  WHERE held.holder = excluded.holder OR held.until < clock_timestamp() RETURNING 1`

export class PostgresNews implements NewsStore {
  readonly #options: NewsStoreOptions
  readonly #database: SharedDatabase
  readonly #pool: PostgresPool
  /** The number of the last message that was read; null: those of the last minutes are read again. */
  #last: number | null = null
  /** By number and time: a server that has taken over may give a number again. */
  readonly #known = new Set<string>()
  #late = NEWS_TIMES.first
  #isCreated = false
  #looking: Promise<void> | null = null
  #isDue = false
  #isClosed = false
  #waiting: OutgoingNews[] = []
  /** The messages that are sent have been stored, or cannot be. */
  #settled: Promise<void> = Promise.resolve()
  /** The messages that wait have been stored. */
  #next: Promise<void> | null = null
  readonly #timer: NodeJS.Timeout
  #removal: NodeJS.Timeout | undefined

  constructor(database: SharedDatabase, options: NewsStoreOptions) {
    this.#options = options
    this.#database = database
    const { url } = database
    const { node } = options
    // A name of a gateway, or `*` and that of the sender.
    const isForUs = (payload: string) => payload === node || (payload[0] === '*' && payload !== `*${node}`)
    const notices = {
      channels: [CHANNEL],
      onNotice: (_: string, payload: string) => isForUs(payload) && this.#look(),
    }
    this.#pool = new PostgresPool({ url, schema: NEWS_SCHEMA, ...SHARED_CONNECTIONS, max: 2, notices })
    this.#timer = setInterval(() => this.#look(), NEWS_TIMES.look).unref()
    this.#removeLater()
    this.#look()
  }

  send(messages: readonly OutgoingNews[]): Promise<void> {
    this.#waiting.push(...messages)
    // Those that come while others are sent go together.
    this.#next ??= this.#settled.then(() => {
      this.#next = null
      const sent = this.#sendAll(this.#waiting.splice(0))
      this.#settled = sent.catch(() => {})
      return sent
    })
    return this.#next
  }

  async #sendAll(messages: readonly OutgoingNews[]): Promise<void> {
    const { node } = this.#options
    const woken = new Set(messages.filter(({ isUrgent }) => isUrgent).map(({ to }) => to ?? `*${node}`))
    const lists = [messages.map(({ to }) => to ?? ''), messages.map(({ body }) => body), [...woken]]
    await this.#created()
    await this.#pool.transaction(async (tx) => {
      await Promise.all([tx.query('SET LOCAL synchronous_commit = off'), tx.query(SEND, [node, ...lists])])
    })
  }

  async claim(role: string, ms: number): Promise<boolean> {
    await this.#created()
    const { changes } = await this.#pool.query(CLAIM, [role, this.#options.node, ms])
    return changes > 0
  }

  async release(role: string): Promise<void> {
    await this.#pool.query('UPDATE role SET until = clock_timestamp() WHERE name = $1 AND holder = $2', [
      role,
      this.#options.node,
    ])
  }

  async load(role: string): Promise<string | null> {
    await this.#created()
    const { rows } = await this.#pool.query('SELECT body FROM role WHERE name = $1', [role])
    const [row] = rows
    return typeof row?.body === 'string' ? row.body : null
  }

  async save(role: string, body: string): Promise<void> {
    await this.#pool.query('UPDATE role SET body = $3 WHERE name = $1 AND holder = $2', [
      role,
      this.#options.node,
      body,
    ])
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    clearTimeout(this.#removal)
    await Promise.allSettled([this.#next ?? this.#settled])
    await this.#pool.close()
  }

  /** Creates the tables if `database.migrate` permits it. */
  async #created(): Promise<void> {
    if (this.#isCreated) return
    const { rows } = await this.#pool.query('SELECT to_regclass($1)::text AS found', [`${NEWS_SCHEMA}.schema_version`])
    if (rows[0]?.found === null) {
      if (this.#database.migrate === 'never')
        throw new Error(`the schema ${NEWS_SCHEMA} does not exist; run: headgate db migrate`)
      await this.#pool.query(CREATE_NEWS)
    }
    this.#isCreated = true
  }

  /** Reads what is new. One look at a time; another one follows if there was a notice meanwhile. */
  #look(): void {
    if (this.#isClosed) return
    if (this.#looking) {
      this.#isDue = true
      return
    }
    this.#isDue = false
    this.#looking = this.#read()
      .then(
        () => this.#options.onState(null),
        (error: unknown) => {
          // After a failover the last messages of the earlier server may be missing here, with their numbers.
          this.#last = null
          this.#options.onState(error instanceof Error ? error.message : String(error))
        },
      )
      .finally(() => {
        this.#looking = null
        if (this.#isDue) this.#look()
      })
  }

  async #read(): Promise<void> {
    await this.#created()
    const { rows } = await this.#pool.query(LOOK, [this.#last, this.#options.node, this.#late])
    const found = rows.filter(({ id }) => id !== null)
    const fresh = found.filter((row) => this.#isNew(`${row.id} ${row.at}`))
    this.#late = NEWS_TIMES.late
    if (found.length < MOST) this.#last = Number(rows[0]?.last ?? 0)
    else {
      this.#last = Number(found.at(-1)?.id)
      this.#isDue = true
    }
    if (fresh.length > 0 && !this.#isClosed) this.#options.onNews(fresh.map(newsOf))
  }

  #isNew(message: string): boolean {
    if (this.#known.has(message)) return false
    this.#known.add(message)
    const [oldest] = this.#known
    if (this.#known.size > MOST_KNOWN && oldest !== undefined) this.#known.delete(oldest)
    return true
  }

  #removeLater(): void {
    const remove = () => {
      this.#removeLater()
      const old = "DELETE FROM message WHERE at < clock_timestamp() - $1::float8 * interval '1 ms'"
      if (this.#isCreated) this.#pool.query(old, [NEWS_TIMES.keep]).catch(() => {})
    }
    this.#removal = setTimeout(remove, REMOVAL * (1 + Math.random())).unref()
  }
}

const newsOf = ({ sender, body, age }: PostgresRow): News => ({
  from: String(sender),
  body: String(body),
  age: Math.max(0, Number(age)),
})
