/** All scenarios, the scripts of the wall, and a run of them against a system. */
import { BAD_KEY, BEFORE, BUSY, LIMITED } from './before.ts'
import { toolsOf } from './client.ts'
import { CONDUCT, isolation, recovery, TRUTH } from './conduct.ts'
import { type Check, type Verdict, verdictOf, worst } from './judge.ts'
import { leakOf, makeRun, plain, type Run, type Scenario } from './scenario.ts'
import type { SystemFile, Values } from './system.ts'
import { type Behaviour, type Script, VENDOR_KEYS, type Wall } from './wall.ts'
import { STYLES, type Style } from './wire.ts'
import { fallbackTool, fallbackWide, hard, WITHIN } from './within.ts'

export const scenarios = (scale: number): readonly Scenario[] => [
  ...BEFORE,
  ...WITHIN,
  ...hard(scale),
  ...CONDUCT,
  ...recovery(scale),
  ...TRUTH,
  ...isolation(scale),
]

const REFUSES: Behaviour = {
  error: {
    status: 400,
    type: 'invalid_request_error',
    code: 'invalid_value',
    message: 'The value of temperature is invalid.',
  },
}
const NO_PREFILL: Behaviour = {
  error: {
    status: 400,
    type: 'invalid_request_error',
    code: 'invalid_prefill',
    message: 'This model does not support assistant message prefill. The conversation must end with a user message.',
  },
}

/** The last message of the request is the assistant's. */
const hasPrefill = (body: string): boolean => /"role":\s*"assistant"/.test(body)

const FALLBACKS: Readonly<Record<string, Script>> = {
  ok: () => ({}),
  down: () => BUSY,
  limited: () => LIMITED(7),
  badkey: BAD_KEY,
  refuses: () => REFUSES,
  noprefill: ({ body }) => (hasPrefill(body) ? NO_PREFILL : {}),
  tool: fallbackTool,
  wide: fallbackWide,
}

/** The scripts of the wall, by the first part of a model's name. */
export const wallScripts = (all: readonly Scenario[]): ReadonlyMap<string, Script> =>
  new Map([...Object.entries(FALLBACKS), ...all.map(({ id, script }): [string, Script] => [id, script])])

export type Cell = { readonly scenario: Scenario; readonly style: Style }

export const fallbackModel = ({ scenario, style }: Cell): string => `fs-${scenario.fallback ?? 'ok'}-${style}`
export const modelOf = ({ scenario, style }: Cell, run: number): string => `fs-${scenario.id}-${style}-${run}`

/** The cells of a run. A scenario without styles has those that the gateway claims. */
export const cellsOf = (all: readonly Scenario[]): readonly Cell[] =>
  all.flatMap((scenario) => (scenario.styles ?? STYLES).map((style) => ({ scenario, style })))

/** The values of each model for a template: names, addresses, keys, and the vendor it is at. */
export const modelValues = (all: readonly Scenario[], runs: number, wall: Pick<Wall, 'urls'>): readonly Values[] =>
  cellsOf(all).flatMap((cell) =>
    Array.from({ length: runs }, (_, run) => run + 1).flatMap((run) => {
      const model = modelOf(cell, run)
      const names =
        cell.scenario.id === 'g04' ? STYLES.map((style) => model.replace('chat', style)) : [model, `${model}-sibling`]
      return names.map((name) => {
        const style = STYLES.find((one) => name.includes(`-${one}-`)) ?? cell.style
        return {
          model: name,
          group: name.replace(/-sibling$/, ''),
          style,
          fallback: fallbackModel({ ...cell, style }),
          // A gateway may share the health of an address: each scenario has its own.
          primary_url: at(cell.scenario.place === 'refused' ? wall.urls.refused : wall.urls.primary, name),
          fallback_url: wall.urls.backup,
          backup_url: at(wall.urls.backup, name),
          key: VENDOR_KEYS[0],
          keys: JSON.stringify(cell.scenario.place === 'two keys' ? VENDOR_KEYS : VENDOR_KEYS.slice(0, 1)),
        }
      })
    }),
  )

const at = (url: string, model: string): string => url.replace(/\/v1$/, `/${model.replace(/-sibling$/, '')}/v1`)

export type CellResult = {
  readonly id: string
  readonly title: string
  readonly source: string
  readonly style: Style
  readonly verdict: Verdict
  readonly runs: readonly {
    readonly verdict: Verdict
    readonly kinds: Readonly<Record<string, number>>
    readonly checks: readonly Check[]
    readonly attempts: readonly string[]
    readonly error: string
    readonly transcript: string
    readonly ms: number
  }[]
  readonly reason?: string
}

