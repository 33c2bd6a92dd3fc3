import { type Failure, fail } from '../../core/failure.ts'

/** A `malformed` failure for an answer that a codec cannot read. `problem`: what is wrong, without a full stop. */
export const malformed = (problem: string): Failure =>
  fail('malformed', `The provider's answer cannot be read: ${problem}.`)
