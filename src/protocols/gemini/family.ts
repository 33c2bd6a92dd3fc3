/** What a model's name says of what it takes: the generations of Gemini differ in how they think and sign. */
export type Family = {
  /** How it is told to think. `level`: in words, and always; `budget`: in tokens; null: it does not think. */
  readonly thinks: 'level' | 'budget' | null
  /** Bounds of a budget in tokens; 0 is off, where it is allowed. */
  readonly budget: { readonly least: number; readonly most: number; readonly off: boolean }
  /** A call in the history without its signature is refused. */
  readonly signs: boolean
  /** Takes JSON by a schema together with tools, and pictures inside the result of a call. */
  readonly third: boolean
}

const GENERATION = /gemini-([0-9]+)(?:\.[0-9]+)?/

export const familyOf = (model: string): Family => {
  const name = model.toLowerCase()
  const generation = Number(GENERATION.exec(name)?.[1] ?? Number.NaN)
  const third = generation >= 3
  const older = generation <= 1 || name.includes('gemini-2.0') || name.includes('gemma')
  // "This model only works in thinking mode", says 2.5 Pro to 0.
  const always = third || /-pro\b/.test(name)
  const budget = always
    ? { least: 128, most: 32_768, off: false }
    : { least: name.includes('lite') ? 512 : 1, most: 24_576, off: true }
  return { thinks: older ? null : third ? 'level' : 'budget', budget, signs: third, third }
}
