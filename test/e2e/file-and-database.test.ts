/**
 * Teams, keys, budgets and prices of headgate.yaml beside those of the admin API. Whatever changes on one side, and whether
 * it acts by a reload, a restart or a start after a kill: nothing of the other side is lost or doubled, IDs stay, and no
 * counter of a budget is touched.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'
import { untilStored } from './support/stored-usage.ts'

const ADMIN = 'admin-0123456789abcdef'
const FILE_KEY = 'a-key-of-the-file-0123456789'
/** 100 tokens of input at $10 and 100 of output at $40 per million, in nano-dollars. */
const COST = 5_000_000

const KINDS = ['teams', 'keys', 'budgets', 'prices'] as const
type Kind = (typeof KINDS)[number]
/** What differs between two versions of a record. */
type Version = number

/** An entry of the file. */
const entryOf: { readonly [kind in Kind]: (name: string, version: Version) => object } = {
  teams: (_, version) => ({ tags: { version: String(version) } }),
  keys: (name, version) => ({
    team: 'filed',
    secret: name === 'filed' ? FILE_KEY : `${FILE_KEY}-${name}`,
    tags: { version: String(version) },
  }),
  budgets: (_, version) => ({ amount: `${100 + version}`, period: 'total' }),
  prices: (name, version) => ({ provider: 'openai', model: `x-${name}`, factor: 1 + version }),
}
/** A body for the admin API. */
const bodyOf: { readonly [kind in Kind]: (name: string, version: Version) => object } = {
  teams: (name, version) => ({ name, tags: { version: String(version) } }),
  keys: (name, version) => ({ name, team: 'stored', tags: { version: String(version) } }),
  budgets: (name, version) => ({ name, amount: `${100 + version}`, period: 'total' }),
  prices: (name, version) => ({ provider: 'openai', model: `x-${name}`, prices: { factor: 1 + version } }),
}
/** A record as a list shows it. */
type Shown = {
  readonly id: string
  readonly name: string
  readonly managed: string
  readonly status?: string
  readonly model?: string
  readonly tags?: { readonly version?: string }
  readonly amount?: string
  readonly prices?: { readonly factor?: number }
  readonly now?: { readonly spent: string; readonly reserved: string }
}
const nameIn = (kind: Kind, { name, model }: Shown): string => (kind === 'prices' ? (model ?? '').slice(2) : name)
const versionIn = ({ tags, amount, prices }: Shown): Version =>
  tags?.version !== undefined
    ? Number(tags.version)
    : amount !== undefined
      ? Number(amount) - 100
      : (prices?.factor ?? 0) - 1

type Expected = { managed: 'file' | 'api'; version: Version; id: string | null }
type Changed = Pick<Expected, 'managed' | 'version'> & Partial<Expected>

