/** What was measured, as the part of bench/RESULTS.md between two marks; the rest of the page is written by hand. Pure. */
import { type Figure, type Found, find, ROW_NAMES, ROWS, type Round, type RowName, wrongs } from './figures.ts'

export type Machine = {
  readonly cpu: string
  readonly cores: number
  readonly kernel: string
  readonly memoryGb: number
  readonly descriptors: number
}
/** Program and version. */
export type Versions = Readonly<Record<string, string>>

type Run = {
  /** UTC, to the minute. */
  readonly at: string
  /** With `+` where the sources were not as committed. */
  readonly commit: string
  readonly command: string
  readonly machine: Machine
  readonly versions: Versions
}

/** The newest run of a row, as bench/results/<row>.json holds it. */
export type Result = Run & {
  readonly row: RowName
  readonly rounds: readonly Round[]
  /** Why it could not be measured here. */
  readonly skipped?: string
  /** What a reader has to know of it: other circumstances than the row says. */
  readonly notes?: readonly string[]
}

export type Share = { readonly name: string; readonly place: string; readonly percent: number }
/** The newest profile of a row, as bench/profiles/<row>.json holds it. */
export type ProfileResult = Run & {
  readonly row: RowName
  /** Samples in the window, without those in which it had nothing to do. */
  readonly busyMs: number
  readonly top: readonly Share[]
  readonly areas: Readonly<Record<string, number>>
}

export const BEGIN = '<!-- measured: written by npm run bench -->'
export const END = '<!-- /measured -->'

const cell = (words: string): string => words.replaceAll('|', '\\|')
const line = (cells: readonly string[]): string => `| ${cells.map(cell).join(' | ')} |`
export const markdown = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')

/** Three digits that count; whole from a hundred on, with commas. */
export const digits = (value: number | undefined): string => {
  if (value === undefined) return '–'
  const size = Math.abs(value)
  if (size >= 100) return Math.round(value).toLocaleString('en-US')
  if (Number.isInteger(value)) return String(value)
  return value.toFixed(size >= 10 ? 1 : size >= 1 ? 2 : 3)
}

const withUnit = (value: number | undefined, { unit }: Figure): string =>
  value === undefined ? '–' : [digits(value), unit === '/s' ? '' : unit].filter((word) => word !== '').join(' ')

const inWords = (figure: Figure, value: number | undefined): string => {
  if (figure.as === 'ratio') return value === undefined ? '–' : `${value.toFixed(2)} ×`
  if (figure.as === 'difference') return value === undefined ? '–' : `${value < 0 ? '' : '+'}${withUnit(value, figure)}`
  return withUnit(value, figure)
}

const spread = (figure: Figure, { low, high }: Found): string =>
  low === undefined || high === undefined || low === high
    ? ''
    : ` (${[low, high].map((value) => (figure.as === 'ratio' ? value.toFixed(2) : digits(value))).join('–')})`

const target = (figure: Figure): string => {
  if (figure.most !== undefined) return `≤ ${bound(figure, figure.most)}`
  return figure.least !== undefined ? `≥ ${bound(figure, figure.least)}` : 'reported'
}
const bound = (figure: Figure, value: number): string => {
  if (figure.as === 'ratio') return `${value} ×`
  return `${figure.as === 'difference' ? '+' : ''}${value}${figure.unit === '' ? '' : ` ${figure.unit}`}`
}

const MET = { yes: 'yes', no: '**no**', unknown: '**not measured**', 'no target': '' } as const

const HEAD = [
  'workload',
  'measured',
  'against',
  'headgate',
  'median of the rounds (least–most)',
  'target',
  'met',
  'rounds',
]

/** Cores that were busy with something else during the worst window, where that is worth saying. */
const noiseOf = (rounds: readonly Round[]): string => {
  const most = Math.max(0, ...rounds.flatMap((round) => Object.values(round).map(({ numbers }) => numbers.noise ?? 0)))
  return most > 0.2 ? `, neighbours took up to ${most.toFixed(1)} cores` : ''
}

const rowLines = (name: RowName, result: Result | undefined): readonly (readonly string[])[] => {
  const { what, figures } = ROWS[name]
  const title = `\`${name}\`: ${what}`
  if (!result) return [[title, 'not measured yet', '', '', '', '', '', '']]
  if (result.skipped !== undefined) return [[title, `skipped: ${result.skipped}`, '', '', '', '', '', '']]
  const wrong = wrongs(result.rounds)
  return figures.map((figure: Figure, at): readonly string[] => {
    const found = find(figure, result.rounds)
    const base = figure.base === undefined ? '' : withUnit(found.base, figure)
    return [
      at === 0 ? title : '',
      figure.what,
      figure.base === undefined ? '' : `${figure.base === 'nginx' ? '' : `${figure.base}: `}${base}`,
      withUnit(found.ours, figure),
      inWords(figure, found.value) + spread(figure, found),
      target(figure),
      wrong.length > 0 ? `**failed**: ${wrong.join('; ')}` : MET[found.met],
      at === 0 ? result.rounds.length + noiseOf(result.rounds) : '',
    ]
  })
}

/** One row by itself. */
export const table = (result: Result): string =>
  markdown(HEAD, rowLines(result.row, result)) + (result.notes ?? []).map((note) => `\n${note}`).join('')

