/** What a value must be, as sentences. Used for the bodies and parameters of the admin API. */
import type { z } from 'zod'
import { nearest } from '../../core/nearest.ts'

/** Choices that a message lists. */
const MAX_CHOICES = 30

/** The types of the schema library that have a common name. */
const TYPES: { readonly [type: string]: string } = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
  null: 'null',
}

/** The message of an issue; undefined: that of the schema or of the library. For `safeParse(value, { error })`. */
export const valueMessage = (issue: z.core.$ZodRawIssue): string | undefined => {
  const { input } = issue
  switch (issue.code) {
    case 'invalid_type': {
      const type = TYPES[issue.expected]
      if (type === undefined) return undefined
      return input === undefined ? `It is required: ${type}.` : `It must be ${type}.`
    }
    case 'invalid_value':
      return choice(issue.values.map(String), input)
    case 'too_big':
      return limit(issue.origin, 'at most', Number(issue.maximum), issue.inclusive !== false)
    case 'too_small':
      return limit(issue.origin, 'at least', Number(issue.minimum), issue.inclusive !== false)
    case 'custom':
      return typeof issue.params?.allowed === 'string' ? `It must be ${issue.params.allowed}.` : undefined
    default:
      return undefined
  }
}

const choice = (values: readonly string[], input: unknown): string | undefined => {
  if (values.length > MAX_CHOICES) return undefined
  const allowed = values.length === 1 ? `${values[0]}` : `one of ${values.join(', ')}`
  if (input === undefined) return `It is required: ${allowed}.`
  const [near] = typeof input === 'string' ? nearest(input, values) : []
  return `It must be ${allowed}.${near === undefined ? '' : ` Did you mean "${near}"?`}`
}

const limit = (origin: string, which: 'at most' | 'at least', bound: number, isInclusive: boolean) => {
  if (!isInclusive) return undefined
  if (origin === 'number' || origin === 'int') return `It must be ${which} ${bound}.`
  if (bound === 1 && which === 'at least') return 'It must not be empty.'
  if (origin === 'string') return `It must have ${which} ${bound} ${bound === 1 ? 'character' : 'characters'}.`
  if (origin === 'array') return `It must have ${which} ${bound} ${bound === 1 ? 'entry' : 'entries'}.`
  return undefined
}
