/**
 * Every verb of the command line, as text and with `--json`: the exit code, output that a program can read, no colours in a
 * pipe, no secret and no stack trace.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { parse as parseYaml } from 'yaml'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'
import { type VerbResult, verb } from './support/verb.ts'

const ADMIN = 'admin-canary-0123456789'
const CLIENT = 'client-canary-0123456789'
const PROVIDER = 'sk-canary-0123456789'

/** What `--json` prints: one value, or one on each line. YAML stays YAML. */
type Output = 'object' | 'lines' | 'yaml'
/** The words of a verb, its exit code, and its output. `$n`: words with a name of their own at each call. */
type Row = readonly [verb: string, words: string, code: number, output: Output]

const ROWS: readonly Row[] = [
  ['status', '', 0, 'object'],
  ['health', '', 0, 'object'],
  ['doctor', '', 0, 'object'],
  ['config check', '', 0, 'object'],
  ['config show', '--origins', 0, 'object'],
  ['providers', '', 0, 'object'],
  ['providers', '--all', 0, 'object'],
  ['providers test', 'openai', 0, 'object'],
  ['providers test', 'nowhere', 6, 'object'],
  ['providers disable', 'groq $key --reason test', 0, 'object'],
  ['providers enable', 'groq $key', 0, 'object'],
  ['providers disable', 'openai ffffffff --reason test', 6, 'object'],
  ['providers rest', 'groq --for 10m --reason test', 0, 'object'],
  ['providers rest', 'groq --for soon', 2, 'object'],
  ['providers rest', 'nowhere', 6, 'object'],
  ['providers resume', 'groq', 0, 'object'],
  ['providers probe', 'openai', 0, 'object'],
  ['models', '', 0, 'object'],
  ['try', 'hello -m m', 0, 'object'],
  ['explain', '-m m', 0, 'object'],
  ['explain', '$request', 0, 'object'],
  ['explain', 'req_none', 6, 'object'],
  ['connect', 'claude --dry-run', 0, 'object'],
  ['connect', 'nothing --dry-run', 2, 'object'],
  ['import litellm', 'litellm.yaml', 0, 'object'],
  ['import portkey', 'portkey.json', 0, 'object'],
  ['import openrouter', 'openrouter.json', 0, 'object'],
  ['import litellm', 'missing.yaml', 3, 'object'],
  ['prove', 'all:training=false', 7, 'object'],
  ['prove', 'all', 3, 'object'],
  ['torture', '', 2, 'object'],
  ['login', '', 1, 'object'],
  ['logout', '', 0, 'object'],
  ['whoami', '', 0, 'object'],
  ['token', '', 5, 'object'],
  ['keys list', '', 0, 'object'],
  ['keys create', 'k$n --team search', 0, 'object'],
  ['keys create', 'k$n --rpm many', 2, 'object'],
  ['keys show', 'prod', 0, 'object'],
  ['keys show', 'none', 6, 'object'],
  ['keys update', 'prod --rpm 60', 0, 'object'],
  ['keys update', 'prod --loops block --require-session', 0, 'object'],
  ['keys update', 'prod --loops never', 2, 'object'],
  ['keys update', 'prod', 2, 'object'],
  ['keys rotate', 'rotated --overlap 1h', 0, 'object'],
  ['keys block', 'blocked', 0, 'object'],
  ['keys unblock', 'blocked', 0, 'object'],
  ['keys revoke', 'revoked$n', 0, 'object'],
  ['keys import', '--litellm keys$n.json', 0, 'object'],
  ['keys scan', 'openrouter.json', 0, 'object'],
  ['keys scan', 'leak.txt', 1, 'object'],
  ['teams list', '', 0, 'object'],
  ['teams create', 't$n', 0, 'object'],
  ['teams create', 'search', 6, 'object'],
  ['teams show', 'search', 0, 'object'],
  ['teams update', 'search --tpm 200000', 0, 'object'],
  ['teams block', 'idle', 0, 'object'],
  ['teams unblock', 'idle', 0, 'object'],
  ['teams delete', 'gone$n', 0, 'object'],
  ['budgets list', '', 0, 'object'],
  ['budgets create', 'b$n --amount 10 --period day --team search', 0, 'object'],
  ['budgets show', 'month', 0, 'object'],
  ['budgets update', 'month --amount 200', 0, 'object'],
  ['budgets adjust', 'month 1.00 --reason test', 0, 'object'],
  ['budgets reset', 'month --reason test', 0, 'object'],
  ['budgets delete', 'ended$n', 0, 'object'],
  ['prices list', '', 0, 'object'],
  ['prices set', 'openai x$n --input 1 --output 2', 0, 'object'],
  ['prices remove', 'openai/y$n', 0, 'object'],
  ['adopt', 'team search', 0, 'yaml'],
  ['adopt', 'team none', 6, 'yaml'],
  ['export', '--yaml', 0, 'yaml'],
  ['usage', '--by team,model --bucket day', 0, 'object'],
  ['usage export', '--format jsonl', 0, 'lines'],
  ['usage reconcile', 'openai invoice.csv', 0, 'object'],
  ['usage reprice', '--from 1d --dry-run', 0, 'object'],
  ['sessions', '--top cost', 0, 'object'],
  ['sessions stop', 'ses_aaaaaaaaaaaa --message test', 0, 'object'],
  ['sessions resume', 'ses_aaaaaaaaaaaa', 0, 'object'],
  ['explain', '--session ses_aaaaaaaaaaaa', 6, 'object'],
  ['end-users list', '', 0, 'object'],
  ['end-users block', 'user-4711 --team default --until 7d --reason abuse', 0, 'object'],
  ['end-users unblock', 'user-4711 --team default', 0, 'object'],
  ['identities list', '', 0, 'object'],
  ['identities block', 'none alice', 6, 'object'],
  ['identities unblock', 'none alice', 6, 'object'],
  ['routes list', '--team search', 0, 'object'],
  ['routes show', 'fast', 0, 'object'],
  ['routes show', 'none', 6, 'object'],
  ['routes create', 'r$n spec.yaml --team search', 0, 'object'],
  ['routes create', 'fast spec.yaml --team search', 6, 'object'],
  ['routes create', 'wrong spec.yaml --team none', 2, 'object'],
  ['routes create', 'wrong missing.yaml', 2, 'object'],
  ['routes edit', 'edited spec.yaml', 0, 'object'],
  ['routes edit', 'fast spec.yaml --rev 99', 6, 'object'],
  ['routes edit', 'fast', 2, 'object'],
  ['routes test', 'spec.yaml --team search', 0, 'object'],
  ['routes test', 'openrouter.json', 2, 'object'],
  ['routes adopt', 'fast', 0, 'object'],
  ['routes export', '--team search', 0, 'object'],
  ['routes delete', 'former$n', 0, 'object'],
  ['routes canary', 'none', 6, 'object'],
  ['routes canary', 'none pause', 6, 'object'],
  ['routes shadow', 'none', 6, 'object'],
  ['sign-ins list', '', 0, 'object'],
  ['sign-ins end', 'sgn_aaaaaaaaaaaa', 6, 'object'],
  ['claude policy', 'usr_aaaaaaaaaaaa', 6, 'object'],
  ['jwt check', 'eyJ.a.b', 1, 'object'],
  ['guards', '', 0, 'object'],
  ['guards test', 'litellm.yaml', 0, 'object'],
  ['incidents', '--provider demo --sort lost', 0, 'object'],
  ['logs', '', 0, 'lines'],
  ['replay', '$request', 0, 'object'],
  ['replay', '$request --diff', 0, 'object'],
  ['replay', 'req_none', 6, 'object'],
  ['cache purge', '', 0, 'object'],
  ['tape check', '', 0, 'object'],
  ['tape scan', '', 0, 'object'],
  ['tape prune', '', 0, 'object'],
  ['tape show', 'tap_none', 6, 'object'],
  ['tape run', '--mode none -- true', 2, 'object'],
  ['audit list', '--since today --action key.create', 0, 'object'],
  ['audit list', '--object prod', 0, 'object'],
  ['audit verify', '', 0, 'object'],
  ['tokens create', 't$n --role viewer --team search', 0, 'object'],
  ['tokens create', 't$n --role owner', 2, 'object'],
  ['tokens list', '--sort name', 0, 'object'],
  ['tokens revoke', 'token-none', 6, 'object'],
  ['drill', '', 6, 'object'],
  ['drill export', '', 6, 'object'],
  ['what-if', 'groq', 0, 'object'],
  ['what-if', 'nowhere', 2, 'object'],
  ['completion', 'fish', 0, 'object'],
  ['completion', 'powershell', 2, 'object'],
  ['db status', '', 0, 'object'],
  // Without DATABASE_URL; test/e2e/postgres-control and db-move have the rest.
  ['db migrate', '', 3, 'object'],
  ['db migrate', '--wait soon', 2, 'object'],
  ['db move', '', 3, 'object'],
  ['backup', 'b$n.tar.gz', 0, 'object'],
  ['restore', 'missing.tar.gz', 6, 'object'],
]
/** A gateway is started by every other test. */
const TESTED_ELSEWHERE = ['start']

