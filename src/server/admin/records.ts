/** Merge patches of records, and the parameters of their lists. */
import { z } from 'zod'
import { bare } from '../../records/entities/member.ts'
import { time } from '../../records/entities/shown.ts'
import { page } from './fields.ts'

/** A JSON Merge Patch of a body: every member is optional, and null takes a value away. */
export const patchOf = (body: z.ZodObject): z.ZodObject =>
  z.strictObject(
    Object.fromEntries(
      Object.entries(body.shape).map(([name, member]) => {
        const inner = bare(member)
        const described = z.globalRegistry.get(member)?.description
        const optional = patched(inner).nullable().optional()
        return [name, described === undefined ? optional : optional.describe(described)]
      }),
    ),
  )

const patched = (schema: z.core.$ZodType): z.ZodType => {
  if (schema instanceof z.ZodObject) return patchOf(schema)
  if (schema instanceof z.ZodRecord) return z.record(z.string(), z.nullable(schema.valueType))
  // Every schema has the methods of this type; `bare` returns the type of zod's core.
  return schema as z.ZodType
}

/** Parameters of lists of records. */
export const recordList = {
  ...page,
  sort: z
    .enum([
      '-created_at',
      'created_at',
      'name',
      '-name',
      'status',
      '-status',
      'expires_at',
      '-expires_at',
      'last_used_at',
      '-last_used_at',
    ])
    .optional()
    .describe('Default: -created_at; - is descending'),
  q: z.string().min(1).max(200).optional().describe('Part of the name, an ID, or the last 4 characters of a secret'),
  managed: z.array(z.enum(['api', 'file'])).optional(),
}

/** Filters of keys. */
export const keyFilter = {
  team: z.array(z.string()).optional().describe('IDs of teams'),
  status: z.array(z.enum(['active', 'blocked', 'expired', 'revoked'])).optional(),
  tag: z.array(z.string()).optional().describe('`name:value`; several: all of them'),
  last_used_before: time.optional(),
}
