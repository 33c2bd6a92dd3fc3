/**
 * Runs everything that is held against the recordings, prints the tables of what came of it, and writes them to
 * docs/conformance.md.
 *
 *   npm run conformance
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROWS, type Row } from '../test/conformance/tally.ts'

export const PAGE = join(import.meta.dirname, '../docs/conformance.md')

/** Where the tests of this run may leave their rows. `done` removes it. */
export const newRows = (): { readonly file: string; readonly done: () => void } => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-conformance-'))
  return { file: join(folder, 'rows'), done: () => rmSync(folder, { recursive: true }) }
}

const FOLDERS = ['test/conformance/', 'test/conversations/']

/** Whether a test file writes rows for the page. */
export const isPartOfPage = (file: string): boolean => FOLDERS.some((folder) => file.startsWith(folder))

/** Tables of the project's own exchanges, and of their validity by schemas that lie beside the recordings. */
const OWN = ['own exchanges', 'own streams', 'own answers']
const OWN_BY_SCHEMA = 'own exchanges by schema'

/** All rows that the tests wrote, sorted. */
const everyRow = (file: string): readonly Row[] => {
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .sort()
  // The board wrote them.
  return lines.map((line) => JSON.parse(line) as Row)
}

/** The rows that the tests wrote, sorted; none where the recordings are missing, since the page needs all of them. */
export const readRows = (file: string): readonly Row[] => {
  const rows = everyRow(file)
  return rows.every(({ table }) => [CONVERSATIONS, ...OWN, OWN_BY_SCHEMA].includes(table)) ? [] : rows
}

/** The rows of the project's own exchanges, which every clone has. */
export const readOwnRows = (file: string): readonly Row[] => everyRow(file).filter(({ table }) => OWN.includes(table))

const sum = (counts: Iterable<number>): number => [...counts].reduce((total, count) => total + count, 0)
const of = (rows: readonly Row[], ...tables: readonly string[]): readonly Row[] =>
  rows.filter((row) => tables.includes(row.table))
/** A line of the first table. */
const counted = (title: string, rows: readonly Row[]): string =>
  `| ${title} | ${sum(rows.map(({ passed }) => passed))} | ${sum(rows.map(({ failed }) => failed))} |`

/** `744`, or `743 of 744` where something failed. */
const score = (row: Row | undefined): string => {
  if (!row) return ''
  return row.failed === 0 ? String(row.passed) : `**${row.passed} of ${row.passed + row.failed}**`
}

/** Columns of numbers stand to the right. */
const tableOf = (head: readonly string[], lines: readonly (readonly string[])[]): string => {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  const isNumber = (column: number) =>
    lines.every((cells) => /^$|^(\*\*)?\d+( of \d+)?(\*\*)?$/.test(cells[column] ?? ''))
  return [line(head), line(head.map((_, at) => (isNumber(at) ? '--:' : '---'))), ...lines.map(line)].join('\n')
}

/** Rows named `<what> <column>`, as a table with a line for each `what`. */
const crossed = (rows: readonly Row[], head: readonly string[], columns: readonly string[]): string => {
  const whats = new Map<string, Map<string, Row>>()
  for (const row of rows) {
    const column = columns.find((each) => row.name.endsWith(` ${each}`)) ?? ''
    const what = row.name.slice(0, row.name.length - column.length - 1)
    whats.set(what, (whats.get(what) ?? new Map()).set(column, row))
  }
  return tableOf(
    [...head, ...columns],
    [...whats].map(([what, cells]) => [...what.split(' → '), ...columns.map((column) => score(cells.get(column)))]),
  )
}

const recordings = (rows: readonly Row[]): string => {
  const taking = rows.filter(({ passed }) => passed > 0)
  const out = rows.flatMap(({ name, excluded }) =>
    Object.entries(excluded).map(([why, times]) => [name, String(times), why] as const),
  )
  const [inside, outside] = [sum(taking.map(({ passed }) => passed)), sum(out.map(([, times]) => Number(times)))]
  return `${tableOf(
    ['read as', 'recordings'],
    [
      ...taking.map((row) => [row.name, score(row)]),
      ['left out', String(outside)],
      ['**all**', `**${inside + outside}**`],
    ],
  )}

Left out, by the API they are filed under:

${tableOf(
  ['API', 'recordings', 'why'],
  out.map((cells) => [...cells]),
)}`
}

