/** The settings that people receive in Claude Code, and by which rules. */
import { z } from 'zod'
import { bad, fail, good } from '../../../core/failure.ts'
import { managedSettings } from '../../../policy/claude/managed-settings.ts'
import type { LoginPerson } from '../../../records/store/record-operations.ts'
import { CLAUDE_POLICY } from '../../answers/claude.ts'
import { checksumOf } from '../claude/claude.ts'
import { contextOf, failureOf } from '../control.ts'
import { row } from '../row.ts'

const EVERYONE = { groups: null, domains: null, teams: null }

export const claudeRows = [
  row({
    method: 'GET',
    path: '/claude/policies',
    summary: 'Show the settings that a person receives in Claude Code, and by which policies',
    about: 'As of the groups at the last sign-in or refresh (docs/clients/claude-gateway.md).',
    role: 'admin',
    scope: 'all',
    query: z.strictObject({
      as: z
        .string()
        .regex(/^usr_[a-z]{12}$/)
        .describe('ID of a person'),
    }),
    answer: CLAUDE_POLICY,
    example: {
      query: { as: 'usr_kdvbwqhzmrtc' },
      answer: {
        object: 'claude_policy',
        person: 'usr_kdvbwqhzmrtc',
        email: 'ann@corp.example',
        team: 'team_default',
        settings: { permissions: { deny: ['Read(./.env)'] } },
        checksum: 'sha256:0f0b2b2ae25a1ba5bb8ed6dc5e0cd92e0e3bfd0b6c4d5e7c8a55cf8bb3f0f2e1',
        rules: [{ index: 0, match: EVERYONE }],
      },
    },
    async handle({ control, configuration, signIn }, call) {
      const { claude, sso } = configuration.running()
      if (!claude || !sso) return bad(OFF)
      const found = await control.run({ do: 'person', id: call.query.as }, contextOf(call))
      if (!found.ok) return bad(failureOf(found.error))
      // A row that the store has written.
      const { id, email, provider, groups } = found.value as unknown as LoginPerson
      const team = signIn.membershipOf({ provider, groups }).team
      const paying = team === null ? null : { id: team, name: control.directory().teams.get(team)?.name ?? team }
      const managed = managedSettings(claude, { email, groups, team: paying }, sso.publicUrl)
      return good({
        body: {
          object: 'claude_policy' as const,
          person: id,
          email,
          team,
          settings: managed && { ...managed.settings },
          checksum: managed && checksumOf(managed.settings),
          rules: (managed?.rules ?? []).map((index) => {
            const { groups, domains, teams } = claude.policies[index]?.match ?? EVERYONE
            return {
              index,
              match: { groups: groups && [...groups], domains: domains && [...domains], teams: teams && [...teams] },
            }
          }),
        },
      })
    },
  }),
]

const OFF = fail('not_found', 'The gateway protocol of Claude Code is off. Set claude.enabled, and sso.')
