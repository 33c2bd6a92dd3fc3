/** A route: a name that clients send as `model`, with the targets of its requests. */
import { z } from 'zod'
import { parseDollars } from '../../core/money.ts'
import { ALLOWED_LOSS, type Route, type RouteTarget, type ShadowRules, STICKINESS } from '../../core/route.ts'
import { settingsSchema } from '../../core/settings.ts'
import type { TargetOverride } from '../../core/target-override.ts'
import { instanceName } from './ids.ts'
import { TEXT } from './member.ts'
import { FILE_ONLY, OVERRIDE, overrideFrom } from './override.ts'
import { CACHE, CACHE_USE, REQUIRE, REQUIRE_USE } from './restrictions.ts'
import { shownAs } from './shown.ts'
import { WHEN } from './when.ts'

const text = z.string().min(1)

export const WEIGHT = z
  .number()
  .positive()
  .max(1_000_000)
  .default(1)
  .describe('share of the load, relative to the others')

const TARGET_MEMBERS = { provider: text, model: text.optional(), weight: WEIGHT, when: WHEN.optional(), ...OVERRIDE }

const TARGET = z.union([text, z.strictObject(TARGET_MEMBERS)])
type TargetEntry = z.output<typeof TARGET>

const TARGETS_USE = 'provider/model, a provider alone (its default model), or with a weight'
const FALLBACK_USE = 'tried in order after the targets'

const ROUTE_MEMBERS = {
  strategy: settingsSchema.shape.strategy
    .unwrap()
    .optional()
    .describe('order of its targets; default: the setting `strategy`'),
  stickiness: z
    .enum(STICKINESS)
    .optional()
    .describe(
      'what later requests of a session stay with while the prompt cache lasts: nothing, the key, or also the provider; default: key, and provider where the strategy is not priority',
    ),
  cache: CACHE.optional().describe(CACHE_USE),
  require: REQUIRE.optional().describe(REQUIRE_USE),
  cacheBreakpoints: OVERRIDE.cacheBreakpoints.describe('`cacheBreakpoints` of each of its targets'),
  onRetired: z
    .literal('successor')
    .optional()
    .describe('a target whose model has ended (`models`) is replaced by its successor, for chat; default: it is tried'),
}

const CANARY = z
  .strictObject({
    target: z.int().min(0).max(999).describe('place of the target in `targets`, from 0'),
    steps: z
      .array(z.number().positive().max(100))
      .min(1)
      .max(20)
      .refine((steps) => steps.every((step, at) => step > (steps[at - 1] ?? 0)))
      .meta({ allowed: 'percentages in ascending order' })
      .default([1, 5, 25, 100])
      .describe('percent of the sessions that it serves'),
    every: z.int().min(1_000).max(2_147_483_647).default(1_800_000).describe('shortest time of a step (ms)'),
    stop: z
      .strictObject({
        errors: z.number().min(0).max(100).default(2).describe('points of failures above the others; 0 is off'),
        firstContent: z
          .number()
          .min(0)
          .max(10_000)
          .default(50)
          .describe('percent of the time to first content above the others; 0 is off'),
      })
      .prefault({})
      .describe('when it stops: it does certainly worse than the other targets by more than this'),
  })
  .describe('a target that receives a growing share of the sessions while it does as well as the others')

const SHADOW = z
  .strictObject({
    to: TARGET.describe('provider/model, or with `set` and the other members of a target'),
    percent: z.number().positive().max(100).describe('percent of the sessions whose requests are copied'),
    budget: z
      .union([TEXT, z.number()])
      .refine((amount) => parseDollars(String(amount)).ok)
      .meta({ allowed: 'an amount in dollars, such as "20.00"' })
      .describe('dollars a day (UTC) for the copies of all gateways'),
    perMinute: z.int().min(1).max(100_000).default(60).describe('copies a minute of each process, at most'),
  })
  .describe('a target that receives copies of requests after their clients have the answers')
type ShadowEntry = z.output<typeof SHADOW>

const DRILL = z
  .strictObject({
    live: z.boolean().optional().describe('send live checks to its targets; default: the setting `drill.live`'),
    allow: z
      .number()
      .min(0)
      .max(100)
      .optional()
      .describe(`percent of its requests that a drill may show as lost; default ${ALLOWED_LOSS}`),
  })
  .describe('how its fallbacks are drilled')

