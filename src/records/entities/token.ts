/** An admin token. It is in the database only. */
import { z } from 'zod'
import { MAX, NAME, TEXT, TIME } from './member.ts'
import { SECRETS, shownAs } from './shown.ts'

export const ROLES = ['viewer', 'operator', 'admin'] as const

const TOKEN_MEMBERS = {
  bindings: z
    .array(z.strictObject({ role: z.enum(ROLES), team: TEXT.nullable().default(null) }))
    .min(1)
    .max(MAX.entries)
    .describe('a role, for one team or, with null, for all'),
  expires_at: TIME,
}

export const TOKEN_BODY = z.strictObject({ name: NAME, ...TOKEN_MEMBERS })
export type TokenBody = z.output<typeof TOKEN_BODY>

export const TOKEN = shownAs('admin_token', TOKEN_MEMBERS, SECRETS).meta({ id: 'AdminToken' })
