/** Subjects of signed tokens (auth.jwt). */
import { z } from 'zod'
import { time } from '../../records/entities/shown.ts'
import { listOf } from './fields.ts'

const block = z.strictObject({
  until: time.nullable().describe('null: until it is unblocked'),
  reason: z.string(),
  actor: z.string(),
  at: time,
})

export const IDENTITY = z
  .strictObject({
    id: z.string().nullable().describe('The key of its requests in lists; null: blocked, and not seen since the start'),
    rule: z.string().nullable().describe('Null: no rule for its issuer is configured'),
    issuer: z.string(),
    subject: z.string(),
    user: z.string().nullable(),
    team: z.string().nullable().describe('As its last token names it'),
    first: time.nullable().describe('Since the start of the processes'),
    last: time.nullable(),
    blocked: block.nullable(),
  })
  .meta({ id: 'Identity' })

export const IDENTITIES = listOf(IDENTITY)

export const IDENTITY_DECISION = z
  .strictObject({ object: z.literal('identity'), rule: z.string(), subject: z.string(), blocked: z.boolean() })
  .meta({ id: 'IdentityDecision' })
