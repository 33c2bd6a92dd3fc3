/**
 * Writes docs/admin-api.md from the table of the admin API.
 *
 *   node scripts/pages/admin-api.ts
 */
import { writeFileSync } from 'node:fs'
import { z } from 'zod'
import type { AdminRow } from '../../src/server/admin/row.ts'
import { TABLE } from '../../src/server/admin/table.ts'
import { parametersIn } from '../../src/server/admin/validation.ts'
import { ADMIN_BASE } from '../../src/server/admin-request.ts'

export const PAGE_FILE = new URL('../../docs/admin-api.md', import.meta.url)

const INTRODUCTION = `# Admin API

Made by \`scripts/pages/admin-api.ts\` from the table of the API; \`GET ${ADMIN_BASE}/openapi.json\` of a running gateway has the same as OpenAPI 3.1, with the schemas of all answers.

## Rules

- **Base path**: \`${ADMIN_BASE}\`.
- **Credentials**: \`Authorization: Bearer TOKEN\` with the token of \`auth.admin\` (\`AUTH_ADMIN\`) or an admin token (\`hga_…\`). Where \`auth.admin\` is not set, requests from the gateway's own machine need no credentials, unless \`NODE_ENV\` is \`production\` or the request came through a proxy. A client key gives no access.
- **Roles**: \`viewer\` reads, \`operator\` also acts on the running gateway, \`admin\` also changes keys, limits and users. A role holds for all teams or for one.
- **Browsers**: \`POST /session\` exchanges a token for a cookie. Writes with it need the header \`x-headgate-csrf\` with the value \`csrf\` of \`GET /session\`.
- **Bodies** are JSON of at most 1 MiB. Unknown members and parameters are refused with status 400, which lists every problem in \`error.errors\` as \`{path, message}\`.
- **Changes**: an answer with \`rev\` has an \`ETag\`. \`PATCH\` and \`DELETE\` need it in \`If-Match\`, or \`?force=true\`: without either the status is 428, and 412 if another client changed the object. \`PATCH\` is a JSON Merge Patch: \`null\` removes a value.
- **Long searches** of requests end after a second. The page has what was found until then, maybe nothing, \`searched_until\` states how far the search came, and \`after\` with \`next\` continues it. Figures and charts state \`searched_until\` too; a list sorted by cost or duration is of the requests since then. A report of \`/usage\` has its rows when all is added up: until then it has none, and its \`total\` is of the time since \`searched_until\`.
- **Workers**: with \`WORKERS\`, a write is answered when all workers have read it, so a new key is valid, and a revoked one is refused, wherever the next request arrives. A worker that has not within 1.5 s is not waited for; it reads the change when it continues.
- **Retries**: a \`POST\` with an \`Idempotency-Key\` acts once in 24 hours.
- **Lists** are \`{object: "list", data, has_more, next}\`; send \`next\` as \`after\` for the next page. A list has an \`ETag\`; with it in \`If-None-Match\` an unchanged one is answered with 304.
- Times are ISO 8601. Amounts are decimal texts in US dollars.
`

const code = (text: string): string => `\`${text}\``
const json = (value: unknown): string => `\`\`\`json\n${JSON.stringify(value, null, 2)}\n\`\`\``

const accessOf = ({ role, scope }: AdminRow): string =>
  role === null ? 'No role is required.' : `Role: ${code(role)}${scope === 'all' ? ' for all teams' : ''}.`

const typeOf = (schema: z.core.$ZodType): string => {
  const { type, enum: values, format, items } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  if (values) return choiceOf(values)
  if (type === 'array') {
    const inner = typeof items === 'object' && !Array.isArray(items) ? items.enum : undefined
    return `list of ${inner ? choiceOf(inner) : 'texts'}`
  }
  return format === 'date-time'
    ? 'time'
    : type === 'string'
      ? 'text'
      : type === 'integer'
        ? 'whole number'
        : String(type)
}

const choiceOf = (values: readonly unknown[]): string => values.map((value) => code(String(value))).join(', ')

const parametersOf = ({ query }: AdminRow): string =>
  Object.entries(parametersIn(query)?.shape ?? {})
    .map(([name, member]) => {
      const { description } = z.toJSONSchema(member, { io: 'input', unrepresentable: 'any' })
      return `- ${code(name)} (${typeOf(member)})${description === undefined ? '' : `: ${description}`}`
    })
    .join('\n')

const section = (row: AdminRow): string => {
  const { method, path, summary, about, body, answer, example, conditional } = row
  const parameters = parametersOf(row)
  const parts = [
    `### ${method} ${path}`,
    `${summary}. ${accessOf(row)}${about === undefined ? '' : ` ${about}`}${conditional ? ' Needs `If-Match` or `?force=true`.' : ''}`,
    parameters === '' ? '' : `Parameters:\n\n${parameters}`,
    body === undefined
      ? ''
      : `Body:\n\n${body === 'text' ? `\`\`\`yaml\n${String(example.body).trim()}\n\`\`\`` : json(example.body)}`,
    'media' in answer ? `Answer (${code(answer.media)}): ${answer.about}` : '',
    example.answer === undefined
      ? ''
      : `Answer${row.status === undefined ? '' : ` (status ${row.status})`}:\n\n${json(example.answer)}`,
  ]
  return parts.filter((part) => part !== '').join('\n\n')
}

const areaOf = ({ path }: AdminRow): string => path.split('/')[1]?.split('.')[0] ?? ''

/** The page. */
export const page = (): string => {
  const areas = [...new Set(TABLE.map(areaOf))]
  const overview = TABLE.map(
    (row) =>
      `| ${row.method} | ${code(row.path)} | ${row.role ?? '–'}${row.role !== null && row.scope === 'team' ? ' (team)' : ''} | ${row.summary} |`,
  )
  const sections = areas.map(
    (area) =>
      `## ${area}\n\n${TABLE.filter((row) => areaOf(row) === area)
        .map(section)
        .join('\n\n')}`,
  )
  return `${INTRODUCTION}\n## Overview\n\n| | path | role | |\n| --- | --- | --- | --- |\n${overview.join('\n')}\n\n${sections.join('\n\n')}\n`
}

if (import.meta.main) writeFileSync(PAGE_FILE, page())