export type SuiteOptions = {
  readonly system: SystemFile
  readonly wall: Wall
  readonly scale: number
  readonly runs: number
  readonly only: readonly string[]
  /** Cells at once. */
  readonly atOnce: number
  readonly progress: (line: string) => void
}

let nonces = 0
/** Eight letters and digits, of which the last count. */
const nextNonce = (): string => {
  nonces++
  const chance = Math.floor(Math.random() * 36 ** 4)
    .toString(36)
    .padStart(4, '0')
  return `${chance}${nonces.toString(36).padStart(4, '0')}`
}

const tally = (kinds: readonly string[]) =>
  Object.fromEntries([...new Set(kinds)].map((kind) => [kind, kinds.filter((one) => one === kind).length]))

const runOnce = async (
  cell: Cell,
  number: number,
  { system, wall, scale }: SuiteOptions,
): Promise<CellResult['runs'][number]> => {
  const { scenario, style } = cell
  const model = modelOf(cell, number)
  const nonces: string[] = []
  const newNonce = () => {
    const nonce = nextNonce()
    nonces.push(nonce)
    return nonce
  }
  const attempts: Run['attempts'] = (vendor) =>
    wall.log.filter((one) => nonces.includes(one.nonce) && (vendor === undefined || one.vendor === vendor))
  const base = {
    system,
    wall,
    style,
    model,
    sibling: `${model}-sibling`,
    fallback: fallbackModel(cell),
    scale,
    attempts,
  }
  const run = makeRun(base, newNonce)
  if (scenario.drive) await scenario.drive(run)
  else await run.ask(scenario.tools ? { extra: { tools: toolsOf(style) } } : {}, scenario.expected ?? plain)
  const checks = [...(scenario.checks?.(run) ?? []), leakOf(run)]
  const kinds = run.judged.map(({ kind }) => kind)
  const verdict = verdictOf(kinds, scenario.ideal, checks)
  const shown = run.judged.find(({ kind }) => kind !== 'whole') ?? run.judged[0]
  return {
    verdict,
    kinds: tally(kinds),
    checks: checks.filter(({ ok }) => !ok),
    attempts: attempts()
      .slice(0, 12)
      .map(
        ({ vendor, attempt, at, aborted }) =>
          `${vendor} ${attempt} at ${Math.round(at - (attempts()[0]?.at ?? 0))} ms${aborted ? ', aborted' : ''}`,
      ),
    error: shown?.seen.error ?? '',
    transcript: verdict === 'pass' ? '' : (shown?.seen.transcript ?? '').slice(0, 4_096),
    ms: Math.max(0, ...run.judged.map(({ seen }) => seen.ms)),
  }
}

const runCell = async (cell: Cell, options: SuiteOptions): Promise<CellResult> => {
  const { scenario, style } = cell
  const { id, title, source } = scenario
  const about = { id, title, source, style }
  const reason =
    options.system.notClaimed[id] ?? (options.system.styles.includes(style) ? undefined : `${style} is not claimed`)
  if (reason !== undefined) return { ...about, verdict: 'n/a', runs: [], reason }
  const runs: CellResult['runs'][number][] = []
  for (let number = 1; number <= options.runs; number++) {
    try {
      runs.push(await runOnce(cell, number, options))
    } catch (error) {
      return { ...about, verdict: 'not run', runs, reason: String(error).slice(0, 200) }
    }
  }
  const verdict = worst(runs.map((run) => run.verdict))
  options.progress(`${id} ${style.padEnd(9)} ${verdict.padEnd(7)} ${title}`)
  return { ...about, verdict, runs }
}

/** Runs the scenarios: those that bear it beside each other, then the others alone. */
export const runSuite = async (options: SuiteOptions): Promise<readonly CellResult[]> => {
  const { only, scale, atOnce } = options
  const cells = cellsOf(scenarios(scale)).filter(
    ({ scenario }) => only.length === 0 || only.some((one) => scenario.id.startsWith(one)),
  )
  const found = new Map<Cell, CellResult>()
  const together = cells.filter(({ scenario }) => !scenario.alone)
  const worker = async () => {
    for (let cell = together.shift(); cell; cell = together.shift()) found.set(cell, await runCell(cell, options))
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  for (const cell of cells.filter(({ scenario }) => scenario.alone)) found.set(cell, await runCell(cell, options))
  return cells.flatMap((cell) => found.get(cell) ?? [])
}
