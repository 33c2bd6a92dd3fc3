/** Answers for an `Idempotency-Key` in Postgres. A name is claimed by one process at a time. */
import type { AnswerClaim, RepeatableAnswer } from '../../core/shared-answer.ts'
import type { PostgresPool, PostgresRow, PostgresSession } from '../sql/postgres/pool.ts'
import type { ClaimQuery, KeptQuery, Limits } from './store-queries.ts'

const MIB = 1_048_576

/** A claim of this process that is repeated was lost by it: it is granted again. */
const CLAIM = `INSERT INTO claim (name, fingerprint, worker, expires) VALUES ($1, $2, $3, now() + interval '10 years')
  ON CONFLICT (name) DO UPDATE SET (fingerprint, worker, expires, size, head, body)
    = (excluded.fingerprint, excluded.worker, excluded.expires, 0, NULL, NULL)
  WHERE claim.expires <= now() OR claim.worker = excluded.worker
  RETURNING name`
const SELECT = `SELECT fingerprint, worker, head, body, extract(epoch FROM expires - now()) * 1000 AS "left"
  FROM claim WHERE name = $1`
const KEEP = `UPDATE claim SET worker = NULL, expires = now() + $3 * interval '1 ms', size = $4, head = $5, body = $6
  WHERE name = $1 AND worker = $2`
const RELEASE = 'DELETE FROM claim WHERE name = $1 AND worker = $2'
const SWEEP = `DELETE FROM claim USING (
    SELECT name FROM claim WHERE expires <= now() ORDER BY expires LIMIT 1000 FOR UPDATE SKIP LOCKED
  ) AS old WHERE claim.name = old.name`
/** The answers that expire first, as far as all together are larger than the limit. */
const MAKE_ROOM = `WITH kept AS (
    SELECT name, sum(size) OVER (ORDER BY expires DESC, name) AS size FROM claim WHERE worker IS NULL
  ) DELETE FROM claim USING kept WHERE claim.name = kept.name AND kept.size > $1`

export class SharedClaims {
  readonly #pool: PostgresPool
  readonly #worker: string
  limits: Limits

  constructor(pool: PostgresPool, { worker, limits }: { readonly worker: string; readonly limits: Limits }) {
    this.#pool = pool
    this.#worker = worker
    this.limits = limits
  }

  /** Tries to claim a name in a transaction. */
  async claim(tx: PostgresSession, { name, fingerprint }: ClaimQuery): Promise<AnswerClaim> {
    const [claimed, { rows }] = await Promise.all([
      tx.query(CLAIM, [name, fingerprint, this.#worker]),
      tx.query(SELECT, [name]),
    ])
    if (claimed.changes > 0) return { state: 'claimed' }
    // It was released meanwhile: the next question is answered with the claim.
    return rows[0] ? claimOf(rows[0]) : { state: 'held', fingerprint }
  }

  async keep({ name, answer: { body, ...head }, ms }: KeptQuery): Promise<void> {
    const text = Buffer.from(JSON.stringify(head))
    await this.#pool.query(KEEP, [name, this.#worker, ms, text.length + body.length, text, bufferOf(body)])
  }

  async release(name: string): Promise<void> {
    await this.#pool.query(RELEASE, [name, this.#worker])
  }

  async sweep(): Promise<void> {
    await this.#pool.transaction((tx) =>
      Promise.all([tx.query(SWEEP), tx.query(MAKE_ROOM, [this.limits.answerMegabytes * MIB])]),
    )
  }
}

const bufferOf = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)

const claimOf = ({ fingerprint, worker, head, body, left }: PostgresRow): AnswerClaim => {
  const print = String(fingerprint)
  if (worker !== null || !(head instanceof Uint8Array) || !(body instanceof Uint8Array))
    return { state: 'held', fingerprint: print }
  // Only `keep` writes it.
  const rest = JSON.parse(bufferOf(head).toString()) as Omit<RepeatableAnswer, 'body'>
  return { state: 'kept', fingerprint: print, answer: { ...rest, body: new Uint8Array(body) }, left: Number(left) }
}
