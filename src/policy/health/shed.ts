/**
 * When a model call is turned away at the door so that those under way can be finished. Nothing here waits or is stored:
 * what the load is, is measured elsewhere, and a refusal costs a few comparisons. Health, metrics and status are no model
 * calls and are never asked about here.
 */
import { type Failure, fail } from '../../core/failure.ts'
import type { Settings } from '../../core/settings.ts'

/** What the process bears at the moment. */
export type Load = {
  /** Model calls under way. */
  readonly calls: number
  /** Bytes held for requests and answers. */
  readonly held: number
  /** ms by which the latest timer of each of the last seconds (p99) was late, newest last. */
  readonly delays: readonly number[]
  /** Objects in memory, as a share of what the process may have. */
  readonly heap: number
}

/** The second and third say what is wrong with the connection a call came on. */
export type ShedReason = 'concurrent' | 'connections' | 'address' | 'buffered' | 'event_loop' | 'heap'

/** A busy machine is late for a moment now and then; who is late for so many seconds in a row does not catch up. */
export const LATE_SECONDS = 5

/** V8 collects all the time from about here on, and ends the process at 1. */
const MAX_HEAP = 0.95

/** In bytes. */
export const bufferLimitBytes = ({ bufferedMegabytes }: Pick<Settings['limit'], 'bufferedMegabytes'>): number =>
  bufferedMegabytes * 1_048_576

/** Why one more call is not taken; null: it is. */
export const shedReason = ({ calls, held, delays, heap }: Load, limit: Settings['limit']): ShedReason | null => {
  if (calls >= limit.concurrent) return 'concurrent'
  if (held >= bufferLimitBytes(limit)) return 'buffered'
  if (heap > MAX_HEAP) return 'heap'
  const { eventLoopDelay } = limit
  const late = eventLoopDelay > 0 && delays.length >= LATE_SECONDS && delays.every((delay) => delay > eventLoopDelay)
  return late ? 'event_loop' : null
}

const MESSAGES: Readonly<Record<ShedReason, string>> = {
  concurrent: 'The gateway is at its limit of requests under way (limit.concurrent).',
  connections: 'The gateway is at its limit of connections (limit.connections).',
  address: 'Too many connections come from this address (limit.connectionsPerAddress).',
  buffered: 'Requests and answers under way take all the memory they may (limit.bufferedMegabytes).',
  event_loop: 'The gateway cannot keep up with the requests it has (limit.eventLoopDelay).',
  heap: 'The gateway has no memory left for further requests.',
}

export const shedFailure = (why: ShedReason): Failure => fail('busy', MESSAGES[why], { retryAfter: 1_000 })

/**
 * Whose connections are counted together. An IPv6 customer has at least 2^64 addresses (RFC 6177): the first half of an
 * address is who it is. An IPv4 address is itself, however it is written.
 */
export const addressGroup = (address: string): string => {
  const plain = address.toLowerCase().replace(/^::ffff:(?=\d+\.)/, '')
  if (!plain.includes(':')) return plain
  const [head = '', tail] = plain.split('%', 1)[0]?.split('::') ?? []
  const groups = (text: string) => (text === '' ? [] : text.split(':'))
  const first = groups(head)
  const last = groups(tail ?? '')
  const all = tail === undefined ? first : [...first, ...Array(8 - first.length - last.length).fill('0'), ...last]
  return all.slice(0, 4).join(':')
}
