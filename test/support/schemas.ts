/** Validation with the vendors' published schemas, which are stored with the recordings. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { isObject, type JsonObject, list, object, text } from '../../src/core/json.ts'
import { cohereSchema } from './cohere-schema.ts'
import { completionsSchema } from './completions-schema.ts'
import { ollamaSchema } from './ollama-schema.ts'
import { readWire, recordingsPresent, skipWithoutRecordings } from './recordings.ts'

const FILES = {
  openai: 'openai.schema.json',
  'openai:wire': 'openai.wire.schema.json',
  anthropic: 'anthropic.schema.json',
  'anthropic:wire': 'anthropic.wire.schema.json',
  gemini: 'gemini.schema.json',
  bedrock: 'bedrock.schema.json',
  mistral: 'mistral.schema.json',
  openresponses: 'openresponses.schema.json',
} as const

/** Schemas written by the project, after the vendors' documentation. */
const OWN = { cohere: cohereSchema, completions: completionsSchema, ollama: ollamaSchema } as const
const isOwn = (schema: SchemaName): schema is keyof typeof OWN => Object.hasOwn(OWN, schema)

/** `wire`: loosened to what the live API returns, for answers. Requests are checked against the published schemas. */
export type SchemaName = keyof typeof FILES | keyof typeof OWN

const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, strictRequired: false, strictTypes: false })
const files = new Map<SchemaName, JsonObject>()

/** The schemas of Google and Amazon permit additional members, but Google's servers reject them (400). */
const closed = (file: JsonObject): JsonObject => ({
  ...file,
  $defs: Object.fromEntries(
    Object.entries(object(file.$defs) ?? {}).map(([name, definition]) => [
      name,
      isObject(definition) && isObject(definition.properties)
        ? { additionalProperties: false, ...definition }
        : definition,
    ]),
  ),
})

/** Reads a schema on first use: a file is megabytes, and a definition is compiled once per process. */
const fileOf = (schema: SchemaName): JsonObject => {
  const known = files.get(schema)
  if (known) return known
  const file = isOwn(schema) ? OWN[schema] : readWire(FILES[schema])
  assert.ok(file, 'the schemas are not present')
  const judge = schema === 'gemini' || schema === 'bedrock' ? closed(file) : file
  ajv.addSchema(judge)
  files.set(schema, judge)
  return judge
}

/** The problems of a value by a definition, in one line. Undefined: it is valid. */
export const problemsOf = (schema: SchemaName, definition: string, value: unknown): string | undefined => {
  fileOf(schema)
  const check = ajv.getSchema(`urn:wire:${schema}#/$defs/${definition}`)
  assert.ok(check, `no schema ${schema} ${definition}`)
  if (check(value)) return undefined
  const lines = (check.errors ?? []).slice(0, 4).map(({ instancePath, message, params }) => {
    return `${instancePath || '/'} ${message} ${JSON.stringify(params)}`
  })
  return `${definition}: ${lines.join('; ')}`
}

/** Whether a schema is available: the project's own always are. */
export const hasSchema = (schema: SchemaName): boolean => isOwn(schema) || recordingsPresent

/** Call it first in a test file that validates if the schemas are present: it skips if not, and fails in CI. */
export const requireSchemas = (): void => {
  test(
    'the published schemas are present',
    { skip: skipWithoutRecordings && 'the published schemas are not present' },
    () => assert.ok(recordingsPresent),
  )
}

/** Like `problemsOf`, but also undefined if the schema is not present. Its caller calls `schemasAreHere`. */
export const problemsIfPresent = (schema: SchemaName, definition: string, value: unknown): string | undefined =>
  hasSchema(schema) ? problemsOf(schema, definition, value) : undefined

const events = new Map<SchemaName, ReadonlyMap<string, string>>()

/** The definition name of each stream event, by `type`. */
export const eventsOf = (schema: SchemaName, prefix = ''): ReadonlyMap<string, string> => {
  const known = events.get(schema)
  if (known) return known
  const found = new Map<string, string>()
  for (const [name, definition] of Object.entries(object(fileOf(schema).$defs) ?? {})) {
    if (!name.endsWith('Event') || name.startsWith('WebSocket') || !name.startsWith(prefix)) continue
    // A loosened definition is a union of shapes with the same type.
    for (const shape of [definition, ...list(object(definition)?.anyOf)]) {
      const type = object(object(object(shape)?.properties)?.type)
      const word = text(type?.const) ?? text(list(type?.enum)[0])
      if (word !== undefined && !found.has(word)) found.set(word, name)
    }
  }
  events.set(schema, found)
  return found
}
