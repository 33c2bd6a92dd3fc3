/**
 * The configuration file: all settings, and providers with weights, custom provider names and routes, which only the
 * file can express. The published JSON Schema is generated from `fileSchema`.
 */
import { z } from 'zod'
import { nearest } from '../../core/nearest.ts'
import { settingsSchema } from '../../core/settings.ts'
import { allowedBy, durationHint, jsonSchemaOf, type Schema, schemasAt, styleNames } from './definition.ts'
import { type Problem, quote } from './problem.ts'
import type { Tree } from './tree.ts'

const weight = z.number().positive().max(1_000_000).default(1).describe('share of the load, relative to the others')
const text = z.string().min(1)

const keySchema = z.union([text, z.strictObject({ value: text, weight })])
const targetSchema = z.union([text, z.strictObject({ provider: text, model: text.optional(), weight })])

const providerSchema = z.strictObject({
  kind: text
    .optional()
    .describe("a known provider's name, or openai-compatible; required unless the name is a known one"),
  baseUrl: text.optional().describe('base URL instead of the default one, with the version segment'),
  keys: z
    .array(keySchema)
    .optional()
    .describe(`keys, as "\${NAME}" or with a weight; keys from the environment are added`),
  models: z.array(text).optional().describe('models; the first is the default'),
  styles: z
    .array(z.enum(Object.values(styleNames)))
    .min(1)
    .optional()
    .describe('API styles to use with it'),
  aggregate: z
    .boolean()
    .optional()
    .describe('request a stream also for whole answers, so that an interrupted one can be retried on another target'),
  variables: z.record(z.string(), text).optional().describe('further values it needs, such as apiVersion for Azure'),
})

const routeSchema = z.strictObject({
  strategy: settingsSchema.shape.strategy
    .unwrap()
    .optional()
    .describe('order of its targets; default: the setting `strategy`'),
  targets: z
    .array(targetSchema)
    .min(1)
    .describe('provider/model, a provider alone (its default model), or with a weight'),
  fallback: z.array(targetSchema).default([]).describe('tried in order after the targets'),
})

export const fileSchema = z.strictObject({
  ...settingsSchema.shape,
  providers: z.record(z.string(), providerSchema).optional().describe('providers by name; tried in this order'),
  routes: z.record(z.string().min(1), routeSchema).optional().describe('names that clients can send as `model`'),
})

export type ProviderEntry = z.output<typeof providerSchema>
export type RouteEntry = z.output<typeof routeSchema>

/** The parsed file. Maps, so that names chosen by operators cannot reach a prototype. */
export type FileContent = {
  /** As written, without defaults, so that environment variables can override them. */
  readonly settings: Readonly<Record<string, unknown>>
  readonly providers: ReadonlyMap<string, ProviderEntry>
  readonly routes: ReadonlyMap<string, RouteEntry>
}

export const emptyFile: FileContent = { settings: {}, providers: new Map(), routes: new Map() }

