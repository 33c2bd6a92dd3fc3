/**
 * An update in place: the npm package of an earlier commit writes keys, budgets, usage and stored responses, and ends by
 * SIGTERM or SIGKILL; the present package continues on the same folder; and then the earlier one again.
 *
 * The earlier package is that of the newest tag before this commit, or of FIRST. A package of BEFORE, with other formats, is
 * updated too, without a way back. Each is built in a copy with the packages of its own lockfile, once: `.cache/packages`
 * keeps it.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { packInto } from '../../scripts/package.ts'
import { isObject, list, object } from '../../src/core/json.ts'
import { post, type Started, start } from '../e2e/support/process.ts'
import { checkStoredUsage, untilComplete, untilStored } from '../e2e/support/stored-usage.ts'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'

const ROOT = join(import.meta.dirname, '..', '..')
/** The last commit before the work on packages. Its journal and database have other formats. */
const BEFORE = '8832f561e809d71bbe089541994929e83b07dc7c'
/** The first commit with the present formats of journal and database. */
const FIRST = 'bdc638cc462106df9d1c0c5d4fca209b7be96cc6'
const ADMIN = 'admin-canary-0123456789'
/** 100 tokens of input at $10 and 100 of output at $40 per million, in nano-dollars. */
const COST = 5_000_000
const YAML = `prices: [ { provider: openai, model: "*", perMillion: { input: 10, output: 40 } } ]
keys: { fixed: { secret: "fixed-key-0123456789" } }
`

/** Git refuses a checkout of another user, unless the configuration names it. */
const ANY_OWNER = ['-c', 'safe.directory=*'] as const
const git = (...words: readonly string[]): string =>
  spawnSync('git', [...ANY_OWNER, ...words], { cwd: ROOT, encoding: 'utf8' }).stdout?.trim() ?? ''
const tag = git('describe', '--tags', '--abbrev=0', '--match', 'v*', 'HEAD^')
const commitOf = (name: string): string => git('rev-parse', '--verify', '--quiet', `${name}^{commit}`)

/** `canReturn`: the earlier version can also continue on a folder of the present one. */
type EarlierVersion = { readonly commit: string; readonly canReturn: boolean }
const VERSIONS: readonly EarlierVersion[] = [
  { commit: commitOf(tag === '' ? FIRST : tag), canReturn: true },
  { commit: commitOf(BEFORE), canReturn: false },
]

/** Installs a package as users do; npm takes what it can from its cache. */
const install = (archive: string, folder: string): string => {
  const words = ['install', '--prefix', folder, '--omit=dev', '--ignore-scripts', '--prefer-offline', '--no-audit']
  execFileSync('npm', [...words, '--no-fund', '--loglevel=error', archive], { stdio: ['ignore', 'ignore', 'inherit'] })
  return join(folder, 'node_modules', 'headgate', 'bin', 'headgate.mjs')
}

/** The package of an earlier commit. */
const packEarlier = (commit: string, place: string): string => {
  const kept = join(ROOT, '.cache', 'packages', `${commit}.tgz`)
  if (existsSync(kept)) return kept
  const copy = join(place, `copy-${commit}`)
  mkdirSync(copy)
  const archive = execFileSync('git', [...ANY_OWNER, 'archive', commit], { cwd: ROOT, maxBuffer: 1 << 28 })
  execFileSync('tar', ['-x', '-C', copy], { input: archive })
  for (const folder of [copy, join(copy, 'dashboard')])
    execFileSync('npm', ['ci', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error'], {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'inherit'],
    })
  const packed = execFileSync(process.execPath, ['scripts/package.ts'], { cwd: copy, encoding: 'utf8' }).trim()
  mkdirSync(join(kept, '..'), { recursive: true })
  execFileSync('cp', [packed, `${kept}.new`])
  renameSync(`${kept}.new`, kept)
  return kept
}

