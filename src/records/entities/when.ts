/** The schema of conditions: `when` of targets and rules. */
import { z } from 'zod'
import { EFFORTS } from '../../core/chat.ts'
import { CLIENT_ADDRESS_HEADERS, CREDENTIAL_HEADERS } from '../../core/credential-headers.ts'
import { HEADER_NAME } from '../../core/headers.ts'
import { MEDIA_KINDS, TOOL_KINDS } from '../../core/target-condition.ts'

const text = z.string().min(1).max(400)
const patterns = z.union([text, z.array(text).min(1).max(100)])
const named = (about: string) => patterns.optional().describe(`${about}; * matches any text, a leading ! excludes`)
const mapped = (about: string, problemOf: (name: string) => string | null) =>
  z
    .record(z.string().min(1).max(128), patterns)
    .superRefine((entries, context) => {
      for (const name of Object.keys(entries)) {
        const allowed = problemOf(name)
        if (allowed !== null)
          context.addIssue({
            code: 'custom',
            path: [name],
            params: { found: JSON.stringify(name), allowed, at: 'name' },
          })
      }
    })
    .optional()
    .describe(about)

const WITHHELD: ReadonlySet<string> = new Set([...CREDENTIAL_HEADERS, ...CLIENT_ADDRESS_HEADERS])

const headerProblem = (name: string): string | null => {
  const lower = name.toLowerCase()
  if (!HEADER_NAME.test(lower)) return 'the name of a header'
  const isWithheld = WITHHELD.has(lower) || lower.startsWith('x-forwarded-')
  return isWithheld ? 'a header without credentials and addresses of clients' : null
}

const tokens = z.int().min(0).max(1_000_000_000).optional()

export const WHEN = z
  .strictObject({
    team: named('name or ID of the team'),
    key: named('name or ID of the client key'),
    user: named('user of the key, or the person who signed in'),
    style: named('API style: chat, responses, messages, completions, embeddings …'),
    tag: mapped('tags of the team and the key, by name', () => null),
    header: mapped('headers of the request, by name; never credentials, cookies and addresses', headerProblem),
    inputTokens: z
      .strictObject({
        from: tokens.describe('least tokens'),
        below: tokens.describe('fewer tokens than this'),
      })
      .refine(({ from = 0, below = Number.POSITIVE_INFINITY }) => from < below, {
        params: { allowed: '`from` less than `below`' },
      })
      .optional()
      .describe('estimated tokens of the prompt'),
    tools: z
      .union([z.boolean(), z.array(z.enum(TOOL_KINDS)).min(1)])
      .optional()
      .describe('whether tools are declared, or kinds of which one is'),
    media: z.array(z.enum(MEDIA_KINDS)).optional().describe('kinds of which one is in the messages; []: none is'),
    effort: z.array(z.enum(EFFORTS)).min(1).optional().describe('levels of reasoning; none: also if none is requested'),
  })
  .describe('what a request must be; all that is written must hold')