/** What becomes of a request, told from the reason it is not simply valid. */
const OUTCOMES: readonly (readonly [title: string, reason: RegExp])[] = [
  ['unfit, by name', /^unfit for /],
  ['refused, as it was upstream', /^refused here as it was refused upstream$/],
  ['of a kind nobody can be asked', /^unsupported: /],
  ['invalid by its own schema', /^not valid by its own schema either$/],
]

const requests = (rows: readonly Row[]): string => {
  const lines = rows.map((row) => {
    const counts = OUTCOMES.map(([, reason]) =>
      sum(Object.entries(row.excluded).flatMap(([why, times]) => (reason.test(why) ? [times] : []))),
    )
    return [...row.name.split(' request → '), score(row), ...counts.map((count) => (count === 0 ? '' : String(count)))]
  })
  const named = rows.flatMap(({ name, excluded }) => {
    const reasons = Object.entries(excluded).filter(([why]) => /^(unfit|unsupported)/.test(why))
    const told = reasons
      .sort(([a, most], [b, more]) => more - most || (a < b ? -1 : 1))
      .map(([why, times]) => `${times} × \`${why.replace(/^(unfit for|unsupported:) /, '')}\``)
    return told.length === 0 ? [] : [[...name.split(' request → '), told.join('; ')]]
  })
  return `${tableOf(['asked in', 'sent in', 'valid', ...OUTCOMES.map(([title]) => title)], lines)}

What the unfit ones are unfit for:

${tableOf(['asked in', 'sent in', 'member'], named)}`
}

const notes = (rows: readonly Row[]): string =>
  rows
    .flatMap(({ name, noted }) => Object.entries(noted).map(([why, times]) => `- ${name}: ${times} × ${why}`))
    .join('\n')

/** The table of the one suite that needs no recordings. */
const CONVERSATIONS = 'conversations'

const OF_A_TURN = ['repeated', 'failed over', 'cannot', 'not tried', 'refused'] as const

/** Turns by the first or the last part of the row's name, `<vendor> ← <client>`, with what became of them. */
const turns = (rows: readonly Row[], title: string, part: 0 | 1): string => {
  const groups = Map.groupBy(rows, ({ name }) => name.split(' ← ')[part] ?? '')
  const lines = [...groups].map(([name, group]) => {
    const counts = OF_A_TURN.map((outcome) => sum(group.map(({ excluded }) => excluded[outcome] ?? 0)))
    const answered = sum(group.map(({ passed }) => passed))
    return [name, answered + sum(counts), answered, ...counts].map(String)
  })
  return tableOf([title, 'turns', 'answered', ...OF_A_TURN], lines)
}

/** The part of the page that every clone can check. */
export const ownPart = (rows: readonly Row[]): string => {
  const own = rows.filter(({ table }) => OWN.includes(table))
  const [held, failed] = [sum(own.map(({ passed }) => passed)), sum(own.map((row) => row.failed))]
  const inOrder = of(rows, 'own streams').filter(({ name }) => name.endsWith(' in order'))
  return `## The project's own exchanges

\`test/exchanges\` has a request and its answer for each format and feature; its README describes what is checked. Every
clone has them: **${held} checks hold, ${failed} fail.**

${crossed([...of(rows, 'own exchanges'), ...inOrder], ['upstream'], OF_AN_EXCHANGE)}

Each answer, whole and streamed, translated to a client of every style:

${crossed(of(rows, 'own answers'), ['upstream', 'client'], OF_AN_ANSWER)}`
}

const OF_AN_EXCHANGE = [
  ...['request', 'request for a stream', 'reading', 'second reader', 'in order', 'byte by byte', 'in two pieces'],
  ...['broken off', 'signature returned'],
]
const OF_AN_ANSWER = ['whole', 'streamed', 'passed', 'errors']

