/**
 * Load shedding: when a new model call is refused, so that the calls in progress can complete. Pure: the load is measured
 * elsewhere. Requests for health, metrics and status are not model calls and are never refused.
 */
import { type Failure, fail } from '../../core/failure.ts'
import type { Settings } from '../../core/settings.ts'

/** The current load of the process. */
export type Load = {
  /** Model calls in progress. */
  readonly calls: number
  /** Bytes buffered for requests and answers. */
  readonly held: number
  /** Event loop delay in ms (p99) of each of the last seconds, newest last. */
  readonly delays: readonly number[]
  /** Used heap as a share of the heap limit. */
  readonly heap: number
}

/**
 * Why a call is refused. `connections` and `address`: the limit that the call's connection exceeds. `share`: that of its
 * client in the limit of buffered bytes.
 */
export type ShedReason = 'concurrent' | 'connections' | 'address' | 'buffered' | 'share' | 'event_loop' | 'heap'

/** The event loop counts as overloaded after this many seconds of delay in a row: short delays are normal on a busy machine. */
export const LATE_SECONDS = 5

/** Maximum heap share: above it V8 spends most of its time in garbage collection, and at 1 the process ends. */
const MAX_HEAP = 0.95

/** The limit of buffered bytes. */
export const bufferLimitBytes = ({ bufferedMegabytes }: Pick<Settings['limit'], 'bufferedMegabytes'>): number =>
  bufferedMegabytes * 1_048_576

/** Why a new model call is refused; null: it is accepted. */
export const shedReason = ({ calls, held, delays, heap }: Load, limit: Settings['limit']): ShedReason | null => {
  if (calls >= limit.concurrent) return 'concurrent'
  if (held >= bufferLimitBytes(limit)) return 'buffered'
  if (heap > MAX_HEAP) return 'heap'
  const { eventLoopDelay } = limit
  const late = eventLoopDelay > 0 && delays.length >= LATE_SECONDS && delays.every((delay) => delay > eventLoopDelay)
  return late ? 'event_loop' : null
}

/**
 * Why a client may not buffer so many more bytes; null: it may. A client holds at most as much as stays free for the others: one
 * alone half of the limit, two a third each. So a client that holds nothing finds memory, however many others take all they can.
 * `own`: bytes that it holds; `held`: all buffered bytes.
 */
export const bodyShed = (
  bytes: number,
  { own, held, limit }: { readonly own: number; readonly held: number; readonly limit: number },
): Extract<ShedReason, 'buffered' | 'share'> | null => {
  const free = limit - held - bytes
  if (free < 0) return 'buffered'
  return own > 0 && own + bytes > free ? 'share' : null
}

const MESSAGES: Readonly<Record<ShedReason, string>> = {
  concurrent: 'The gateway is at its limit of requests in progress (limit.concurrent).',
  connections: 'The gateway is at its limit of connections (limit.connections).',
  address: 'Too many connections come from this address (limit.connectionsPerAddress).',
  buffered: 'Requests and answers in progress have reached the memory limit (limit.bufferedMegabytes).',
  share:
    'Requests of this client in progress have reached its share of the memory limit: as much as stays free (limit.bufferedMegabytes).',
  event_loop: 'The gateway is overloaded: its event loop is delayed (limit.eventLoopDelay).',
  heap: 'The gateway has too little memory for further requests.',
}

/** The failure of a refused call: 503 with `retry-after` of one second. */
export const shedFailure = (why: ShedReason): Failure => fail('busy', MESSAGES[why], { retryAfter: 1_000 })

/**
 * The unit of the limit of connections per address: the IPv4 address, also if written as `::ffff:a.b.c.d`, or the /64
 * network of an IPv6 address, because one customer has at least a /64 (RFC 6177).
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
