/**
 * Runs the conformance and conversation tests, prints tables of the results, and writes docs/conformance.md.
 *
 *   npm run conformance
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROWS_VARIABLE, type Row } from '../../test/conformance/tally.ts'
import { type Report, readReports } from '../../test/reported/reports.ts'
import { LONG_VARIABLE } from '../../test/support/lane.ts'

export const PAGE = join(import.meta.dirname, '../../docs/conformance.md')

/** A new file for the rows of this run. `done` removes it. */
export const newRows = (): { readonly file: string; readonly done: () => void } => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-conformance-'))
  return { file: join(folder, 'rows'), done: () => rmSync(folder, { recursive: true }) }
}

const FOLDERS = ['test/conformance/', 'test/conversations/']

/** Whether a test file writes rows for the page. */
export const isPartOfPage = (file: string): boolean => FOLDERS.some((folder) => file.startsWith(folder))

/** Tables of the project's own exchanges, and of their validation with schemas that are stored with the recordings. */
const OWN = ['own exchanges', 'own streams', 'own answers']
const OWN_BY_SCHEMA = 'own exchanges by schema'

/** All rows that the tests wrote, sorted. */
const everyRow = (file: string): readonly Row[] => {
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .sort()
  // `Tally.print` wrote them.
  return lines.map((line) => JSON.parse(line) as Row)
}

/** The rows that the tests wrote, sorted; empty without the recordings, because the page needs all rows. */
export const readRows = (file: string): readonly Row[] => {
  const rows = everyRow(file)
  return rows.every(({ table }) => [CONVERSATIONS, ...OWN, OWN_BY_SCHEMA].includes(table)) ? [] : rows
}

/** The rows of the project's own exchanges, which every clone has. */
export const readOwnRows = (file: string): readonly Row[] => everyRow(file).filter(({ table }) => OWN.includes(table))

const sum = (counts: Iterable<number>): number => [...counts].reduce((total, count) => total + count, 0)
const of = (rows: readonly Row[], ...tables: readonly string[]): readonly Row[] =>
  rows.filter((row) => tables.includes(row.table))
/** A line of the first table: title, checks passed, checks failed. */
const counted = (title: string, rows: readonly Row[]): string =>
  `| ${title} | ${sum(rows.map(({ passed }) => passed))} | ${sum(rows.map(({ failed }) => failed))} |`

/** `744`, or `743 of 744` if a check failed. */
const score = (row: Row | undefined): string => {
  if (!row) return ''
  return row.failed === 0 ? String(row.passed) : `**${row.passed} of ${row.passed + row.failed}**`
}

/** A Markdown table; columns of numbers are aligned right. */
const tableOf = (head: readonly string[], lines: readonly (readonly string[])[]): string => {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  const isNumber = (column: number) =>
    lines.every((cells) => /^$|^(\*\*)?\d+( of \d+)?(\*\*)?$/.test(cells[column] ?? ''))
  return [line(head), line(head.map((_, at) => (isNumber(at) ? '--:' : '---'))), ...lines.map(line)].join('\n')
}

/** A table of rows named `<subject> <column>`, one line for each subject. */
const crossed = (rows: readonly Row[], head: readonly string[], columns: readonly string[]): string => {
  const subjects = new Map<string, Map<string, Row>>()
  for (const row of rows) {
    const column = columns.find((each) => row.name.endsWith(` ${each}`)) ?? ''
    const subject = row.name.slice(0, row.name.length - column.length - 1)
    subjects.set(subject, (subjects.get(subject) ?? new Map()).set(column, row))
  }
  return tableOf(
    [...head, ...columns],
    [...subjects].map(([subject, cells]) => [
      ...subject.split(' → '),
      ...columns.map((column) => score(cells.get(column))),
    ]),
  )
}

const recordings = (rows: readonly Row[]): string => {
  const used = rows.filter(({ passed }) => passed > 0)
  const excluded = rows.flatMap((row) =>
    Object.entries(row.excluded).map(([why, times]) => [row.name, String(times), why] as const),
  )
  const usedCount = sum(used.map(({ passed }) => passed))
  const excludedCount = sum(excluded.map(([, times]) => Number(times)))
  return `${tableOf(
    ['used as', 'recordings'],
    [
      ...used.map((row) => [row.name, score(row)]),
      ['excluded', String(excludedCount)],
      ['**total**', `**${usedCount + excludedCount}**`],
    ],
  )}

Excluded recordings, by API:

${tableOf(
  ['API', 'recordings', 'reason'],
  excluded.map((cells) => [...cells]),
)}`
}

