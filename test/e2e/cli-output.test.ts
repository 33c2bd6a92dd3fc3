/**
 * The output of the main verbs, as text and with `--json`, compared with `cli-output.txt`. Times, IDs, durations, the
 * address and the version are replaced, and white space between columns is two spaces. Help texts are compared with
 * docs/cli.md by scripts/pages/cli-page.test.ts. `SNAPSHOT=write` writes what is printed, to be read before it is committed.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerWith } from '../support/answers.ts'
import { startUpstream } from '../support/upstream.ts'
import { post, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const SNAPSHOT = join(import.meta.dirname, 'cli-output.txt')
const isWritten = process.env.SNAPSHOT === 'write'

const ADMIN = 'admin-token-0123456789'
const YAML = `prices: [ { provider: openai, model: "*", perMillion: { input: 10, output: 40 } } ]
teams: { search: { limits: { tokensPerMinute: 200000 } } }
keys: { search-prod: { team: search, secret: "imported-key-0123456789", limits: { concurrent: 5 } } }
budgets:
  each-key: { amount: "50.00", period: year, per: key, mode: soft }
  spent: { amount: "0.010", period: year, appliesTo: { models: ["m"] } }
  whole: { amount: "2500.00", period: total, alerts: [80, 100] }
`

const VERBS: readonly string[] = [
  'status',
  'keys list',
  'budgets list',
  'usage --by team,model',
  'explain $request',
  'explain -m m',
  'routes list',
  'routes show fast',
]

/** What differs in each run, in texts. */
const CHANGING: readonly (readonly [RegExp, string])[] = [
  [/http:\/\/127\.0\.0\.1:\d+/g, 'URL'],
  [/\b(req|key|team|bud|adj|prc|rte)_(?!default\b)[a-z0-9]{8,}/g, '$1_ID'],
  [/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, 'TIME'],
  [/\b\d{4}-\d\d-\d\d\b/g, 'DATE'],
  [/\b\d\d:\d\d:\d\d\b/g, 'TIME'],
  [/\b\d+ (?:ms|s|min|h)\b(?: \d+ (?:s|min)\b)?/g, 'DURATION'],
  // First content of a provider (p50/p95), of a request and of an attempt; overhead.
  [/\b\d+ \/ \d+\b/g, 'DURATIONS'],
  [/first content \d+/g, 'first content DURATION'],
  [/tokens in \d+/g, 'tokens in DURATION'],
  [/(gateway +)\d+\.\d/g, '$1DURATION'],
  [/^ +\d+(?= +openai\/)/gm, '  DURATION'],
  [/projected \$[\d,.]+/g, 'projected AMOUNT'],
  [/("exhausted_at": )(?:null|"TIME")/g, '$1"CHANGES"'],
  [/("projected": )"[\d.]+"/g, '$1"AMOUNT"'],
  // A provider's list of models may be read meanwhile.
  [/("in_flight": 0,\s+"requests": )\d+/g, '$1"CHANGES"'],
  [/ {2,}/g, '  '],
]
/** Members whose values differ in each run. */
const CHANGING_MEMBERS = /_ms$|_us$|^(?:version|node)$/

const normalised = (text: string): string => CHANGING.reduce((rest, [what, by]) => rest.replace(what, by), text)

/** JSON with line breaks, for a readable comparison. */
const normalisedJson = (line: string): string => {
  const value = JSON.parse(line, (name, member) =>
    member !== null && CHANGING_MEMBERS.test(name) ? 'CHANGES' : member,
  )
  return normalised(JSON.stringify(value, null, 1).replace(/^ +/gm, (indent) => '\t'.repeat(indent.length)))
}

test('the output of verbs is as in cli-output.txt', async () => {
  const upstream = await startUpstream((request) =>
    request.method === 'GET'
      ? { do: 'answer', status: 200, body: { object: 'list', data: [{ id: 'm', object: 'model' }] } }
      : answerWith(request, { text: 'hello', input: 100, output: 100 }),
  )
  const folder = mkdtempSync(join(tmpdir(), 'headgate-output-'))
  try {
    const env = {
      AUTH_ADMIN: ADMIN,
      DATA_DIR: join(folder, 'data'),
      HOME: folder,
      HEADGATE_API_KEY: 'imported-key-0123456789',
      OPENAI_API_KEY: 'sk-0123456789',
      OPENAI_BASE_URL: `${upstream.url}/v1`,
      OPENAI_MODELS: 'm',
    }
    await using gateway = await start({ env, files: { 'headgate.yaml': YAML } })
    const run = (words: string) =>
      verb(words.split(' '), { cwd: folder, env: { ...env, HEADGATE_URL: gateway.url, HEADGATE_ADMIN_TOKEN: ADMIN } })
    const body = { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'hello' }] }
    const authorization = 'Bearer imported-key-0123456789'
    let request = ''
    for (const status of [200, 200, 402]) {
      const answer = await post(`${gateway.base}/chat/completions`, body, { authorization })
      assert.equal(answer.status, status, answer.text)
      if (status === 200) request = answer.headers.get('x-request-id') ?? ''
    }
    for (const end = performance.now() + 30_000; ; await sleep(100)) {
      const { stdout, stderr } = await run('logs --json')
      if (stdout.split('\n').length > 3) break
      assert.ok(performance.now() < end, stdout + stderr)
    }
    // The gateway stores it within seconds of the first call, which may be before or after the verb that shows it.
    for (const end = performance.now() + 30_000; ; await sleep(100)) {
      const { stdout } = await run('keys list --json')
      if (JSON.parse(stdout).data[0].last_used_at !== null) break
      assert.ok(performance.now() < end, stdout)
    }
    writeFileSync(join(folder, 'fast.yaml'), 'targets: [{ provider: openai, model: m, when: { tools: false } }]\n')
    assert.equal((await run('routes create fast fast.yaml --team search')).code, 0)
    const sections: string[] = []
    for (const words of VERBS) {
      const filled = words.replace('$request', request)
      const [human, json] = await Promise.all([run(filled), run(`${filled} --json`)])
      assert.deepEqual([human.stderr, json.stderr], ['', ''], words)
      assert.equal(human.code, json.code, words)
      const lines = json.stdout.trimEnd().split('\n').map(normalisedJson)
      sections.push(
        `$ headgate ${words}\n${normalised(human.stdout)}\n$ headgate ${words} --json\n${lines.join('\n')}\n`,
      )
    }
    const found = sections.join('\n')
    if (isWritten) writeFileSync(SNAPSHOT, found)
    assert.equal(found, readFileSync(SNAPSHOT, 'utf8'), 'SNAPSHOT=write writes cli-output.txt')
  } finally {
    await upstream.close()
    rmSync(folder, { recursive: true, force: true })
  }
})
