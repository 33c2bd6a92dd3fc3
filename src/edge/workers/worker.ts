/** A worker's side of the channel to the process that started it: its place among the others, and what it asks of them. */
import { type AddressInfo, createServer } from 'node:net'
import type { Config } from '../../core/config.ts'
import type { Out } from '../observe/log.ts'
import { ATOMIC_WRITE_BYTES, atomicLines } from './atomic-lines.ts'
import type { FromSupervisor, FromWorker, Question } from './messages.ts'
import { shareOf, weakened } from './share.ts'

/** What only the worker itself can do. */
export type Hands = {
  /** All listen, so many ms after the start; the first of them is told. */
  readonly announce: (ms: number) => void
  /** The first time: in order. The second: at once. The third: never mind how. */
  readonly end: (time: number, signal: string) => void
  readonly reload: () => void
  /** Its page of metrics. */
  readonly metrics: () => string
  /** Lets go of a response that it answers in the background, if it does. */
  /** Resolves when the cancelled response is stored, or cannot be. */
  readonly cancel: (response: string, owner: string) => Promise<void>
}

export type WorkerLink = {
  /** From 1. */
  readonly number: number
  readonly of: number
  /** It says what is to be said once: warnings, the address. */
  readonly first: boolean
  /** Standard output, shared with the others. */
  readonly out: Out
  /** Bytes of the longest line that is written whole. */
  readonly whole: number
  /** This worker's part of what is meant for all. */
  readonly share: (config: Config) => Config
  /** What the configuration promises of one worker only. */
  readonly weakened: (config: Config) => readonly string[]
  /**
   * The port to listen on. The first worker makes sure that nobody else has it: who listens so that others may too is not
   * refused where a stranger does the same. Rejects as listening does.
   */
  readonly claim: (port: number, host: string | undefined) => Promise<number>
  readonly listening: (facts: Omit<Extract<FromWorker, { say: 'listening' }>, 'say'>, hands: Hands) => void
  /** It has begun to end, which may take so many ms. */
  readonly ending: (within: number) => void
  /** The page of all; null: it could not be had. */
  readonly metrics: () => Promise<string | null>
  /** Has the others let go of a response that one of them may be answering. */
  readonly cancel: (response: string, owner: string) => Promise<void>
}

/** ms for the supervisor to answer; it gives the workers less (supervise.ts). */
const PATIENCE = 2_000

/** `mark`: `1/2`, of the first start's first worker `1/2 first`. */
export const connectWorker = (mark: string): WorkerLink => {
  const [, number = 1, of = 1] = (/^(\d+)\/(\d+)/.exec(mark) ?? []).map(Number)
  const first = mark.endsWith(' first')
  const waiting = new Map<number, (answer: string | null) => void>()
  let asked = 0

  const say = (message: FromWorker) => {
    // A channel that closes in between is told by `disconnect`.
    if (process.connected) process.send?.(message, undefined, undefined, () => {})
  }
  const ask = (question: Question): Promise<string | null> =>
    new Promise((resolve) => {
      const id = ++asked
      const done = (answer: string | null) => {
        clearTimeout(timer)
        waiting.delete(id)
        resolve(answer)
      }
      const timer = setTimeout(done, PATIENCE, null)
      waiting.set(id, done)
      say({ say: 'ask', id, question })
    })
  const answer = async (question: Question, hands: Hands): Promise<string> => {
    switch (question.about) {
      case 'metrics':
        return hands.metrics()
      case 'cancel':
        await hands.cancel(question.response, question.owner)
        return ''
      default:
        throw new Error(`unknown question ${JSON.stringify(question satisfies never)}`)
    }
  }
  const obey = (message: FromSupervisor, hands: Hands): void => {
    switch (message.do) {
      case 'announce':
        return hands.announce(message.ms)
      case 'end':
        return hands.end(message.time, message.signal)
      case 'reload':
        return hands.reload()
      case 'tell':
        return void answer(message.question, hands).then((found) => say({ say: 'told', id: message.id, answer: found }))
      case 'told':
        return waiting.get(message.id)?.(message.answer)
      case 'sign':
        return say({ say: 'alive' })
      default:
        throw new Error(`unknown order ${JSON.stringify(message satisfies never)}`)
    }
  }

  return {
    number,
    of,
    first,
    out: atomicLines(1),
    whole: ATOMIC_WRITE_BYTES,
    share: (config) => shareOf(config, of),
    weakened: (config) => weakened(config, of),
    claim: (port, host) => (first ? freePort(port, host) : Promise.resolve(port)),
    listening(facts, hands) {
      // Nobody but the supervisor, which is this same program, has the other end.
      process.on('message', (message) => obey(message as FromSupervisor, hands))
      process.on('disconnect', () => hands.end(1, 'the supervisor is gone'))
      say({ say: 'listening', ...facts })
      // It may be gone already.
      if (!process.connected) hands.end(1, 'the supervisor is gone')
    },
    ending: (within) => say({ say: 'ending', within }),
    metrics: () => ask({ about: 'metrics' }),
    cancel: (response, owner) => ask({ about: 'cancel', response, owner }).then(() => {}),
  }
}

/** Listens alone for a moment. */
const freePort = (port: number, host: string | undefined): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy())
    server.once('error', reject)
    server.listen({ port, host }, () => {
      // A server that listens on TCP has an address and a port.
      const { port: found } = server.address() as AddressInfo
      server.close(() => resolve(found))
    })
  })
