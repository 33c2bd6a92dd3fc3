/**
 * Gateways with one fault each, put together from the real thing and a wrong part: what shows that an invariant can
 * break. Each names the invariants of which one has to, and soon.
 */

import type { ResponseWriter } from '../../src/core/http-exchange.ts'
import type { World } from '../../src/core/world.ts'
import { ActiveCalls } from '../../src/gateway/call/cancellation.ts'
import type { AttemptPermit } from '../../src/gateway/health/upstream-health.ts'
import type { InvariantNumber } from './invariants.ts'
import type { Mutant } from './run.ts'
import type { BoardClass } from './watch.ts'

export type Named = { readonly name: string; readonly breaks: readonly InvariantNumber[]; readonly mutant: Mutant }

/** What a chat upstream says when it means that nothing is missing. */
const FINISH = Buffer.from('\n\ndata: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')

/** A ticket that does everything as the given one does, but for this. */
const butFor = (ticket: AttemptPermit, change: Partial<AttemptPermit>): AttemptPermit => ({
  commit: (ms) => ticket.commit(ms),
  done: () => ticket.done(),
  failed: (failure) => ticket.failed(failure),
  release: () => ticket.release(),
  ...change,
})

const nothing: AttemptPermit = { commit() {}, done() {}, failed() {}, release() {} }

/** A board whose tickets are another's. */
const withTickets =
  (change: (ticket: AttemptPermit) => Partial<AttemptPermit>) =>
  (Base: BoardClass): BoardClass =>
    class extends Base {
      override admit(...given: Parameters<InstanceType<BoardClass>['admit']>) {
        const answer = super.admit(...given)
        return 'why' in answer ? answer : butFor(answer, change(answer))
      }
    }

/** A reply that does everything as the given one does. */
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

export const MUTANTS: readonly Named[] = [
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
    name: 'attempts are made when the time for everything is over',
    breaks: [4],
    mutant: { world: (world) => ({ ...world, later: (ms, run) => world.later(ms * 3, run) }) },
  },
  {
    name: 'a key that was refused once never comes back',
    breaks: [10],
    mutant: {
      board: (Base) =>
        class extends Base {
          readonly #dead = new Set<string>()
          override admit(...given: Parameters<InstanceType<BoardClass>['admit']>) {
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
    name: 'everybody is told to come back in a second',
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
      board: (Base) =>
        class extends Base {
          override refuses(...given: Parameters<InstanceType<BoardClass>['refuses']>) {
            const answer = super.refuses(...given)
            return answer?.why === 'circuit' ? null : answer
          }
          override admit(...[target, settings, how]: Parameters<InstanceType<BoardClass>['admit']>) {
            const answer = super.admit(target, settings, how)
            return 'why' in answer && answer.why === 'circuit' ? super.admit(target, settings, 'ignore') : answer
          }
        },
    },
  },
  {
    name: 'circuits refuse what they should admit',
    breaks: [11],
    mutant: {
      board: (Base) =>
        class extends Base {
          override admit(...[target, settings, how]: Parameters<InstanceType<BoardClass>['admit']>) {
            return target.key.id === 'k1'
              ? ({ why: 'circuit', until: null } as const)
              : super.admit(target, settings, how)
          }
        },
    },
  },
  {
    name: 'a rate limit counts as a failure of health',
    breaks: [6],
    mutant: {
      board: withTickets((ticket) => ({
        failed: (failure) => ticket.failed(failure.kind === 'rate_limited' ? { ...failure, kind: 'status' } : failure),
      })),
    },
  },
  {
    name: 'who said when to come back is asked sooner',
    breaks: [6],
    mutant: {
      board: (Base) =>
        class extends Base {
          override refuses(...given: Parameters<InstanceType<BoardClass>['refuses']>) {
            const answer = super.refuses(...given)
            return answer?.why === 'rate_limited' ? null : answer
          }
          override admit(...given: Parameters<InstanceType<BoardClass>['admit']>) {
            const answer = super.admit(...given)
            return 'why' in answer && answer.why === 'rate_limited' ? nothing : answer
          }
        },
    },
  },
  {
    name: 'a refused key takes its siblings along',
    breaks: [7],
    mutant: {
      board: (Base) =>
        class extends Base {
          override admit(...[target, settings, how]: Parameters<InstanceType<BoardClass>['admit']>) {
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
    name: "the request's own fault counts",
    breaks: [5],
    mutant: {
      board: withTickets((ticket) => ({
        failed: (failure) =>
          ticket.failed(failure.kind === 'invalid_request' ? { ...failure, kind: 'status' } : failure),
      })),
    },
  },
  {
    name: 'answers are not booked when they begin',
    breaks: [9, 11],
    mutant: { board: withTickets(() => ({ commit: () => {} })) },
  },
  {
    name: 'every failure ends the claim without a verdict',
    breaks: [9, 11],
    mutant: { board: withTickets((ticket) => ({ failed: () => ticket.release() })) },
  },
  {
    name: 'claims are never given back',
    breaks: [14],
    mutant: { board: withTickets(() => ({ release: () => {} })) },
  },
  {
    name: 'repeats cost nothing',
    breaks: [12],
    mutant: {
      board: (Base) =>
        class extends Base {
          override mayRepeat(...given: Parameters<InstanceType<BoardClass>['mayRepeat']>) {
            super.mayRepeat(...given)
            return true
          }
        },
    },
  },
  {
    name: 'attempts have no limit',
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
    name: 'an end of any kind is taken for the end of the answer',
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
    name: 'a whole answer is taken for a failure',
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
    name: 'nobody hears that the client left',
    breaks: [25],
    mutant: { reply: (reply) => ({ ...asIs(reply), onDisconnect: () => {} }) },
  },
  {
    name: 'a client is always taken to have read',
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
    name: 'an answer is sent twice',
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
    name: 'an answer ends twice',
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
    name: 'a stream breaks off inside an event',
    breaks: [28],
    mutant: { reply: (reply) => ({ ...asIs(reply), end: (text) => reply.end(text?.slice(0, -1)) }) },
  },
  {
    name: 'a call upstream is never given up',
    breaks: [14, 25],
    mutant: {
      world: withDial((dial) => (call, listener) => {
        const ongoing = dial(call, listener)
        return { abort: () => {}, resume: () => ongoing.resume() }
      }),
    },
  },
  {
    name: "a key is shown to another's server",
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
    name: 'nothing can be stopped',
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
    name: 'every question is taken for the same',
    breaks: [17],
    mutant: { fingerprint: () => '' },
  },
  {
    name: 'requests are not written down',
    breaks: [15],
    mutant: {
      gateway: (gateway) => ({
        ...gateway,
        emit: (news) => {
          if (news.event !== 'request') gateway.emit(news)
        },
      }),
    },
  },
  {
    name: 'chance is not of the seed',
    breaks: [26],
    mutant: { world: (world) => ({ ...world, random: () => Math.random() }) },
  },
  {
    name: 'chance is drawn from the wall clock',
    breaks: [23],
    mutant: { world: (world) => ({ ...world, random: () => (world.random() + world.date() / 7_200_000) % 1 }) },
  },
]
