/** Parses the configuration file, and reports each problem with its location. */
import { z } from 'zod'
import { nearest } from '../core/nearest.ts'
import { settingsSchema } from '../core/settings.ts'
import { BUDGET_ENTRY } from '../records/entities/budget.ts'
import { KEY_ENTRY } from '../records/entities/key.ts'
import { PRICE_ENTRY } from '../records/entities/price.ts'
import { REQUIRE } from '../records/entities/restrictions.ts'
import { ROUTE_ENTRY } from '../records/entities/route.ts'
import { TEAM_ENTRY } from '../records/entities/team.ts'
import { alertsSchema } from './alerts-schema.ts'
import { claudeSchema } from './claude-schema.ts'
import { allowedBy, durationHint, isSecret, jsonSchemaOf, type Schema, schemasAt } from './definition.ts'
import { emptyFile, type FileContent } from './file-content.ts'
import { claimSchema, fileSchema, providerSchema, ruleSchema } from './file-schema.ts'
import { serviceProblems } from './guard-services.ts'
import { guardRulesOf, guardSchema } from './guards-schema.ts'
import { type Problem, partsOf, quote } from './problem.ts'
import { retirementSchema } from './retirements.ts'
import { ssoSchema } from './sso-schema.ts'
import { fromText } from './text-values.ts'
import { tokenRuleSchema } from './token-schema.ts'
import type { Tree } from './tree.ts'

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

/** Whether a value at this path is a secret, or one that was put in the wrong place. */
export const mayBeSecret = (path: readonly PropertyKey[]): boolean => {
  const [section, name, member = 'secret'] = path
  if (section === 'providers') return path.includes('keys')
  if (section === 'sso') return !isOpenInSso(path)
  // Settings of a policy may have a key among their variables.
  if (section === 'claude') return path.includes('headers') || path.includes('settings')
  if (section === 'keys') return member === 'secret' || member === 'secrets' || member === 'digest'
  return section === 'alerts' ? name !== 'rules' && name !== 'format' : isSecret(path)
}

const isOpenInSso = ([, name, , member]: readonly PropertyKey[]): boolean =>
  ['publicUrl', 'roles', 'teams', 'session'].includes(String(name)) ||
  ['issuer', 'scopes', 'groups', 'domains'].includes(String(member))

