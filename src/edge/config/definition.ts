/**
 * Everything that can be set, derived from the two schemas: the settings (environment and file) and what is needed to
 * launch (environment only). Names in the environment, messages, documentation and the published schema come from here.
 */
import { z } from 'zod'
import type { UpstreamProtocolName } from '../../core/chat.ts'
import { MAX_WORKERS } from './worker-count.ts'

/** What the process needs before it has a configuration; from the environment alone, and not changed while it runs. */
export const launchSchema = z.strictObject({
  port: z.int().min(0).max(65_535).default(3000).describe('port to listen on; 0 picks a free one'),
  host: z
    .string()
    .regex(/^[A-Za-z0-9_.:%-]+$/)
    .optional()
    .describe('address to listen on; unset: 127.0.0.1, in production all interfaces')
    .meta({ allowed: 'a host name or an address, without port' }),
  nodeEnv: z
    .string()
    .optional()
    .describe('`production`: JSON logs, no demo provider, all interfaces, a drain delay of 5 s'),
  logLevel: z
    .enum(['debug', 'info', 'warn', 'error'])
    .default('info')
    .describe('lowest level of log lines that are written'),
  logFormat: z.enum(['pretty', 'json']).optional().describe('unset: `pretty` on a terminal, otherwise `json`'),
  httpClient: z
    .enum(['own', 'undici'])
    .default('own')
    .describe('HTTP client for providers: the built-in one, or undici, which takes more CPU')
    .meta({ unlisted: true }),
  httpServer: z
    .enum(['own', 'node'])
    .default('own')
    .describe('HTTP server for clients: the built-in one, or `node:http`, which takes more CPU')
    .meta({ unlisted: true }),
  workers: z
    .int()
    .min(1)
    .max(MAX_WORKERS)
    .default(1)
    .describe('processes that serve the port, each with its own state (docs/workers.md)'),
  headgateConfig: z
    .string()
    .optional()
    .describe('path of the configuration file; unset: `headgate.yaml` in the working folder'),
  providers: z
    .array(z.string())
    .optional()
    .describe('providers to use, in this order; unset: every provider with a key'),
})

/** JSON Schema, as far as it is read here. */
export type Schema = {
  readonly type?: string
  readonly description?: string
  readonly default?: unknown
  readonly minimum?: number
  readonly exclusiveMinimum?: number
  readonly maximum?: number
  readonly minItems?: number
  readonly pattern?: string
  readonly enum?: readonly string[]
  readonly properties?: { readonly [name: string]: Schema }
  readonly additionalProperties?: boolean | Schema
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  /** Our own: what is allowed, in words, where the keywords do not say it to a person. */
  readonly allowed?: string
  /** Our own: only the troubleshooting page names it, not the reference. */
  readonly unlisted?: boolean
}

// The library's own type for JSON Schema admits boolean schemas at every place; ours have none.
export const jsonSchemaOf = (schema: z.ZodType): Schema => z.toJSONSchema(schema, { io: 'input' }) as Schema

/** One thing that can be set. */
export type Row = {
  readonly path: readonly string[]
  /** `circuit.resetTimeout` */
  readonly name: string
  /** `CIRCUIT_RESET_TIMEOUT` */
  readonly env: string
  readonly schema: Schema
  /** Its value is never shown. */
  readonly secret: boolean
}

const capitals = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()

/** `['circuit', 'resetTimeout']` is `CIRCUIT_RESET_TIMEOUT`. */
export const envName = (path: readonly string[]): string => path.map(capitals).join('_')

/** `API_VERSION` is `apiVersion`. */
export const camelCase = (name: string): string =>
  name.toLowerCase().replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())

/** What can be set in a schema, in its order. */
export const rowsOf = (schema: Schema, path: readonly string[] = []): readonly Row[] =>
  schema.properties
    ? Object.entries(schema.properties).flatMap(([name, inner]) => rowsOf(inner, [...path, name]))
    : [{ path, name: path.join('.'), env: envName(path), schema, secret: path[0] === 'auth' }]

