/** Clients: how each is connected to this gateway, and the last request of each kind. */
import { z } from 'zod'
import { CLIENTS, type ClientRow } from '../../../connect/clients.ts'
import { editConfig, envLines } from '../../../connect/edit.ts'
import { good } from '../../../core/failure.ts'
import { mergeClients, type SeenClient, type SeenRequest } from '../../../observe/clients-seen.ts'
import { usesHttps } from '../../../policy/accounts/client-address.ts'
import { time } from '../../../records/entities/shown.ts'
import { listOf } from '../../answers/fields.ts'
import { askProcesses } from '../processes.ts'
import { row } from '../row.ts'

const client = z
  .strictObject({
    name: z.string().describe('For `headgate connect`'),
    title: z.string(),
    style: z.enum(['chat', 'responses', 'messages', 'gemini']).describe('The API style of its calls'),
    format: z.enum(['json', 'toml', 'yaml', 'env']),
    file: z.string().nullable().describe('Below the home folder; null: it has no file of its own'),
    variable: z.string().nullable().describe('A variable with another folder'),
    fragment: z.string().describe('The whole content of a new file, or the lines of variables'),
    note: z.string().nullable(),
  })
  .meta({ id: 'ConnectedClient' })

/** The key in fragments: clients refuse an empty one. */
const PLACEHOLDER = { needed: 'YOUR_HEADGATE_KEY', none: 'any' }

const pathOf = ({ file }: ClientRow): string | null => {
  if (!file) return null
  const name = file.names.at(-1) ?? ''
  return ['~', file.folder, name].filter((part) => part !== '').join('/')
}

const problem = z.strictObject({
  kind: z.enum(['no_key', 'wrong_key', 'doubled_path', 'unknown_path', 'web_socket', 'unknown_model', 'other']),
  code: z.string(),
  message: z.string().describe('As the client received it; it names the nearest path or model'),
  header: z.string().nullable().describe('The header with the key that was refused'),
  last4: z.string().nullable().describe('The end of that key; null: it is short'),
})
const seenRequest = z.strictObject({
  id: z.string(),
  at: time,
  method: z.string(),
  path: z.string(),
  version: z.string().nullable(),
  model: z.string().nullable(),
  outcome: z.string().describe('`under_way`, or as in /requests'),
  status: z.int().nullable(),
  problem: problem.nullable(),
})
const seen = z
  .strictObject({
    family: z.string().describe('Such as `claude-code`, `codex`, `opencode`, `openai-sdk`, `curl`, `other`'),
    requests: z.int().describe('Since the start of the processes'),
    last: seenRequest,
    wrong: seenRequest.nullable().describe('The last request that was refused before it was routed'),
  })
  .meta({ id: 'SeenClient' })

const shown = ({ at, ...rest }: SeenRequest) => ({ at: new Date(at).toISOString(), ...rest })

export const clientRows = [
  row({
    method: 'GET',
    path: '/clients',
    summary: 'List the clients that can be connected, with their configuration',
    about:
      'The table of `headgate connect`, with the address of this gateway as this request has reached it. The key is a placeholder.',
    role: 'viewer',
    scope: 'any',
    query: z.strictObject({
      model: z.string().min(1).max(200).default('auto').describe('The model or route that the client requests'),
      prefix: z
        .string()
        .max(200)
        .regex(/^(?:\/[\w.~-]+)*$/)
        .optional()
        .describe('The path below which a proxy serves the gateway, such as /team/llm; default: `basePath`'),
    }),
    answer: z.strictObject({
      ...listOf(client).shape,
      base_url: z.string().describe('Without /v1'),
      key: z.string().describe('The placeholder of the client key in the fragments'),
      key_required: z.boolean(),
    }),
    example: { query: { model: 'auto' } },
    async handle({ gateway }, { query, request }) {
      const { headers, hosts, accessPolicy, settings } = request
      const prefix = query.prefix ?? settings.basePath
      const url = `${accessPolicy.secure || usesHttps(headers) ? 'https' : 'http'}://${hosts[0] ?? ''}${prefix}`
      const key = accessPolicy.keyed ? PLACEHOLDER.needed : PLACEHOLDER.none
      const now = new Date(gateway.world.date()).toISOString()
      const data: z.input<typeof client>[] = []
      for (const one of CLIENTS) {
        const { name, title, style, format, file, note } = one
        const changes = one.changes({ url, key, model: query.model, now })
        const fragment = file ? await editConfig(file.initial ?? '', one, changes) : `${envLines(changes).join('\n')}\n`
        const variable = file?.variable?.name ?? null
        data.push({ name, title, style, format, file: pathOf(one), variable, fragment, note: note ?? null })
      }
      return good({
        body: {
          object: 'list' as const,
          data,
          has_more: false,
          next: null,
          base_url: url,
          key,
          key_required: accessPolicy.keyed,
        },
      })
    },
  }),
  row({
    method: 'GET',
    path: '/clients/seen',
    summary: 'List the kinds of clients that have called, with the last request of each',
    about:
      'A kind is recognised by the User-Agent. Requests that were refused before they were routed count too: a missing or wrong key, a path such as /v1/v1/models, a WebSocket on another path. The list is that of all processes, also of other gateways that share a store.',
    role: 'viewer',
    scope: 'all',
    answer: listOf(seen),
    example: {
      answer: {
        object: 'list',
        data: [
          {
            family: 'claude-code',
            requests: 12,
            last: {
              id: 'req_kdvbwqhzmrtckdvbwqhz',
              at: '2026-11-23T10:44:02.000Z',
              method: 'POST',
              path: '/v1/messages',
              version: '2.1.0',
              model: 'claude-sonnet',
              outcome: 'answered',
              status: 200,
              problem: null,
            },
            wrong: null,
          },
        ],
        has_more: false,
        next: null,
      },
    },
    async handle(deps) {
      const { answers } = await askProcesses(deps, { do: 'clients' })
      // See `answerHere`.
      const lists = answers.map(({ value }) => value.clients as unknown as readonly SeenClient[])
      const data = mergeClients(lists).map(({ family, requests, last, wrong }) => ({
        family,
        requests,
        last: shown(last),
        wrong: wrong && shown(wrong),
      }))
      return good({ body: { object: 'list' as const, data, has_more: false, next: null } })
    },
  }),
]
