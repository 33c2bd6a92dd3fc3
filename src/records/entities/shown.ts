/** What every record shows beside its body. */
import { z } from 'zod'

/** A time, as ISO 8601 with an offset. */
export const time = z.iso.datetime({ offset: true })

/** An amount in US dollars; negative: a credit. */
export const dollars = z.string().regex(/^-?[0-9]+\.[0-9]{9}$/)

/** Members of every record, after its body. */
export const STATE = {
  status: z.string(),
  created_at: time.nullable(),
  created_by: z.string(),
  rev: z.int().describe('The revision; it is also the ETag'),
  managed: z.enum(['api', 'file']).describe('`file`: defined in headgate.yaml, and changed there only'),
}

/** Members of keys and tokens. */
export const SECRETS = {
  prefix: z.string().nullable(),
  last4: z.string().nullable(),
  last_used_at: time.nullable().describe('To the hour'),
  secrets: z.array(
    z.strictObject({ last4: z.string(), created_at: time.nullable(), until: time.nullable().describe('null: no end') }),
  ),
  secret: z
    .string()
    .nullable()
    .optional()
    .describe('Only in the answer that creates it; null: the answer was repeated, and cannot show it again'),
}

/** A record as it is shown: its ID, its body and its state. */
export const shownAs = <const Object extends string, Body extends z.ZodRawShape, More extends z.ZodRawShape>(
  object: Object,
  body: Body,
  more: More,
) => z.strictObject({ id: z.string(), object: z.literal(object), name: z.string(), ...body, ...STATE, ...more })

/** JSON that its reader does not change. */
export type Unchanged<T> = T extends (infer Entry)[]
  ? readonly Unchanged<Entry>[]
  : T extends object
    ? { readonly [Name in keyof T]: Unchanged<T[Name]> }
    : T

/** An answer, as its reader has it. */
export type Shown<Schema extends z.ZodType> = Unchanged<z.output<Schema>>