/** Computes a value on first use and caches it. */
const lazily = <T>(make: () => T): (() => T) => {
  let made: { readonly value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

const fileSchemaJson = lazily(() => jsonSchemaOf(fileSchema))

type ParsedTree = Extract<Tree, { ok: true }>
type Issue = z.core.$ZodIssue

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A value for a message; possible secrets are not shown. */
const foundAt = (tree: ParsedTree, path: readonly PropertyKey[], value: unknown): string => {
  if (path.includes('keys') || path[0] === 'auth') return 'a value that is not shown, because it may be a secret'
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (isRecord(value)) return 'a section'
  if (value === undefined || value === null) return 'nothing'
  return quote(tree.placeOf(path).written)
}

const valueAt = (root: unknown, path: readonly PropertyKey[]): unknown => {
  let value = root
  for (const step of path) {
    if (Array.isArray(value)) value = value[Number(step)]
    else if (isRecord(value) && Object.hasOwn(value, step)) value = value[String(step)]
    else return undefined
  }
  return value
}

const membersAt = (schema: Schema, path: readonly PropertyKey[]): readonly string[] =>
  schemasAt(schema, path).flatMap(({ properties }) => Object.keys(properties ?? {}))

/** Converts the schema library's issues to problems: location, value found, values allowed. */
const problemsFrom = (
  issues: readonly Issue[],
  base: readonly PropertyKey[],
  tree: ParsedTree,
  schema: Schema,
): readonly Problem[] => {
  // A missing member with a misspelled name is one problem, not two.
  const mistyped = issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.flatMap((key) => nearest(key, membersAt(schema, [...base, ...issue.path])))
      : [],
  )
  return issues.flatMap((issue): readonly Problem[] => {
    const path = [...base, ...issue.path]
    const missing = valueAt(tree.value, path) === undefined && mistyped.includes(String(path.at(-1)))
    if (missing) return []
    const what = path.join('.')
    if (issue.code === 'invalid_union') {
      // The alternative that matched furthest is the intended one.
      const value = valueAt(tree.value, path)
      const alternatives = issue.errors.filter((list) => list.some(({ path: inner }) => inner.length > 0))
      const inner = isRecord(value)
        ? (alternatives[0] ?? issue.errors.find((list) => list.some(({ code }) => code === 'unrecognized_keys')))
        : undefined
      if (inner) return problemsFrom(inner, path, tree, schema)
    }
    const schemas = schemasAt(schema, path)
    if (issue.code === 'unrecognized_keys') {
      const members = membersAt(schema, path)
      return issue.keys.map((key) => {
        const [meant] = nearest(key, members)
        return {
          where: tree.placeOf([...path, key]).name,
          ...(what !== '' && { what }),
          found: `the unknown name ${quote(key)}`,
          allowed: `${meant ? `did you mean ${meant}? ` : ''}${members.join(', ')}`,
        }
      })
    }
    const allowed = [...new Set(schemas.map(allowedBy))].join(', or ')
    return [
      {
        where: tree.placeOf(path).value,
        what,
        found: foundAt(tree, path, valueAt(tree.value, path)),
        allowed: (allowed === '' ? 'another value' : allowed) + hintFor(schemas, valueAt(tree.value, path)),
      },
    ]
  })
}

const hintFor = (schemas: readonly Schema[], value: unknown): string => {
  const [only, another] = schemas
  return only && !another && typeof value === 'string' ? durationHint(only, value) : ''
}

/** YAML parses a name without a value as null, which means not set here. */
const withoutNothing = (value: unknown): unknown => {
  if (!isRecord(value)) return value
  const out: Record<string, unknown> = Object.create(null)
  for (const [name, inner] of Object.entries(value)) out[name] = inner === null ? undefined : withoutNothing(inner)
  return out
}

/** Values from environment variables are text; they are converted where the schema expects a number, boolean or list. */
const retyped = (value: unknown, schema: Schema | undefined, path: readonly string[], tree: ParsedTree): unknown => {
  if (isRecord(value)) {
    const out: Record<string, unknown> = Object.create(null)
    for (const [name, inner] of Object.entries(value)) {
      const own = schema?.properties && Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined
      out[name] = retyped(inner, own, [...path, name], tree)
    }
    return out
  }
  if (typeof value !== 'string' || !tree.placeOf(path).filled) return value
  if (schema?.type === 'integer' && /^[0-9]{1,15}$/.test(value)) return Number(value)
  if (schema?.type === 'boolean' && (value === 'true' || value === 'false')) return value === 'true'
  if (schema?.type === 'array') return listFrom(value)
  return value
}

/** Splits a list: `a, b,,c` is a, b and c. */
export const commaList = (value: string): readonly string[] => [
  ...new Set(
    value
      .split(',')
      .map((one) => one.trim())
      .filter((one) => one !== ''),
  ),
]

/**
 * Splits a text into a list. A text of commas only is returned unchanged and then refused: "$A,$B" with two unset
 * variables would otherwise disable client keys.
 */
export const listFrom = (value: string): readonly string[] | string => {
  const list = commaList(value)
  return list.length > 0 ? list : value
}

export const readFile = (
  tree: ParsedTree,
): { readonly content: FileContent; readonly problems: readonly Problem[] } => {
  const problems: Problem[] = [...tree.problems]
  const root = tree.value === null ? {} : withoutNothing(tree.value)
  if (!isRecord(root)) {
    problems.push({
      where: tree.placeOf([]).value,
      found: foundAt(tree, [], tree.value),
      allowed: 'sections such as providers, routes and circuit',
    })
    return { content: emptyFile, problems }
  }
  const { providers: providerMap, routes: routeMap, ...written } = root
  const fileJson = fileSchemaJson()
  const settings = retyped(written, fileJson, [], tree)
  const checked = z.strictObject(settingsSchema.shape).safeParse(settings)
  // Names are checked against the whole file's schema, so that `provider:` suggests `providers`.
  if (!checked.success) problems.push(...problemsFrom(checked.error.issues, [], tree, fileJson))

  // The maps are iterated here, since the schema library skips a member called `__proto__`.
  const entries = <T>(section: 'providers' | 'routes', map: unknown, schema: z.ZodType<T>): ReadonlyMap<string, T> => {
    const found = new Map<string, T>()
    if (map === undefined) return found
    if (!isRecord(map)) {
      const { value, written } = tree.placeOf([section])
      problems.push({ where: value, what: section, found: written, allowed: 'a section of names' })
      return found
    }
    for (const [name, entry] of Object.entries(map)) {
      const result = schema.safeParse(entry ?? {})
      if (result.success) found.set(name, result.data)
      else problems.push(...problemsFrom(result.error.issues, [section, name], tree, fileJson))
    }
    return found
  }
  return {
    content: {
      settings: isRecord(settings) ? settings : {},
      providers: entries('providers', providerMap, providerSchema),
      routes: entries('routes', routeMap, routeSchema),
    },
    problems,
  }
}
