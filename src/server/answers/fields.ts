/** What several answers have in common. */
import { z } from 'zod'
import { time } from '../../records/entities/shown.ts'

export const count = z.int().min(0)

/** The ID of a key or a team with its current name. */
export const named = z.strictObject({ id: z.string(), name: z.string().nullable() }).nullable()

/** The processes that serve the port (WORKERS), and those of other gateways that share a store. */
export const processes = z.strictObject({ answered: count, of: count })

/** The answer of a list. */
export const listOf = <T extends z.ZodType>(entry: T) =>
  z.strictObject({
    object: z.literal('list'),
    data: z.array(entry),
    has_more: z.boolean(),
    next: z.string().nullable().describe('Send it as `after` for the next page; null: this is the last one'),
  })

/** How far an answer from many requests came. */
export const searchedUntil = time
  .nullable()
  .describe('The time until which the range was searched, when a second was over; null: all of it')

/** The answer of the removal of a record that does not stay in lists. */
export const deletedAs = <const Object extends string>(object: Object) =>
  z.strictObject({ id: z.string(), object: z.literal(object), deleted: z.literal(true) })

/** A refused request. `errors`: all wrong members of a body, if there are several. */
export const ERROR = z.looseObject({
  error: z.looseObject({
    message: z.string(),
    code: z.string().optional(),
    errors: z.array(z.looseObject({ path: z.string(), message: z.string() })).optional(),
  }),
})