/** The results of a request other than `valid`, by the reason that the test recorded. */
const OUTCOMES: readonly (readonly [title: string, reason: RegExp])[] = [
  ['unfit', /^unfit for /],
  ['invalid here and upstream', /^invalid here and upstream$/],
  ['unsupported', /^unsupported: /],
  ['invalid by its own schema', /^invalid by its own schema$/],
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
    const members = reasons
      .sort(([a, most], [b, more]) => more - most || (a < b ? -1 : 1))
      .map(([why, times]) => `${times} × \`${why.replace(/^(unfit for|unsupported:) /, '')}\``)
    return members.length === 0 ? [] : [[...name.split(' request → '), members.join('; ')]]
  })
  return `${tableOf(['client', 'upstream', 'valid', ...OUTCOMES.map(([title]) => title)], lines)}

The members that make requests unfit or unsupported:

${tableOf(['client', 'upstream', 'members'], named)}`
}

const notes = (rows: readonly Row[]): string =>
  rows
    .flatMap(({ name, noted }) => Object.entries(noted).map(([why, times]) => `- ${name}: ${times} × ${why}`))
    .join('\n')

/** The table of the conversation tests, which need no recordings. */
export const CONVERSATIONS = 'conversations'

/** The page without the results of conversations, of which most runs test only a part. */
export const withoutConversations = (text: string): string =>
  text
    .replace(/^- \*\*The vendor changes in a conversation\*\*[\s\S]*?\n\n/m, '')
    .replace(/^## Conversations across vendors\n[\s\S]*?(?=^## )/m, '')

const TURN_RESULTS = ['repeated', 'failed over', 'cannot', 'not tried', 'refused'] as const

/** Turns and their results by vendor or by client, the two parts of a row's name (`<vendor> ← <client>`). */
const turns = (rows: readonly Row[], title: string, part: 0 | 1): string => {
  const groups = Map.groupBy(rows, ({ name }) => name.split(' ← ')[part] ?? '')
  const lines = [...groups].map(([name, group]) => {
    const counts = TURN_RESULTS.map((outcome) => sum(group.map(({ excluded }) => excluded[outcome] ?? 0)))
    const answered = sum(group.map(({ passed }) => passed))
    return [name, answered + sum(counts), answered, ...counts].map(String)
  })
  return tableOf([title, 'turns', 'answered', ...TURN_RESULTS], lines)
}

/** A share in whole percent, rounded down: 100 % means all. */
const percent = (part: number, whole: number): string => (whole === 0 ? '' : `${Math.floor((100 * part) / whole)} %`)

/** What the results mean for someone who chooses a provider for a client. */
const conclusion = (rows: readonly Row[]): string => {
  const pairs = of(rows, 'requests').map((row) => {
    const [client = '', upstream = ''] = row.name.split(' request → ')
    const unfit = sum(Object.entries(row.excluded).flatMap(([why, times]) => (/^unfit/.test(why) ? [times] : [])))
    return { client, upstream, share: percent(row.passed, row.passed + row.failed + unfit) }
  })
  const upstreams = [...new Set(pairs.map(({ upstream }) => upstream))].filter((name) => name !== '')
  const carried = [...Map.groupBy(pairs, ({ client }) => client)].map(([client, own]) => [
    client,
    ...upstreams.map((upstream) => own.find((pair) => pair.upstream === upstream)?.share ?? ''),
  ])
  const turns = of(rows, CONVERSATIONS)
  const count = (result: string) => sum(turns.map(({ excluded }) => excluded[result] ?? 0))
  const answered = sum(turns.map(({ passed }) => passed))
  const all = answered + sum(TURN_RESULTS.map(count))
  const failed = sum(rows.map((row) => row.failed))
  return `## In short

- **The same format** on both sides: the request is changed only where it must be, and the answer passes through with its bytes.
- **Answers** in another format lose nothing that the client's format can express: text, tool calls, reasoning, citations, finish
  reason and token counts are compared, ${failed === 0 ? 'and no check fails' : `and ${failed} checks fail`}.
- **Requests** are sent to another format only if it can carry them. The gateway tries another target for the rest, and the client
  gets 400 \`unsupported_parameter\` if there is none. Of the recorded requests, most of which try a feature,
  these shares can be carried:

${tableOf(['client', ...upstreams.map((name) => `to ${name}`)], carried)}

- **The vendor changes in a conversation**: of ${all} turns after the first, the vendor that was wanted answered
  ${answered + count('repeated')}, another one ${count('failed over') + count('cannot') + count('not tried')}, and the client received an error in ${count('refused')}.

[Requests](#requests-translated-to-every-upstream-format) lists the members that cannot be carried.`
}

/** The part of the page about conversations in which the vendor changes. */
const conversationsPart = (conversations: readonly Row[]): string => `## Conversations across vendors

Conversations of three turns with tools, reasoning, images and schemas, over all ordered pairs of
${new Set(conversations.map(({ name }) => name.split(' ← ')[0])).size} simulated vendors. A simulated vendor rejects what
the real vendor rejects; \`test/conversations/rules\` has every rule with its public source. The first vendor answers the
first turn. In the second turn it is down, rate-limited or removed from the route; in the third it returns or stays away.
Clients send back what the gateway returned to them. The last target of every route is a vendor that rejects nothing. The
tables count the second and third turns:

| column | meaning |
| --- | --- |
| answered | answered by the vendor of this turn |
| repeated | answered by it after it rejected one attempt |
| failed over | answered by another vendor after it rejected the request |
| cannot | answered by another vendor, because its model lacks tools or vision |
| not tried | answered by another vendor without need |
| refused | the client received an error |

\`test/conversations/known.json\` lists every known problem by rule.

${turns(conversations, 'vendor', 0)}

${turns(conversations, 'client', 1)}`

/** The part of the page about the project's own exchanges, which every clone can check. */
export const ownPart = (rows: readonly Row[]): string => {
  const own = rows.filter(({ table }) => OWN.includes(table))
  const [passed, failed] = [sum(own.map(({ passed }) => passed)), sum(own.map((row) => row.failed))]
  const eventOrder = of(rows, 'own streams').filter(({ name }) => name.endsWith(' event order'))
  return `## The project's own exchanges

\`test/exchanges\` has one request with its answer for each format and feature ([README](../test/exchanges/README.md)).
Every clone has them: **${passed} checks pass, ${failed} fail.**

| column | check |
| --- | --- |
| request (whole), request (stream) | the request in chat completions is encoded to the request in the file |
| decoded | the answer is decoded to the content in the file |
| independent reader | a reader that shares no code with the decoders finds the same content |
| event order | blocks do not interleave, the stream has one end; finish reason, id and model are kept |
| byte by byte, split in two | every chunk boundary gives the same events |
| truncated | a stream without its last message is a failure, never a complete answer |
| signature returned | a reasoning signature that a client sends back reaches the provider unchanged |

${crossed([...of(rows, 'own exchanges'), ...eventOrder], ['upstream'], EXCHANGE_COLUMNS)}

Each answer, whole and streamed, translated to every client format (columns as for recordings, below):

${crossed(of(rows, 'own answers'), ['upstream', 'client'], ANSWER_COLUMNS)}`
}

const EXCHANGE_COLUMNS = [
  ...['request (whole)', 'request (stream)', 'decoded', 'independent reader', 'event order', 'byte by byte'],
  ...['split in two', 'truncated', 'signature returned'],
]
const ANSWER_COLUMNS = ['whole', 'streamed', 'passed through', 'errors']

/** The part of the page about situations from public bug reports. */
export const reportedPart = (topics: ReadonlyMap<string, readonly Report[]>): string => `## Reported in public

Situations that users of gateways, clients and vendors reported in public trackers. Each has a test of the situation's
kind, not only of the reported example. \`test/reported\` has one file for each topic.

${tableOf(
  ['situation', 'reports', 'test'],
  [...topics.values()]
    .flat()
    .map(({ kind, threads, test, name }) => [kind, threads.join(', '), `\`${test}\`: ${name}`]),
)}`

/** The whole page. */
export const page = (rows: readonly Row[]): string => {
  const answers = of(rows, 'answers')
  const conversations = of(rows, CONVERSATIONS)
  const checked = rows.filter(({ table }) => ![CONVERSATIONS, 'recordings', ...OWN, OWN_BY_SCHEMA].includes(table))
  const bySchema = of(rows, OWN_BY_SCHEMA)
  return `<!-- Generated by \`npm run conformance\` (scripts/pages/conformance.ts). Do not edit. -->
# Conformance

This page shows how the translation between API formats is tested, and the results. Two kinds of evidence are used: the
project's own exchanges, which every clone has, and recordings of real provider traffic, which are not part of the
repository.

${conclusion(rows)}

${conversationsPart(conversations)}

## How it is tested

    npm run conformance

runs the tests, prints these tables and writes this page.

| evidence | checks passed | failed |
| --- | --: | --: |
${counted("the project's own exchanges", of(rows, ...OWN))}
${counted('the same, validated with published schemas', bySchema)}
${counted('recordings', checked)}

\`npm run test:conformance\` runs the same tests and fails if this page is out of date. Without the recordings, tests that
need them are skipped and only the tables of the own exchanges are compared. A cell is the number of checks that passed;
\`743 of 744\` means that one failed. An empty cell means that there is no such case.

${ownPart(rows)}

## Recordings

Each recording is in exactly one row, or excluded with a reason. The total is the number of files.

${recordings(of(rows, 'recordings'))}

## Answers, translated to every client format

Each recorded answer is decoded as the gateway decodes it, in chunks of uneven size, and translated to every client
format. The content is read from the recording and from the translation by a reader that shares no code with the codecs,
and must be equal: text, refusal, reasoning, tool calls with ids and arguments, cited URLs, finish reason and token counts
(including cached and reasoning tokens). Parts that a client format cannot express are listed in the expectation by name.
Every body and event is validated with the published schema, relaxed only where the live API is known to differ.

| column | check |
| --- | --- |
| whole | one body |
| streamed | a stream, whether the recording is one or not; in the order that the official clients require, with the content of the whole answer |
| passed through | client and upstream use the same format: bodies and events pass through with the same content |
| errors | an error in the client's format with the documented status; and as an event in a stream that has started |

${crossed(answers, ['upstream', 'client'], ANSWER_COLUMNS)}

Parts that no published schema has are excluded from validation:

${notes(answers)}

## Decoding

| column | check |
| --- | --- |
| event order | blocks do not interleave, the stream has one end; finish reason, id, model and provider-specific blocks are kept |
| chunk boundaries | the whole body, uneven chunks and single bytes give the same events |
| truncated | a stream cut at up to eight positions, the last right before its final message, is a failure, never complete |

${crossed(of(rows, 'streams'), ['upstream'], ['event order', 'chunk boundaries', 'truncated'])}

## Requests, translated to every upstream format

Every recorded request, including those of recorded client programs, is translated to every upstream format. No member may
disappear: each is removed in turn, and then the encoded request or the reported losses must change, unless a rule states
why its absence is equivalent.

| column | meaning |
| --- | --- |
| valid | the encoded request is valid by the vendor's published schema (Cohere and Ollama: written from their documentation) |
| unfit | the format cannot carry the named member without changing the meaning; the gateway tries another target |
| invalid here and upstream | the recorded provider rejected the request too |
| unsupported | no upstream format can express the request |
| invalid by its own schema | the recorded request is invalid by its own published schema |

${requests(of(rows, 'requests'))}

## Other calls

${tableOf(
  ['call', 'recordings'],
  of(rows, 'other calls').map((row) => [row.name, score(row)]),
)}

${reportedPart(readReports())}

## Further tests

- \`test/conformance/roundtrip.test.ts\`: encoding and decoding return the same request and answer, for generated values; and
  chunk boundaries change no event.
- \`test/conformance/errors.test.ts\`: every recorded and every quoted error is classified by a row with its evidence.
- \`test/conformance/open-responses\`: the compliance suite of Open Responses with every upstream format.
- \`src/protocols/*/recordings.test.ts\`: features of one format, such as signatures that return unchanged.
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
  const tests = spawnSync(process.execPath, [join(import.meta.dirname, '..', 'test.ts'), ...FOLDERS], {
    stdio: 'inherit',
    env: { ...process.env, [ROWS_VARIABLE]: file, [LONG_VARIABLE]: '1' },
  })
  const rows = readRows(file)
  done()
  if (rows.length === 0) process.stdout.write('The recordings are not present, so the page was not written.\n')
  const failed = rows.length === 0 ? 0 : print(rows)
  process.exitCode = failed === 0 ? (tests.status ?? 1) : 1
}
