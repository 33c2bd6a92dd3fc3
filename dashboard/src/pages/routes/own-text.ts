/** Targets of a team's own route as lines of text: a name, or a JSON object with more members. Pure. */

type TargetEntry = string | { readonly provider: string; readonly model?: string; readonly [name: string]: unknown }
type Entries = readonly TargetEntry[]

/** A route of `GET /routes`. The file of its schema is for Node. */
export type OwnRoute = {
  readonly id: string
  readonly name: string
  readonly team: string
  readonly spec: { readonly strategy?: string; readonly targets: Entries; readonly fallback: Entries }
  readonly rev: number
  readonly managed: string
  /** A route of the file has its name and applies instead. */
  readonly shadowed: boolean
}

/** A line for each target. One with nothing but a place is its name. */
export const linesOf = (entries: Entries): string =>
  entries
    .map((entry) => {
      if (typeof entry === 'string') return entry
      const { provider, model, ...more } = entry
      const place = model === undefined ? provider : `${provider}/${model}`
      const isPlain = Object.entries(more).every(([name, value]) => name === 'weight' && value === 1)
      return isPlain ? place : JSON.stringify(entry)
    })
    .join('\n')

/** The entries of these lines, or the first line that is no JSON object although it begins as one. */
export const entriesIn = (text: string): { readonly entries: readonly unknown[] } | { readonly wrong: string } => {
  const entries: unknown[] = []
  for (const line of text.split('\n').map((one) => one.trim())) {
    if (line === '') continue
    try {
      entries.push(line.startsWith('{') ? JSON.parse(line) : line)
    } catch {
      return { wrong: line }
    }
  }
  return { entries }
}
