/** Answers for an `Idempotency-Key` in the file, which the workers of a gateway share. */
import type { DatabaseSync } from 'node:sqlite'
import type { AnswerClaim, RepeatableAnswer } from '../../core/shared-answer.ts'
import type { ClaimQuery, KeptQuery, Limits } from './store-queries.ts'

/** `worker`: the process that makes the call; null: `head` and `body` are the answer. `expires`: ms since 1970; null: while it is made. */
export const CLAIMS = `
  CREATE TABLE IF NOT EXISTS claim (
    name TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    worker TEXT,
    expires INTEGER,
    size INTEGER NOT NULL DEFAULT 0,
    head TEXT,
    body BLOB
  );
  CREATE INDEX IF NOT EXISTS claim_expires ON claim (expires, size);
`

const MIB = 1_048_576

export type ClaimOptions = {
  /** ms since 1970. */
  readonly date: () => number
  readonly worker: string
  readonly limits: () => Limits
  /** Whether the process has ended. */
  readonly isGone: (worker: string) => boolean
}

const statementsOf = (database: DatabaseSync) => ({
  select: database.prepare('SELECT fingerprint, worker, expires, head, body FROM claim WHERE name = ?'),
  claim: database.prepare(
    'INSERT OR REPLACE INTO claim (name, fingerprint, worker, expires, size, head, body) VALUES (?, ?, ?, NULL, 0, NULL, NULL)',
  ),
  keep: database.prepare(
    'UPDATE claim SET worker = NULL, expires = ?, size = ?, head = ?, body = ? WHERE name = ? AND worker = ?',
  ),
  release: database.prepare('DELETE FROM claim WHERE name = ? AND worker = ?'),
  expire: database.prepare('DELETE FROM claim WHERE expires <= ?'),
  total: database.prepare('SELECT sum(size) AS size FROM claim'),
  oldest: database.prepare('SELECT name, size FROM claim WHERE expires IS NOT NULL ORDER BY expires LIMIT 16'),
  remove: database.prepare('DELETE FROM claim WHERE name = ?'),
})

/** Writes need a transaction. */
export class ClaimTable {
  readonly #statements: ReturnType<typeof statementsOf>
  readonly #options: ClaimOptions

  constructor(database: DatabaseSync, options: ClaimOptions) {
    this.#statements = statementsOf(database)
    this.#options = options
  }

  claim({ name, fingerprint }: ClaimQuery): AnswerClaim {
    const { date, worker, isGone } = this.#options
    const row = this.#statements.select.get(name)
    const now = date()
    const holder = row?.worker === null || row === undefined ? null : String(row.worker)
    const isFree = holder === null ? Number(row?.expires ?? 0) <= now : holder === worker || isGone(holder)
    if (!row || isFree) {
      this.#statements.claim.run(name, fingerprint, worker)
      return { state: 'claimed' }
    }
    const print = String(row.fingerprint)
    if (holder !== null || !(row.body instanceof Uint8Array)) return { state: 'held', fingerprint: print }
    // Only `keep` writes it.
    const head = JSON.parse(String(row.head)) as Omit<RepeatableAnswer, 'body'>
    const answer = { ...head, body: new Uint8Array(row.body) }
    return { state: 'kept', fingerprint: print, answer, left: Number(row.expires) - now }
  }

  /** Returns the bytes that are added to the log. */
  keep({ name, answer: { body, ...head }, ms }: KeptQuery): number {
    const { date, limits, worker } = this.#options
    const text = JSON.stringify(head)
    const size = text.length + body.length
    this.#statements.keep.run(date() + ms, size, text, body, name, worker)
    this.#statements.expire.run(date())
    this.#makeRoom(limits().answerMegabytes * MIB)
    return size
  }

  release(name: string): void {
    this.#statements.release.run(name, this.#options.worker)
  }

  #makeRoom(most: number): void {
    let size = Number(this.#statements.total.get()?.size ?? 0)
    while (size > most) {
      const rows = this.#statements.oldest.all()
      if (rows.length === 0) return
      for (const row of rows) {
        if (size <= most) return
        this.#statements.remove.run(String(row.name))
        size -= Number(row.size)
      }
    }
  }
}
