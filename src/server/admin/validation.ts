/** Reads parameters and bodies by their schemas, and describes every problem by its path. */
import { z } from 'zod'
import { bad, type FieldError, fail, good, type Outcome } from '../../core/failure.ts'
import { nearest } from '../../core/nearest.ts'
import { bare } from '../../records/entities/member.ts'
import { valueMessage } from '../../records/store/value-message.ts'

/** Problems that one response lists. */
const MAX_LISTED = 20

/** Reads a value by a schema. */
export const readBy = (schema: z.ZodType, value: unknown, what: 'body' | 'query' | 'path'): Outcome<unknown> => {
  const read = schema.safeParse(value, { error: valueMessage })
  if (read.success) return good(read.data)
  const errors = read.error.issues.flatMap((issue) => problemsOf(schema, issue)).slice(0, MAX_LISTED)
  return bad(invalid(errors, what))
}

/** The failure for these problems. */
export const invalid = (
  errors: readonly FieldError[],
  what: 'body' | 'query' | 'path' = 'body',
): ReturnType<typeof fail> => {
  const [first] = errors
  const where = first?.path ? `${first.path}: ` : what === 'body' ? 'The body is not valid: ' : ''
  const more = errors.length > 1 ? ` (and further problems, listed in errors)` : ''
  return fail('invalid_value', `${where}${first?.message ?? 'not valid'}${more}`, {
    ...(first?.path && { param: first.path }),
    errors,
  })
}

const problemsOf = (schema: z.ZodType, issue: z.core.$ZodIssue): readonly FieldError[] => {
  const path = pathText(issue.path)
  if (issue.code === 'unrecognized_keys') {
    const names = membersOf(schemaAt(schema, issue.path))
    return issue.keys.map((key) => {
      const [near] = nearest(key, names)
      const hint =
        near !== undefined
          ? `Did you mean "${near}"?`
          : names.length > 0
            ? `It must be one of ${names.join(', ')}.`
            : 'There are none here.'
      return { path: pathText([...issue.path, key]), message: `Unknown name. ${hint}` }
    })
  }
  if (issue.code === 'invalid_union') {
    const best = bestBranch(schemaAt(schema, issue.path), issue.errors)
    if (best)
      return best.issues.flatMap((inner) =>
        problemsOf(best.schema, inner).map((problem) => ({ ...problem, path: joined(path, problem.path) })),
      )
  }
  return [{ path, message: sentence(issue.message) }]
}

/** The alternative of a union that fits best: the one with the fewest problems. Null: each is of another type. */
const bestBranch = (union: z.core.$ZodType | undefined, errors: readonly (readonly z.core.$ZodIssue[])[]) => {
  const inner = union && bare(union)
  const options = inner instanceof z.ZodUnion ? inner.options : []
  const [best] = errors
    .map((issues, at) => ({ issues, schema: options[at] }))
    .filter(({ issues: [first] }) => first && !(first.code === 'invalid_type' && first.path.length === 0))
    .toSorted((a, b) => a.issues.length - b.issues.length)
  return best?.schema instanceof z.ZodType ? { issues: best.issues, schema: best.schema } : null
}

const joined = (path: string, rest: string): string =>
  path === '' || rest === '' || rest.startsWith('[') ? path + rest : `${path}.${rest}`

const sentence = (text: string): string => (/[.?]$/.test(text) ? text : `${text}.`)

const MAX_NAME = 100

/** `limits.concurrent`, `ids[2]`. */
const pathText = (path: readonly PropertyKey[]): string => {
  let text = ''
  for (const step of path) {
    const shown = String(step)
      .slice(0, MAX_NAME)
      .replaceAll(/[\p{Cc}\p{Cf}]/gu, '\u{fffd}')
    text += typeof step === 'number' ? `[${shown}]` : text === '' ? shown : `.${shown}`
  }
  return text
}

/** The schema at a path; of several alternatives the first that has the path. */
const schemaAt = (schema: z.core.$ZodType, [step, ...rest]: readonly PropertyKey[]): z.core.$ZodType | undefined => {
  if (step === undefined) return schema
  const inner = bare(schema)
  if (inner instanceof z.ZodUnion) {
    const found = inner.options.map((option) => schemaAt(option, [step, ...rest]))
    return found.find((one) => one !== undefined)
  }
  const next =
    inner instanceof z.ZodObject
      ? Object.hasOwn(inner.shape, step)
        ? inner.shape[String(step)]
        : undefined
      : inner instanceof z.ZodArray
        ? inner.element
        : inner instanceof z.ZodRecord
          ? inner.valueType
          : undefined
  return next && schemaAt(next, rest)
}

const membersOf = (schema: z.core.$ZodType | undefined): readonly string[] => {
  const inner = schema && bare(schema)
  if (inner instanceof z.ZodUnion) return inner.options.flatMap(membersOf)
  return inner instanceof z.ZodObject ? Object.keys(inner.shape) : []
}

/** Parameters of one request. */
const MAX_PARAMETERS = 100

/** The object whose members are the parameters of a query. Undefined: the schema has none. */
export const parametersIn = (schema: z.core.$ZodType | undefined): z.ZodObject | undefined => {
  let inner = schema
  while (inner instanceof z.ZodPipe) inner = inner.in
  return inner instanceof z.ZodObject ? inner : undefined
}

/** Reads the parameters of a query. A schema with a transformation receives texts, and lists of texts. A parameter whose schema is a list may be repeated; any other may not. */
export const readQuery = (schema: z.ZodType, query: string): Outcome<unknown> => {
  const given = new Map<string, string[]>()
  let count = 0
  for (const [name, value] of new URLSearchParams(query)) {
    if (++count > MAX_PARAMETERS)
      return bad(fail('invalid_value', `The query has more than ${MAX_PARAMETERS} parameters. Send fewer.`))
    given.set(name, [...(given.get(name) ?? []), value])
  }
  if (!(schema instanceof z.ZodObject)) {
    const texts = [...given].map(([name, values]) => [name, values.length === 1 ? values[0] : values] as const)
    return readBy(schema, Object.assign(Object.create(null), Object.fromEntries(texts)), 'query')
  }
  const repeated = [...given].filter(([name, values]) => values.length > 1 && !isList(schema, name))
  if (repeated.length > 0)
    return bad(
      invalid(
        repeated.map(([name]) => ({ path: pathText([name]), message: 'Send it once.' })),
        'query',
      ),
    )
  const entries = [...given].map(([name, values]) => [name, typed(schema, name, values)] as const)
  // A null prototype, because the names come from the client.
  return readBy(schema, Object.assign(Object.create(null), Object.fromEntries(entries)), 'query')
}

const memberOf = (schema: z.ZodObject, name: string): z.core.$ZodType | undefined => {
  const member = Object.hasOwn(schema.shape, name) ? schema.shape[name] : undefined
  return member && bare(member)
}

const isList = (schema: z.ZodObject, name: string): boolean => memberOf(schema, name) instanceof z.ZodArray

/** Texts as the types of the schema; a text that does not fit stays, and the schema reports it. */
const typed = (schema: z.ZodObject, name: string, values: readonly string[]): unknown => {
  const member = memberOf(schema, name)
  if (member instanceof z.ZodArray) return values
  const [text = ''] = values
  if (member instanceof z.ZodNumber) return /^-?[0-9]{1,15}(?:\.[0-9]{1,9})?$/.test(text) ? Number(text) : text
  if (member instanceof z.ZodBoolean) return text === 'true' ? true : text === 'false' ? false : text
  return text
}
