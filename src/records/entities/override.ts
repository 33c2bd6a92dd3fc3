/** The schema of what a target of a route changes in requests. */
import { z } from 'zod'
import { EFFORTS } from '../../core/chat.ts'
import type { TargetOverride } from '../../core/target-override.ts'
import { OVERRIDE_NAMES } from '../../policy/routing/override.ts'

const text = z.string().min(1).max(400)
const tokens = z.int().min(0).max(10_000_000)

/** The values of each setting. */
const VALUES = {
  temperature: z.number().min(0).max(2),
  topP: z.number().min(0).max(1),
  topK: z.int().min(1),
  maxOutputTokens: tokens.min(1),
  stop: z.array(text).min(1).max(16),
  seed: z.int(),
  effort: z.enum(EFFORTS),
  thinkingBudget: tokens,
  verbosity: text,
  serviceTier: text,
  parallelToolCalls: z.boolean(),
  store: z.boolean(),
  user: text,
} as const

/** A value, or bounds for the client's. */
const bounded = <T extends z.ZodType>(value: T) =>
  z.union([value, z.strictObject({ min: value.optional(), max: value.optional() })]).optional()

const SET = z
  .strictObject({
    ...VALUES,
    temperature: bounded(VALUES.temperature),
    topP: bounded(VALUES.topP),
    topK: bounded(VALUES.topK),
    maxOutputTokens: bounded(VALUES.maxOutputTokens),
    effort: bounded(VALUES.effort),
    thinkingBudget: bounded(VALUES.thinkingBudget),
  })
  .partial()

/** Members that decide about the target, the conversation or the cost. */
const OWN_MEMBERS: ReadonlySet<string> = new Set([
  ...['model', 'models', 'stream', 'n', 'messages', 'input', 'system', 'instructions', 'prompt', 'contents'],
  ...['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'service_tier', 'speed', 'inference_geo'],
])
const MAX_EXTRA = 4_096

const EXTRA = z
  .record(text, z.json())
  .refine((members) => JSON.stringify(members).length <= MAX_EXTRA, { params: { allowed: 'at most 4 KiB of JSON' } })
  .superRefine((members, context) => {
    for (const name of Object.keys(members))
      if (OWN_MEMBERS.has(name))
        context.addIssue({
          code: 'custom',
          path: [name],
          params: { found: JSON.stringify(name), allowed: 'other members; `set` has limits and tiers', at: 'name' },
        })
  })

const ms = z.int().min(0).max(86_400_000).optional()
const beta = z.string().regex(/^[a-z0-9][a-z0-9.-]{0,99}$/)

/** Members of a target. */
export const OVERRIDE = {
  set: SET.optional().describe('settings in place of those of the client, or bounds (`{ max: 8000 }`) for them'),
  default: z.strictObject(VALUES).partial().optional().describe('settings for what the client does not state'),
  remove: z.array(z.enum(OVERRIDE_NAMES)).min(1).optional().describe('settings of the client that are left out'),
  extra: EXTRA.optional().describe('members of the body, for clients of the format of the target'),
  timeout: z
    .strictObject({
      firstByte: ms.describe('until the first byte of an answer'),
      firstContent: ms.describe('until the first content of a stream'),
      idle: ms.describe('without a byte'),
      request: ms.describe('of a whole attempt'),
    })
    .optional()
    .describe('times (ms) of this target; 0: no limit, except that of the request'),
  retries: z
    .int()
    .min(0)
    .max(5)
    .optional()
    .describe('further attempts at this target after failures that are usually short, within `retry.maxAttempts`'),
  headers: z.record(text, text).optional().describe('headers of every request to it; no credentials'),
  betas: z
    .strictObject({ add: z.array(beta).max(20).optional(), drop: z.array(beta).max(50).optional() })
    .optional()
    .describe('beta features (`anthropic-beta`) beside or without those of the client'),
  cacheBreakpoints: z
    .literal('auto')
    .optional()
    .describe('add cache breakpoints to requests to Claude that have none, where later turns can use them'),
}

type OverrideEntry = z.output<z.ZodObject<typeof OVERRIDE>>

/** Members that only the file has: they write into requests what the gateway does not check. */
export const FILE_ONLY = ['extra', 'headers'] as const

/** The override of an entry; undefined: it changes nothing. */
export const overrideFrom = ({
  set,
  default: defaults,
  remove,
  extra,
  timeout,
  retries,
  headers,
  betas,
  cacheBreakpoints,
}: OverrideEntry): TargetOverride | undefined => {
  const override: TargetOverride = {
    ...(set && { set }),
    ...(defaults && { default: defaults }),
    ...(remove && { remove }),
    ...(extra && { extra }),
    ...(timeout && { timeout }),
    ...(retries !== undefined && { retries }),
    ...(headers && {
      headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
    }),
    ...(betas && { betas }),
    ...(cacheBreakpoints && { cacheBreakpoints }),
  }
  return Object.keys(override).length === 0 ? undefined : override
}