describe('the file and the database', { concurrency: false }, () => {
  const data = mkdtempSync(join(tmpdir(), 'headgate-sides-'))
  let upstream: Upstream
  let gateway: Started
  let storedKey = ''
  let calls = 0
  /** What exists, by name. */
  const records: { readonly [kind in Kind]: Map<string, Expected> } = {
    teams: new Map(),
    keys: new Map(),
    budgets: new Map(),
    prices: new Map(),
  }
  /** What each budget has spent. */
  const spent = new Map<string, number>()

  const yaml = (): string => {
    const section = (kind: Kind) =>
      [...records[kind]].flatMap(([name, { managed, version }]) =>
        managed === 'file' ? [[name, entryOf[kind](name, version)] as const] : [],
      )
    const base = { provider: 'openai', model: 'm', perMillion: { input: 10, output: 40 } }
    return JSON.stringify({
      teams: Object.fromEntries(section('teams')),
      keys: Object.fromEntries(section('keys')),
      budgets: Object.fromEntries(section('budgets')),
      prices: [base, ...section('prices').map(([, entry]) => entry)],
    })
  }
  const begin = async () => {
    const env = {
      DATA_DIR: data,
      AUTH_ADMIN: ADMIN,
      OPENAI_API_KEY: 'sk-0123456789',
      OPENAI_MODELS: 'm',
      OPENAI_BASE_URL: `${upstream.url}/v1`,
    }
    gateway = await start({ env, files: { 'headgate.yaml': yaml() } })
  }
  const admin = async (method: string, path: string, body?: object) => {
    const response = await fetch(`${gateway.url}/admin/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    assert.ok(response.ok, `${method} ${path}: ${text}`)
    return text === '' ? {} : JSON.parse(text)
  }
  const put = (kind: Kind, name: string, { id = records[kind].get(name)?.id ?? null, ...rest }: Changed) => {
    records[kind].set(name, { ...rest, id })
    if (kind === 'budgets' && !spent.has(name)) spent.set(name, 0)
  }
  const create = async (kind: Kind, name: string, version: Version) => {
    const made = await admin('POST', `/${kind}`, bodyOf[kind](name, version))
    put(kind, name, { managed: 'api', version, id: made.id })
    return made
  }
  const remove = (kind: Kind, name: string) => {
    records[kind].delete(name)
    if (kind === 'budgets') spent.delete(name)
  }

  const ask = async (key: string) => {
    const body = { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'hello' }] }
    const { status, text } = await post(`${gateway.base}/chat/completions`, body, { authorization: `Bearer ${key}` })
    assert.equal(status, 200, text)
    calls++
    for (const [name, sum] of spent) spent.set(name, sum + COST)
  }
  const untilAllStored = () =>
    untilStored(data, `${calls} calls`, ({ attempts, openCalls }) => attempts.length === calls && openCalls === 0)

  /** Both sides are as expected: each record once, with its ID and its version. */
  const check = async (kind: Kind) => {
    const { data: list }: { data: readonly Shown[] } = await admin('GET', `/${kind}?limit=200`)
    const isOwn = ({ status, name, model }: Shown) =>
      status !== 'revoked' && model !== 'm' && !(kind === 'teams' && name === 'default')
    const shown = list.filter(isOwn)
    assert.deepEqual(
      shown.map((one) => [nameIn(kind, one), one.managed, versionIn(one)]).toSorted(),
      [...records[kind]].map(([name, { managed, version }]) => [name, managed, version]).toSorted(),
    )
    for (const one of shown) {
      const expected = records[kind].get(nameIn(kind, one))
      assert.ok(expected)
      expected.id ??= one.id
      // A price that is replaced is another one.
      if (kind !== 'prices') assert.equal(one.id, expected.id, one.name)
      if (kind === 'budgets')
        assert.deepEqual(
          [one.now?.spent, one.now?.reserved],
          [(Number(spent.get(one.name)) / 1e9).toFixed(9), '0.000000000'],
          `${one.name} after ${calls} calls`,
        )
    }
  }

  before(async () => {
    upstream = await startUpstream((request) =>
      request.method === 'GET'
        ? { do: 'answer', status: 404 }
        : answerWith(request, { text: 'x', input: 100, output: 100 }),
    )
    for (const kind of KINDS) put(kind, 'filed', { managed: 'file', version: 0 })
    await begin()
    for (const kind of KINDS) {
      const made = await create(kind, 'stored', 0)
      if (kind === 'keys') storedKey = made.secret
    }
  })
  after(async () => {
    await gateway?.stop()
    await upstream?.close()
    rmSync(data, { recursive: true, force: true })
  })

  const APPLY: { readonly [how: string]: () => Promise<void> } = {
    'a reload': async () => {
      writeFileSync(join(gateway.folder, 'headgate.yaml'), yaml())
      // The watcher of the file may have been first.
      const { outcome } = await admin('POST', '/system/reload')
      assert.notEqual(outcome, 'refused')
    },
    'a restart': async () => {
      assert.equal(await gateway.stop(), 0)
      await begin()
    },
    'a start after a kill': async () => {
      await untilAllStored()
      const exited = new Promise((resolve) => gateway.child.once('close', resolve))
      gateway.child.kill('SIGKILL')
      await exited
      await begin()
    },
  }
  /** Changes of one side, of each kind. `n`: the number of the round. */
  const CHANGE: { readonly [what: string]: (kind: Kind, n: number) => Promise<void> | void } = {
    'entries of the file are changed': (kind, n) => put(kind, 'filed', { managed: 'file', version: n }),
    'entries are added to the file': (kind, n) => put(kind, `added-${n}`, { managed: 'file', version: n }),
    'entries are taken out of the file': (kind, n) => remove(kind, `added-${n}`),
    'records are changed over the API': async (kind, n) => {
      const id = records[kind].get('stored')?.id ?? ''
      const path = `/${kind}/${encodeURIComponent(id)}?force=true`
      // A price is replaced.
      if (kind === 'prices') {
        await admin('DELETE', path)
        await create(kind, 'stored', n)
        return
      }
      await admin('PATCH', path, kind === 'budgets' ? { amount: `${100 + n}` } : { tags: { version: String(n) } })
      put(kind, 'stored', { managed: 'api', version: n })
    },
    'records are created and deleted over the API': async (kind, n) => {
      await create(kind, `more-${n}`, n)
      const { id } = await create(kind, `gone-${n}`, n)
      await admin('DELETE', `/${kind}/${encodeURIComponent(id)}?force=true`)
      remove(kind, `gone-${n}`)
      if (n === 1) return
      await admin('DELETE', `/${kind}/${encodeURIComponent(records[kind].get(`more-${n - 1}`)?.id ?? '')}?force=true`)
      remove(kind, `more-${n - 1}`)
    },
  }

  for (const [at, [how, apply]] of Object.entries(APPLY).entries())
    for (const [what, change] of Object.entries(CHANGE))
      describe(`${what}, and then comes ${how}`, () => {
        before(async () => {
          for (const kind of KINDS) await change(kind, at + 1)
          await apply()
          await ask(FILE_KEY)
          await ask(storedKey)
          await untilAllStored()
        })
        for (const kind of KINDS) test(`${kind}: both sides are complete, and counters go on`, () => check(kind))
      })

  test('a name of both sides, or an invalid file, changes nothing of either', async () => {
    const valid = yaml()
    const refused = {
      teams: 'headgate adopt team stored',
      keys: 'headgate adopt key stored',
      budgets: 'headgate adopt budget stored',
      prices: 'factor',
    }
    for (const kind of KINDS) {
      const file = JSON.parse(valid)
      if (kind === 'prices') file.prices.push({ provider: 'openai', model: 'y', factor: 'much' })
      else file[kind].stored = { ...entryOf[kind]('stored', 9), ...(kind === 'keys' && { team: 'stored' }) }
      // A valid change in the same file is not applied either.
      file.teams.filed = { tags: { version: '99' } }
      writeFileSync(join(gateway.folder, 'headgate.yaml'), JSON.stringify(file))
      const { outcome, problems } = await admin('POST', '/system/reload')
      assert.equal(outcome, 'refused')
      assert.match(JSON.stringify(problems), new RegExp(refused[kind]))
      await ask(FILE_KEY)
      await ask(storedKey)
      for (const each of KINDS) await check(each)
    }
    writeFileSync(join(gateway.folder, 'headgate.yaml'), valid)
    await admin('POST', '/system/reload')
    for (const kind of KINDS) await check(kind)
  })
})
