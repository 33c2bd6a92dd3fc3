// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references of the file are written
/** Arbitrary values that a zod schema accepts, so that a property covers members that are added to the schema later. */
import fc from 'fast-check'
import { z } from 'zod'

/** Texts in which forms, encodings and limits differ. A schema takes those that it accepts. */
const TEXTS = [
  ...['a', 'b-1', 'yes', 'null', '1', '1.0', '~', ': ', '# x', '${B}', '$${', 'ä: b', ' padded ', 'x'.repeat(256)],
  ...['openai/*', '!*opus*', '*', 'openai', 'gpt-5*', '10.0.0.0/8', '2001:db8::/32', '192.0.2.1'],
  ...['0', '5', '2500.00', '0.000000001', '9007199', '1.1', '0.07'],
  ...['UTC', 'Europe/Berlin', 'Etc/GMT+3', '+01:00', '-0330'],
  ...['2026-12-01T00:00:00Z', '2026-12-01T00:00:00.125+01:00', '1970-01-01T00:00:00Z', '2026-12-01'],
]
const NAMES = [
  ...['a', 'app', 'cost-centre', 'a.b', 'batch', 'web_search', '__proto__', 'x'.repeat(64)],
  ...['seconds', 'images/1024x1024/hd'],
]
const NUMBERS = [0, 1, 7, 28, 300, 86_400, 86_401, 31_536_000, 0.001, 0.07, 0.85, 1.1, 2.675, 1_000, 100_000, 1e9]

/** Values of a schema. Members with a default are sometimes absent. */
export const fromSchema = (schema: z.core.$ZodType): fc.Arbitrary<unknown> =>
  candidates(schema).filter((value) => z.safeParse(schema, value).success)

const candidates = (schema: z.core.$ZodType): fc.Arbitrary<unknown> => {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault)
    return fc.oneof(fc.constant(undefined), candidates(schema.unwrap()))
  if (schema instanceof z.ZodNullable) return fc.oneof(fc.constant(null), candidates(schema.unwrap()))
  if (schema instanceof z.ZodObject)
    return fc
      .record(Object.fromEntries(Object.entries(schema.shape).map(([name, member]) => [name, fromSchema(member)])))
      .map(present)
  if (schema instanceof z.ZodArray) return fc.array(fromSchema(schema.element), { maxLength: 3 })
  if (schema instanceof z.ZodRecord)
    return fc.dictionary(
      fc.constantFrom(...NAMES.filter((name) => z.safeParse(schema.keyType, name).success)),
      fromSchema(schema.valueType),
      { maxKeys: 3 },
    )
  if (schema instanceof z.ZodUnion) return fc.oneof(...schema.options.map(candidates))
  if (schema instanceof z.ZodEnum) return fc.constantFrom(...schema.options)
  if (schema instanceof z.ZodLiteral) return fc.constantFrom(...schema.values)
  if (schema instanceof z.ZodBoolean) return fc.boolean()
  if (schema instanceof z.ZodNumber) return fc.constantFrom(...NUMBERS)
  return fc.constantFrom(...TEXTS)
}

/** The members that have a value, in an object as JSON makes it. */
const present = (value: object): object =>
  Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined))