/** A value for a message; possible secrets are not shown. */
const foundAt = (tree: ParsedTree, path: readonly PropertyKey[], value: unknown): string => {
  if (value === undefined || value === null) return 'nothing'
  if (mayBeSecret(path)) return 'a value that is not shown, because it may be a secret'
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (isRecord(value)) return 'a section'
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
    if (issue.code === 'custom') {
      const { found, allowed, at = 'value' } = { ...issue.params }
      const place = tree.placeOf(path)[at === 'name' ? 'name' : 'value']
      if (allowed === undefined) return [{ where: place, what, ...partsOf(issue.message) }]
      return [
        {
          where: place,
          what,
          found: found ?? foundAt(tree, path, valueAt(tree.value, path)),
          allowed: String(allowed),
        },
      ]
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
  if (Array.isArray(value)) return value.map(withoutNothing)
  if (!isRecord(value)) return value
  const out: Record<string, unknown> = Object.create(null)
  for (const [name, inner] of Object.entries(value)) out[name] = inner === null ? undefined : withoutNothing(inner)
  return out
}

/** The schema of a value that is set. */
const withoutNull = (schema: Schema | undefined): Schema | undefined => {
  const [only, another] = schema?.anyOf?.filter(({ type }) => type !== 'null') ?? []
  return only && !another ? only : schema
}

/** Values from environment variables are text; they are converted where the schema expects a number, boolean or list. */
const retyped = (
  value: unknown,
  alternatives: Schema | undefined,
  path: readonly PropertyKey[],
  tree: ParsedTree,
): unknown => {
  const schema = withoutNull(alternatives)
  if (Array.isArray(value)) return value.map((item, index) => retyped(item, schema?.items, [...path, index], tree))
  if (isRecord(value)) {
    const out: Record<string, unknown> = Object.create(null)
    for (const [name, inner] of Object.entries(value)) {
      const own = schema?.properties && Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined
      out[name] = retyped(inner, own, [...path, name], tree)
    }
    return out
  }
  if (typeof value !== 'string' || !tree.placeOf(path).filled) return value
  return fromText(schema, value)
}

/** Divides the section `auth`: `jwt` is no setting. */
const authOf = (section: unknown): { readonly jwt?: unknown; readonly auth?: unknown } => {
  if (!isRecord(section) || !Object.hasOwn(section, 'jwt')) return { auth: section }
  const { jwt, ...auth } = section
  return { jwt, auth }
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
  const {
    providers,
    routes,
    models,
    teams,
    keys,
    budgets,
    prices,
    alerts,
    require,
    claims,
    guards,
    sso,
    claude,
    rules: ruleList,
    ...others
  } = root
  const { jwt, auth } = authOf(others.auth)
  const written = auth === undefined ? others : { ...others, auth }
  const fileJson = fileSchemaJson()
  const settings = retyped(written, fileJson, [], tree)
  const checked = z.strictObject(settingsSchema.shape).safeParse(settings)
  // Names are checked against the whole file's schema, so that `provider:` suggests `providers`.
  if (!checked.success) problems.push(...problemsFrom(checked.error.issues, [], tree, fileJson))

  const parse = <T>(path: readonly PropertyKey[], written: unknown, schema: z.ZodType<T>): T | undefined => {
    const result = schema.safeParse(retyped(written ?? {}, schemasAt(fileJson, path)[0], path, tree))
    if (result.success) return result.data
    problems.push(...problemsFrom(result.error.issues, path, tree, fileJson))
    return undefined
  }
  // The maps are iterated here, since the schema library skips a member called `__proto__`.
  const entries = <T>(section: string, map: unknown, schema: z.ZodType<T>): ReadonlyMap<string, T> => {
    const found = new Map<string, T>()
    if (map === undefined) return found
    if (!isRecord(map)) {
      const { value, written } = tree.placeOf([section])
      problems.push({ where: value, what: section, found: written, allowed: 'a section of names' })
      return found
    }
    for (const [name, entry] of Object.entries(map)) {
      const parsed = parse([section, name], entry, schema)
      if (parsed !== undefined) found.set(name, parsed)
    }
    return found
  }
  const items = <T>(path: readonly string[], list: unknown, schema: z.ZodType<T>): ReadonlyMap<number, T> => {
    const found = new Map<number, T>()
    if (Array.isArray(list))
      for (const [index, item] of list.entries()) {
        const parsed = parse([...path, index], item, schema)
        if (parsed !== undefined) found.set(index, parsed)
      }
    else if (list !== undefined) {
      const { value, written } = tree.placeOf(path)
      problems.push({ where: value, what: path.join('.'), found: written, allowed: 'a list' })
    }
    return found
  }
  const rules = entries('guards', guards, guardSchema)
  problems.push(...serviceProblems(rules, tree.placeOf))
  return {
    content: {
      settings: isRecord(settings) ? settings : {},
      providers: entries('providers', providers, providerSchema),
      routes: entries('routes', routes, ROUTE_ENTRY),
      models: entries('models', models, retirementSchema),
      teams: entries('teams', teams, TEAM_ENTRY),
      keys: entries('keys', keys, KEY_ENTRY),
      budgets: entries('budgets', budgets, BUDGET_ENTRY),
      prices: items(['prices'], prices, PRICE_ENTRY),
      alerts: (alerts === undefined ? undefined : parse(['alerts'], alerts, alertsSchema)) ?? null,
      require: (require === undefined ? undefined : parse(['require'], require, REQUIRE)) ?? null,
      rules: items(['rules'], ruleList, ruleSchema),
      claims: items(['claims'], claims, claimSchema),
      sso: (sso === undefined ? undefined : parse(['sso'], sso, ssoSchema)) ?? null,
      claude: (claude === undefined ? undefined : parse(['claude'], claude, claudeSchema)) ?? null,
      guards: guardRulesOf(rules),
      tokenRules: items(['auth', 'jwt'], jwt, tokenRuleSchema),
    },
    problems,
  }
}
