import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { loaded, providers } from '../../test/support/config.ts'
import { describeChange } from './describe.ts'
import { loadConfig } from './load.ts'
import { problemLine } from './problem.ts'
import { type Reloaded, watchConfig } from './watch.ts'

const INTERVAL = 25
const SETTLE = 15
const PATIENCE = 8000

/** A folder, a watcher, and its reports. */
const watched = async (t: TestContext, yaml: string | undefined, env: Record<string, string> = {}) => {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-watch-'))
  const file = join(folder, 'headgate.yaml')
  if (yaml !== undefined) await writeFile(file, yaml)
  const running = await loadConfig({ env, folder, providers })
  assert.ok(running.ok)
  const signals = new EventEmitter()
  const reports: string[] = []
  const configs: number[] = []
  const warnings: string[] = []
  let wake = () => {}
  const onReload = (reloaded: Reloaded) => {
    if (reloaded.kind !== 'refused') warnings.splice(0, warnings.length, ...reloaded.warnings)
    if (reloaded.kind === 'changed') {
      reports.push(reloaded.changes.join('; '))
      configs.push(reloaded.config.settings.circuit.timeout)
    } else reports.push(reloaded.kind === 'refused' ? reloaded.problems.map(problemLine).join('; ') : 'unchanged')
    wake()
  }
  const watching = watchConfig({
    env,
    folder,
    providers,
    running,
    onReload,
    interval: INTERVAL,
    settle: SETTLE,
    signals,
  })
  t.after(async () => {
    watching.stop()
    await rm(folder, { recursive: true })
  })
  const next = async (): Promise<string> => {
    const { promise, reject, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(() => reject(new Error('no report in time')), PATIENCE)
    wake = resolve
    if (reports.length > 0) resolve()
    await promise.finally(() => clearTimeout(timer))
    return reports.shift() ?? ''
  }
  const quiet = async () => {
    await new Promise((resolve) => setTimeout(resolve, 12 * INTERVAL))
    assert.deepEqual(reports, [])
  }
  return { folder, file, next, quiet, watching, signals, configs, warnings }
}

test('watch: a change that needs a restart is reported with each reload, until it is undone', async (t) => {
  const { file, next, warnings } = await watched(t, 'data: { dir: one }\n')
  const waits = ['data.dir has changed; restart to apply it']
  await writeFile(file, 'data: { dir: two }\n')
  assert.equal(await next(), 'data.dir: one → two')
  assert.deepEqual(warnings, waits)
  await writeFile(file, 'data: { dir: two }\ncoalesce: true\n')
  assert.equal(await next(), 'coalesce: false → true')
  assert.deepEqual(warnings, waits)
  await writeFile(file, 'data: { dir: one }\ncoalesce: true\n')
  assert.equal(await next(), 'data.dir: two → one')
  assert.deepEqual(warnings, [])
})

test('watch: a valid change is applied, an invalid one is refused, a repaired file is reported', async (t) => {
  const { file, next, configs } = await watched(t, 'circuit: { timeout: 1000 }\n')
  await writeFile(file, 'circuit: { timeout: 2000 }\n')
  assert.equal(await next(), 'circuit.timeout: 1000 → 2000')
  await writeFile(file, 'circuit: { timeout: 30s }\n')
  assert.equal(
    await next(),
    'headgate.yaml:1:21: circuit.timeout: found "30s"; allowed: a whole number from 0 to 2147483647; times are in milliseconds, write 30000',
  )
  await writeFile(file, 'circuit: { timeout: 2000 }\n')
  assert.equal(await next(), 'unchanged')
  await writeFile(file, 'circuit: { timeout: 3000 }\n')
  assert.equal(await next(), 'circuit.timeout: 2000 → 3000')
  assert.deepEqual(configs, [2000, 3000])
})

test('watch: a claim that a change breaks refuses it, and the running configuration stays', async (t) => {
  const yaml = (region: string) => `providers: { openai: { keys: [k], models: [m], facts: { region: ${region} } } }
claims: ['all: region in eu']
prove: { onFailure: refuse }
circuit: { timeout: ${region === 'eu' ? 1000 : 2000} }
`
  const { file, next, configs } = await watched(t, yaml('eu'))
  await writeFile(file, yaml('us'))
  assert.match(
    await next(),
    /^headgate\.yaml:2:10: claims: found the claim "all: region=eu", which does not hold: .*region us/,
  )
  assert.deepEqual(configs, [])
  await writeFile(file, yaml('eu-de'))
  assert.match(await next(), /facts/)
})

test('watch: repeated renames over the file', async (t) => {
  const { folder, file, next } = await watched(t, 'circuit: { timeout: 1 }\n')
  for (const turn of [2, 3, 4]) {
    await writeFile(join(folder, 'next'), `circuit: { timeout: ${turn} }\n`)
    await rename(join(folder, 'next'), file)
    assert.equal(await next(), `circuit.timeout: ${turn - 1} → ${turn}`)
  }
})

test('watch: a link switched to another folder, as in Kubernetes', async (t) => {
  const { folder, file, next } = await watched(t, undefined)
  for (const turn of [1, 2, 3]) {
    await mkdir(join(folder, `v${turn}`))
    await writeFile(join(folder, `v${turn}`, 'headgate.yaml'), `circuit: { timeout: ${turn} }\n`)
  }
  await symlink('v1', join(folder, 'data'))
  await symlink(join('data', 'headgate.yaml'), file)
  assert.equal(await next(), 'circuit.timeout: 30000 → 1')
  for (const turn of [2, 3]) {
    await symlink(`v${turn}`, join(folder, 'data_next'))
    await rename(join(folder, 'data_next'), join(folder, 'data'))
    assert.equal(await next(), `circuit.timeout: ${turn - 1} → ${turn}`)
  }
})

test('watch: if the file disappears, the running configuration stays', async (t) => {
  const { file, next, configs } = await watched(t, 'circuit: { timeout: 1 }\n')
  await rm(file)
  assert.match(await next(), /^headgate\.yaml: found a missing file/)
  await writeFile(file, 'circuit: { timeout: 2 }\n')
  assert.equal(await next(), 'circuit.timeout: 1 → 2')
  assert.deepEqual(configs, [2])
})

test('watch: .env is watched too, and launch values are not changed', async (t) => {
  const { folder, next, configs } = await watched(t, undefined, { CIRCUIT_PROBES: '3' })
  await writeFile(join(folder, '.env'), 'CIRCUIT_TIMEOUT=9\nPORT=4000\nCIRCUIT_PROBES=4\n')
  assert.equal(await next(), 'circuit.timeout: 30000 → 9')
  assert.deepEqual(configs, [9])
})

test('watch: a touch without a change reports nothing; SIGHUP reloads', async (t) => {
  const { file, next, quiet, signals, watching } = await watched(t, 'circuit: { timeout: 1 }\n')
  await writeFile(file, 'circuit: { timeout: 1 }\n')
  await writeFile(file, '# only a comment\ncircuit: { timeout: 1 }\n')
  await quiet()
  signals.emit('SIGHUP')
  assert.equal(await next(), 'unchanged')
  watching.stop()
  assert.equal(signals.listenerCount('SIGHUP'), 0)
  await writeFile(file, 'circuit: { timeout: 5 }\n')
  await quiet()
})

test('watch: an incomplete text is not used', async (t) => {
  const { file, next, configs } = await watched(t, 'circuit: { timeout: 1 }\n')
  let text = ''
  for (const piece of ['circuit:\n', '  timeout: 2', '0', '0', '0\n']) {
    text += piece
    await writeFile(file, text)
    await new Promise((resolve) => setTimeout(resolve, 4))
  }
  while ((await next()) !== '') if (configs.at(-1) === 2000) break
  assert.equal(configs.at(-1), 2000)
})

const before = `providers:
  openai: { keys: [canary-one, canary-two] }
  vllm: { models: [a] }
  east: { kind: openai-compatible, baseUrl: "http://e" }
routes: { fast: { targets: [vllm/a] }, gone: { targets: [openai] } }
auth: { keys: [canary-client], admin: canary-admin }
circuit: { timeout: 1 }
`
const changes: readonly (readonly [string, string, string, readonly string[]])[] = [
  ['nothing', '', '', []],
  ['a setting', 'timeout: 1', 'timeout: 2', ['circuit.timeout: 1 → 2']],
  [
    'a provider',
    '  east: { kind: openai-compatible, baseUrl: "http://e" }\n',
    '  west: { kind: openai-compatible, baseUrl: "http://e" }\n',
    ['providers.east: removed', 'providers.west: added, 1 key'],
  ],
  ['an address', 'http://e', 'http://f', ['providers.east.baseUrl: http://e → http://f']],
  [
    'models',
    'models: [a]',
    'models: [b, c], styles: [responses]',
    ['providers.vllm.models: a → b, c', 'providers.vllm.styles: chat → responses'],
  ],
  [
    'routes',
    'fast: { targets: [vllm/a] }, gone: { targets: [openai] }',
    'fast: { targets: [{ provider: vllm, weight: 2 }], strategy: cost, fallback: [east] }, new: { targets: [vllm] }',
    ['routes.gone: removed', 'routes.fast: vllm/a → cost vllm×2 then east', 'routes.new: added, vllm'],
  ],
  [
    'facts of a provider',
    'vllm: { models: [a] }',
    'vllm: { models: [a], facts: { region: us } }',
    ['providers.vllm.facts: none → {"region":"us"}'],
  ],
  ['the data policy', 'auth:', 'require: { region: [eu] }\nauth:', ['require: none → region=eu']],
  [
    'the data policy of a route',
    '{ targets: [vllm/a] }',
    '{ targets: [vllm/a], require: { retention: 0 } }',
    ['routes.fast: vllm/a → vllm/a requires retention=0'],
  ],
  ['client keys', 'keys: [canary-client]', 'keys: [canary-client, canary-other]', ['auth.keys: 1 key → 2 keys']],
  ['a client key for another', 'keys: [canary-client]', 'keys: [canary-other]', ['auth.keys: changed']],
  ['the token', ', admin: canary-admin', '', ['auth.admin: set → none']],
  [
    'the order',
    '  vllm: { models: [a] }\n  east: { kind: openai-compatible, baseUrl: "http://e" }\n',
    '  east: { kind: openai-compatible, baseUrl: "http://e" }\n  vllm: { models: [a] }\n',
    ['providers: now in the order openai, east, vllm'],
  ],
]
for (const [name, from, to, expected] of changes)
  test(`describeChange: ${name}`, () => {
    const one = loaded({ env: {}, yaml: before }).config
    const other = loaded({ env: {}, yaml: before.replace(from, to) }).config
    assert.deepEqual(describeChange(one, other), expected)
  })

test('describeChange: shows key IDs, never keys', () => {
  const config = (keys: string) => loaded({ env: {}, yaml: `providers: { openai: { keys: [${keys}] } }` }).config
  const [line = '', ...more] = describeChange(config('canary-one, canary-two'), config('canary-two, canary-three'))
  assert.deepEqual(more, [])
  assert.match(line, /^providers\.openai\.keys: added [0-9a-f]{4}, removed [0-9a-f]{4}$/)
  assert.match(
    describeChange(config('{ value: canary, weight: 1 }'), config('{ value: canary, weight: 3 }')).join(),
    /^providers\.openai\.keys: [0-9a-f]{4}×1 → [0-9a-f]{4}×3$/,
  )
})

test('watch: a start builds the configuration once, and again only for other texts or on request', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-watch-'))
  await writeFile(join(folder, 'headgate.yaml'), 'teams: { search: {} }\n')
  let built = 0
  const stored = () => {
    built++
    return null
  }
  const sources = { env: {}, folder, providers, stored }
  const running = await loadConfig(sources)
  assert.ok(running.ok)
  const watching = watchConfig({ ...sources, running, onReload: () => {}, interval: INTERVAL, settle: SETTLE })
  t.after(async () => {
    watching.stop()
    await rm(folder, { recursive: true })
  })
  assert.equal(built, 1)
  // Waits for the check of the start, then reloads.
  await watching.reload()
  await watching.reload()
  assert.equal(built, 2)
})