const machineWords = ({ cpu, cores, kernel, memoryGb, descriptors }: Machine): string =>
  `${cpu}, ${cores} cores, ${memoryGb} GB, Linux ${kernel}, ${digits(descriptors)} descriptors a process`
const versionWords = (versions: Versions): string =>
  Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(', ')

/** Each of them once, and of whom: most runs share theirs. */
const shared = (runs: readonly (Run & { readonly row: RowName })[], words: (run: Run) => string): string => {
  const by = Map.groupBy(runs, words)
  return [...by]
    .map(([text, same]) => (by.size === 1 ? text : `${text} (${same.map(({ row }) => `\`${row}\``).join(', ')})`))
    .join('; ')
}

const inOrder = <T extends { readonly row: RowName }>(of: readonly T[]): readonly T[] =>
  ROW_NAMES.flatMap((name) => of.find(({ row }) => row === name) ?? [])

export const verdicts = (results: readonly Result[]): { readonly met: number; readonly of: number } => {
  const all = inOrder(results).flatMap(({ row, rounds }) =>
    ROWS[row].figures.map((figure: Figure) => (wrongs(rounds).length > 0 ? 'no' : find(figure, rounds).met)),
  )
  const judged = all.filter((met) => met !== 'no target')
  return { met: judged.filter((met) => met === 'yes').length, of: judged.length }
}

const measuredPart = (results: readonly Result[]): readonly string[] => {
  const { met, of } = verdicts(results)
  const notes = results.flatMap(({ row, notes = [] }) => notes.map((note) => `- \`${row}\`: ${note}`))
  return [
    '## Measured',
    '',
    `Machine: ${shared(results, ({ machine }) => machineWords(machine))}.`,
    `Versions: ${shared(results, ({ versions }) => versionWords(versions))}.`,
    `headgate at ${shared(results, ({ commit }) => commit)}${results.some(({ commit }) => commit.endsWith('+')) ? ' (+: with changes not committed yet)' : ''}.`,
    `When, UTC: ${shared(results, ({ at }) => at.slice(0, 10))}. By: ${shared(results, ({ command }) => `\`${command}\``)}.`,
    '',
    'The gateway has core 0 to itself with all its features on, load and provider have core 1. Within a round the',
    'contestants follow each other in seconds; a comparison is made in each round, and the median of these counts. CPU is',
    'user and system time of the process and its children. Every answer was compared byte by byte.',
    '',
    markdown(
      HEAD,
      ROW_NAMES.flatMap((name) =>
        rowLines(
          name,
          results.find(({ row }) => row === name),
        ),
      ),
    ),
    '',
    `${met} of ${of} targets are met.`,
    ...(notes.length > 0 ? ['', ...notes] : []),
  ]
}

/** What a request is made of, and a chunk. */
const TOP: readonly (readonly [RowName, string])[] = [
  ['chat-1k', 'A small request'],
  ['stream-20ms', 'A chunk'],
]

const profilePart = (profiles: readonly ProfileResult[]): readonly string[] => {
  if (profiles.length === 0) return []
  const areas = [...new Set(profiles.flatMap((profile) => Object.keys(profile.areas)))]
  const sum = (area: string): number => profiles.reduce((total, profile) => total + (profile.areas[area] ?? 0), 0)
  const percent = (value: number | undefined): string => (value === undefined ? '' : value.toFixed(1))
  return [
    '',
    '## Profiles',
    '',
    `By \`--cpu-prof\`, in runs of their own (${shared(profiles, ({ command }) => `\`${command}\``)}), headgate at ${shared(profiles, ({ commit }) => commit)}. Percent of the time in which it was busy, each function`,
    'without what it called. Flame graphs: ' +
      profiles.map(({ row }) => `[${row}](profiles/${row}.svg)`).join(', ') +
      '.',
    '',
    markdown(
      ['area', ...profiles.map(({ row }) => `\`${row}\``)],
      areas
        .toSorted((a, b) => sum(b) - sum(a))
        .map((area) => [area, ...profiles.map((profile) => percent(profile.areas[area]))]),
    ),
    ...TOP.flatMap(([name, title]) => {
      const profile = profiles.find(({ row }) => row === name)
      if (!profile) return []
      const rows = profile.top.map(({ name, place, percent: share }) => [`\`${name}\``, place, percent(share)])
      return ['', `${title} (\`${profile.row}\`):`, '', markdown(['function', 'where', '%'], rows)]
    }),
  ]
}

/** What stands between the marks. */
export const measured = (results: readonly Result[], profiles: readonly ProfileResult[]): string =>
  [...measuredPart(inOrder(results)), ...profilePart(inOrder(profiles))].join('\n')

/** The page with another measured part. One without marks gets them after its first paragraph. */
export const withMeasured = (page: string, part: string): string => {
  const made = `${BEGIN}\n\n${part}\n\n${END}`
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (begin >= 0 && end > begin) return page.slice(0, begin) + made + page.slice(end + END.length)
  if (begin >= 0 || end >= 0) throw new Error('RESULTS.md has one of the two marks, or they stand the wrong way round')
  const at = page.indexOf('\n## ')
  return at < 0 ? `${page.trimEnd()}\n\n${made}\n` : `${page.slice(0, at)}\n${made}\n${page.slice(at)}`
}
