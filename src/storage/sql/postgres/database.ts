/**
 * A Postgres connection with the shape of `DatabaseSync`: a call blocks its thread until the answer is there, as a call of
 * SQLite waits for the disk. The client library works in a thread of its own. So the stores have one program for both, and a
 * transaction has no point at which another query could run in it.
 */
import { getCompileCacheDir } from 'node:module'
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads'
import type { SqlDatabase, SqlRow, SqlStatement, SqlValue } from '../database.ts'
import { PostgresError } from './postgres-error.ts'
import type {
  BlockingResult,
  ConnectionData,
  PostgresAnswer,
  PostgresCall,
  PostgresConnectionOptions,
  PostgresProblem,
} from './postgres-messages.ts'
import { withNumbers } from './translate.ts'

export type PostgresOptions = Pick<PostgresConnectionOptions, 'url' | 'schema'>

/** ms. `answer` is longer than a statement may take: a server that works ends the statement first, and says so. */
const TIMES = { connect: 2_000, statement: 5_000, answer: 6_000 }
/** Memory limits in MB: results are read in pages. */
const MEMORY = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16 }
/** Prepared statements of a connection; texts that vary with their values would be more. */
const MAX_NAMES = 200
const THREAD = new URL('./postgres-thread.mjs', import.meta.url)

export class PostgresDatabase implements SqlDatabase {
  readonly schema: string
  readonly #worker: Worker
  readonly #port: MessagePort
  readonly #signal: Int32Array<SharedArrayBuffer>
  #answers = 0
  /** Names of statements whose plans the server keeps, by their texts. */
  readonly #names = new Map<string, string>()
  #isLost = false
  #isTransaction = false

  private constructor({ url, schema }: PostgresOptions) {
    this.schema = schema
    const signal = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)
    const { port1, port2 } = new MessageChannel()
    const data: ConnectionData & { readonly port: MessagePort } = {
      url,
      schema,
      signal,
      statementTimeout: TIMES.statement,
      connectTimeout: TIMES.connect,
      port: port2,
    }
    this.#signal = new Int32Array(signal)
    this.#port = port1
    // It gets no environment: libpq's variables must not change what DATABASE_URL says.
    this.#worker = new Worker(THREAD, {
      workerData: { ...data, compileCache: getCompileCacheDir() },
      transferList: [port2],
      env: {},
      execArgv: [],
      resourceLimits: MEMORY,
    })
    this.#worker.on('error', () => {
      this.#isLost = true
    })
    this.#worker.unref()
    port1.unref()
  }

  /** Connects. Throws a `PostgresError`. */
  static open(options: PostgresOptions): PostgresDatabase {
    const database = new PostgresDatabase(options)
    try {
      database.exec('SELECT 1')
      return database
    } catch (error) {
      database.close()
      throw error
    }
  }

  /** The connection cannot be used any more. */
  get isLost(): boolean {
    return this.#isLost
  }

  get isTransaction(): boolean {
    return this.#isTransaction && !this.#isLost
  }

  /** Runs a statement whose placeholders are `$1`. */
  query(text: string, values: readonly SqlValue[]): BlockingResult {
    return one(this.#call({ text, runs: [values] }))
  }

  prepare(sql: string): SqlStatement {
    const text = withNumbers(sql)
    const name = this.#nameOf(text)
    const run = (runs: readonly (readonly SqlValue[])[]) => this.#call({ text, ...(name && { name }), runs })
    return {
      all: (...values) => one(run([values])).rows,
      get: (...values) => one(run([values])).rows[0],
      run: (...values) => one(run([values])),
      iterate: (...values) => one(run([values])).rows,
      runAll: (rows) => (rows.length === 0 ? [] : run(rows)),
    }
  }

  exec(sql: string): void {
    if (/^BEGIN\b/.test(sql)) return this.#begin(BEGIN[sql] ?? sql)
    try {
      this.#call({ text: sql, runs: null })
    } finally {
      if (/^(COMMIT|ROLLBACK)\b/.test(sql)) this.#isTransaction = false
    }
  }

  #begin(text: string): void {
    try {
      this.#call({ text, runs: null })
      this.#isTransaction = true
    } catch (error) {
      // The transaction has begun, but another writer was not done in time.
      if (!this.#isLost) this.#call({ text: 'ROLLBACK', runs: null })
      throw error
    }
  }

  close(): void {
    this.#isLost = true
    this.#isTransaction = false
    this.#worker.postMessage(null)
    this.#port.close()
    setTimeout(() => void this.#worker.terminate(), TIMES.connect).unref()
  }

  /** Undefined: the server prepares it for each run. */
  #nameOf(text: string): string | undefined {
    const known = this.#names.get(text)
    if (known !== undefined || this.#names.size >= MAX_NAMES) return known
    const name = `s${this.#names.size}`
    this.#names.set(text, name)
    return name
  }

  /** Sends a call and waits for its answer. */
  #call(call: PostgresCall): readonly BlockingResult[] {
    if (this.#isLost) throw lost('the connection to Postgres is closed', null)
    this.#port.postMessage(call)
    const before = this.#answers
    Atomics.wait(this.#signal, 0, before, before === 0 ? TIMES.connect + TIMES.answer : TIMES.answer)
    const received = receiveMessageOnPort(this.#port)
    if (!received) {
      this.#isLost = true
      throw lost('no answer', 'ETIMEDOUT')
    }
    this.#answers = before + 1
    // The connection's thread sends nothing else.
    const answer = received.message as PostgresAnswer
    if ('results' in answer) return answer.results
    if (answer.problem.isLost) this.#isLost = true
    throw new PostgresError(answer.problem)
  }
}

/**
 * What programs rely on in SQLite. All reads of a transaction see the same state. There is one writer at a time: sequences
 * then commit in their order, and two writers cannot wait for each other's rows. Each schema has one lock for it, until the
 * end of the transaction.
 */
const BEGIN: { readonly [sql: string]: string } = {
  BEGIN: 'BEGIN ISOLATION LEVEL REPEATABLE READ',
  'BEGIN IMMEDIATE': "BEGIN; SELECT pg_advisory_xact_lock(hashtext('headgate'), hashtext(current_schema()))",
}

const lost = (message: string, code: string | null): PostgresError =>
  new PostgresError({ message, code, isLost: true } satisfies PostgresProblem)

const one = (results: readonly BlockingResult[]): BlockingResult => results[0] ?? { rows: [] as SqlRow[], changes: 0 }
