/** Shapes of the configuration's answers, and what is made from them. Pure. */
import type { DeclaredFacts } from '../../../../src/core/data-policy.ts'
import type { Shown } from '../../../../src/records/entities/shown.ts'
import type { CLAIMS, PROOF } from '../../../../src/server/answers/policy.ts'

export type ShownProblem = {
  readonly where: string
  readonly what: string | null
  readonly found: string
  readonly allowed: string
}
export type ShownSetting = {
  readonly name: string
  readonly value: unknown
  readonly origin: string
  readonly variable: string
  readonly about: string
}
export type ShownProvider = {
  readonly id: string
  readonly kind: string
  readonly base_url: string
  readonly keys: readonly string[]
  readonly models: readonly string[]
  readonly facts: DeclaredFacts | null
  readonly origin: string
}
export type ShownClaims = Shown<typeof CLAIMS>
export type ShownProof = Shown<typeof PROOF>
export type FileRoute = {
  readonly name: string
  readonly targets: readonly { readonly provider: string; readonly model?: string; readonly weight?: number }[]
  readonly origin: string
}
export type ShownConfig = {
  readonly stale: boolean
  readonly settings: readonly ShownSetting[]
  readonly providers: readonly ShownProvider[]
  readonly routes: readonly FileRoute[]
  readonly accounts: readonly {
    readonly kind: string
    readonly id: string
    readonly name: string
    readonly origin: string
  }[]
}
/** What runs as the text of a file; null: it cannot be written. */
export type WrittenText = {
  readonly text: string | null
  readonly variables: readonly string[]
  readonly differences: readonly string[]
}
export type ConfigProblems = {
  readonly since: string | null
  readonly problems: readonly ShownProblem[]
  readonly warnings: readonly string[]
}
export type ConfigReload = {
  readonly at: string
  readonly outcome: 'changed' | 'unchanged' | 'refused'
  readonly changes: readonly string[]
  readonly warnings: readonly string[]
  readonly problems: readonly ShownProblem[]
}
export type CheckedCopy = {
  readonly ok: boolean
  readonly problems: readonly ShownProblem[]
  readonly warnings: readonly string[]
  readonly changes: readonly string[]
  /** Null: there is no such route. */
  readonly routes: readonly {
    readonly model: string
    readonly before: readonly string[] | null
    readonly after: readonly string[] | null
  }[]
}

/** A value as the page shows it; null: it is not set. */
export const valueText = (value: unknown): string | null =>
  value === null || value === undefined
    ? null
    : typeof value === 'string'
      ? value
      : Array.isArray(value) && value.every((one) => typeof one === 'string')
        ? value.join(', ')
        : JSON.stringify(value)
