/** What the schemas of all records share: common members, and how a stored record is read by its schema. */
import { z } from 'zod'
import type { Access } from '../../core/accounts.ts'
import { accountNameProblem } from '../../policy/accounts/account-name.ts'
import { accessListProblem } from '../../policy/accounts/key-access.ts'

/** Entries of a list, and characters of a text. */
export const MAX = { entries: 200, text: 256 }

export const TEXT = z.string().min(1).max(MAX.text)

/** The name of a record in a body; in the file it is the name of the entry. */
export const NAME = z.string().superRefine((name, context) => {
  const problem = accountNameProblem(name)
  if (problem !== null) context.addIssue({ code: 'custom', message: problem })
})

const LISTED = 'a list of strings'

/** A list of references or globs. */
export const list = (about: string) =>
  z
    .array(TEXT)
    .max(MAX.entries)
    .nullable()
    .default(null)
    .describe(`${about}; unset: no restriction, []: nothing`)
    .meta({ allowed: LISTED })

/** A list of globs of a dimension, or of ranges. */
export const accessList = (dimension: keyof Access, about: string) =>
  list(about).superRefine((globs, context) => {
    const problem = accessListProblem(dimension, globs)
    if (problem !== null) context.addIssue({ code: 'custom', message: problem })
  })

/** A time in a body. */
export const TIME = z.iso.datetime({ offset: true }).nullable().default(null)

/** A time in the file. */
export const instant = (about: string) =>
  TEXT.optional()
    .describe(about)
    .meta({ allowed: 'a date such as 2026-12-01 (midnight in UTC), or a time such as 2026-12-01T09:30:00Z' })

/** The ID of an entry of the file. */
export const entryId = (pattern: RegExp, prefix: string) =>
  z
    .string()
    .regex(pattern)
    .optional()
    .describe('ID; unset: derived from the name, so that a renamed entry needs its ID to keep its history')
    .meta({ allowed: `${prefix}_ and 12 lower-case letters` })

/** The schema without optional, nullable, default and transformation around it. */
export const bare = (schema: z.core.$ZodType): z.core.$ZodType => {
  let inner = schema
  while (
    inner instanceof z.ZodOptional ||
    inner instanceof z.ZodNullable ||
    inner instanceof z.ZodDefault ||
    inner instanceof z.ZodPrefault ||
    inner instanceof z.ZodPipe
  )
    inner = inner instanceof z.ZodPipe ? inner.in : inner.unwrap()
  return inner
}

/** Members of a record, by name. */
export type Members = { readonly [name: string]: z.ZodType }
export type ValuesOf<Of extends Members> = { readonly [name in keyof Of]: z.output<Of[name]> }

type Complete = (stored: unknown) => unknown

/** Adds the members of a schema that a stored value lacks. */
const completer = (schema: z.core.$ZodType): Complete => {
  const usual = z.safeParse(schema, undefined).data
  const inner = bare(schema)
  const members =
    inner instanceof z.ZodObject
      ? Object.entries(inner.shape).map(([name, member]) => [name, completer(member)] as const)
      : []
  return (stored) => {
    if (stored === undefined) return usual
    if (typeof stored !== 'object' || stored === null) return stored
    const lacking = members.filter(([name]) => !Object.hasOwn(stored, name))
    return lacking.length === 0
      ? stored
      : { ...stored, ...Object.fromEntries(lacking.map(([name, complete]) => [name, complete(undefined)])) }
  }
}

/**
 * Reads these members of a record that was checked when it was written. One that the schema did not have then has its default,
 * and nothing is refused: a rule that became stricter must not take a key away.
 */
export const memberReader = <Of extends Members>(members: Of): ((record: object) => ValuesOf<Of>) => {
  const completers = Object.entries(members).map(([name, schema]) => [name, completer(schema)] as const)
  return (record) =>
    // Each member has the type of its schema, since the record was checked by it.
    Object.fromEntries(
      completers.map(([name, complete]) => [name, complete(Object.getOwnPropertyDescriptor(record, name)?.value)]),
    ) as ValuesOf<Of>
}

/** The members whose value is not the default, for the file. */
export const memberEntries = (members: Members): ((record: object) => Readonly<Record<string, unknown>>) => {
  const usual = Object.entries(members).map(
    ([name, schema]) => [name, JSON.stringify(schema.safeParse(undefined).data)] as const,
  )
  return (record) =>
    Object.fromEntries(
      usual.flatMap(([name, text]) => {
        const value: unknown = Object.getOwnPropertyDescriptor(record, name)?.value
        return JSON.stringify(value) === text ? [] : [[name, value]]
      }),
    )
}
