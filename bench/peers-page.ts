/** Writes docs/compare.md from bench/peers/*.json and bench/peers.json. Every number of a row is one of its file. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Machine, markdown, type Versions } from './page.ts'

export const PEER_NAMES = ['nginx', 'Headgate', 'Portkey', 'LiteLLM'] as const
export type PeerName = (typeof PEER_NAMES)[number]

const PEER_ROWS = {
  'chat-1k': { title: 'CPU time of a request of 1 KB', unit: 'µs' },
  'stream-20ms': { title: 'CPU time of a piece of a stream, one each 20 ms', unit: 'µs' },
  'first-answer': { title: 'CPU time from the start of the process to its first answer', unit: 'ms' },
  memory: { title: 'memory after the requests of 1 KB', unit: 'MB' },
  size: { title: 'installed size, with all packages, without the runtime', unit: 'MB' },
} as const
export type PeerRow = keyof typeof PEER_ROWS
const ROW_NAMES: readonly PeerRow[] = ['chat-1k', 'stream-20ms', 'first-answer', 'memory', 'size']

/** The newest run of a row. */
export type PeerRun = {
  readonly row: PeerRow
  /** The day, in UTC. */
  readonly at: string
  readonly command: string
  readonly machine: Machine
  /** The load average of the machine at the end; other programs ran on it. */
  readonly load: number
  readonly versions: Versions
  /** Each measured value. */
  readonly numbers: Partial<Record<PeerName, readonly number[]>>
}

/** What is written by hand about each peer, with the page of its own documentation. */
type Hand = {
  readonly runs: Partial<Record<PeerName, string>>
  /** What peers have and Headgate has not: the feature, who has it, and their page. */
  readonly lacks: readonly (readonly [feature: string, peer: string, page: string])[]
  readonly unmeasured: readonly string[]
}

/** Scorecards of the fault suite, in short. Counts: pass, partial, safe, fail, not run. */
type FaultRows = {
  readonly at: string
  readonly machine: string
  readonly systems: readonly {
    readonly name: string
    readonly version: string
    readonly runs: number
    readonly command: string
  }[]
  readonly families: readonly {
    readonly family: string
    readonly counts: Readonly<Record<string, readonly number[]>>
  }[]
  readonly misses: Readonly<
    Record<string, readonly (readonly [title: string, verdict: string, styles: readonly string[]])[]>
  >
}

const faultSection = ({ at, machine, systems, families, misses }: FaultRows): string => `## Faults

The [fault suite](../suite/README.md): sixty scenarios, 142 cells. Each field is pass / partial / safe / fail / not run; there is no sum over families. Preliminary: ${at},
a busy machine (${machine}), Headgate unreleased, and fewer runs than the five of a published scorecard. Other gateways are shown
when five runs of each cell on a quiet machine give the same twice, and their makers have had a week to answer; the suite has their set-ups.

${markdown(
  ['family', ...systems.map(({ name }) => name)],
  families.map(({ family, counts }) => [family, ...systems.map(({ name }) => (counts[name] ?? []).join(' / '))]),
)}

${markdown(
  ['Headgate did not pass', 'verdict', 'styles'],
  (misses.Headgate ?? []).map(([title, verdict, styles]) => [title, verdict, styles.join(', ')]),
)}

A verdict of safe is an error that the SDK raises, in place of a rescued answer.

${markdown(
  ['gateway', 'version', 'runs a cell', 'command'],
  systems.map(({ name, version, runs, command }) => [name, version, String(runs), `\`${command}\``]),
)}
`

export const readRuns = (
  folder: string,
): { readonly runs: readonly PeerRun[]; readonly hand: Hand; readonly faults: FaultRows } => ({
  // Written by bench/peers.ts.
  runs: ROW_NAMES.map((row) => JSON.parse(readFileSync(join(folder, `${row}.json`), 'utf8')) as PeerRun),
  faults: JSON.parse(readFileSync(join(folder, 'faults.json'), 'utf8')) as FaultRows,
  // Written by this project.
  hand: JSON.parse(readFileSync(join(folder, '..', 'peers.json'), 'utf8')) as Hand,
})

/** The value in the middle, which is one of the values; of two, the lower one. */
const middle = (list: readonly number[]): number =>
  list.toSorted((one, other) => one - other)[(list.length - 1) >> 1] ?? Number.NaN

const cell = (list: readonly number[] | undefined): string => {
  if (!list || list.length === 0) return '–'
  const [low, high] = [Math.min(...list), Math.max(...list)]
  return low === high ? String(low) : `${middle(list)} (${low}–${high})`
}

/** How much more Headgate needs than the gateway that needs least, without nginx, which is no gateway for models. */
const weakness = ({ numbers }: PeerRun): number => {
  const others = PEER_NAMES.filter((name) => name !== 'Headgate' && name !== 'nginx')
  const best = Math.min(...others.flatMap((name) => (numbers[name] ? [middle(numbers[name])] : [])))
  return middle(numbers.Headgate ?? []) / best
}

const rowOf = (run: PeerRun): readonly string[] => {
  const { title, unit } = PEER_ROWS[run.row]
  return [
    `${title} (${unit})`,
    ...PEER_NAMES.map((name) => cell(run.numbers[name])),
    `[${run.row}.json](../bench/peers/${run.row}.json)`,
  ]
}

const sourceOf = ({ row, at, command, machine, load }: PeerRun): readonly string[] => [
  row,
  at,
  `${machine.cores} cores ${machine.cpu}, ${machine.memoryGb} GB, load ${load}`,
  `\`${command}\``,
]

/** The whole page. */
export const comparePage = ({ runs, hand, faults }: ReturnType<typeof readRuns>): string => {
  const ordered = runs.toSorted((one, other) => weakness(other) - weakness(one))
  const [first] = ordered
  const versions = PEER_NAMES.map((name) => `${name} ${first?.versions[name]}`).join(', ')
  return `# Compared with other gateways

<!-- Generated by \`node bench/peers.ts --page\` from bench/peers.json and bench/peers. Do not edit. -->

Where Headgate lacks something comes first, then figures, our weakest row first. A correction from a project named here is
merged, or its row goes.

## What Headgate lacks

${markdown(
  ['feature', 'who has it', 'their page'],
  hand.lacks.map(([feature, peer, page]) => [feature, peer, `<${page}>`]),
)}

The guides for those who come from [LiteLLM](migrate/litellm.md), [Portkey](migrate/portkey.md) and
[OpenRouter](migrate/openrouter.md) list more.

## Figures

${versions}. The middle value of all rounds, and the lowest and highest. Less is better. nginx is the floor: it forwards bytes and
knows nothing of models.

${markdown(['row', ...PEER_NAMES, 'raw'], ordered.map(rowOf))}

All run at once on one core and are measured in turn, each with the same load and the same provider on the other core; every
answer is compared with what the provider sent. Other programs ran on the machine, which raises CPU times, most of all those of
large programs: compare within a row. For the same reason there are no latencies and no requests per second here.
[RESULTS.md](../bench/RESULTS.md) has Headgate and nginx on a quiet machine.

${markdown(['row', 'date', 'machine', 'command'], ordered.map(sourceOf))}

${markdown(
  ['gateway', 'runs as'],
  PEER_NAMES.flatMap((name) => (hand.runs[name] === undefined ? [] : [[name, hand.runs[name]]])),
)}

${faultSection(faults)}
## Not measured here

${hand.unmeasured.map((one) => `- ${one}`).join('\n')}
`
}
