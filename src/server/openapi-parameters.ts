/** The parameters of paths and queries in a description (OpenAPI 3.1). */
import { z } from 'zod'
import type { JsonObject } from '../core/json.ts'

/** The parameters that are the members of this schema. */
export const parametersOf = (
  schema: z.ZodObject | undefined,
  place: 'path' | 'query',
  examples: Readonly<Record<string, string>> = {},
): readonly JsonObject[] =>
  Object.entries(schema?.shape ?? {}).map(([name, member]) => {
    const made = z.toJSONSchema(member, { io: 'input', unrepresentable: 'any' })
    // Plain JSON by the definition of JSON Schema.
    const { $schema: _, description, ...rest } = made as JsonObject
    return {
      name,
      in: place,
      required: place === 'path',
      ...(description !== undefined && { description }),
      schema: rest,
      ...(examples[name] !== undefined && { example: examples[name] }),
    }
  })