const admin = async ({ url }: Started, method: string, path: string, body?: object) => {
  const response = await fetch(`${url}/admin/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${ADMIN}`, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`)
  // biome-ignore lint/suspicious/noExplicitAny: the test reads answers of every shape
  return JSON.parse(text) as any
}

/** Members of objects, so that a version that adds some is equal to one without. */
const only = (names: readonly string[], objects: unknown) =>
  list(objects).map((each) => Object.fromEntries(names.map((name) => [name, isObject(each) ? each[name] : undefined])))

/** What a gateway shows of its data folder. */
const shown = async (gateway: Started) => {
  const of = (path: string) => admin(gateway, 'GET', path)
  const { total } = await of('/usage')
  return {
    teams: only(['id', 'name', 'rev', 'limits'], (await of('/teams')).data),
    keys: only(['id', 'name', 'team', 'status', 'rev', 'prefix'], (await of('/keys')).data),
    budgets: only(['id', 'name', 'amount', 'period', 'appliesTo'], (await of('/budgets')).data),
    tokens: only(['id', 'name', 'rev'], (await of('/tokens')).data),
    prices: only(['id', 'provider', 'model', 'prices'], (await of('/prices')).data),
    usage: only(['requests', 'attempts', 'input', 'output', 'cost'], [total]),
    audit: object(await of('/audit/verify'))?.ok,
  }
}

const isShallow = VERSIONS.some(({ commit }) => commit === '')

describe('upgrade', { skip: isShallow ? 'the earlier commits are not here (a shallow clone)' : false }, () => {
  const place = mkdtempSync(join(tmpdir(), 'headgate-upgrade-'))
  let upstream: Upstream
  const earlierPrograms = new Map<string, string>()
  let present = ''
  before(async () => {
    for (const { commit } of VERSIONS)
      earlierPrograms.set(commit, install(packEarlier(commit, place), join(place, commit)))
    present = install(await packInto(place), join(place, 'present'))
    upstream = await startUpstream((request) =>
      request.method === 'GET'
        ? { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
        : answerWith(request, { text: `Answer ${upstream.requests.length}.`, input: 100, output: 100 }),
    )
  })
  after(async () => {
    await upstream?.close()
    rmSync(place, { recursive: true, force: true })
  })

  const begin = (program: string, data: string) =>
    start({
      program,
      env: {
        OPENAI_API_KEY: 'sk-0123456789',
        OPENAI_BASE_URL: `${upstream.url}/v1`,
        OPENAI_MODELS: 'm',
        // The gateway keeps the turns, as this format has no stored responses.
        OPENAI_STYLES: 'chat',
        AUTH_ADMIN: ADMIN,
        DATA_DIR: data,
      },
      files: { 'headgate.yaml': YAML },
    })

  const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
  const ask = async ({ base }: Started, key: string): Promise<void> => {
    const body = { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'x' }] }
    const { status, text } = await post(`${base}/chat/completions`, body, bearer(key))
    assert.equal(status, 200, text)
  }
  const respond = async ({ base }: Started, key: string, more: object = {}): Promise<string> => {
    const body = { model: 'm', max_output_tokens: 100, input: 'x', ...more }
    const answer = await post(`${base}/responses`, body, bearer(key))
    assert.equal(answer.status, 200, answer.text)
    return answer.json().id
  }
  const retrieve = async ({ base }: Started, key: string, id: string): Promise<unknown> => {
    const response = await fetch(`${base}/responses/${id}`, { headers: bearer(key) })
    assert.equal(response.status, 200, await response.clone().text())
    return object(await response.json())?.output
  }

  /** Writes with one version. Returns the secret of its key and its stored response. */
  const write = async (gateway: Started, name: string) => {
    const team = await admin(gateway, 'POST', '/teams', { name: `team ${name}` })
    const key = await admin(gateway, 'POST', '/keys', { name: `key ${name}`, team: team.id })
    await admin(gateway, 'POST', '/budgets', {
      name: `budget ${name}`,
      amount: '10',
      period: 'total',
      appliesTo: { teams: [team.id] },
    })
    await admin(gateway, 'POST', '/tokens', { name: `token ${name}`, bindings: [{ role: 'viewer' }] })
    await admin(gateway, 'POST', '/prices', { provider: 'demo', model: `model-${name}`, prices: { input: 1 } })
    await ask(gateway, key.secret)
    const response = await respond(gateway, key.secret)
    return { secret: String(key.secret), response, output: await retrieve(gateway, key.secret, response) }
  }
  type Written = Awaited<ReturnType<typeof write>>

  /** What one version wrote works in the other: the key is accepted, its response is there and continues. */
  const use = async (gateway: Started, { secret, response, output }: Written): Promise<void> => {
    assert.deepEqual(await retrieve(gateway, secret, response), output)
    const next = await respond(gateway, secret, { previous_response_id: response })
    const [last] = upstream.requests.slice(-1)
    assert.match(last?.body ?? '', /Answer \d/, 'the earlier turn is sent')
    await retrieve(gateway, secret, next)
    await ask(gateway, 'fixed-key-0123456789')
  }

  const continues = async ({ commit, canReturn }: EarlierVersion, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> => {
    const data = join(place, `${signal}-${commit}`)
    const earlier = earlierPrograms.get(commit) ?? assert.fail()
    await using first = await begin(earlier, data)
    const one = await write(first, 'one')
    await untilComplete(data)
    const before = await shown(first)
    assert.deepEqual(before.usage, [{ ...before.usage[0], requests: 2, attempts: 2 }])
    // Answered, and perhaps only in the journal when the process ends.
    await ask(first, one.secret)
    first.child.kill(signal)
    await first.stop()

    await using second = await begin(present, data)
    await untilStored(data, 'the last request', ({ requests }) => requests.length === 3)
    // If the end of the last call was not yet in the journal, it costs what was reserved for it, which is less here.
    const spent = checkStoredUsage(data, { budgets: true })
    assert.ok(signal === 'SIGTERM' ? spent === 3 * COST : spent > 2 * COST && spent <= 3 * COST, `spent ${spent}`)
    const afterwards = await shown(second)
    assert.deepEqual({ ...afterwards, usage: before.usage }, before)
    assert.equal(before.audit, true)
    const [budget] = (await admin(second, 'GET', '/budgets')).data
    assert.equal(Math.round(Number(budget.now.spent) * 1e9), spent)
    await use(second, one)
    const two = await write(second, 'two')
    await untilComplete(data)
    const written = await shown(second)
    second.child.kill(signal)
    await second.stop()
    if (!canReturn) return

    await using third = await begin(earlier, data)
    await untilComplete(data)
    assert.deepEqual(await shown(third), written)
    await use(third, one)
    await use(third, two)
    await untilComplete(data)
    checkStoredUsage(data)
    assert.equal(await third.stop(), 0)
  }

  for (const version of VERSIONS)
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      const end = version.canReturn ? ', and the earlier one after that' : ''
      test(`the present version continues after ${signal} of ${version.commit.slice(0, 8)}${end}`, () =>
        continues(version, signal))
    }

  test('the packages are different builds', () => {
    assert.ok(!earlierPrograms.has(present))
    for (const { commit } of VERSIONS) assert.match(basename(packEarlier(commit, place)), /^[0-9a-f]{40}\.tgz$/)
  })
})
