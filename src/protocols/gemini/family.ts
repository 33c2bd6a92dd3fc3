/** What a model supports, derived from its name. The generations of Gemini differ in thinking and signatures. */
export type GeminiModelFamily = {
  /** How thinking is set: by `level`, by a token `budget`, or null if the model does not think. */
  readonly thinks: 'level' | 'budget' | null
  /** The range of a thinking budget in tokens. `canDisable`: 0 is accepted too. */
  readonly budget: { readonly least: number; readonly most: number; readonly canDisable: boolean }
  /** Rejects a call in the history without its signature. */
  readonly requiresSignatures: boolean
  /** Supports a response schema together with tools. */
  readonly schemaWithTools: boolean
  /** Supports images inside tool results. */
  readonly imagesInResults: boolean
}

const GENERATION = /gemini-([0-9]+)(?:\.[0-9]+)?/

export const familyOf = (model: string): GeminiModelFamily => {
  const name = model.toLowerCase()
  const generation = Number(GENERATION.exec(name)?.[1] ?? Number.NaN)
  const isThird = generation >= 3
  const withoutThinking = generation <= 1 || name.includes('gemini-2.0') || name.includes('gemma')
  // Gemini 2.5 Pro, for a budget of 0: "This model only works in thinking mode".
  const alwaysThinks = isThird || /-pro\b/.test(name)
  const budget = alwaysThinks
    ? { least: 128, most: 32_768, canDisable: false }
    : { least: name.includes('lite') ? 512 : 1, most: 24_576, canDisable: true }
  return {
    thinks: withoutThinking ? null : isThird ? 'level' : 'budget',
    budget,
    requiresSignatures: isThird,
    schemaWithTools: isThird,
    imagesInResults: isThird,
  }
}
