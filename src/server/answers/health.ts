/** The health of the process and of its providers, outside of the admin API. */
import { z } from 'zod'
import { time } from '../../records/entities/shown.ts'
import { PROVIDER } from './providers.ts'

/** `/health`. */
export const HEALTH = z.looseObject({
  status: z.enum(['ok', 'degraded', 'unconfigured', 'draining']),
  version: z.string(),
  uptime_ms: z.int(),
  auth: z.enum(['open', 'keys']),
  providers: z.looseObject({ configured: z.int(), available: z.int() }),
  problems: z
    .array(z.looseObject({ component: z.string(), reason: z.string(), since: time }))
    .optional()
    .describe('Reasons besides circuits; absent without one'),
})

/** `/providers/status`. */
export const PROVIDERS_STATUS = z.looseObject({ data: z.array(PROVIDER.omit({ node: true, minutes: true })) })
