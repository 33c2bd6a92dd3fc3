/** What a request to explain has. Pure. */
import type { RequestStyle } from '../../../../src/core/request-styles.ts'
import { bodyIn, type ExampleNeed } from '../../example-body.ts'

/** What a request to explain has. `tokens`: about how many its prompt has. */
export type Ask = {
  readonly model: string
  readonly style: RequestStyle
  readonly needs: readonly ExampleNeed[]
  readonly tokens: number
}

/** The API takes bodies of 1 MiB; a word is 4 characters. */
export const MOST_TOKENS = 250_000
const textOf = (tokens: number): string => 'word'.repeat(Math.max(1, Math.min(MOST_TOKENS, Math.round(tokens))))

export const bodyOf = ({ model, style, needs, tokens }: Ask): { readonly [member: string]: unknown } =>
  bodyIn(style, { model, needs, text: textOf(tokens) })

/** The JSON object of a text; null: it is none. */
export const pastedBody = (text: string): { readonly [member: string]: unknown } | null => {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : null
  } catch {
    // No JSON.
    return null
  }
}
