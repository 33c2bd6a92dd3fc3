/** The settings that people receive in Claude Code. */
import { z } from 'zod'

const names = z.array(z.string()).nullable()

export const CLAUDE_POLICY = z
  .strictObject({
    object: z.literal('claude_policy'),
    person: z.string().describe('ID of the person'),
    email: z.string().nullable(),
    team: z.string().nullable().describe('ID of the team that pays'),
    settings: z.record(z.string(), z.unknown()).nullable().describe('null: no policy is for this person'),
    checksum: z.string().nullable().describe('As Claude Code computes it'),
    rules: z
      .array(
        z.strictObject({
          index: z.int().describe('Position in `claude.policies`, from 0'),
          match: z.strictObject({ groups: names, domains: names, teams: names }),
        }),
      )
      .describe('The policies that were merged, the base first'),
  })
  .meta({ id: 'ClaudePolicy' })
