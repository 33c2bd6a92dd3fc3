/** The description of the admin API (OpenAPI 3.1), made from its table. */
import { z } from 'zod'
import { ADMIN_BASE } from '../admin-request.ts'
import { parametersOf } from '../openapi-parameters.ts'
import type { AdminRow } from './row.ts'
import { parametersIn } from './validation.ts'

/** JSON without types for its members. */
type Described = { readonly [member: string]: unknown }

/** The description of these rows. */
export const openapiOf = (rows: readonly AdminRow[], version: string) => {
  const schemas: Record<string, unknown> = {}
  const paths: Record<string, Record<string, unknown>> = {}
  for (const row of rows) {
    const path = `${ADMIN_BASE}${row.path}`
    paths[path] = { ...paths[path], [row.method.toLowerCase()]: operationOf(row, schemas) }
  }
  return {
    openapi: '3.1.0' as const,
    info: {
      title: 'Headgate admin API',
      version,
      description:
        'Unknown members and parameters are refused. Times are ISO 8601, amounts decimal texts in US dollars. Writes to an object with `rev` need If-Match with its ETag, or `?force=true`.',
    },
    security: [{ token: [] }, { session: [] }, {}],
    paths,
    components: {
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer', description: 'auth.admin (AUTH_ADMIN), or an admin token (hga_…).' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: 'headgate',
          description: 'From POST /session. `__Host-headgate` over https. Writes need the header x-headgate-csrf.',
        },
      },
      schemas: { ...schemas, Error: ERROR },
    },
  }
}

/** `getKeysIdRotate`. */
export const operationId = ({ method, path }: AdminRow): string =>
  method.toLowerCase() +
  path
    .split(/[^A-Za-z0-9]+/)
    .filter((part) => part !== '')
    .map((part) => part.charAt(0).toUpperCase() + part.slice(1))
    .join('')

const operationOf = (row: AdminRow, schemas: Record<string, unknown>): Described => {
  const { summary, about, role, scope, params, query, body, answer, example, conditional, method } = row
  const parameters = [
    ...parametersOf(params, 'path', example.params),
    ...parametersOf(parametersIn(query), 'query', example.query),
    ...(conditional ? CONDITION : []),
    ...(method === 'POST' ? [IDEMPOTENCY] : []),
  ]
  const where = scope === 'all' ? ' for all teams' : ''
  const access = role === null ? 'No role is required.' : `Role: ${role}${where}.`
  const status = row.status ?? 200
  return {
    operationId: operationId(row),
    summary,
    description: about === undefined ? access : `${about}\n\n${access}`,
    ...(role === null && { security: [{}] }),
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && {
      requestBody: { required: true, content: contentOf(body, 'input', example.body, schemas) },
    }),
    responses: {
      [String(status)]: {
        description: 'Success.',
        ...(status !== 204 && { content: contentOf(answer, 'output', example.answer, schemas) }),
      },
      default: {
        description: 'An error.',
        content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
      },
    },
  }
}

const contentOf = (
  schema: z.ZodType | 'text' | 'json' | { readonly media: string; readonly about: string },
  io: 'input' | 'output',
  example: unknown,
  schemas: Record<string, unknown>,
): Described => {
  const shown = example !== undefined && { example }
  if (schema === 'text') return { 'application/yaml': { schema: { type: 'string' }, ...shown } }
  if (schema === 'json') return { 'application/json': { schema: { type: 'object' }, ...shown } }
  if ('media' in schema) return { [schema.media]: { schema: { type: 'string', description: schema.about }, ...shown } }
  return { 'application/json': { schema: jsonSchemaOf(schema, io, schemas), ...shown } }
}

/** The JSON Schema of a schema. Named schemas are collected, and referenced. */
const jsonSchemaOf = (schema: z.ZodType, io: 'input' | 'output', schemas: Record<string, unknown>): Described => {
  const made = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    // In the words of the file, for its messages.
    override: ({ jsonSchema }) => delete jsonSchema.allowed,
  })
  const { $schema: _, $defs, ...rest } = made
  const rewritten = (value: unknown): unknown =>
    JSON.parse(JSON.stringify(value).replaceAll('"#/$defs/', '"#/components/schemas/'))
  for (const [name, definition] of Object.entries($defs ?? {})) {
    const { id: _id, ...plain } = definition
    schemas[name] ??= rewritten(plain)
  }
  if (typeof rest.id === 'string') {
    const { id, ...plain } = rest
    schemas[id] ??= rewritten(plain)
    return { $ref: `#/components/schemas/${id}` }
  }
  // The value was an object before it was written as JSON.
  return rewritten(rest) as Described
}

const CONDITION: readonly Described[] = [
  {
    name: 'If-Match',
    in: 'header',
    required: false,
    description: 'The ETag of the object as it was read. Required, unless `force` is true.',
    schema: { type: 'string' },
  },
  {
    name: 'force',
    in: 'query',
    required: false,
    description: 'Writes without If-Match.',
    schema: { type: 'boolean' },
  },
]

const IDEMPOTENCY: Described = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description: 'A second request with the same key within 24 hours does not act again.',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
}

const ERROR = {
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['message', 'type', 'code', 'param', 'request_id'],
      properties: {
        message: { type: 'string' },
        type: { type: 'string' },
        code: { type: 'string' },
        param: { type: ['string', 'null'] },
        request_id: { type: 'string' },
        errors: {
          type: 'array',
          items: {
            type: 'object',
            required: ['path', 'message'],
            properties: { path: { type: 'string' }, message: { type: 'string' } },
          },
        },
      },
    },
  },
}
