/** End users that are blocked. */
import { z } from 'zod'
import { time } from '../../records/entities/shown.ts'
import { listOf, named } from './fields.ts'

export const BLOCKED_END_USER = z
  .strictObject({
    end_user: z.string(),
    team: named.describe('Null: in all teams'),
    until: time.nullable().describe('null: until it is unblocked'),
    reason: z.string(),
    actor: z.string(),
    at: time,
  })
  .meta({ id: 'BlockedEndUser' })

export const BLOCKED_END_USERS = listOf(BLOCKED_END_USER)

export const END_USER_DECISION = z
  .strictObject({ object: z.literal('end_user'), end_user: z.string(), team: named, blocked: z.boolean() })
  .meta({ id: 'EndUserDecision' })