const FILES: Readonly<Record<string, string>> = {
  'litellm.yaml':
    'model_list:\n  - model_name: gpt\n    litellm_params: { model: openai/gpt-5, api_key: os.environ/OPENAI_API_KEY }\n',
  'spec.yaml': 'targets: [openai/m]\nfallback: [groq/other]\n',
  'portkey.json': '{"provider":"openai","api_key":"{{OPENAI}}"}',
  'openrouter.json': '{"model":"openai/gpt-5","messages":[]}',
  'invoice.csv': 'day,model,amount\n2026-11-22,m,1.00\n',
}

describe('verbs', { concurrency: 4 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-verbs-'))
  let upstream: Upstream
  let gateway: Started
  let request = ''
  let credential = ''
  let key = ''
  const env = () => ({
    AUTH_ADMIN: ADMIN,
    AUTH_KEYS: CLIENT,
    HEADGATE_API_KEY: CLIENT,
    DATA_DIR: join(folder, 'data'),
    HOME: folder,
    OPENAI_API_KEY: PROVIDER,
    OPENAI_BASE_URL: `${upstream.url}/v1`,
    OPENAI_MODELS: 'm',
    BODIES_SAMPLE: '1',
    GROQ_API_KEY: PROVIDER,
    GROQ_BASE_URL: `${upstream.url}/v1`,
    GROQ_MODELS: 'other',
    FORCE_COLOR: '',
  })
  const run = (words: readonly string[]) => verb(words, { cwd: folder, env: env() })
  const done = async (words: string) => {
    const result = await run(words.split(' '))
    assert.equal(result.code, 0, result.stdout + result.stderr)
    return result
  }

  before(async () => {
    upstream = await startUpstream((call) =>
      call.method === 'GET'
        ? { do: 'answer', status: 200, body: { object: 'list', data: [{ id: 'm', object: 'model' }] } }
        : answerWith(call, { text: 'hello', input: 10, output: 10 }),
    )
    for (const [name, text] of Object.entries(FILES)) writeFileSync(join(folder, name), text, { mode: 0o600 })
    for (const n of ['a', 'b']) {
      const entry = { token: n.repeat(64), key_alias: `imported${n}`, key_name: 'sk-...ab3d' }
      writeFileSync(join(folder, `keys${n}.json`), JSON.stringify({ keys: [entry] }))
    }
    gateway = await start({ env: env() })
    const { headers } = await post(
      `${gateway.base}/chat/completions`,
      { model: 'm', messages: [{ role: 'user', content: 'hello' }] },
      { authorization: `Bearer ${CLIENT}` },
    )
    request = headers.get('x-request-id') ?? ''
    await done('teams create search')
    await done('teams create idle')
    for (const name of ['prod', 'rotated', 'blocked', 'revokeda', 'revokedb']) {
      const { stdout } = await done(`keys create ${name} --team search`)
      if (name === 'prod') key = stdout.trim()
    }
    writeFileSync(join(folder, 'leak.txt'), `TOKEN=${key}\n`)
    await done('budgets create month --amount 100 --team search')
    for (const name of ['fast', 'edited', 'formera', 'formerb'])
      await done(`routes create ${name} spec.yaml --team search`)
    for (const n of ['a', 'b']) {
      await done(`teams create gone${n}`)
      await done(`budgets create ended${n} --amount 1 --team idle`)
      await done(`prices set openai y${n} --factor 2`)
    }
    const { data } = (await done('providers --json')).json()
    credential = data.find(({ id }: { id: string }) => id === 'groq').keys[0].id
    for (let tries = 0; (await run(['explain', request])).code !== 0; tries++) {
      assert.ok(tries < 60, 'the request is not stored')
      await sleep(100)
    }
  })
  after(async () => {
    await gateway?.stop()
    await upstream?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  /** What every output has in common. */
  const checkOutput = ({ stdout, stderr }: VerbResult, name: string) => {
    const all = stdout + stderr
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours begin with this character
    assert.doesNotMatch(all, /\x1b/, 'a pipe has no colours')
    assert.doesNotMatch(all, /^ +at .+\.ts:\d+/m, 'no stack trace')
    for (const secret of [ADMIN, CLIENT, PROVIDER, key]) assert.ok(!all.includes(secret), `${name} prints a secret`)
    const created = /hgk_[0-9A-Za-z]{38}/.test(all)
    assert.equal(created, name === 'keys create' || name === 'keys rotate', all)
  }

  test('each verb of docs/cli.md is in the table', async () => {
    const page = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'cli.md'), 'utf8')
    const sections = [...page.matchAll(/^## headgate (.+)$/gm)].map(([, name = '']) => name)
    const isGroup = (name: string) =>
      sections.some((other) => other.startsWith(`${name} `)) && !ROWS.some(([row]) => row === name)
    const groups = sections.filter(isGroup)
    assert.ok(groups.length > 5)
    for (const group of groups) {
      const { code, stderr } = await verb(group.split(' '), { cwd: folder })
      assert.equal(code, 2, `${group} has an action of its own, and no row`)
      assert.match(stderr, new RegExp(`^Usage: headgate ${group} `))
    }
    assert.deepEqual(
      TESTED_ELSEWHERE.filter((name) => !sections.includes(name)),
      [],
    )
    const verbs = sections.filter((name) => !isGroup(name) && !TESTED_ELSEWHERE.includes(name))
    assert.deepEqual([...new Set(ROWS.map(([name]) => name))].toSorted(), verbs.toSorted())
  })

  for (const [name, words, code, output] of ROWS)
    test(`${name} ${words}`.trim(), async () => {
      const filled = (n: string) => {
        const text = words.replaceAll('$n', n).replace('$request', request).replace('$key', credential)
        return [...name.split(' '), ...text.split(' ').filter((word) => word !== '')]
      }
      const human = await run(filled('a'))
      const printed = code === 0 ? human.stdout : human.stderr + human.stdout
      assert.equal(human.code, code, human.stdout + human.stderr)
      // Nothing was found.
      if (words !== 'openrouter.json' || name !== 'keys scan') assert.notEqual(printed.trim(), '')
      checkOutput(human, code === 0 ? name : '')

      const json = await run([...filled('b'), '--json'])
      assert.equal(json.code, code, json.stdout + json.stderr)
      checkOutput(json, code === 0 ? name : '')
      if (code !== 0 && json.stdout.trim() === '') {
        const { error } = JSON.parse(json.stderr)
        assert.deepEqual([typeof error.message, error.exit], ['string', code])
      } else if (output === 'object') assert.equal(typeof json.json(), 'object')
      else if (output === 'lines')
        for (const line of json.stdout.split('\n').slice(0, -1)) assert.equal(typeof JSON.parse(line), 'object')
      else assert.equal(typeof parseYaml(json.stdout), 'object')
    })
})
