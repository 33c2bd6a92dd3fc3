/** The verbs of the command line with a real gateway. Those whose exit code, streams or folder are of the process are processes. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { BELOW, MAIN, type Started, start } from './support/process.ts'
import { verb, verbProcess } from './support/verb.ts'

const SECRET = 'sk-canary-0123456789abcdef'
const CLIENT_KEY = 'client-canary-0123456789'
const ADMIN = 'admin-canary-0123456789'

describe('verbs that use a running gateway', () => {
  let upstream: Upstream
  let gateway: Started
  const env = () => ({
    OPENAI_API_KEY: SECRET,
    OPENAI_BASE_URL: `${upstream.url}/v1`,
    OPENAI_MODELS: 'gpt-x',
    AUTH_KEYS: CLIENT_KEY,
    AUTH_ADMIN: ADMIN,
  })
  before(async () => {
    upstream = await startUpstream((request) =>
      request.method === 'GET'
        ? { do: 'answer', status: 200, body: { data: [{ id: 'gpt-x' }, { id: 'gpt-y' }] } }
        : answerWith(request, { text: 'from upstream' }),
    )
    gateway = await start({ env: env() })
  })
  after(async () => {
    await gateway?.stop()
    await upstream?.close()
  })
  const here = (words: readonly string[], more: Readonly<Record<string, string>> = {}) =>
    verb(words, { cwd: gateway.folder, env: { ...env(), ...more } })

  test('run.json has the address, and only its owner can read it', () => {
    const file = join(gateway.folder, '.headgate', 'run.json')
    const run = JSON.parse(readFileSync(file, 'utf8'))
    const address = {
      host: '127.0.0.1',
      port: Number(new URL(gateway.url).port),
      basePath: BELOW,
      secure: false,
      healthPort: 0,
    }
    assert.deepEqual(run, { pid: gateway.child.pid, ...address })
    assert.equal(statSync(file).mode & 0o777, 0o600)
  })

  test('status prints health and providers', async () => {
    const { code, stdout, json } = await verbProcess(['status', '--json'], { cwd: gateway.folder, env: env() })
    assert.equal(code, 0, stdout)
    assert.equal(json().health.status, 'ok')
    assert.equal(json().url, gateway.url)
    assert.deepEqual(
      json().providers.map(({ id }: { id: string }) => id),
      ['openai'],
    )
    const text = await here(['status'])
    assert.match(
      text.stdout,
      /^headgate \d+\.\d+\.\d+ {2}ok {2}up .+ {2}http:\/\/127\.0\.0\.1:\d+\S* {2}client keys required\n/,
    )
    assert.match(text.stdout, /^openai {4}available {2}closed {3}1\/1/m)
  })

  test('health exits with 0 and prints nothing with -q', async () => {
    assert.deepEqual({ ...(await here(['health'])), json: null }, { code: 0, stdout: 'ok\n', stderr: '', json: null })
    assert.equal((await here(['-q', 'health'])).stdout, '')
  })

  test('models filters by name and provider', async () => {
    const ids = async (...words: string[]) =>
      (await here(['models', '--json', ...words])).json().data.map(({ id }: { id: string }) => id)
    assert.ok((await ids('gpt-x')).includes('openai/gpt-x'))
    const none = await here(['models', 'nothing-of-this-name'])
    assert.deepEqual([none.code, none.stdout], [6, 'No model matches.\n'])
    assert.deepEqual(await ids('--provider', 'nothing'), [])
  })

  test('try prints the answers of several models with their figures', async () => {
    const { code, json } = await here(['try', 'hello', '-m', 'openai/gpt-x,gpt-x', '--json'])
    assert.equal(code, 0)
    for (const trial of json().data) {
      assert.equal(trial.text, 'from upstream')
      assert.deepEqual([trial.provider, trial.model, trial.status, trial.error], ['openai', 'gpt-x', 200, null])
      assert.ok(trial.total_ms >= trial.first_ms)
    }
    const streamed = await here(['try', 'hello', '-m', 'gpt-x', '--stream'])
    assert.match(streamed.stdout, /^from upstream\n/)
  })

  test('explain prints the plan of a model', async () => {
    const { code, stdout } = await here(['explain', '-m', 'gpt-x'])
    assert.equal(code, 0, stdout)
    assert.match(stdout, /^1 {2}openai\/gpt-x {2}.+ready$/m)
    assert.equal((await here(['explain'])).code, 2)
  })

  test('explain needs no client key of an administrator', async () => {
    const { code, stdout, stderr } = await verb(['explain', '-m', 'gpt-x', '--url', gateway.url, '--token', ADMIN])
    assert.equal(code, 0, stderr)
    assert.match(stdout, /^1 {2}openai\/gpt-x {2}.+ready$/m)
    assert.equal((await verb(['explain', '-m', 'gpt-x', '--url', gateway.url])).code, 5)
  })

  test('a refused call says which of the two credentials to pass', async () => {
    const trial = await verb(['try', 'hello', '--url', gateway.url, '--token', ADMIN])
    assert.equal(trial.code, 5)
    assert.match(trial.stdout, /Pass --key, or set HEADGATE_API_KEY\.\n/)
    assert.doesNotMatch(trial.stdout, /--token/)
    assert.match(
      (await verb(['keys', 'list', '--url', gateway.url])).stderr,
      /Pass --token, set HEADGATE_ADMIN_TOKEN, or run headgate login/,
    )
  })

  test('a refused value is stated once', async () => {
    const { code, stderr } = await here(['logs', '--status', 'abc'])
    assert.deepEqual([code, stderr.trim().split('\n').length], [2, 1], stderr)
  })

  test('providers lists the state, and test calls the provider', async () => {
    assert.match((await here(['providers'])).stdout, /^openai {4}available/m)
    const tested = await here(['providers', 'test', 'openai', '--json'])
    assert.deepEqual([tested.code, tested.json().data[0].ok], [0, true])
    const unknown = await here(['providers', 'test', 'nowhere'])
    assert.deepEqual(
      [unknown.code, unknown.stderr],
      [6, 'headgate: No provider "nowhere" is configured here. Configured: openai.\n'],
    )
  })

  test('doctor finds the running gateway and checks the key', async () => {
    const { code, json } = await here(['doctor', '--json'])
    const found = new Map(json().data.map(({ check, ...rest }: { check: string }) => [check, rest]))
    assert.deepEqual(found.get('port'), { status: 'ok', detail: `a gateway of this folder serves ${gateway.url}` })
    assert.match(JSON.stringify(found.get('provider key')), /"ok".+openai [0-9a-f]+: accepted in \d+ ms/)
    assert.equal(code, 0, JSON.stringify([...found]))
  })

  test('no verb prints a secret', async () => {
    for (const words of [
      ['status'],
      ['providers'],
      ['models'],
      ['doctor'],
      ['config', 'show', '--origins'],
      ['config', 'check'],
    ])
      for (const format of [[], ['--json']]) {
        const { stdout, stderr } = await here([...words, ...format])
        for (const secret of [SECRET, CLIENT_KEY, ADMIN])
          assert.ok(!(stdout + stderr).includes(secret), words.join(' '))
      }
  })

  test('another gateway is selected by --url, with or without /v1, and by HEADGATE_URL', async () => {
    assert.equal((await verb(['health', '--url', `${gateway.url}/v1`])).code, 0)
    assert.equal((await verb(['health'], { env: { HEADGATE_URL: `${gateway.url}/` } })).code, 0)
    assert.equal((await verb(['health', '--url', 'localhost:3000'])).code, 2)
    assert.equal((await verb(['health', '--url', 'http://127.0.0.1:1'])).code, 4)
  })

  test('a missing client key is not permitted', async () => {
    const { code, stderr } = await verb(['models', '--url', gateway.url])
    assert.equal(code, 5, stderr)
  })
})

describe('verbs without a gateway', () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-cli-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  const here = (words: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    verb(words, { cwd: folder, env })

  test('a typo is usage, with a suggestion', async () => {
    const { code, stderr } = await verbProcess(['statsu'], { cwd: folder })
    assert.deepEqual([code, stderr], [2, "headgate: unknown command 'statsu'\n(Did you mean status?)\n"])
    assert.match((await here(['status', '--jsn'])).stderr, /Did you mean --json\?/)
  })

  test('help is on stdout, usage without a subcommand on stderr', async () => {
    const help = await here(['--help'])
    assert.deepEqual([help.code, help.stderr], [0, ''])
    assert.match(help.stdout, /^Usage: headgate \[options\] \[command\]\n/)
    const none = await verbProcess(['config'], { cwd: folder })
    assert.deepEqual([none.code, none.stdout], [2, ''])
  })

  test('without a gateway the exit code is 4', async () => {
    const { code, stderr } = await here(['status'], { PORT: '1' })
    assert.equal(code, 4)
    assert.match(
      stderr,
      /^headgate: No gateway is running with the data folder .+\. Start one with headgate, or pass --url\.\n$/,
    )
    assert.deepEqual(
      JSON.parse((await verbProcess(['status', '--json'], { cwd: folder, env: { PORT: '1' } })).stderr).error.exit,
      4,
    )
  })

  test('config check exits with 3 and prints the location', async () => {
    writeFileSync(join(folder, 'bad.yaml'), 'circuit: { timeout: soon }\n')
    const { code, stdout } = await verbProcess(['config', 'check', 'bad.yaml'], { cwd: folder })
    assert.equal(code, 3)
    assert.match(stdout, /^bad\.yaml:1:21: circuit\.timeout: found "soon"; allowed: /)
    assert.equal((await here(['config', 'check'])).code, 0)
    assert.equal((await here(['config', 'show'], { HEADGATE_CONFIG: 'bad.yaml' })).code, 3)
  })

  test('config show prints where each value comes from', async () => {
    writeFileSync(join(folder, 'good.yaml'), 'circuit:\n  timeout: 1000\n')
    writeFileSync(join(folder, '.env'), 'RETRY_MAX_ATTEMPTS=3\n')
    const { json } = await here(['config', 'show', '--json'], { HEADGATE_CONFIG: 'good.yaml', CIRCUIT_PROBES: '2' })
    const origin = (name: string) => json().settings.find((row: { name: string }) => row.name === name)
    assert.deepEqual(origin('circuit.timeout'), { name: 'circuit.timeout', value: 1000, origin: 'good.yaml:2' })
    assert.deepEqual(origin('circuit.probes'), { name: 'circuit.probes', value: 2, origin: 'env' })
    assert.deepEqual(origin('retry.maxAttempts'), { name: 'retry.maxAttempts', value: 3, origin: '.env' })
    assert.deepEqual(origin('circuit.window'), { name: 'circuit.window', value: 60000, origin: 'default' })
  })

  test('providers --all lists the variables', async () => {
    assert.match((await here(['providers', '--all'])).stdout, /^openai +OpenAI +OPENAI_API_KEY$/m)
  })

  test('doctor --fix removes the access of other users', async () => {
    const file = join(folder, '.env')
    writeFileSync(file, '', { mode: 0o644 })
    assert.match((await here(['doctor'])).stdout, /file modes +warning/)
    assert.match((await here(['doctor', '--fix'])).stdout, /file modes +ok/)
    assert.equal(statSync(file).mode & 0o007, 0)
  })
})

describe('run.json', () => {
  test('is removed at exit, and left by a killed gateway', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'headgate-run-'))
    const file = join(folder, 'run.json')
    try {
      await using ended = await start({ env: { DATA_DIR: folder } })
      assert.ok(existsSync(file))
      await ended.stop()
      assert.ok(!existsSync(file))
      await using killed = await start({ env: { DATA_DIR: folder } })
      const { pid } = killed.child
      killed.child.kill('SIGKILL')
      await new Promise((resolve) => killed.child.once('exit', resolve))
      const { code, stderr } = await verb(['status'], { env: { DATA_DIR: folder, PORT: '1' } })
      assert.equal(code, 4)
      assert.ok(stderr.includes(`(run.json is left over from process ${pid}, which has ended)`), stderr)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  test('has the process ID of the supervisor with several workers', async () => {
    await using gateway = await start({ args: ['start', '--workers', '2'] })
    const run = JSON.parse(readFileSync(join(gateway.folder, '.headgate', 'run.json'), 'utf8'))
    assert.equal(run.pid, gateway.child.pid)
    assert.equal((await verb(['health'], { cwd: gateway.folder })).code, 0)
  })
})

test('a verb ends without an error when the reader of its output has ended', async () => {
  const child = spawn(process.execPath, [MAIN, 'keys', '--help'], { stdio: ['ignore', 'pipe', 'pipe'] })
  child.stdout.destroy()
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text
  })
  await once(child, 'close')
  assert.equal(errors, '')
})
