/** Writes the measured part of bench/RESULTS.md, between two markers; the rest is written by hand. Pure. */
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
  /** With `+` if the sources had uncommitted changes. */
  readonly commit: string
  readonly command: string
  readonly machine: Machine
  readonly versions: Versions
}

/** The newest run of a row, as bench/results/<row>.json holds it. */
export type Result = Run & {
  readonly row: RowName
  readonly rounds: readonly Round[]
  /** The reason if it could not be measured. */
  readonly skipped?: string
  /** Deviations from the description of the row. */
  readonly notes?: readonly string[]
}

export type Share = { readonly name: string; readonly place: string; readonly percent: number }
/** The newest profile of a row, as bench/profiles/<row>.json holds it. */
export type ProfileResult = Run & {
  readonly row: RowName
  /** Busy time in the window, without idle samples. */
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

/** Three significant digits; from a hundred on an integer with commas. */
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

/** The noise of the worst window in cores, if it is above 0.2. */
const noiseOf = (rounds: readonly Round[]): string => {
  const most = Math.max(0, ...rounds.flatMap((round) => Object.values(round).map(({ numbers }) => numbers.noise ?? 0)))
  return most > 0.2 ? `, other processes used up to ${most.toFixed(1)} cores` : ''
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

/** The table of one row. */
export const table = (result: Result): string =>
  markdown(HEAD, rowLines(result.row, result)) + (result.notes ?? []).map((note) => `\n${note}`).join('')

const machineWords = ({ cpu, cores, kernel, memoryGb, descriptors }: Machine): string =>
  `${cpu}, ${cores} cores, ${memoryGb} GB, Linux ${kernel}, ${digits(descriptors)} descriptors per process`
const versionWords = (versions: Versions): string =>
  Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(', ')

/** Each distinct text once, with its rows if there are several. */
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
    ROWS[row].figures.map((figure: Figure) => {
      const { met } = find(figure, rounds)
      return met !== 'no target' && wrongs(rounds).length > 0 ? 'no' : met
    }),
  )
  const withTarget = all.filter((met) => met !== 'no target')
  return { met: withTarget.filter((met) => met === 'yes').length, of: withTarget.length }
}

const measuredPart = (results: readonly Result[]): readonly string[] => {
  const { met, of } = verdicts(results)
  const notes = results.flatMap(({ row, notes = [] }) => notes.map((note) => `- \`${row}\`: ${note}`))
  return [
    '## Measured',
    '',
    `Machine: ${shared(results, ({ machine }) => machineWords(machine))}.`,
    `Versions: ${shared(results, ({ versions }) => versionWords(versions))}.`,
    `headgate at ${shared(results, ({ commit }) => commit)}${results.some(({ commit }) => commit.endsWith('+')) ? ' (+: with uncommitted changes)' : ''}.`,
    `Date (UTC): ${shared(results, ({ at }) => at.slice(0, 10))}. Command: ${shared(results, ({ command }) => `\`${command}\``)}.`,
    '',
    'The gateway runs alone on core 0 with all features on; load and provider run on core 1. Within a round the contestants',
    'follow each other within seconds. Each round is compared separately, and the median of the comparisons counts. CPU is',
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

/** Rows whose functions are listed. */
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
    `By \`--cpu-prof\`, in separate runs (${shared(profiles, ({ command }) => `\`${command}\``)}), headgate at ${shared(profiles, ({ commit }) => commit)}. Percent of the busy time, each function`,
    'without its callees. The same command draws a flame graph of each row, `bench/profiles/<row>.svg`, which is not in git.',
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

/** The text between the markers. */
export const measured = (results: readonly Result[], profiles: readonly ProfileResult[]): string =>
  [...measuredPart(inOrder(results)), ...profilePart(inOrder(profiles))].join('\n')

/** Replaces the measured part of the page. A page without markers receives them after its first paragraph. */
export const withMeasured = (page: string, part: string): string => {
  const marked = `${BEGIN}\n\n${part}\n\n${END}`
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (begin >= 0 && end > begin) return page.slice(0, begin) + marked + page.slice(end + END.length)
  if (begin >= 0 || end >= 0)
    throw new Error('RESULTS.md has only one of the two markers, or they are in the wrong order')
  const at = page.indexOf('\n## ')
  return at < 0 ? `${page.trimEnd()}\n\n${marked}\n` : `${page.slice(0, at)}\n${marked}\n${page.slice(at)}`
}
