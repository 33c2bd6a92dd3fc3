/**
 * Plain SQL on a Postgres server for tests, which wait for the answer: they read what is stored as they read `usage.db`. The client
 * works in a thread.
 */
import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads'

export type PostgresRows = {
  /** Runs a statement and returns its rows. Throws the error of the server, also after the connection was lost. */
  readonly all: (sql: string) => readonly Readonly<Record<string, unknown>>[]
  readonly close: () => void
}

const PROGRAM = `
const { workerData: { url, port, signal } } = require('node:worker_threads')
const pg = require(${JSON.stringify(import.meta.resolve('pg').replace('file://', '').replace('/esm/index.mjs', '/lib/index.js'))})
const numbers = new Set([20, 21, 23, 700, 701, 1700])
const types = { getTypeParser: (oid) => (numbers.has(oid) ? Number : String) }
const client = new pg.Client({ connectionString: url, types, connectionTimeoutMillis: 5000, query_timeout: 30000 })
client.on('error', () => {})
const connected = client.connect()
connected.catch(() => {})
port.on('message', async (sql) => {
  let answer
  try {
    await connected
    answer = { rows: (await client.query(sql)).rows ?? [] }
  } catch (error) {
    answer = { problem: error.message }
  }
  port.postMessage(answer)
  Atomics.add(signal, 0, 1)
  Atomics.notify(signal, 0)
})`

/** ms for an answer. */
const ANSWER = 60_000

/** `schema`: in which names are found. */
export const openPostgresRows = (url: string, schema: string): PostgresRows => {
  const { port1, port2 } = new MessageChannel()
  const signal = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  const worker = new Worker(PROGRAM, {
    eval: true,
    workerData: { url, port: port2, signal },
    transferList: [port2],
    env: {},
    execArgv: [],
  })
  worker.on('error', () => {})
  worker.unref()
  port1.unref()
  const all = (sql: string) => {
    const before = Atomics.load(signal, 0)
    port1.postMessage(sql)
    Atomics.wait(signal, 0, before, ANSWER)
    // The thread sends nothing else.
    const answer = receiveMessageOnPort(port1)?.message as
      | { readonly rows: readonly Record<string, unknown>[] }
      | { readonly problem: string }
      | undefined
    if (answer && 'rows' in answer) return answer.rows
    throw new Error(answer?.problem ?? 'no answer')
  }
  const close = () => {
    port1.close()
    void worker.terminate()
  }
  try {
    all(`SET search_path TO ${schema}`)
    return { all, close }
  } catch (error) {
    close()
    throw error
  }
}
