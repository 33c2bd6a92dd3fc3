/** Retries of a target without what its model refused: members, or the signatures that an error identified. */
import type { SentBetas } from '../../core/betas.ts'
import type { Failure } from '../../core/failure.ts'
import type { Json } from '../../core/json.ts'
import type { Candidate } from '../../core/target.ts'
import { BETA_HEADER, refusedBetas } from '../../policy/routing/betas.ts'
import type { RefusedMember } from '../../protocols/errors/refused-member.ts'
import type { UpstreamHealth } from '../health/upstream-health.ts'

/** Maximum retries without a refused member; each removes one more. */
const MAX_WITHOUT_MEMBER = 3
/** Maximum retries without only the identified signatures; then all signatures are removed. */
const MAX_WITHOUT_NAMED = 2

export class RefusalRetries {
  readonly #refusals: UpstreamHealth['refusals']
  #withoutMember = 0
  #withoutNamed = 0
  /** Refused members that errors only mention. */
  #guesses: { readonly candidate: Candidate; readonly path: string; readonly value: Json | undefined }[] | null = null

  constructor(refusals: UpstreamHealth['refusals']) {
    this.#refusals = refusals
  }

  /** Whether another member may be left out: it was not yet. */
  mayLeaveOut(candidate: Candidate, { path, value }: RefusedMember): boolean {
    return this.#withoutMember < MAX_WITHOUT_MEMBER && !this.#refusals.hasMember(candidate, path, value)
  }

  /** Remembers the refusal of a member, without which the target is retried. */
  leaveOut(candidate: Candidate, { path, value, certain }: RefusedMember): void {
    this.#withoutMember++
    this.#refusals.noteMember(candidate, path, value)
    if (certain) return
    this.#guesses ??= []
    this.#guesses.push({ candidate, path, value })
  }

  /** Remembers refused betas, without which the target is retried. False: the failure refuses none. */
  leaveOutBetas(candidate: Candidate, failure: Failure, betas: SentBetas | undefined): boolean {
    const refused = betas ? refusedBetas(failure, betas) : []
    for (const beta of refused) this.#refusals.noteMember(candidate, BETA_HEADER, beta)
    return refused.length > 0
  }

  /** The model refuses the request without the members that its sentences mentioned, too: they are no longer left out. */
  forgetGuesses(candidate: Candidate): false {
    for (const guess of this.#guesses ?? [])
      if (guess.candidate === candidate) this.#refusals.forgetMember(candidate, guess.path, guess.value)
    return false
  }

  /** Whether only some of the refused signatures may be left out. */
  get maySeparate(): boolean {
    return this.#withoutNamed < MAX_WITHOUT_NAMED
  }

  /** Remembers the refused signatures. True: the error identifies some but not all, so only those are removed. */
  leaveOutSignatures(candidate: Candidate, named: readonly string[], all: readonly string[]): boolean {
    for (const signature of named.length > 0 ? named : all) this.#refusals.noteSignature(candidate, signature)
    if (named.length === 0 || named.length === all.length) return false
    this.#withoutNamed++
    return true
  }
}
