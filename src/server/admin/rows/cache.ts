/** The response cache of all processes. */
import { z } from 'zod'
import { bad, fail, good } from '../../../core/failure.ts'
import { type JsonObject, number } from '../../../core/json.ts'
import { CACHE_PURGED, CACHE_SIZE } from '../../answers/cache.ts'
import { defined } from '../control.ts'
import { askProcesses } from '../processes.ts'
import { row } from '../row.ts'

const sum = (answers: readonly { readonly value: JsonObject }[], member: string): number =>
  answers.reduce((total, { value }) => total + (number(value[member]) ?? 0), 0)

const NOT_PURGED = fail(
  'storage',
  'The answers of all processes were removed, but not those in Redis (cache.shared), which does not answer. Check redis.url (REDIS_URL), then purge again.',
)

export const cacheRows = [
  row({
    method: 'GET',
    path: '/cache',
    summary: 'Show the size of the response cache',
    role: 'operator',
    scope: 'all',
    answer: CACHE_SIZE,
    example: {
      answer: {
        object: 'cache',
        answers: 12,
        bytes: 48_000,
        limit_bytes: 67_108_864,
        processes: { answered: 1, of: 1 },
      },
    },
    async handle(deps) {
      const { answers, of } = await askProcesses(deps, { do: 'cache' })
      const [entries, bytes, limit] = ['answers', 'bytes', 'limit_bytes'].map((member) => sum(answers, member))
      return good({
        body: {
          object: 'cache' as const,
          answers: entries ?? 0,
          bytes: bytes ?? 0,
          limit_bytes: limit ?? 0,
          processes: { answered: answers.length, of },
        },
      })
    },
  }),
  row({
    method: 'POST',
    path: '/cache/purge',
    summary: 'Remove answers from the response cache',
    about:
      'Removes the answers that match all members; an empty object removes all. `processes` counts those of other gateways that share a store; one that is cut off from it removes them when it is back.',
    role: 'operator',
    scope: 'all',
    body: z.strictObject({
      team: z.string().min(1).optional().describe('ID of the team'),
      key: z.string().min(1).optional().describe('ID of the key whose request stored the answer'),
      model: z.string().min(1).optional().describe('`model` or `provider/model`'),
    }),
    answer: CACHE_PURGED,
    example: {
      body: { model: 'openai/gpt-5-mini' },
      answer: { object: 'cache.purged', removed: 3, processes: { answered: 1, of: 1 } },
    },
    async handle(deps, { body }) {
      const which = defined(body)
      // Before the others, which would read them from there again.
      const shared = await deps.gateway.cache.purgeShared(which)
      const { answers, of } = await askProcesses(deps, { do: 'purge', which })
      if (shared === null) return bad(NOT_PURGED)
      return good({
        body: {
          object: 'cache.purged' as const,
          removed: shared + sum(answers, 'removed'),
          processes: { answered: answers.length, of },
        },
      })
    },
  }),
]
