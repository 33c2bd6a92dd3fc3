/** `headgate tape run`: real SDKs in a process of their own, recorded with a provider and replayed without one. */
import assert from 'node:assert/strict'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { startUpstream } from '../support/upstream.ts'
import { run } from './support/process.ts'
import { verb } from './support/verb.ts'

const folder = mkdtempSync(join(tmpdir(), 'hg-tape-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const KEY = 'sk-provider-canary-0123456789'
const OPENAI = import.meta.resolve('openai')
const ANTHROPIC = import.meta.resolve('@anthropic-ai/sdk')

/** Asks once streamed and once whole in three styles, prints the texts, and fails if a call does. */
const PROGRAM = `
import OpenAI from ${JSON.stringify(OPENAI)}
import Anthropic from ${JSON.stringify(ANTHROPIC)}
const openai = new OpenAI({ maxRetries: 0 })
const anthropic = new Anthropic({ maxRetries: 0 })
const [question = 'hello'] = process.argv.slice(2)
const messages = [{ role: 'user', content: question }]
const whole = await openai.chat.completions.create({ model: 'gpt-5', messages })
let streamed = ''
for await (const chunk of await openai.chat.completions.create({ model: 'gpt-5', messages, stream: true }))
  streamed += chunk.choices[0]?.delta.content ?? ''
const response = await openai.responses.create({ model: 'gpt-5', input: question })
const message = await anthropic.messages.create({ model: 'gpt-5', max_tokens: 100, messages })
console.log(JSON.stringify([whole.choices[0].message.content, streamed, response.output_text, message.content[0].text]))
`
writeFileSync(join(folder, 'program.mjs'), PROGRAM)

const tape = (words: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  verb(['tape', ...words], { cwd: folder, env })
const play = (mode: string, words: readonly string[] = [], env: Readonly<Record<string, string>> = {}) =>
  tape(['run', '--mode', mode, '--', process.execPath, 'program.mjs', ...words], env)

test('tape: a test suite of real SDKs is recorded, and passes without provider and key', async () => {
  const upstream = await startUpstream((request) => answerWith(request, { text: 'recorded words' }))
  const live = { OPENAI_API_KEY: KEY, OPENAI_BASE_URL: `${upstream.url}/v1` }
  const recorded = await play('record', [], live)
  assert.equal(recorded.code, 0, recorded.stderr)
  assert.match(recorded.stderr, /0 answered, 4 recorded, 0 missed, 0 not recorded/)
  const asked = upstream.requests.length
  await upstream.close()

  const replayed = await play('strict')
  assert.equal(replayed.code, 0, replayed.stderr)
  assert.match(replayed.stderr, /4 answered, 0 recorded, 0 missed/)
  assert.ok(asked >= 3)
  assert.ok(!readFileSync(join(folder, 'tapes', 'main.jsonl'), 'utf8').includes(KEY))

  const checked = await tape(['check', '--json'])
  assert.deepEqual(checked.json()[0].unused, [])
  const missed = await play('strict', ['another question'])
  assert.equal(missed.code, 1)
  assert.match(missed.stderr, /messages\[0\]\.content\[0\]\.text at 0: recorded "hello", asked "another question"/)
})

test('tape: a passing command with a miss exits with 8', async () => {
  const program = `await fetch(process.env.OPENAI_BASE_URL + '/chat/completions', { method: 'POST', body: JSON.stringify({ model: 'gpt-5', messages: [{ role: 'user', content: 'x' }] }), headers: { 'content-type': 'application/json' } })`
  const { code, stderr } = await tape(['run', '--', process.execPath, '--input-type=module', '-e', program])
  assert.equal(code, 8, stderr)
})

test('tape: a run whose figures cannot be written fails', async () => {
  const figures = join(folder, 'tapes', '.last-run.json')
  // The command makes a folder of that name, so that the gateway cannot write the file.
  const program = `require('node:fs').mkdirSync(${JSON.stringify(figures)})`
  const { code, stderr } = await tape(['run', '--', process.execPath, '-e', program])
  rmSync(figures, { recursive: true })
  assert.equal(code, 1, stderr)
  assert.match(stderr, /was not written/)
})

test('tape: a folder that is a file is a problem of the settings', async () => {
  const main = join('tapes', 'main.jsonl')
  for (const mode of ['record', 'strict']) {
    const { exited, output } = await run({ env: { HEADGATE_TAPE: mode, HEADGATE_TAPE_DIR: join(folder, main) } })
    assert.notEqual(await exited, 0)
    assert.match(output(), /HEADGATE_TAPE_DIR.*not a folder/)
    assert.doesNotMatch(output(), /\n {4}at /)
  }
  const { code, stderr } = await tape(['run', '--dir', main, '--', process.execPath, '-e', ''])
  assert.equal(code, 2, stderr)
})

test('tape: show, scan and prune read the files', async () => {
  const [first] = (await tape(['check', '--json'])).json()
  assert.ok(first.exchanges > 0)
  const key = /"key":"(\w{10})/.exec(readFileSync(join(folder, 'tapes', 'main.jsonl'), 'utf8'))?.[1]
  const shown = await tape(['show', `tap_${key}`, '--json'])
  assert.match(shown.json()[0].answer.body, /recorded words/)
  assert.equal((await tape(['scan'])).code, 0)
  assert.equal((await tape(['show', 'tap_none'])).code, 6)
  const file = join(folder, 'headgate.yaml')
  for (const [secret, path, text] of [
    ['dotenv', join(folder, '.env'), 'GROQ_API_KEY=recorded words\n'],
    ['file', file, 'redis:\n  url: redis://me:recorded%20words@localhost\n'],
  ] as const) {
    writeFileSync(path, text, { mode: 0o600 })
    assert.equal((await tape(['scan'])).code, 1, secret)
    rmSync(path)
  }
  appendFileSync(join(folder, 'tapes', 'main.jsonl'), '{"line":"part","digest":"x","value":"ann@acme.example"}\n')
  const found = await tape(['scan'])
  assert.equal(found.code, 1)
  assert.match(found.stdout, /main\.jsonl:\d+: email/)
  assert.equal((await tape(['check'])).code, 1)
  assert.equal((await tape(['prune'])).code, 0)
  assert.equal((await tape(['check'])).code, 0)
})

test('tape: production and several workers are errors of the configuration', async () => {
  for (const env of [{ NODE_ENV: 'production' }, { WORKERS: '2' }]) {
    const { exited, output } = await run({ env: { HEADGATE_TAPE: 'strict', ...env } })
    assert.notEqual(await exited, 0)
    assert.match(output(), /HEADGATE_TAPE/)
  }
})
