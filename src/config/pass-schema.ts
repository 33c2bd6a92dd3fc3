/** The schema of `passThrough` of a provider. */
import { z } from 'zod'
import { parseDollars } from '../core/money.ts'
import { PASS_METHODS } from '../core/pass-through.ts'
import { pathGlobProblem } from '../policy/pass/path-globs.ts'
import { quote } from './problem.ts'

const MAX_PATHS = 100

export const PASS_THROUGH = z.strictObject({
  paths: z
    .array(
      z
        .string()
        .max(1_000)
        .superRefine((glob, context) => {
          const allowed = pathGlobProblem(glob)
          if (allowed !== null) context.addIssue({ code: 'custom', message: `${quote(glob)}; allowed: ${allowed}` })
        }),
    )
    .min(1)
    .max(MAX_PATHS)
    .describe('paths as the provider has them, with the version; * is one segment or a part of it, ** any number'),
  methods: z.array(z.enum(PASS_METHODS)).min(1).default(['GET', 'HEAD', 'POST', 'DELETE']).describe('HTTP methods'),
  isolate: z
    .enum(['team', 'key', 'none'])
    .default('team')
    .describe(
      'who reaches the files, batches and other objects that a client has made: its team, its key, or all clients',
    ),
  redirects: z
    .enum(['refuse', 'pass'])
    .default('refuse')
    .describe(
      'redirects to addresses that are not below its own paths: refuse with 502, or hand them on to the client',
    ),
  guarded: z
    .enum(['refuse', 'allow'])
    .default('refuse')
    .describe('calls of clients whose texts guards check, which cannot look into them'),
  charge: z
    .string()
    .refine((amount) => parseDollars(amount).ok)
    .meta({ allowed: 'an amount in dollars such as "0" or "0.01"' })
    .optional()
    .describe('cost of a call whose usage is not known (dollars); unset: unknown, which a hard budget refuses'),
})
