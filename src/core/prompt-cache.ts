/** How a vendor keeps the beginning of prompts, as its documentation states it. What it costs is in the catalogue. */
export type PromptCache = {
  /** The models of this row, by their names; absent: all others. */
  readonly models?: RegExp
  /** Tokens below which no model of the vendor keeps a prompt for sure. */
  readonly least: number
  /** ms after the last use until which a prompt is kept, and after which it is not. Absent: it is not documented. */
  readonly life?: { readonly sure: number; readonly most: number }
  /** When a use begins to count: with the request, or with the end of its answer. */
  readonly from: 'request' | 'answer'
  /** Prompts are kept without marks. The answer may report only what was read. */
  readonly automatic: boolean
  /** Who reads what one key wrote. `unknown`: it is not documented, so another key counts as cold. */
  readonly owner: 'organization' | 'workspace' | 'account' | 'project' | 'unknown'
  /** The answer header that names that owner of the key. Absent: answers do not name it. */
  readonly ownerHeader?: string
  /** The page that states it, and the day on which it was read. */
  readonly source: string
  readonly read: string
}

/** The rules for a model; undefined: nothing is known of the vendor. */
export const promptCacheOf = (
  { promptCache = NO_RULES }: { readonly promptCache?: readonly PromptCache[] },
  model: string,
): PromptCache | undefined => promptCache.find(({ models }) => models === undefined || models.test(model))

const NO_RULES: readonly PromptCache[] = []