/** A route of the file. */
export const ROUTE_ENTRY = z
  .strictObject({
    ...ROUTE_MEMBERS,
    targets: z.array(TARGET).min(1).describe(TARGETS_USE),
    fallback: z.array(TARGET).default([]).describe(FALLBACK_USE),
    canary: CANARY.optional(),
    shadow: SHADOW.optional(),
    drill: DRILL.optional(),
  })
  .superRefine(({ targets, canary }, context) => {
    if (!canary || (targets.length > 1 && canary.target < targets.length)) return
    const allowed = targets.length < 2 ? 'a route with at least two targets' : `0 to ${targets.length - 1}`
    context.addIssue({ code: 'custom', path: ['canary', 'target'], params: { allowed } })
  })
export type RouteEntry = z.output<typeof ROUTE_ENTRY>

/** Members of a target that a team may write. */
const TEAM_TARGET = z.strictObject(TARGET_MEMBERS).omit({ [FILE_ONLY[0]]: true, [FILE_ONLY[1]]: true })

/** Of a route of a team. */
const MAX = { targets: 20, bytes: 16_384 }

const SPEC = z
  .strictObject({
    ...ROUTE_MEMBERS,
    targets: z
      .array(z.union([text, TEAM_TARGET]))
      .min(1)
      .max(MAX.targets)
      .describe(TARGETS_USE),
    fallback: z
      .array(z.union([text, TEAM_TARGET]))
      .max(MAX.targets)
      .default([])
      .describe(FALLBACK_USE),
  })
  .refine((spec) => JSON.stringify(spec).length <= MAX.bytes, { params: { allowed: 'at most 16 KiB of JSON' } })
  .describe('as a route of headgate.yaml, without `headers` and `extra` of targets')
  .meta({ id: 'RouteSpec' })

/** Names of models, so that a team can give one to targets of its choice. `*` is left to the file. */
const MODEL_NAME = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$/,
    'Write letters, digits and . _ : / @ + -, at most 128, beginning with a letter or digit.',
  )
  .describe('sent by clients as `model`; not the name of a route of headgate.yaml')

/** A route of a team, in the database only. */
const TEAM_ROUTE = { team: TEXT.describe('the team whose keys may use it, by ID or name'), spec: SPEC }

export const ROUTE_BODY = z.strictObject({ name: MODEL_NAME, ...TEAM_ROUTE })
export type RouteBody = z.output<typeof ROUTE_BODY>

export const ROUTE = shownAs('route', TEAM_ROUTE, {
  shadowed: z.boolean().describe('headgate.yaml has a route of this name now, which applies instead'),
}).meta({ id: 'Route' })

/** The route of an entry. Its providers are written as in the file, so they may be aliases, or not be configured. */
export const routeFrom = (
  name: string,
  {
    strategy,
    stickiness,
    targets,
    fallback,
    cache,
    require,
    cacheBreakpoints,
    onRetired,
    canary,
    shadow,
    drill,
  }: RouteEntry,
): Route => ({
  name,
  targets: targets.map((target) => targetFrom(target, cacheBreakpoints)),
  fallback: fallback.map((target) => targetFrom(target, cacheBreakpoints)),
  ...(strategy !== undefined && { strategy }),
  ...(stickiness !== undefined && { stickiness }),
  ...(cache !== undefined && { cache }),
  ...(require !== undefined && { require }),
  ...(onRetired !== undefined && { onRetired }),
  ...(canary !== undefined && { canary }),
  ...(shadow !== undefined && { shadow: shadowFrom(shadow) }),
  ...(drill !== undefined && { drill }),
})

const shadowFrom = ({ to, percent, perMinute, budget }: ShadowEntry): ShadowRules => ({
  target: targetFrom(to),
  percent,
  perMinute,
  budget: String(budget),
})

/** `cacheBreakpoints`: of its route. */
const targetFrom = (
  entry: TargetEntry,
  cacheBreakpoints: TargetOverride['cacheBreakpoints'] = undefined,
): RouteTarget => {
  if (typeof entry === 'string') {
    const slash = entry.indexOf('/')
    const model = slash === -1 ? '' : entry.slice(slash + 1)
    return {
      provider: instanceName(slash === -1 ? entry : entry.slice(0, slash)),
      ...(model !== '' && { model }),
      weight: 1,
      ...(cacheBreakpoints && { override: { cacheBreakpoints } }),
    }
  }
  const { provider, model, weight, when } = entry
  const override = overrideFrom({ ...entry, cacheBreakpoints: entry.cacheBreakpoints ?? cacheBreakpoints })
  return {
    provider: instanceName(provider),
    ...(model !== undefined && { model }),
    weight,
    ...(when && { when }),
    ...(override && { override }),
  }
}
