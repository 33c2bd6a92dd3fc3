/** What teams and keys have in common: access, limits, cache and tags. In every form: the body, the file, the row, the answers. */
import { z } from 'zod'
import { MAX_REQUIRE, REGION } from '../../core/data-policy.ts'
import { LOOP_ACTIONS } from '../../core/loops.ts'
import { accessList, MAX, TEXT } from './member.ts'
import { tags } from './tags.ts'

const limit = (about: string) =>
  z
    .int()
    .min(0)
    .max(1_000_000_000)
    .nullable()
    .default(null)
    .describe(`${about}; unset: no limit, 0: none`)
    .meta({ allowed: 'a whole number from 0 to 1000000000' })

/** The form of an entry of `passThrough`. */
const GRANT = 'names of providers, or with a path and all below it: gemini:/v1beta/files'

/** Seconds of a year. */
const MAX_TTL = 31_536_000

/** The cache of a team or a key; also of a route, which only the file has. */
export const CACHE = z.strictObject({
  ttl: z
    .int()
    .min(0)
    .max(MAX_TTL)
    .default(300)
    .describe('time for which an answer is used again (s); 0: answers are not cached'),
  scope: z
    .enum(['key', 'team'])
    .default('key')
    .describe('who shares an answer: requests of one key, or of the whole team'),
  anyTemperature: z
    .boolean()
    .default(false)
    .describe('cache answers also if the temperature is above 0 and the request has no seed'),
  tools: z
    .boolean()
    .default(false)
    .describe('cache answers also if the request declares tools; answers that call one are never cached'),
  requestControl: z.boolean().default(true).describe('apply `Cache-Control` of requests'),
})

/** Which cache applies. */
export const CACHE_USE = 'cache of answers; unset: off for a route, as the route for a team, as the team for a key'

/** What targets must satisfy: of a team or a key; also of a route and of all requests, which only the file has. */
export const REQUIRE = z.strictObject({
  region: z
    .array(z.string().regex(REGION).meta({ allowed: 'a label such as eu, eu-de or local' }))
    .max(MAX_REQUIRE.regions)
    .nullable()
    .default(null)
    .describe(
      'regions in which the provider processes data; eu includes eu-de. Unset: not required, []: none is allowed',
    ),
  retention: z
    .int()
    .min(0)
    .max(MAX_REQUIRE.days)
    .nullable()
    .default(null)
    .describe('most days for which the provider keeps prompts or answers; unset: not required, 0: none'),
  training: z
    .literal(false)
    .nullable()
    .default(null)
    .describe('false: only providers that do not train models with the data; unset: not required')
    .meta({ allowed: 'false' }),
})

/** Which requirements apply. */
export const REQUIRE_USE = 'what the `facts` of a provider must satisfy to receive a request'

export const RESTRICTIONS = {
  access: z
    .strictObject({
      models: accessList(
        'models',
        'models, by names or globs (`openai/*`, `!*opus*`) of the requested name, `provider/model` or the model',
      ),
      routes: accessList('routes', 'routes'),
      providers: accessList('providers', 'providers'),
      styles: accessList('styles', 'API styles, such as chat, responses, messages'),
      ips: accessList('ips', 'IP addresses or CIDR ranges of clients'),
      passThrough: z
        .array(TEXT.regex(/^[A-Za-z0-9][A-Za-z0-9.-]{0,62}(?::\/[\x21-\x7e]*)?$/).meta({ allowed: GRANT }))
        .max(MAX.entries)
        .nullable()
        .default(null)
        .describe(
          'providers whose own API may be called, with `passThrough` there; the team and the key both need it; unset: none',
        )
        .meta({ allowed: `a list of ${GRANT}` }),
    })
    .prefault({})
    .describe('what may be used; * matches any text, a leading ! denies'),
  limits: z
    .strictObject({
      requestsPerMinute: limit('requests per minute'),
      tokensPerMinute: limit('tokens per minute, input and output'),
      concurrent: limit('requests in progress'),
    })
    .prefault({})
    .describe('limits of its own; those of the team and of the key both apply'),
  require: REQUIRE.prefault({}).describe(`${REQUIRE_USE}; those of the team and of the key both apply`),
  loops: z
    .enum(LOOP_ACTIONS)
    .nullable()
    .default(null)
    .describe(
      'what is done when an agent repeats itself; of `loops.action`, the team and the key the strictest applies',
    ),
  cache: CACHE.nullable().default(null).describe(CACHE_USE),
  tags: tags.prefault({}).describe('names and values, for budgets and reports'),
}

/** Whether an entry of the file is in use. The rows have further states, which end a record. */
export const entryStatus = (about: string) => z.enum(['active', 'blocked']).default('active').describe(about)
