/** Schemas of teams, keys, budgets, prices and admin tokens, made from those that create them. */
import { z } from 'zod'
import { BUDGET_BODY, KEY_BODY, KEY_SECRET, PRICE_BODY, TEAM_BODY, TOKEN_BODY } from '../../records/entities/shapes.ts'
import { dollars, page, time } from './fields.ts'
import { bare } from './validation.ts'

/** What every record has. */
const common = <Kind extends string>(object: Kind) => ({
  id: z.string(),
  object: z.literal(object),
  name: z.string(),
  status: z.string(),
  created_at: time.nullable(),
  created_by: z.string(),
  rev: z.int().describe('The revision; it is also the ETag'),
  managed: z.enum(['api', 'file']).describe('`file`: defined in headgate.yaml, and changed there only'),
})

const secrets = {
  prefix: z.string().nullable(),
  last4: z.string().nullable(),
  last_used_at: time.nullable().describe('To the hour'),
  secrets: z.array(
    z.strictObject({ last4: z.string(), created_at: time.nullable(), until: time.nullable().describe('null: no end') }),
  ),
  secret: z
    .string()
    .nullable()
    .optional()
    .describe('Only in the answer that creates it; null: the answer was repeated, and cannot show it again'),
}

export const team = z.strictObject({ ...TEAM_BODY.shape, ...common('team') }).meta({ id: 'Team' })
export const key = z.strictObject({ ...KEY_BODY.shape, ...common('key'), ...secrets }).meta({ id: 'Key' })
export const price = z.strictObject({ ...PRICE_BODY.shape, ...common('price') }).meta({ id: 'Price' })
export const token = z
  .strictObject({ ...TOKEN_BODY.shape, ...common('admin_token'), ...secrets })
  .meta({ id: 'AdminToken' })

export const budgetNow = z
  .strictObject({
    period_start: time,
    period_end: time.nullable().describe('null: the period has no end'),
    spent: dollars.describe('Of all counters together'),
    reserved: dollars.describe('By requests in progress'),
    remaining: dollars.nullable().describe('null: the budget has a counter for each owner; see its counters'),
    as_of: time,
    authority: z
      .enum(['ok', 'degraded'])
      .describe('`degraded`: with WORKERS, the first process does not answer; the figures are earlier ones'),
  })
  .describe('The current period. The same figures decide about requests')

export const budget = z
  .strictObject({ ...BUDGET_BODY.shape, ...common('budget'), now: budgetNow })
  .meta({ id: 'Budget' })

/** The body that creates a key: generated without `secret` and `digest`. */
export const newKey = z.strictObject({ ...KEY_BODY.shape, ...KEY_SECRET.shape }).meta({ id: 'NewKey' })

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
