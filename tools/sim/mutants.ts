/**
 * Gateways with one deliberate fault each, to show that the checks detect it. Each row lists the invariants of which at least
 * one must break within a few seeds.
 */

import type { ResponseWriter } from '../../src/core/http-exchange.ts'
import type { World } from '../../src/core/world.ts'
import { ActiveCalls } from '../../src/gateway/call/cancellation.ts'
import type { AttemptPermit } from '../../src/gateway/health/upstream-health.ts'
import type { InvariantNumber } from './invariants.ts'
import type { Mutant } from './run.ts'
import type { HealthClass } from './watch.ts'

export type NamedMutant = {
  readonly name: string
  readonly breaks: readonly InvariantNumber[]
  readonly mutant: Mutant
}

/** The end of a complete chat completions response. */
const FINISH = Buffer.from('\n\ndata: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')

/** A permit with some methods replaced. */
const butFor = (permit: AttemptPermit, change: Partial<AttemptPermit>): AttemptPermit => ({
  isProbe: permit.isProbe,
  commit: (ms) => permit.commit(ms),
  done: () => permit.done(),
  failed: (failure) => permit.failed(failure),
  release: () => permit.release(),
  ...change,
})

const nothing: AttemptPermit = { isProbe: false, commit() {}, done() {}, failed() {}, release() {} }

/** Health state whose permits are replaced. */
const withPermits =
  (change: (permit: AttemptPermit) => Partial<AttemptPermit>) =>
  (Base: HealthClass): HealthClass =>
    class extends Base {
      override admit(...given: Parameters<InstanceType<HealthClass>['admit']>) {
        const answer = super.admit(...given)
        return 'why' in answer ? answer : butFor(answer, change(answer))
      }
    }

/** A response writer that delegates to another. */
const asIs = (reply: ResponseWriter): ResponseWriter => ({
  writeHead: (status, headers) => reply.writeHead(status, headers),
  write: (text) => reply.write(text),
  end: (text) => reply.end(text),
  abort: () => reply.abort(),
  onDrain: (run) => reply.onDrain(run),
  onDisconnect: (run) => reply.onDisconnect(run),
})

const withDial =
  (change: (dial: World['dial']) => World['dial']) =>
  (world: World): World => ({
    ...world,
    dial: change(world.dial),
  })

