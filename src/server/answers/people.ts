/** People who have signed in. */
import { z } from 'zod'
import { time } from '../../records/entities/shown.ts'

const roleOf = {
  role: z.enum(['viewer', 'operator', 'admin']),
  team: z.string().nullable().describe('The ID of a team; null: all teams'),
}

/** Roles that an administrator gives to a person. */
export const PERSON_BINDINGS = z.array(z.strictObject(roleOf)).max(50)

export const PERSON = z
  .strictObject({
    id: z.string(),
    object: z.literal('person'),
    issuer: z.string(),
    subject: z.string().describe('Issuer and subject identify the person; an e-mail address does not'),
    provider: z.string().describe('The name of the identity provider at the last sign-in'),
    email: z.string().nullable(),
    name: z.string().nullable(),
    status: z.enum(['active', 'blocked']),
    groups: z.array(z.string()).describe('As the issuer stated them last'),
    roles: z
      .array(
        z.strictObject({
          ...roleOf,
          by: z.enum(['group', 'everyone', 'hand']).describe('`hand`: one of `bindings`'),
          group: z.string().nullable(),
        }),
      )
      .describe('All roles at present, with their origin'),
    team: z.string().nullable().describe('The ID of the team that pays for model calls; null: none'),
    bindings: PERSON_BINDINGS.describe('Roles that were given by hand'),
    sessions: z.int(),
    created_at: time.describe('The first sign-in'),
    seen_at: time.describe('The last sign-in, or the last check at the issuer'),
    rev: z.int().describe('The revision; it is also the ETag'),
  })
  .meta({ id: 'Person' })
