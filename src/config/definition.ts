/**
 * The definition of all settings, derived from two schemas: settings (environment and file) and launch values
 * (environment only). Variable names, messages, documentation and the published schema are generated from it.
 */
import { z } from 'zod'
import type { UpstreamProtocolName } from '../core/chat.ts'
import { MAX_WORKERS } from './worker-count.ts'

/**
 * Values that the process needs before it has a configuration. From the environment only; fixed while the process runs.
 */
export const launchSchema = z.strictObject({
  port: z.int().min(0).max(65_535).default(3000).describe('port to listen on; 0 picks a free one'),
  host: z
    .string()
    .regex(/^(?:[A-Za-z0-9_.:%-]+|unix:\/[A-Za-z0-9_.@%+,=/-]{1,99})$/)
    .optional()
    .describe(
      'address to listen on, `::` for IPv6 and IPv4, or `unix:` and the path of a socket; unset: 127.0.0.1, in production all interfaces',
    )
    .meta({ allowed: 'a host name or an address, without port, or unix:/path of at most 100 bytes' }),
  socketMode: z
    .string()
    .regex(/^0?[0-7]{3}$/)
    .default('0660')
    .describe('permissions of the socket of `HOST=unix:/path`, octal')
    .meta({ allowed: 'three octal digits, such as 0660' }),
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
  heapTuning: z
    .enum(['on', 'off'])
    .default('on')
    .describe("limit V8's young generation, which saves memory per idle stream")
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
  headgateTape: z
    .enum(['off', 'record', 'replay', 'strict'])
    .default('off')
    .describe(
      'tapes of calls (docs/cassettes.md): `record` calls and records, `replay` answers from tapes and records what they lack, `strict` answers from tapes only. Not in production',
    ),
  headgateTapeDir: z.string().min(1).default('tapes').describe('folder of the tapes'),
  headgateTapeName: z
    .string()
    .regex(/^\w[\w.-]{0,63}$/)
    .default('main')
    .describe('tape of requests without the header `x-headgate-tape`')
    .meta({ allowed: 'up to 64 letters, digits, dots, - and _' }),
  headgateTapePace: z
    .number()
    .min(0)
    .max(10)
    .default(0)
    .describe('share of the recorded times in which answers are replayed; 0: at once, 1: as recorded'),
  headgateTapeNormalise: z
    .array(z.enum(['dates', 'uuids', 'paths']))
    .default([])
    .describe('changing texts that new tapes leave out of requests: any of dates, uuids, paths'),
  headgateTapeMatch: z
    .enum(['request', 'target'])
    .default('request')
    .describe('`target`: a recording answers only the provider and model that gave it'),
  headgateTapeFailures: z.boolean().default(false).describe('record answers with a status of 400 and above too'),
  providers: z
    .array(z.string())
    .optional()
    .describe('providers to use, in this order; unset: every provider with a key'),
})

/** The part of JSON Schema that is used here. */
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
  /** Extension keyword: the allowed values in words, for messages, if the other keywords do not describe them well. */
  readonly allowed?: string
  /** Extension keyword: the variable, if its name is not derived from the path. */
  readonly env?: string
  /** Extension keyword: the setting is described in docs/troubleshooting.md only. */
  readonly unlisted?: boolean
}

// The library's type allows a boolean at every place of a schema; these schemas have none.
export const jsonSchemaOf = (schema: z.ZodType): Schema =>
  z.toJSONSchema(schema, {
    io: 'input',
    override: ({ jsonSchema }) => {
      // The file has no null: what is unset has this value.
      if (jsonSchema.default === null) delete jsonSchema.default
    },
  }) as Schema

/** One setting. */
export type SettingRow = {
  readonly path: readonly string[]
  /** For example `circuit.resetTimeout`. */
  readonly name: string
  /** For example `CIRCUIT_RESET_TIMEOUT`. */
  readonly env: string
  readonly schema: Schema
  /** The value must not be logged or shown. */
  readonly secret: boolean
}

const capitals = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()

/** Converts `['circuit', 'resetTimeout']` to `CIRCUIT_RESET_TIMEOUT`. */
export const envName = (path: readonly string[]): string => path.map(capitals).join('_')

/** Converts `API_VERSION` to `apiVersion`. */
export const camelCase = (name: string): string =>
  name.toLowerCase().replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())

/** Lists the settings of a schema, in its order. */
export const rowsOf = (schema: Schema, path: readonly string[] = []): readonly SettingRow[] =>
  schema.properties
    ? Object.entries(schema.properties).flatMap(([name, inner]) => rowsOf(inner, [...path, name]))
    : [{ path, name: path.join('.'), env: schema.env ?? envName(path), schema, secret: isSecret(path) }]

/** Whether a setting's value must not be shown. */
export const isSecret = (path: readonly PropertyKey[]): boolean => {
  const [section, name] = path
  if (section === 'otel') return path.includes('headers')
  if (section === 'network') return name === 'proxy'
  return section === 'auth'
    ? name !== 'required' && name !== 'jwt'
    : /^(?:url|readUrl)$/.test(String(name)) && (section === 'database' || section === 'redis')
}

/** The value of a setting; undefined if it is not set. */
export const settingAt = (settings: unknown, path: readonly string[]): unknown => {
  let value = settings
  for (const step of path)
    value =
      typeof value === 'object' && value !== null ? Object.getOwnPropertyDescriptor(value, step)?.value : undefined
  return value
}

/** The style of each wire format, as used in `<PROVIDER>_STYLES`. */
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

/**
 * A hint such as `; write 30000` if a duration with a unit (`30s`) was written for a setting in milliseconds; otherwise
 * empty.
 */
export const durationHint = (schema: Schema, written: string): string => {
  const [, amount, unit = ''] = /^(\d{1,9}(?:\.\d{1,3})?) ?([a-z]{1,3})$/.exec(written.trim().toLowerCase()) ?? []
  const ms = Number(amount) * (UNITS[unit] ?? Number.NaN)
  const isTime = schema.type === 'integer' && schema.description?.includes('(ms)') === true
  const fits = Number.isInteger(ms) && ms >= (schema.minimum ?? 0) && ms <= (schema.maximum ?? Number.MAX_SAFE_INTEGER)
  return isTime && fits ? `; times are in milliseconds, write ${ms}` : ''
}

/** Describes the items of a list. */
const manyOf = (schema: Schema): string =>
  schema.enum ? `any of ${schema.enum.join(', ')}` : schema.type === 'string' ? 'strings' : 'values'

/** Describes the values that a schema allows. */
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
      if (schema.minimum === undefined) return 'a number'
      return `a number from ${schema.minimum}${schema.maximum === undefined ? '' : ` to ${schema.maximum}`}`
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

/** The schemas that apply to a path below a schema: several if there are alternatives. */
export const schemasAt = (schema: Schema, path: readonly PropertyKey[]): readonly Schema[] => {
  if (path.length === 0 && schema.allowed) return [schema]
  if (schema.anyOf) return schema.anyOf.filter(({ type }) => type !== 'null').flatMap((one) => schemasAt(one, path))
  const [step, ...rest] = path
  if (step === undefined) return [schema]
  if (typeof step === 'number') return schema.items ? schemasAt(schema.items, rest) : []
  const properties = schema.properties
  const inner = properties && Object.hasOwn(properties, step) ? properties[String(step)] : undefined
  if (inner) return schemasAt(inner, rest)
  return typeof schema.additionalProperties === 'object' ? schemasAt(schema.additionalProperties, rest) : []
}
