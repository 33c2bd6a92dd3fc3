/** Parts of JSON Schema that providers' subsets have in common. */
import type { Json } from '../../core/json.ts'

/** Keywords whose value is an object of schemas by name. */
export const NAMED_SCHEMAS: ReadonlySet<string> = new Set(['properties', '$defs', 'definitions'])

/** Keywords that do not constrain values. */
export const ANNOTATIONS: ReadonlySet<string> = new Set([
  '$schema',
  '$id',
  '$anchor',
  '$comment',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
])

/** A description with the bounds that a provider does not enforce, so that the model reads them. */
export const describeBounds = (description: Json | undefined, bounds: readonly string[]): string =>
  `${typeof description === 'string' ? `${description}\n\n` : ''}(${bounds.join(', ')})`
