/**
 * The fault suite: `node suite/main.ts --system systems/litellm.yaml`. Starts the wall, and the gateway if `--program` names it;
 * runs the scenarios, and writes scorecard.json and scorecard.md. Exit: 0 whatever the score, 9 for a regression against
 * `--expect`, 2 for wrong options, 1 if the gateway does not start.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { availableParallelism, cpus } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { nearestName } from './faults.ts'
import { startReference } from './reference.ts'
import { digestOf, pageOf, regressions, type Scorecard } from './scorecard.ts'
import { modelValues, runSuite, scenarios, wallScripts } from './suite.ts'
import { configText, fill, readSystem, type SystemFile, systemText, type Values } from './system.ts'
import { startWall, VENDOR_KEYS } from './wall.ts'

const OPTIONS = {
  system: { type: 'string' },
  target: { type: 'string' },
  program: { type: 'string' },
  version: { type: 'string' },
  only: { type: 'string' },
  quick: { type: 'boolean', default: false },
  runs: { type: 'string', default: '5' },
  'at-once': { type: 'string', default: '8' },
  out: { type: 'string', default: 'suite-results' },
  expect: { type: 'string' },
  'wall-port': { type: 'string', default: '8401' },
  config: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

const HELP = `The fault suite of Headgate: sixty scenarios against any gateway.

  --system FILE      how the gateway is reached and configured; a name is one of suite/systems
  --program PATH     start it, as the system file says; else it runs already
  --target URL       its base URL, in place of the system file's
  --version TEXT     its version, for the scorecard
  --config           write its configuration, and end
  --only a,b03       families or scenarios
  --quick            waits of a tenth: a check of a set-up, never published
  --runs N           runs a cell (5); the worst counts
  --at-once N        cells at once (8)
  --out FOLDER       for scorecard.json and scorecard.md (suite-results)
  --expect FILE      an earlier scorecard.json: exit 9 if a cell is worse
  --wall-port N      of the first vendor (8401); the second and the refused one follow
`

const say = (line: string): void => void process.stderr.write(`${line}\n`)
class UsageError extends Error {}

const wholeNumber = (name: string, text: string, [least, most]: readonly [number, number]): number => {
  const value = Number(text)
  if (!Number.isInteger(value) || value < least || value > most)
    throw new UsageError(`Invalid --${name} ${text}: a whole number from ${least} to ${most}.`)
  return value
}

const read = () => {
  try {
    return parseArgs({ options: OPTIONS }).values
  } catch (error) {
    const written = /'--([^' ]+)/.exec(String(error))?.[1] ?? ''
    const near = nearestName(written, Object.keys(OPTIONS))
    throw new UsageError(
      `Unknown option or value --${written}.${near ? ` Did you mean --${near}?` : ''} Run with --help.`,
    )
  }
}

const freePort = () =>
  new Promise<number>((done) => {
    const server = createServer()
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => done(typeof address === 'object' && address ? address.port : 0))
    })
  })

const systemPath = (name: string): string =>
  /[./]/.test(name) ? resolve(name) : join(import.meta.dirname, 'systems', `${name}.yaml`)

/** Starts the program, and waits until it is ready. */
const startProgram = async ({ start }: SystemFile, values: Values): Promise<ChildProcess> => {
  if (!start) throw new UsageError('The system file does not say how the program is started.')
  const [command = '', ...args] = start.command.map((part) => fill(part, values))
  const own = Object.fromEntries(Object.entries(start.env ?? {}).map(([name, value]) => [name, fill(value, values)]))
  const child = spawn(command, args, {
    cwd: values.dir,
    env: { PATH: process.env.PATH, ...own },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (part) => (output = `${output}${part}`.slice(-4_000)))
  const until = Date.now() + 240_000
  while (Date.now() < until) {
    if (child.exitCode !== null) break
    try {
      if ((await fetch(fill(start.ready, values))).ok) return child
    } catch {
      // Not listening yet.
    }
    await new Promise((done) => setTimeout(done, 300))
  }
  child.kill()
  throw new Error(`The program is not ready.\n${output}`)
}

const main = async (): Promise<number> => {
  const options = read()
  if (options.help || !options.system) {
    process.stdout.write(HELP)
    return options.help ? 0 : 2
  }
  const scale = options.quick ? 0.1 : 1
  const runs = wholeNumber('runs', options.runs, [1, 100])
  const all = scenarios(scale)
  const only = options.only?.toLowerCase().split(',') ?? []
  const unknown = only.find((one) => !all.some(({ id }) => id.startsWith(one)))
  if (unknown !== undefined)
    throw new UsageError(
      `Unknown scenario "${unknown}": a family from a to g, or one of ${all[0]?.id} to ${all.at(-1)?.id}.`,
    )
  const dir = resolve(options.out)
  mkdirSync(dir, { recursive: true })
  const wall = await startWall(wallScripts(all), wholeNumber('wall-port', options['wall-port'], [0, 65_533]))
  const models = modelValues(all, runs, wall).map((model) => ({ ...model, ...bases(model) }))
  const places = new Map(models.map((model) => [model.model ?? '', model]))
  const reference =
    options.system === 'reference' ? await startReference({ routes: places, idle: 30_000 * scale }) : undefined
  const values: Values = {
    port: String(reference ? new URL(reference.url).port : await freePort()),
    dir,
    node: process.execPath,
    primary: wall.urls.primary,
    version: options.version ?? 'unknown',
    program: options.program ? (isAbsolute(options.program) ? options.program : resolve(options.program)) : '',
  }
  const written = readSystem(systemText(systemPath(options.system)), values, (model) => places.get(model) ?? {})
  const system = options.target ? { ...written, baseUrl: options.target.replace(/\/$/, '') } : written
  const configuration = system.config ? configText(system.config, values, models) : ''
  const config = join(dir, system.config?.file ?? 'none')
  if (system.config) writeFileSync(config, `${configuration}\n`)
  if (options.config) {
    say(`The configuration is ${config}.`)
    await wall.close()
    return 0
  }
  const child = options.program ? await startProgram(system, { ...values, config }) : undefined
  try {
    const cells = await runSuite({
      system,
      wall,
      scale,
      runs,
      only,
      atOnce: wholeNumber('at-once', options['at-once'], [1, 100]),
      progress: say,
    })
    const card: Scorecard = {
      suite: '1',
      system: {
        name: system.name,
        label: system.label,
        version: system.version,
        configuration: configuration.slice(0, 4_000),
      },
      command: `node suite/main.ts ${process.argv.slice(2).join(' ')}`,
      date: new Date().toISOString().slice(0, 10),
      machine: `${availableParallelism()} cores ${cpus()[0]?.model.trim() ?? ''}`,
      runs,
      quick: options.quick,
      cells,
      digest: digestOf(cells),
    }
    writeFileSync(join(dir, 'scorecard.json'), `${JSON.stringify(card, null, 1)}\n`)
    writeFileSync(join(dir, 'scorecard.md'), pageOf(card))
    say(`The scorecard is ${join(dir, 'scorecard.md')}.`)
    if (options.expect === undefined) return 0
    const before: Scorecard = JSON.parse(readFileSync(options.expect, 'utf8'))
    const worse = regressions(before.cells, cells)
    for (const line of worse) say(line)
    return worse.length > 0 ? 9 : 0
  } finally {
    child?.kill()
    await reference?.close()
    await wall.close()
  }
}

/** The forms of an address that gateways want, and a second deployment for a second key. */
const bases = ({
  style,
  primary_url: primary = '',
  fallback_url: other = '',
  keys = '[]',
  model = '',
}: Values): Values => {
  const provider = style === 'messages' ? 'anthropic' : 'openai'
  const base = (url: string) => (style === 'messages' ? url.replace(/\/v1$/, '') : url)
  const hasSecond = JSON.parse(keys).length > 1
  const params = { model: `${provider}/${model}`, api_base: base(primary), api_key: VENDOR_KEYS[1] }
  return {
    provider,
    primary_base: base(primary),
    fallback_base: base(other),
    second: hasSecond ? `  - ${JSON.stringify({ model_name: model, litellm_params: params })}` : '',
  }
}

try {
  process.exit(await main())
} catch (error) {
  say(error instanceof Error ? error.message : String(error))
  process.exit(error instanceof UsageError ? 2 : 1)
}
