/** The results of a run as JSON and as a page. Pure. */
import { createHash } from 'node:crypto'
import { VERDICTS, type Verdict } from './judge.ts'
import type { CellResult } from './suite.ts'

export type Scorecard = {
  readonly suite: string
  readonly system: {
    readonly name: string
    readonly label: string
    readonly version: string
    readonly configuration: string
  }
  readonly command: string
  readonly date: string
  readonly machine: string
  readonly runs: number
  /** Waits are a tenth: a check of a set-up, never published. */
  readonly quick: boolean
  readonly cells: readonly CellResult[]
  /** SHA-256 of the cells. */
  readonly digest: string
}

export const digestOf = (cells: readonly CellResult[]): string =>
  createHash('sha256').update(JSON.stringify(cells)).digest('hex')

export const counts = (cells: readonly CellResult[]): Readonly<Record<Verdict, number>> => {
  const found = { pass: 0, partial: 0, safe: 0, fail: 0, 'n/a': 0, 'not run': 0 }
  for (const { verdict } of cells) found[verdict]++
  return found
}

export const FAMILIES: Readonly<Record<string, string>> = {
  a: 'before content',
  b: 'in the stream',
  c: 'hard but right',
  d: 'conduct',
  e: 'recovery',
  f: 'truth',
  g: 'isolation',
}

const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
const isBad = ({ verdict }: CellResult) => verdict !== 'pass' && verdict !== 'n/a'

/** Misses first, then each family: no sum over families. */
export const pageOf = (card: Scorecard): string => {
  const { system, cells } = card
  const misses = cells.filter(isBad).toSorted((a, b) => VERDICTS.indexOf(b.verdict) - VERDICTS.indexOf(a.verdict))
  const why = ({ runs, reason }: CellResult) => {
    const run = runs.find((one) => one.checks.length > 0 || one.error) ?? runs[0]
    const checks = (run?.checks ?? []).map(({ name, found }) => (found === undefined ? name : `${name} (${found})`))
    return (reason ?? (checks.join('; ') || Object.keys(run?.kinds ?? {}).join(', '))).replaceAll('|', '\\|')
  }
  return [
    `# ${system.label} ${system.version}`,
    '',
    `\`${card.command}\` · ${card.date} · ${card.machine} · runs a cell: ${card.runs}, the worst counts${card.quick ? ' · quick: not for publication' : ''}`,
    '',
    row(['family', 'pass', 'partial', 'safe', 'fail', 'n/a', 'not run']),
    row(Array.from({ length: 7 }, () => '---')),
    ...Object.entries(FAMILIES).map(([family, title]) => {
      const found = counts(cells.filter(({ id }) => id.startsWith(family)))
      return row([
        `${family.toUpperCase()} ${title}`,
        ...(['pass', 'partial', 'safe', 'fail', 'n/a', 'not run'] as const).map((one) => String(found[one])),
      ])
    }),
    '',
    row(['not passed', 'style', 'verdict', 'why', 'source']),
    row(['---', '---', '---', '---', '---']),
    ...misses.map((cell) =>
      row([`${cell.id.toUpperCase()} ${cell.title}`, cell.style, cell.verdict, why(cell), cell.source]),
    ),
    '',
  ].join('\n')
}

/** Cells that are worse than in an earlier scorecard. */
export const regressions = (before: readonly CellResult[], now: readonly CellResult[]): readonly string[] =>
  now.flatMap(({ id, style, verdict }) => {
    const earlier = before.find((one) => one.id === id && one.style === style)?.verdict
    const isWorse = earlier !== undefined && VERDICTS.indexOf(verdict) > VERDICTS.indexOf(earlier)
    return isWorse ? [`${id} ${style}: ${earlier} before, ${verdict} now`] : []
  })
