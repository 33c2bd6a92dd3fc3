/** Events of the gateway as they happen. */
import { z } from 'zod'
import { bad, type Failure, fail, good } from '../../../core/failure.ts'
import type { LiveHubRefusal } from '../../../observe/live/hub.ts'
import { LIVE_TOPICS, type LiveTopic } from '../../../observe/live/live-event.ts'
import { hasRole, teamsOf } from '../actor.ts'
import type { AdminDeps } from '../deps.ts'
import { type AdminCall, row } from '../row.ts'
import { invalid } from '../validation.ts'
import { liveBudgets } from './budgets.ts'

const ROLE = 'viewer'

const REFUSALS: { readonly [why in LiveHubRefusal]: Failure } = {
  full: fail('busy', 'This process has 50 listeners already. Close one, or try again later.', { retryAfter: 15_000 }),
  actor_full: fail('busy', 'This token has 40 listeners in this process already. Close one, or use another token.', {
    retryAfter: 15_000,
  }),
  closed: fail('draining', 'The gateway is shutting down. Connect again in a moment.', { retryAfter: 1_000 }),
}

/** The teams of both lists; null: all teams. */
const both = (some: readonly string[] | null, others: readonly string[] | null): readonly string[] | null =>
  some === null ? others : others === null ? some : some.filter((team) => others.includes(team))

const isTopic = (text: string): text is LiveTopic => LIVE_TOPICS.some((topic) => topic === text)

/** The teams that the client of a call may follow now. */
const currentTeams = async ({ authentication, gateway }: AdminDeps, { request }: Pick<AdminCall, 'request'>) => {
  const found = await authentication.authenticate({ ...request, settings: gateway.config().settings })
  return found.ok && hasRole(found.value.actor, ROLE, 'team') ? teamsOf(found.value.actor, ROLE) : 'ended'
}

export const liveRows = [
  row({
    method: 'GET',
    path: '/live',
    summary: 'Follow events as they happen',
    about:
      'Each event has a name (`request`, `circuit`, `key`, `budget`, `log`, `config` or `audit`) and JSON without any text of prompts and answers; a request has the members of `/requests` that are known at its end. `config` is a reload; `audit` names the record that was written, without its content. With `Last-Event-ID` the stream continues after that event for a minute; then, and where a client reads too slowly, `event: gap` marks missing events. `event: beat` comes at once and every 10 s; its `instance` differs after a restart. The events are those of all processes (`node`), also of other gateways that share a store: these send a sample of at most 50 usual requests a second each, and the number of the others. After a reconnect some are repeated; at another gateway `event: gap` comes first. A process has at most 50 listeners, 40 of them with the same token. The stream ends with the session or token, and when the gateway shuts down.',
    role: ROLE,
    scope: 'team',
    query: z.strictObject({
      topics: z
        .string()
        .max(100)
        .default(LIVE_TOPICS.join(','))
        .describe(`Separated by commas: ${LIVE_TOPICS.join(', ')}. Default: all`),
      team: z.array(z.string().min(1).max(200)).optional().describe('IDs of teams'),
      sample: z
        .enum(['true', 'false'])
        .default('false')
        .describe(
          '`true`: of requests that the first attempt answered, at most 50 a second are events, and `event: more` counts the others, such as `{"requests":940}`. Without effect on streams of single teams',
        ),
    }),
    answer: { media: 'text/event-stream', about: 'Server-sent events' },
    example: { query: { topics: 'requests,circuits' } },
    async handle(deps, call) {
      const topics = call.query.topics.split(',')
      const unknown = topics.find((topic) => !isTopic(topic))
      if (unknown !== undefined)
        return bad(invalid([{ path: 'topics', message: `It must be some of ${LIVE_TOPICS.join(', ')}.` }], 'query'))
      const chosen = call.query.team ?? null
      const teams = both(call.teams, chosen)
      if (teams?.length === 0) return bad(fail('forbidden', 'These credentials have no role in this team.'))
      const live = await deps.live()
      const { request } = call
      return good({
        stream(reply) {
          if (request.method === 'HEAD') {
            reply.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store' })
            return reply.end()
          }
          const after = request.headers('last-event-id') ?? null
          const problem = live.listen(
            {
              topics: topics.filter(isTopic),
              after,
              teams: async () => {
                const current = await currentTeams(deps, call)
                return current === 'ended' ? current : both(current, chosen)
              },
              budgets: () => liveBudgets(deps),
              sample: call.query.sample === 'true',
              actor: call.actor?.id ?? '',
              reply,
            },
            teams,
          )
          if (problem !== null) request.refuse(REFUSALS[problem], { 'cache-control': 'no-store' })
        },
      })
    },
  }),
]
