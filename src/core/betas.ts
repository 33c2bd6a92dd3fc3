/** The betas of Anthropic's API (`anthropic-beta`) that a provider takes, as data. `src/policy/routing/betas.ts` applies it. */

/** What a provider takes. A beta without a row is not sent: providers refuse the whole request for one that they do not know. */
export type BetaRules = {
  /** The member or the header that lists the betas of a request. */
  readonly in: 'body' | 'header'
  /** By the name of the beta at Anthropic. */
  readonly rows: ReadonlyMap<string, BetaRow>
}

export type BetaRow = {
  /** Its name here; null: it is refused. */
  readonly as: string | null
  /**
   * Members of the body that are refused without the beta; `[]` stands for each entry of a list: `tools[].defer_loading`. They are
   * left out where the beta is not sent.
   */
  readonly members?: readonly string[]
  /** Without these members the request has another meaning, so another target is needed. */
  readonly essential?: true
  /** The source, with its date. */
  readonly seen: string
}

/** The betas of a request to one provider, by their names there. */
export type SentBetas = {
  readonly sent: readonly string[]
  /** Those without which a member of the request would be refused. */
  readonly needed: readonly string[]
}