export const MUTANTS: readonly NamedMutant[] = [
  {
    name: 'something throws',
    breaks: [0],
    mutant: {
      gateway: (gateway) => ({
        ...gateway,
        catalogue: () => {
          throw new Error('a bug')
        },
      }),
    },
  },
  {
    name: 'calls keep their slots',
    breaks: [29],
    mutant: {
      gateway: (gateway) => {
        const open = gateway.accounts.open.bind(gateway.accounts)
        gateway.accounts.open = (received, style) => {
          const account = open(received, style)
          account.end = () => {}
          account.close = () => {}
          return account
        }
        return gateway
      },
    },
  },
  {
    name: 'attempts keep their reservation at the end of a call',
    breaks: [29],
    mutant: {
      gateway: (gateway) => {
        const open = gateway.accounts.open.bind(gateway.accounts)
        gateway.accounts.open = (received, style) => {
          const account = open(received, style)
          account.settleAll = () => undefined
          return account
        }
        return gateway
      },
    },
  },
  {
    name: 'attempts are made after the deadline',
    breaks: [4],
    mutant: { world: (world) => ({ ...world, later: (ms, run) => world.later(ms * 3, run) }) },
  },
  {
    name: 'a rejected key is never used again',
    breaks: [10],
    mutant: {
      health: (Base) =>
        class extends Base {
          readonly #dead = new Set<string>()
          override admit(...given: Parameters<InstanceType<HealthClass>['admit']>) {
            const [{ candidate, key }] = given
            const id = `${candidate.instance.id} ${key.id}`
            if (this.#dead.has(id)) return { why: 'disabled', until: null } as const
            const answer = super.admit(...given)
            if ('why' in answer) return answer
            const failed: AttemptPermit['failed'] = (failure) => {
              if (failure.kind === 'auth') this.#dead.add(id)
              answer.failed(failure)
            }
            return butFor(answer, { failed })
          }
        },
    },
  },
  {
    name: 'Retry-After is always one second',
    breaks: [27],
    mutant: {
      reply: (reply) => ({
        ...asIs(reply),
        writeHead: (status, headers) =>
          reply.writeHead(status, headers['retry-after'] === undefined ? headers : { ...headers, 'retry-after': '1' }),
      }),
    },
  },
  {
    name: 'open circuits are ignored',
    breaks: [8],
    mutant: {
      health: (Base) =>
        class extends Base {
          override refuses(...given: Parameters<InstanceType<HealthClass>['refuses']>) {
            const answer = super.refuses(...given)
            return answer?.why === 'circuit' ? null : answer
          }
          override admit(...[target, settings, how]: Parameters<InstanceType<HealthClass>['admit']>) {
            const answer = super.admit(target, settings, how)
            return 'why' in answer && answer.why === 'circuit' ? super.admit(target, settings, 'ignore') : answer
          }
        },
    },
  },
  {
    name: 'circuits reject calls that they should admit',
    breaks: [11],
    mutant: {
      health: (Base) =>
        class extends Base {
          override admit(...[target, settings, how]: Parameters<InstanceType<HealthClass>['admit']>) {
            return target.key.id === 'k1'
              ? ({ why: 'circuit', until: null } as const)
              : super.admit(target, settings, how)
          }
        },
    },
  },
  {
    name: 'a rate limit counts as an upstream failure',
    breaks: [6],
    mutant: {
      health: withPermits((permit) => ({
        failed: (failure) => permit.failed(failure.kind === 'rate_limited' ? { ...failure, kind: 'status' } : failure),
      })),
    },
  },
  {
    name: 'the retry time of an upstream is ignored',
    breaks: [6],
    mutant: {
      health: (Base) =>
        class extends Base {
          override refuses(...given: Parameters<InstanceType<HealthClass>['refuses']>) {
            const answer = super.refuses(...given)
            return answer?.why === 'rate_limited' ? null : answer
          }
          override admit(...given: Parameters<InstanceType<HealthClass>['admit']>) {
            const answer = super.admit(...given)
            return 'why' in answer && answer.why === 'rate_limited' ? nothing : answer
          }
        },
    },
  },
  {
    name: 'a rejected key disables the other keys',
    breaks: [7],
    mutant: {
      health: (Base) =>
        class extends Base {
          override admit(...[target, settings, how]: Parameters<InstanceType<HealthClass>['admit']>) {
            const answer = super.admit(target, settings, how)
            if ('why' in answer) return answer
            const { candidate } = target
            const failed: AttemptPermit['failed'] = (failure) => {
              answer.failed(failure)
              if (failure.kind !== 'auth') return
              for (const key of candidate.instance.keys) {
                const other = super.admit({ candidate, key }, settings, 'ignore')
                if (!('why' in other)) other.failed(failure)
              }
            }
            return butFor(answer, { failed })
          }
        },
    },
  },
  {
    name: 'an invalid request counts as an upstream failure',
    breaks: [5],
    mutant: {
      health: withPermits((permit) => ({
        failed: (failure) => permit.failed(failure.kind === 'incompatible' ? { ...failure, kind: 'status' } : failure),
      })),
    },
  },
  {
    name: 'the beginning of a response is not recorded',
    breaks: [9, 11],
    mutant: { health: withPermits(() => ({ commit: () => {} })) },
  },
  {
    name: 'every failure releases the permit without an outcome',
    breaks: [9, 11],
    mutant: { health: withPermits((permit) => ({ failed: () => permit.release() })) },
  },
  {
    name: 'permits are never released',
    breaks: [14],
    mutant: { health: withPermits(() => ({ release: () => {} })) },
  },
  {
    name: 'retries use no budget',
    breaks: [12],
    mutant: {
      health: (Base) =>
        class extends Base {
          override mayRepeat(...given: Parameters<InstanceType<HealthClass>['mayRepeat']>) {
            super.mayRepeat(...given)
            return true
          }
        },
    },
  },
  {
    name: 'the number of attempts is unlimited',
    breaks: [1],
    mutant: {
      gateway: (gateway) => ({
        ...gateway,
        config: () => {
          const config = gateway.config()
          const retry = { ...config.settings.retry, maxAttempts: 100 }
          return { ...config, settings: { ...config.settings, retry } }
        },
      }),
    },
  },
  {
    name: 'a truncated response counts as complete',
    breaks: [3],
    mutant: {
      listener: (listener) => {
        let content = false
        let streamed = false
        return {
          onHeaders: (status, headers) => {
            streamed = headers('content-type') === 'text/event-stream'
            listener.onHeaders(status, headers)
          },
          onBody: (chunk) => {
            content ||= Buffer.from(chunk).includes('ü')
            return listener.onBody(chunk)
          },
          onEnd: () => {
            if (content && streamed) listener.onBody(FINISH)
            listener.onEnd()
          },
          onFailure: (failure) => listener.onFailure(failure),
        }
      },
    },
  },
  {
    name: 'a complete response counts as a failure',
    breaks: [13],
    mutant: {
      listener: (listener) => ({
        onHeaders: (status, headers) => listener.onHeaders(status, headers),
        onBody: (chunk) => listener.onBody(chunk),
        onEnd: () => listener.onFailure({ kind: 'reset', message: 'it broke' }),
        onFailure: (failure) => listener.onFailure(failure),
      }),
    },
  },
  {
    name: 'a client disconnect is not reported',
    breaks: [25],
    mutant: { reply: (reply) => ({ ...asIs(reply), onDisconnect: () => {} }) },
  },
  {
    name: 'backpressure of the client is ignored',
    breaks: [18],
    mutant: {
      reply: (reply) => ({
        ...asIs(reply),
        write: (text) => {
          reply.write(text)
          return true
        },
      }),
    },
  },
  {
    name: 'a response is sent twice',
    breaks: [2, 3, 28],
    mutant: {
      reply: (reply) => ({
        ...asIs(reply),
        write: (text) => {
          reply.write(text)
          return reply.write(text)
        },
      }),
    },
  },
  {
    name: 'a response ends twice',
    breaks: [2],
    mutant: {
      reply: (reply) => ({
        ...asIs(reply),
        end: (text) => {
          reply.end(text)
          reply.end()
        },
      }),
    },
  },
  {
    name: 'a stream ends inside an event',
    breaks: [28],
    mutant: { reply: (reply) => ({ ...asIs(reply), end: (text) => reply.end(text?.slice(0, -1)) }) },
  },
  {
    name: 'upstream calls are never aborted',
    breaks: [14, 25],
    mutant: {
      world: withDial((dial) => (call, listener) => {
        const ongoing = dial(call, listener)
        return { abort: () => {}, resume: () => ongoing.resume() }
      }),
    },
  },
  {
    name: 'a key is sent to another origin',
    breaks: [16],
    mutant: {
      world: withDial(
        (dial) => (call, listener) => dial({ ...call, url: call.url.replace('//p0.', '//p1.') }, listener),
      ),
    },
  },
  {
    name: 'timers are three times too slow',
    breaks: [19],
    mutant: { world: (world) => ({ ...world, later: (ms, run) => world.later(ms * 3, run) }) },
  },
  {
    name: 'requests cannot be cancelled',
    breaks: [24],
    mutant: {
      gateway: (gateway) => {
        const live: typeof gateway.activeCalls = new ActiveCalls()
        live.add = () => {}
        return { ...gateway, activeCalls: live }
      },
    },
  },
  {
    name: 'all requests have the same fingerprint',
    breaks: [17],
    mutant: { fingerprint: () => '' },
  },
  {
    name: 'requests are not recorded',
    breaks: [15],
    mutant: {
      gateway: (gateway) => ({
        ...gateway,
        emit: (event) => {
          if (event.event !== 'request') gateway.emit(event)
        },
      }),
    },
  },
  {
    name: 'random numbers do not depend on the seed',
    breaks: [26],
    mutant: { world: (world) => ({ ...world, random: () => Math.random() }) },
  },
  {
    name: 'random numbers depend on the wall clock',
    breaks: [23],
    mutant: { world: (world) => ({ ...world, random: () => (world.random() + world.date() / 7_200_000) % 1 }) },
  },
]
