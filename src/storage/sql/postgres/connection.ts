/** Runs statements on one Postgres connection. Loaded by `postgres-thread.mjs`. */
import type { MessagePort } from 'node:worker_threads'
import pg from 'pg'
import type { SqlRow, SqlValue } from '../database.ts'
import { BAD_URL } from './postgres-error.ts'
import type { BlockingResult, ConnectionData, PostgresAnswer, PostgresCall } from './postgres-messages.ts'

/** Type OIDs that are read as numbers: int2, int4, int8, float4, float8, numeric. Amounts are at most 2^53. */
const NUMBERS: ReadonlySet<number> = new Set([20, 21, 23, 700, 701, 1700])
const TYPES = {
  getTypeParser: (oid: number) => (NUMBERS.has(oid) ? Number : (text: string) => text),
}

/** Answers each call, until the thread is ended by its owner. */
export const serveConnection = (port: MessagePort, data: ConnectionData, parent: MessagePort): void => {
  const signal = new Int32Array(data.signal)
  const { url, schema, statementTimeout, connectTimeout } = data
  const send = (answer: PostgresAnswer) => {
    port.postMessage(answer)
    Atomics.add(signal, 0, 1)
    Atomics.notify(signal, 0)
  }
  const client = clientOf(url, connectTimeout)
  if (!client) return void port.on('message', () => send({ problem: { message: '', code: BAD_URL, isLost: true } }))
  let lost: Error | null = null
  client.on('error', (error) => {
    lost = error
  })
  // Not as startup parameters, which poolers of connections refuse.
  // A gateway whose host has failed in a transaction must not keep the others from writing.
  const settings = `SET search_path TO ${schema}; SET statement_timeout = ${statementTimeout};
    SET idle_in_transaction_session_timeout = ${2 * statementTimeout}`
  const connected = client.connect().then(() => client.query(settings))
  // A failure is the answer to the first call.
  connected.catch(() => {})
  // One call at a time: its owner waits for the answer.
  port.on('message', (call: PostgresCall) => {
    void answerTo(call, client, connected, () => lost).then(send)
  })
  parent.once('message', () => {
    void client.end().catch(() => {})
    port.close()
  })
}

/** Null: the URL, or a file that it names, cannot be read. */
const clientOf = (url: string, connectTimeout: number): pg.Client | null => {
  try {
    return new pg.Client({
      connectionString: url,
      application_name: 'headgate',
      connectionTimeoutMillis: connectTimeout,
      keepAlive: true,
      types: TYPES,
      pipeline: true,
    })
  } catch {
    return null
  }
}

const answerTo = async (
  call: PostgresCall,
  client: pg.Client,
  connected: Promise<unknown>,
  lost: () => Error | null,
): Promise<PostgresAnswer> => {
  try {
    await connected
    const earlier = lost()
    if (earlier) throw earlier
    return { results: await run(client, call) }
  } catch (error) {
    return { problem: problemFrom(error, lost() !== null) }
  }
}

/** Runs of one call are sent together, and answered in their order. */
const run = async (client: pg.Client, { text, name, runs }: PostgresCall): Promise<readonly BlockingResult[]> => {
  if (runs === null) {
    await client.query(text)
    return []
  }
  const sent = runs.map((values) => client.query({ text, values: values.map(withoutNul), ...(name && { name }) }))
  // After an error the others fail too: all are awaited, and the first error is the reason.
  const ended = await Promise.allSettled(sent)
  return ended.map((one) => {
    if (one.status === 'rejected') throw one.reason
    // The parsers return texts and numbers.
    return { rows: one.value.rows as SqlRow[], changes: one.value.rowCount ?? 0 }
  })
}

/** Postgres has no texts with a NUL, which clients can send in names: it is replaced, also in conditions. */
const withoutNul = (value: SqlValue): SqlValue =>
  typeof value === 'string' && value.includes('\0') ? value.replaceAll('\0', '\ufffd') : value

/**
 * Errors of the server have a SQLSTATE of five characters; classes 08 and 57P end the connection. After 0A000 and 26000, which
 * prepared statements cause when a newer gateway has added a column, a new connection works.
 */
const problemFrom = (error: unknown, isLost: boolean) => {
  const message = error instanceof Error ? error.message : String(error)
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null
  const isOfServer = error instanceof pg.DatabaseError
  return { message, code, isLost: isLost || !isOfServer || /^(08|57P|0A000|26000)/.test(code ?? '') }
}
