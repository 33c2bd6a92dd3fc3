/** Limits on the structure of JSON bodies, checked before parsing. */
import { type Failure, fail } from '../core/failure.ts'
import { DEEPEST, excessSteps } from '../core/json-text.ts'
import { atOnce, type Steps } from '../core/steps.ts'

/** Members of one object. No request has more; large objects are slow to parse and copy. */
const MAX_MEMBERS = 10_000
/**
 * Members of all objects. Ten thousand messages have seven each at most. Distinct names cost V8 a microsecond each: a
 * million took 0.9 s (22 November 2026).
 */
const MAX_TOTAL_MEMBERS = 150_000
/** Values in a body. Long texts and images are few values; long token lists are the largest real requests. */
const MAX_VALUES = 1_000_000
const LIMITS = {
  levels: DEEPEST,
  members: MAX_MEMBERS,
  membersInAll: MAX_TOTAL_MEMBERS,
  values: MAX_VALUES,
} as const
/** Characters up to which a text cannot be expensive to parse, and is not checked. */
const SMALL = 128 * 1024

/** Why a text is not parsed as JSON; null: it is within the limits. */
export const exceedsJsonLimits = (text: string): Failure | null =>
  text.length > SMALL ? atOnce(jsonLimitSteps(text)) : null

/** Like `exceedsJsonLimits` for a text of any size: yields between pieces, so that the event loop stays free. */
export function* jsonLimitSteps(text: string): Steps<Failure | null> {
  const found = yield* excessSteps(text, LIMITS)
  switch (found) {
    case null:
      return null
    case 'too-deep':
      return fail('invalid_value', `The body is nested deeper than ${DEEPEST} levels.`)
    case 'too-many':
      return fail('invalid_value', `An object in the body has more than ${MAX_MEMBERS} members.`)
    case 'too-many-in-all':
      return fail(
        'invalid_value',
        `The objects in the body have more than ${MAX_TOTAL_MEMBERS} members in all. Send fewer.`,
      )
    case 'too-scattered':
      return fail('invalid_value', `The body is made of more than ${MAX_VALUES} values.`)
    default:
      throw new Error(`unknown excess ${found satisfies never}`)
  }
}
