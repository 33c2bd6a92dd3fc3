/** The section `claude` of the file. */
import { z } from 'zod'

const text = z.string().min(1).max(512)
const MAX = { policies: 200, names: 100, receivers: 8, notice: 500 }
const names = (about: string) => z.array(text).min(1).max(MAX.names).optional().describe(about)

const receiverSchema = z.strictObject({
  url: text.describe('address of an OTLP receiver over HTTP, to which `/v1/metrics` and so on are appended'),
  headers: z.record(text, z.string().max(8_192)).default({}).describe('headers of its requests, such as a key'),
  metrics: z.boolean().default(true),
  logs: z.boolean().default(false).describe('may contain prompts, if a policy sets OTEL_LOG_USER_PROMPTS'),
  traces: z.boolean().default(false),
})

export const claudeSchema = z.strictObject({
  enabled: z.boolean().default(false).describe('people sign in with Claude Code (`forceLoginGatewayUrl`); needs `sso`'),
  cloudPaths: z
    .boolean()
    .default(true)
    .describe(
      'serve the paths of Claude at Bedrock and Vertex AI (`/model/NAME/invoke`), which clients of these clouds call',
    ),
  loginNotice: z.string().max(MAX.notice).optional().describe('shown beside the code of a sign-in'),
  policies: z
    .array(
      z.strictObject({
        match: z
          .strictObject({
            groups: names('people in one of these groups'),
            domains: names('people whose e-mail address has one of these domains'),
            teams: names('people for whom one of these teams pays'),
          })
          .prefault({})
          .describe('whom it is for; empty: everyone, as the base of all others'),
        settings: z.record(z.string(), z.unknown()).describe('members of Claude Code’s managed-settings.json'),
      }),
    )
    .max(MAX.policies)
    .default([])
    .describe('settings of Claude Code; the first that matches counts, above those for everyone'),
  telemetry: z
    .strictObject({
      forward: z.array(receiverSchema).max(MAX.receivers).default([]).describe('receivers of what clients send'),
    })
    .prefault({})
    .describe('telemetry of clients (OTLP)'),
})

export type ClaudeEntry = z.output<typeof claudeSchema>
