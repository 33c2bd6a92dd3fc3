/** Mutants that no test can notice, since they mean the same program. */
export type Equivalent = {
  readonly file: string
  readonly before: string
  /** Absent: whatever it became. */
  readonly after?: string
  /** What stands in its line, where the change alone could be meant elsewhere. */
  readonly line?: string
  readonly because: string
}

export const EQUIVALENT: readonly Equivalent[] = []
