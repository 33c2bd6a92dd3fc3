/** A worker's side of the IPC channel to its supervisor. */
import type { Config } from '../../core/config.ts'
import type { EgressTls } from '../../core/egress.ts'
import type { AskProcesses, OthersReplies, RoleAnswer, RoleCall } from '../../core/fleet.ts'
import { AccountsLink } from '../../limits/workers/accounts-link.ts'
import { shareOf, workerWarnings } from '../../limits/workers/share.ts'
import type { LiveBatch } from '../../observe/live/event-batch.ts'
import type { Out } from '../../observe/log.ts'
import { freePort } from '../../runtime/free-port.ts'
import type { SharedLedgerState } from '../../usage/bookkeeper/usage-ledger.ts'
import type { ProcessNotice, ReceivedNotice } from '../fleet/notice.ts'
import { ATOMIC_WRITE_BYTES, atomicLines } from './atomic-lines.ts'
import type { FromSupervisor, FromWorker, Query, RoleReply } from './worker-messages.ts'

/** Callbacks that the worker provides. */
export type WorkerActions = {
  /** All workers are listening, `ms` after the start. Called in the first worker only. */
  readonly announce: (ms: number) => void
  /** Shuts down. `time`: 1 is gracefully, 2 at once, 3 immediately without cleanup. */
  readonly end: (time: number, signal: string) => void
  /** Makes the shutdown close the port at once: a new supervisor may want it. */
  readonly leavePort: () => void
  readonly reload: () => void
  /** The worker's metrics page. */
  readonly metrics: () => string
  /** Answers a query of the admin API, as JSON. */
  readonly answer: (ask: string) => Promise<string>
  /** Whether another worker needs the live events of this one. */
  readonly followLive: (on: boolean) => void
  /** Live events of other workers. */
  readonly liveEvents: (batch: LiveBatch) => void
  /** News of another worker or gateway. */
  readonly notice: (received: ReceivedNotice) => void
  /** Why usage cannot be stored; null: it is stored. */
  readonly ledgerState: (state: SharedLedgerState) => void
}

export type WorkerLink = {
  /** From 1. */
  readonly number: number
  readonly of: number
  /** Whether this worker writes the log lines that are written once: warnings and the address. */
  readonly first: boolean
  /** Differs after a restart of the gateway; the same in all workers. */
  readonly instance: string
  /** Standard output, shared with the other workers. */
  readonly out: Out
  /** Maximum bytes of a line that is written atomically. */
  readonly whole: number
  /** This worker's share of the limits. */
  readonly share: <C extends Config>(config: C) => C
  /** Warnings for features that work only within one worker. */
  readonly warnings: (config: Config) => readonly string[]
  /**
   * The port to listen on. The first worker checks that it is free: with SO_REUSEPORT, listening succeeds even if another
   * program uses the port the same way. Rejects with the error of `listen`.
   */
  readonly claim: (port: number, host: string | undefined) => Promise<number>
  /** Certificates that the supervisor trusts as well. */
  readonly authorities: (tls: Pick<EgressTls, 'ca' | 'caOnly'>) => void
  readonly listening: (facts: Omit<Extract<FromWorker, { type: 'listening' }>, 'type'>, actions: WorkerActions) => void
  /** Reports that a shutdown has begun, which takes up to `within` ms. */
  readonly ending: (within: number) => void
  /** The merged metrics page of all workers; null if it is not available. */
  readonly metrics: () => Promise<string | null>
  /** Sends a query of the admin API to the other workers and gateways. Null: the supervisor does not respond. `within`: up to 1,500. */
  readonly processes: AskProcesses
  /** A role that one gateway has at a time. Rejects if the supervisor cannot reach their store. */
  readonly runRole: (role: string, call: RoleCall) => Promise<RoleAnswer>
  /** Sends news to the other workers and gateways. */
  readonly tell: (notice: ProcessNotice) => void
  /** Limits, budgets and usage of all workers. */
  readonly accounts: AccountsLink
  /** Live events of all workers. */
  readonly live: { readonly follow: (on: boolean) => void; readonly send: (batch: LiveBatch) => void }
}

/** Time limit for a reply of the supervisor, in ms. It gives the workers less (supervise.ts). */
const REPLY_TIMEOUT = 2_000

const SUPERVISOR_GONE = 'the supervisor has ended'

