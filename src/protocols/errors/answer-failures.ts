/** Failures of an answer that cannot be decoded to its end. */
import { type Failure, fail } from '../../core/failure.ts'

/** A codec cannot read the answer. `problem`: what is wrong, without a full stop. */
export const malformed = (problem: string): Failure =>
  fail('malformed', `The provider's answer cannot be read: ${problem}.`)

/** The input ended before the answer. */
export const truncated = (): Failure => fail('truncated', "The provider's answer ended before it was complete.")

/** A stream event exceeds the framing's size limit. */
export const oversizedEvent = (): Failure => fail('too_large', 'The provider sent an event above the size limit.')