/** The whole page. */
export const page = (rows: readonly Row[]): string => {
  const answers = of(rows, 'answers')
  const conversations = of(rows, CONVERSATIONS)
  const checked = rows.filter(({ table }) => ![CONVERSATIONS, 'recordings', ...OWN, OWN_BY_SCHEMA].includes(table))
  const bySchema = of(rows, OWN_BY_SCHEMA)
  return `<!-- Made by \`npm run conformance\` from what the tests found; change those. -->
# Conformance

The tests in \`test/conformance\` check translation on two kinds of evidence: the project's own exchanges, which every
clone has, and recordings of real traffic, which lie beside the project and not in it.

| evidence | checks that hold | that fail |
| --- | --: | --: |
${counted("the project's own exchanges", of(rows, ...OWN))}
${counted('the same by published schemas', bySchema)}
${counted('recordings', checked)}

    npm run conformance

runs them, prints these tables and writes this page. \`npm run test:conformance\` runs the same and fails if this page is out
of date. Where the recordings are missing, the tests that need them are skipped, and only the tables of the own exchanges
are compared.

${ownPart(rows)}

## The recordings

Each is in exactly one row, or left out for the reason given; the sum is the number of files.

${recordings(of(rows, 'recordings'))}

## What upstreams said, told to clients

Each recorded answer is read as the gateway reads it, in pieces cut at odd places, and told to a client of every style:
*whole*, as a *stream* (whatever form it came in), and *passed* on where the client speaks the upstream's own format.
What it says is read once from the recording and once from what the client is told, by a reader that shares no code with
the codecs, and must be the same: text, refusal, reasoning, tool calls with their ids and arguments, cited addresses, why
it ended, and the tokens (read from and written to a cache, reasoning). What a style has no place for is in the
expectation, by name, not in the comparison. Every body and every event is valid by the published schema (loosened only where the live
API is known to differ), streams keep the order the official clients insist on, and stream and whole say the same.
*Errors* are told in the style's own shape with the status of the contract, before and in the middle of a stream.

${crossed(answers, ['upstream', 'client'], OF_AN_ANSWER)}

No published schema has a word for some of what was said:

${notes(answers)}

## How answers are read

*In order*: one end, in its own words; blocks that do not interleave; the answer's id and model; as many blocks of the
upstream's own as there were. *Cut anywhere*: whole, in odd pieces and a byte at a time a stream gives the same events.
*Broken off*: cut at up to eight places before its end, the last right before it, a stream is \`truncated\` and never complete.

${crossed(of(rows, 'streams'), ['upstream'], ['in order', 'cut anywhere', 'broken off'])}

## What clients asked, sent to every format

Every recorded request, and those that were recorded of the clients themselves, is asked of every format: what would be
sent is valid by the vendor's published schema (Cohere's and Ollama's are written from their documents), or the target is
*unfit* with the member named, so that another is tried. Each member is also taken out in turn: then either what is sent
changes, or what is named as lost does, or the absence means the same by a rule that says why.

${requests(of(rows, 'requests'))}

## Other calls

${tableOf(
  ['call', 'recordings'],
  of(rows, 'other calls').map((row) => [row.name, score(row)]),
)}

## Conversations that change vendor

Conversations of three turns with tools, reasoning, pictures and schemas, over all ordered pairs of
${new Set(conversations.map(({ name }) => name.split(' ← ')[0])).size} fake vendors. Each fake refuses what the real vendor refuses (\`test/conversations/rules\`, every rule
with its public source). The first vendor answers the first turn. In the second it is down, rate-limited or no longer in
the route; in the third it returns or stays away. Clients send back what the gateway returned to them. A vendor that
refuses nothing is the last target of every route. Counted are the second and third turns, under the vendor whose turn it
is: *answered* by it; *repeated*: answered by it after it refused once; *failed over*: answered by another vendor after it
refused; *cannot*: answered by another vendor, since its model has no tools or no vision; *not tried*: answered by another
vendor without need; *refused*: the client got an error. \`test/conversations/known.json\` lists every problem by rule.

${turns(conversations, 'vendor', 0)}

${turns(conversations, 'client', 1)}

## Beside the tables

- \`test/conformance/roundtrip.test.ts\`: what is written in a format and read again is the same, for anything that can be
  said; and no cut between bytes changes what is read.
- \`test/conformance/errors.test.ts\`: every recorded and every quoted error is of a kind, by a row that shows what it is from.
- \`test/conformance/open-responses\`: the compliance suite of Open Responses over every format.
- \`src/protocols/*/recordings.test.ts\`: what only one format has, such as signatures that come back byte for byte.
`
}

const print = (rows: readonly Row[]): number => {
  const text = page(rows)
  const shown = text.split('\n').filter((line) => /^(\||##? )/.test(line))
  process.stdout.write(`\n${shown.join('\n')}\n\n`)
  writeFileSync(PAGE, text)
  return sum(rows.map(({ failed }) => failed))
}

if (import.meta.main) {
  const { file, done } = newRows()
  const tests = spawnSync(process.execPath, [join(import.meta.dirname, 'test.ts'), ...FOLDERS], {
    stdio: 'inherit',
    env: { ...process.env, [ROWS]: file },
  })
  const rows = readRows(file)
  done()
  if (rows.length === 0) process.stdout.write('The recordings are not here: there is nothing to tell.\n')
  const failed = rows.length === 0 ? 0 : print(rows)
  process.exitCode = failed === 0 ? (tests.status ?? 1) : 1
}
