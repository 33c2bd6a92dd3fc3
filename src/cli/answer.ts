/** Reads answers of a gateway by the schemas of its routes. The gateway may be of another version. */
import { z } from 'zod'
import type { Shown } from '../records/entities/shown.ts'

/** `problem`: the member that is missing or has another type. */
type AnswerReading<Schema extends z.ZodType> =
  | { readonly ok: true; readonly value: Shown<Schema> }
  | { readonly ok: false; readonly problem: string }

/**
 * Reads an answer. A newer gateway may send more: members and values that the schema does not have stay as they are. An
 * older one may send less: a member with a default has it, and without any other one there is a problem.
 */
export const readAnswer = <Schema extends z.ZodType>(schema: Schema, body: unknown): AnswerReading<Schema> => {
  const { success, data, error } = structureOf(schema).safeParse(body, { reportInput: true })
  // The structure has the members and types of the schema.
  if (success) return { ok: true, value: data as Shown<Schema> }
  const [issue] = error.issues
  return { ok: false, problem: issue ? textOf(issue) : 'it is not of the expected type' }
}

const textOf = ({ path, message, ...issue }: z.core.$ZodIssue): string => {
  const place = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`)).join('')
  const name = place === '' ? 'it' : place.replace(/^\./, '')
  if (issue.code !== 'invalid_type') return `${name}: ${message}`
  return issue.input === undefined ? `${name} is missing` : `${name} is no ${issue.expected}`
}

/** The members of a schema and their types, without its rules about values, and open for further members. */
const structureOf = (schema: z.core.$ZodType): z.ZodType => {
  if (schema instanceof z.ZodObject)
    return z.looseObject(
      Object.fromEntries(Object.entries(schema.shape).map(([name, member]) => [name, structureOf(member)])),
    )
  if (schema instanceof z.ZodArray) return z.array(structureOf(schema.element))
  if (schema instanceof z.ZodRecord) return z.record(z.string(), structureOf(schema.valueType))
  if (schema instanceof z.ZodNullable) return structureOf(schema.unwrap()).nullable()
  if (schema instanceof z.ZodOptional) return structureOf(schema.unwrap()).optional()
  if (schema instanceof z.ZodDefault) return structureOf(schema.unwrap()).default(schema.def.defaultValue)
  if (schema instanceof z.ZodPrefault) return structureOf(schema.unwrap()).prefault(schema.def.defaultValue)
  if (schema instanceof z.ZodEnum || schema instanceof z.ZodString || schema instanceof z.ZodStringFormat)
    return z.string()
  if (schema instanceof z.ZodNumber) return z.number()
  if (schema instanceof z.ZodLiteral) return structureOfValue([...schema.values][0])
  // Every schema has the methods of this type.
  return schema as z.ZodType
}

const structureOfValue = (value: unknown): z.ZodType =>
  typeof value === 'string' ? z.string() : typeof value === 'boolean' ? z.boolean() : z.unknown()
