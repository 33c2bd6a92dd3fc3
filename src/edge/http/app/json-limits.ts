import { type Failure, fail } from '../../../core/failure.ts'
import { DEEPEST, excessSteps } from '../../../core/json-text.ts'
import { atOnce } from '../../../core/steps.ts'

/** Objects of more members are nobody's request, and dear to read, to copy and to name in an error. */
const MOST_MEMBERS = 10_000
/**
 * Ten thousand messages have seven each at most. Where every object has names of its own, each takes V8 a microsecond:
 * a million took 0.9 s, measured on 22 November 2026.
 */
const MOST_MEMBERS_IN_ALL = 150_000
/** Long texts and images are few values; long lists of tokens are the most that is asked for in earnest. */
const MOST_VALUES = 1_000_000
const MOST = {
  levels: DEEPEST,
  members: MOST_MEMBERS,
  membersInAll: MOST_MEMBERS_IN_ALL,
  values: MOST_VALUES,
} as const
/** Characters below which no text is dear enough to be looked at twice. */
const SMALL = 128 * 1024

/** Why a text is not even read as JSON; null: it is. */
export const exceedsJsonLimits = (text: string): Failure | null =>
  text.length > SMALL ? atOnce(dearSteps(text)) : null

/** The same of any text, in pieces. */
export function* dearSteps(text: string): Generator<undefined, Failure | null, undefined> {
  const found = yield* excessSteps(text, MOST)
  switch (found) {
    case null:
      return null
    case 'too-deep':
      return fail('invalid_value', `The body is nested deeper than ${DEEPEST} levels.`)
    case 'too-many':
      return fail('invalid_value', `An object in the body has more than ${MOST_MEMBERS} members.`)
    case 'too-many-in-all':
      return fail(
        'invalid_value',
        `The objects in the body have more than ${MOST_MEMBERS_IN_ALL} members in all. Send fewer.`,
      )
    case 'too-scattered':
      return fail('invalid_value', `The body is made of more than ${MOST_VALUES} values.`)
    default:
      throw new Error(`unknown excess ${found satisfies never}`)
  }
}
