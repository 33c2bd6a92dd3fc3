/** Redacts and stores the bodies of calls in a thread. Loaded by `bodies-thread.mjs`. */
import type { MessagePort } from 'node:worker_threads'
import { problemOf } from '../../storage/sql/sqlite/errors.ts'
import { BodiesDatabase, type StoredCall } from './bodies-database.ts'
import type { BodiesRules, BodiesThreadOptions, FromBodiesThread, RawCall, ToBodiesThread } from './messages.ts'
import { type Redactor, redactor } from './redaction.ts'
import { storedBody, storedHeaders, storedResponse } from './stored-body.ts'

/** ms between two batches of a sweep, and between two sweeps. */
const SWEEP = { pause: 20, next: 3_600_000 }
/** Calls stored in one transaction. */
const BATCH = 50

/** Serves the port until the message `close`. */
export const serveBodies = (port: MessagePort, options: BodiesThreadOptions): void => {
  const thread = new BodiesThread(port, options)
  port.on('message', (message: ToBodiesThread) => thread.receive(message))
}

type Waiting = Extract<ToBodiesThread, { readonly do: 'put' | 'read' }>

class BodiesThread {
  readonly #port: MessagePort
  readonly #folder: string
  #rules: BodiesRules
  #redact: Redactor
  #database: BodiesDatabase | null = null
  #waiting: Waiting[] = []
  #isRunning = false
  #isClosing = false
  #sweepAt = 0
  #timer: NodeJS.Timeout | undefined

  constructor(port: MessagePort, { folder, rules }: BodiesThreadOptions) {
    this.#port = port
    this.#folder = folder
    this.#rules = rules
    this.#redact = redactorOf(rules)
    this.#schedule()
  }

  receive(message: ToBodiesThread): void {
    switch (message.do) {
      case 'put':
      case 'read':
        this.#waiting.push(message)
        break
      case 'rules':
        this.#rules = message.rules
        this.#redact = redactorOf(message.rules)
        this.#sweepAt = 0
        break
      case 'close':
        this.#isClosing = true
        break
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
    this.#schedule()
  }

  #schedule(ms = 0): void {
    if (this.#isRunning) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#run(), ms)
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    const batch = this.#waiting.splice(0, BATCH)
    try {
      await this.#serve(batch)
    } catch (error) {
      for (const { number } of batch) this.#post({ number, problem: problemOf(error) })
      this.#close()
    }
    this.#isRunning = false
    if (this.#waiting.length > 0) return this.#schedule()
    if (this.#isClosing) return this.#end()
    this.#schedule(this.#sweep())
  }

  async #serve(batch: readonly Waiting[]): Promise<void> {
    if (this.#database?.moved()) this.#close()
    this.#database ??= await BodiesDatabase.open(this.#folder)
    const database = this.#database
    const calls = batch.flatMap((message) => (message.do === 'put' ? [this.#stored(message.call)] : []))
    if (calls.length > 0) database.store(calls)
    for (const message of batch)
      this.#post({ number: message.number, value: message.do === 'read' ? database.find(message.query) : null })
    if (calls.length > 0 && database.isFull(this.#rules)) this.#sweepAt = 0
  }

  #stored({ id, received, team, key, path, headers, request, response, attempts }: RawCall): StoredCall {
    const redact = this.#redact
    const secrets = attempts.flatMap(({ secret }) => secret ?? [])
    return {
      id,
      received,
      team,
      key,
      bodies: {
        path,
        headers: storedHeaders(headers, redact),
        request: storedBody(request, redact),
        response: response && storedResponse(response, redact, secrets),
        attempts: attempts.map(({ secret, ...attempt }) => ({
          ...attempt,
          sent: storedHeaders(attempt.sent, redact, secrets),
          received: storedHeaders(attempt.received, redact, secrets),
          request: storedBody(attempt.request, redact, secret),
          answer: storedBody(attempt.answer, redact, secret),
        })),
      },
    }
  }

  /** Returns the ms until the next run. */
  #sweep(): number {
    const now = Date.now()
    if (now < this.#sweepAt) return this.#sweepAt - now
    try {
      if (this.#database?.sweep(this.#rules, now)) return SWEEP.pause
    } catch {
      // Another process may hold the lock. The next sweep deletes the rest.
      this.#close()
    }
    this.#sweepAt = now + SWEEP.next
    return SWEEP.next
  }

  #end(): void {
    clearTimeout(this.#timer)
    this.#close()
    this.#port.close()
  }

  #close(): void {
    this.#database?.close()
    this.#database = null
  }

  #post(message: FromBodiesThread): void {
    this.#port.postMessage(message)
  }
}

const redactorOf = ({ redact, patterns }: BodiesRules): Redactor => redactor({ kinds: redact, patterns })
