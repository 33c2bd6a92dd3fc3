/** The section `sso` of the file. */
import { z } from 'zod'

const text = z.string().min(1).max(512)
/** Entries of a list. */
const MAX = { secrets: 8, rules: 500, scopes: 20, domains: 50 }
/** Times of a session in ms: the shortest ones, and the longest of all. */
export const LEAST = { idle: 60_000, max: 60_000, recheck: 1_000 } as const
export const MAX_TIME = 2_147_483_647
const ms = (fallback: number, least: number, about: string) =>
  z.int().min(least).max(MAX_TIME).default(fallback).describe(`${about} (ms)`)

/** Characters of a secret: 32 of base64 are 192 bits. */
export const SHORTEST_SECRET = 32
const secret = z.string().min(SHORTEST_SECRET).max(1_024).meta({ allowed: 'at least 32 characters' })

const ofGroup = {
  group: text.optional().describe('people of this group, compared exactly; unset: everyone who signs in'),
  provider: text.optional().describe('people of this identity provider only'),
}

const providerSchema = z.strictObject({
  issuer: text.describe('address of the issuer, as its discovery document states it'),
  clientId: text,
  clientSecret: text.optional().describe('unset: a public client, which PKCE protects alone'),
  scopes: z
    .array(text)
    .min(1)
    .max(MAX.scopes)
    .default(['openid', 'profile', 'email'])
    .describe('what is requested; `offline_access` gives most issuers a refresh token, which `recheck` needs'),
  groups: text
    .default('groups')
    .describe('claim with the groups of a person: its name, or a JSON pointer such as /realm_access/roles'),
  domains: z
    .array(text)
    .max(MAX.domains)
    .default([])
    .describe('domains of verified e-mail addresses that may sign in; empty: all people of the issuer'),
  parameters: z
    .record(text, text)
    .default({})
    .describe('further parameters of the authorization request, such as `access_type: offline` for Google'),
})

export const ssoSchema = z.strictObject({
  publicUrl: text
    .optional()
    .describe('address at which people reach the gateway, such as https://ai.corp.example; or SSO_PUBLIC_URL'),
  secret: z
    .union([secret, z.array(secret).min(1).max(MAX.secrets)])
    .optional()
    .describe(
      'encrypts cookies and stored tokens; equal on all gateways. Of several, the first is used and all are accepted. Or SSO_SECRET',
    ),
  providers: z.record(z.string().min(1), providerSchema).describe('identity providers by name (OpenID Connect)'),
  roles: z
    .array(
      z.strictObject({
        ...ofGroup,
        role: z.enum(['viewer', 'operator', 'admin']),
        team: text.optional().describe('the role holds for this team; unset: for all teams'),
      }),
    )
    .max(MAX.rules)
    .default([])
    .describe('roles in the dashboard and the admin API; all rules that match count'),
  teams: z
    .array(z.strictObject({ ...ofGroup, team: text }))
    .max(MAX.rules)
    .default([])
    .describe('teams that pay for model calls of people; the first rule that matches counts'),
  session: z
    .strictObject({
      idle: ms(28_800_000, LEAST.idle, 'time after its last use at which a session ends'),
      max: ms(
        86_400_000,
        LEAST.max,
        'time after the sign-in at which a session ends; at most 8 hours if the issuer gives no refresh token',
      ),
      recheck: ms(
        3_600_000,
        LEAST.recheck,
        'time between two requests to the issuer whether the person still has access',
      ),
    })
    .prefault({})
    .describe('how long people stay signed in'),
})

export type SsoEntry = z.output<typeof ssoSchema>