/** Connects to the supervisor. `mark`: such as `1/2 4711-1795451400000`, with ` first` for the first worker of the start. */
export const connectWorker = (mark: string): WorkerLink => {
  const [, number = 1, of = 1] = (/^(\d+)\/(\d+)/.exec(mark) ?? []).map(Number)
  const first = mark.endsWith(' first')
  const [, instance = ''] = mark.split(' ')
  const waiting = new Map<number, (reply: string | null) => void>()
  let queries = 0

  const send = (message: FromWorker) => {
    // If the channel closes meanwhile, `disconnect` is emitted.
    if (process.connected) process.send?.(message, undefined, undefined, () => {})
  }
  const accounts = new AccountsLink(send)
  const ask = (query: Query): Promise<string | null> =>
    new Promise((resolve) => {
      const id = ++queries
      const done = (reply: string | null) => {
        clearTimeout(timer)
        waiting.delete(id)
        resolve(reply)
      }
      const timer = setTimeout(done, REPLY_TIMEOUT, null)
      waiting.set(id, done)
      send({ type: 'query', id, query })
    })
  const replyTo = async (query: Query, actions: WorkerActions): Promise<string> => {
    switch (query.about) {
      case 'metrics':
        return actions.metrics()
      case 'processes':
        return actions.answer(query.ask)
      case 'role':
        throw new Error('the supervisor answers this')
      default:
        throw new Error(`unknown query ${JSON.stringify(query satisfies never)}`)
    }
  }
  const onMessage = (message: FromSupervisor, actions: WorkerActions): void => {
    switch (message.type) {
      case 'announce':
        return actions.announce(message.ms)
      case 'end':
        return actions.end(message.time, message.signal)
      case 'reload':
        return actions.reload()
      case 'query':
        // Without a reply the supervisor stops waiting after its time limit.
        return void replyTo(message.query, actions).then(
          (reply) => send({ type: 'reply', id: message.id, reply }),
          () => {},
        )
      case 'reply':
        return waiting.get(message.id)?.(message.reply)
      case 'ping':
        return send({ type: 'pong' })
      case 'leased':
      case 'totals':
      case 'known':
      case 'budgets_counted':
      case 'ledger_answer':
        return accounts.onMessage(message)
      case 'ledger_state':
        return actions.ledgerState(message)
      case 'notice':
        return actions.notice(message)
      case 'live':
        return actions.followLive(message.on)
      case 'live_events':
        return actions.liveEvents(message)
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  }

  /** Set as soon as the worker listens. */
  let ready: WorkerActions | null = null
  const early: FromSupervisor[] = []
  process.on('message', (received) => {
    // Only the supervisor, which is this same program, has the other end.
    const message = received as FromSupervisor
    // The worker waits for these before it listens.
    if (message.type === 'budgets_counted') accounts.onMessage(message)
    else if (ready) onMessage(message, ready)
    else early.push(message)
  })
  process.on('disconnect', () => accounts.onDisconnect())

  return {
    number,
    of,
    first,
    instance,
    out: atomicLines(1),
    whole: ATOMIC_WRITE_BYTES,
    share: (config) => shareOf(config, of),
    warnings: (config) => workerWarnings(config, of),
    claim: (port, host) => (first ? freePort(port, host) : Promise.resolve(port)),
    authorities: ({ ca, caOnly }) => ca !== '' && send({ type: 'authorities', tls: { ca, caOnly } }),
    listening(facts, actions) {
      ready = actions
      for (const message of early.splice(0)) onMessage(message, actions)
      const endAlone = () => {
        actions.leavePort()
        actions.end(1, SUPERVISOR_GONE)
      }
      process.on('disconnect', endAlone)
      send({ type: 'listening', ...facts })
      // The supervisor may have ended already.
      if (!process.connected) endAlone()
    },
    ending: (within) => send({ type: 'ending', within }),
    metrics: () => ask({ about: 'metrics' }),
    async processes(text, options) {
      const reply = await ask({ about: 'processes', ask: text, ...options })
      // Written by the supervisor, which is the same program.
      return reply === null ? null : (JSON.parse(reply) as OthersReplies)
    },
    async runRole(role, call) {
      const reply = await ask({ about: 'role', role, call })
      // Written by the supervisor, which is the same program.
      const found = reply === null ? null : (JSON.parse(reply) as RoleReply)
      if (found === null) throw new Error('the store of the gateways cannot be used')
      return found.value
    },
    tell: (notice) => send({ type: 'notice', notice }),
    accounts,
    live: {
      follow: (on) => send({ type: 'live', on }),
      send: ({ events, lost }) => send({ type: 'live_events', events, lost }),
    },
  }
}
