/** The audit log. */
import { z } from 'zod'
import { time } from '../../records/entities/shown.ts'
import { listOf } from './fields.ts'

export const AUDIT_ENTRY = z
  .strictObject({
    id: z.string(),
    at: time,
    actor: z.strictObject({ kind: z.string(), id: z.string(), name: z.string() }),
    from: z.string().nullable().describe('The address of the client'),
    action: z.string(),
    object: z.string(),
    before: z.unknown().optional(),
    after: z.unknown().optional(),
    request_id: z.string().nullable(),
  })
  .catchall(z.unknown())
  .meta({ id: 'AuditEntry' })

export const AUDIT_PAGE = z.strictObject({
  ...listOf(AUDIT_ENTRY).shape,
  names: z
    .record(z.string(), z.string())
    .optional()
    .describe('The names of IDs in the entries, as far as they are known'),
})

/** The result of a check of the whole log. */
export const AUDIT_VERIFICATION = z.strictObject({ ok: z.boolean(), checked: z.int(), problem: z.string().nullable() })