/** Wire formats by the words of `<PROVIDER>_STYLES`. Every format has one; words of formats not built yet are refused. */
export const styleNames = {
  'openai-chat': 'chat',
  'openai-responses': 'responses',
  'anthropic-messages': 'messages',
  gemini: 'gemini',
  'bedrock-converse': 'bedrock',
  cohere: 'cohere',
  mistral: 'mistral',
  ollama: 'ollama',
} as const satisfies Record<UpstreamProtocolName, string>

export const protocolOf = (style: string): UpstreamProtocolName | undefined =>
  // The keys of the table are exactly the protocol names.
  (Object.keys(styleNames) as UpstreamProtocolName[]).find((name) => styleNames[name] === style)

const UNITS: { readonly [unit: string]: number } = { ms: 1, s: 1_000, sec: 1_000, m: 60_000, min: 60_000, h: 3_600_000 }

/** `; write 30000` for `30s` at a setting in milliseconds; empty where no number in milliseconds is meant or allowed. */
export const durationHint = (schema: Schema, written: string): string => {
  const [, amount, unit = ''] = /^(\d{1,9}(?:\.\d{1,3})?) ?([a-z]{1,3})$/.exec(written.trim().toLowerCase()) ?? []
  const ms = Number(amount) * (UNITS[unit] ?? Number.NaN)
  const isTime = schema.type === 'integer' && schema.description?.includes('(ms)') === true
  const fits = Number.isInteger(ms) && ms >= (schema.minimum ?? 0) && ms <= (schema.maximum ?? Number.MAX_SAFE_INTEGER)
  return isTime && fits ? `; times are in milliseconds, write ${ms}` : ''
}

/** What a list holds. */
const manyOf = (schema: Schema): string =>
  schema.enum ? `any of ${schema.enum.join(', ')}` : schema.type === 'string' ? 'strings' : 'values'

/** What a schema allows, in words. */
export const allowedBy = (schema: Schema): string => {
  if (schema.allowed) return schema.allowed
  if (schema.anyOf) return schema.anyOf.map(allowedBy).join(', or ')
  if (schema.enum) return `one of ${schema.enum.join(', ')}`
  switch (schema.type) {
    case 'integer':
      return `a whole number from ${schema.minimum ?? 0} to ${schema.maximum ?? Number.MAX_SAFE_INTEGER}`
    case 'number':
      if (schema.exclusiveMinimum !== undefined)
        return `a number above ${schema.exclusiveMinimum}${schema.maximum === undefined ? '' : `, ${schema.maximum} at most`}`
      return schema.minimum === undefined ? 'a number' : `a number from ${schema.minimum}`
    case 'string':
      return 'a non-empty string'
    case 'array':
      return `a list of ${schema.items ? manyOf(schema.items) : 'values'}${schema.minItems ? ', not empty' : ''}`
    case 'object':
      return schema.properties
        ? `a section with ${Object.keys(schema.properties).join(', ')}`
        : 'a section of names and values'
    case 'boolean':
      return 'true or false'
    default:
      return 'another value'
  }
}

/** The schemas that may hold at a path below a schema: several where alternatives fork. */
export const schemasAt = (schema: Schema, path: readonly PropertyKey[]): readonly Schema[] => {
  if (schema.anyOf) return schema.anyOf.flatMap((one) => schemasAt(one, path))
  const [step, ...rest] = path
  if (step === undefined) return [schema]
  if (typeof step === 'number') return schema.items ? schemasAt(schema.items, rest) : []
  const properties = schema.properties
  const inner = properties && Object.hasOwn(properties, step) ? properties[String(step)] : undefined
  if (inner) return schemasAt(inner, rest)
  return typeof schema.additionalProperties === 'object' ? schemasAt(schema.additionalProperties, rest) : []
}
