import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { CONTROL_ENGINES, type ControlEngine, connectTo, readPlace } from '../../../test/support/control-engines.ts'
import { FULL_ACCESS, NO_ACCOUNTS, NO_LIMITS } from '../../core/accounts.ts'
import { NO_REQUIRE } from '../../core/data-policy.ts'
import type { JsonObject } from '../../core/json.ts'
import { isWellFormedKey } from '../../policy/accounts/client-key.ts'
import { plainDigest } from '../entities/secret-digest.ts'
import { TEAM } from '../entities/team.ts'
import { ControlDatabase } from './control-database.ts'
import { readStoredAccounts, SCHEMA_VERSION } from './read-accounts.ts'
import type { AuditList, ControlContext, ControlOperation, ControlPlace, ControlSettings } from './record-operations.ts'
import { CONTROL_MIGRATIONS } from './schema.ts'

const folder = mkdtempSync(join(tmpdir(), 'headgate-control-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const SETTINGS: ControlSettings = { pepper: null, configured: [], auditDays: 365, file: NO_ACCOUNTS }
const CONTEXT: ControlContext = {
  actor: { kind: 'operator', id: 'root', name: 'root' },
  from: '127.0.0.1',
  requestId: 'req_x',
  teams: null,
  idempotencyKey: null,
}
const HOUR = 3_600_000
const NOW = Date.parse('2026-11-23T12:00:00Z')

test('control: the start reads the schema version that the thread writes', () =>
  assert.equal(SCHEMA_VERSION, CONTROL_MIGRATIONS.length))

test('control: without a file the start reads null and creates nothing', () => {
  const path = join(folder, 'nothing')
  assert.equal(readStoredAccounts(path), null)
  assert.throws(() => readFileSync(path))
})

for (const { name, skip, start } of CONTROL_ENGINES)
  describe(`the database of keys in ${name}`, { skip, concurrency: false }, () => {
    let engine: ControlEngine
    const closers: (() => void | Promise<void>)[] = []
    before(async () => {
      engine = await start()
    })
    after(async () => {
      for (const close of closers) await close()
      await engine?.remove()
    })
    let folders = 0
    const given = async (settings: Partial<ControlSettings> = {}) => {
      const path = join(folder, String(folders++))
      const place = engine.newPlace(path)
      const database = await ControlDatabase.open(place, { ...SETTINGS, ...settings })
      closers.push(() => database.close())
      const run = (operation: ControlOperation, context: Partial<ControlContext> = {}, now = NOW) =>
        database.run(operation, { ...CONTEXT, ...context }, now)
      const ok = async (...args: Parameters<typeof run>): Promise<JsonObject> => {
        const result = await run(...args)
        assert.ok(result.ok, JSON.stringify(result))
        return result.value
      }
      const error = async (...args: Parameters<typeof run>) => {
        const result = await run(...args)
        assert.ok(!result.ok, JSON.stringify(result))
        return [result.error.status, result.error.code, result.error.path]
      }
      const key = async (name: string, rest: JsonObject = {}) => {
        const value = await ok({ do: 'create', kind: 'key', body: { name, ...rest } })
        return { id: String(value.id), secret: String(value.secret), value }
      }
      return { path, place, database, run, ok, error, key }
    }
    const stored = async (place: ControlPlace) => {
      const accounts = await readPlace(place)
      assert.ok(accounts)
      return accounts
    }

    test('the first team has every member of the schema, also those that are newer than its database', async () => {
      const { ok } = await given()
      const team = await ok({ do: 'get', kind: 'team', id: 'team_default' })
      const read = TEAM.safeParse(team)
      assert.ok(read.success, JSON.stringify(read.error?.issues))
      assert.deepEqual(team.require, NO_REQUIRE)
    })

    test('a created key is answered as it acts, with its secret once, and stored as a digest', async () => {
      const { path, place, key, ok } = await given()
      const { id, secret, value } = await key('search-prod', { limits: { concurrent: 5 }, tags: { app: 'search' } })
      assert.ok(isWellFormedKey(secret))
      assert.match(id, /^key_[a-z]{12}$/)
      assert.deepEqual(value, {
        id,
        object: 'key',
        name: 'search-prod',
        team: 'team_default',
        expires_at: null,
        access: FULL_ACCESS,
        limits: { ...NO_LIMITS, concurrent: 5 },
        require: NO_REQUIRE,
        defaultRoute: null,
        cache: null,
        logBodies: false,
        requireSession: false,
        loops: null,
        tags: { app: 'search' },
        status: 'active',
        created_at: '2026-11-23T12:00:00.000Z',
        created_by: 'root',
        rev: 1,
        managed: 'api',
        prefix: 'hgk_',
        last4: secret.slice(-4),
        last_used_at: null,
        secrets: [{ last4: secret.slice(-4), created_at: '2026-11-23T12:00:00.000Z', until: null }],
        secret,
      })
      const { secret: _, ...shown } = value
      assert.deepEqual(await ok({ do: 'get', kind: 'key', id }), shown)
      const { records } = await stored(place)
      assert.equal(records.keys[0]?.secrets[0]?.digest, plainDigest(secret))
      assert.equal(records.keys[0]?.limits.concurrent, 5)
      for (const file of place.database ? [] : ['control.db', 'control.db-wal'])
        assert.ok(!readFileSync(join(path, file)).includes(secret.slice(4, 36)), file)
    })

    test('with a pepper secrets are stored as HMAC, imported digests as they are', async () => {
      const { place, key, ok } = await given({ pepper: 'pepper' })
      await key('made')
      const imported = await ok({
        do: 'create',
        kind: 'key',
        body: { name: 'imported', digest: plainDigest('x'.repeat(20)) },
      })
      assert.equal('secret' in imported, false)
      const own = await ok({ do: 'create', kind: 'key', body: { name: 'own', secret: 'sk-litellm-0123456789abcdef' } })
      assert.equal('secret' in own, false)
      assert.equal(own.last4, 'cdef')
      const digests = (await stored(place)).records.keys.map(({ name, secrets }) => [
        name,
        secrets[0]?.digest.slice(0, 3),
      ])
      assert.deepEqual(Object.fromEntries(digests), { made: 'h1:', imported: 's1:', own: 'h1:' })
    })

    test('bad bodies are refused with their path, and nothing is stored', async () => {
      const { place, error, key } = await given()
      await key('taken')
      const create = (kind: 'team' | 'key' | 'budget' | 'price' | 'token', body: unknown) =>
        error({ do: 'create', kind, body })
      assert.deepEqual(await create('key', { name: 'x', limits: { concurrent: -1 } }), [
        400,
        'invalid_value',
        'limits.concurrent',
      ])
      assert.deepEqual(await create('key', { name: 'x', priority: 'high' }), [400, 'invalid_value', ''])
      assert.deepEqual(await create('key', { name: 'x', team: 'nowhere' }), [400, 'invalid_value', 'team'])
      assert.deepEqual(await create('key', { name: '' }), [400, 'invalid_value', 'name'])
      assert.deepEqual(await create('team', { name: 7 }), [400, 'invalid_value', 'name'])
      assert.deepEqual(await create('key', { name: 'x', access: { ips: ['10.0.0.0/99'] } }), [
        400,
        'invalid_value',
        'access.ips',
      ])
      assert.deepEqual(await create('key', { name: 'x', secret: 'short' }), [400, 'invalid_value', 'secret'])
      assert.deepEqual(await create('key', { name: 'taken' }), [409, 'name_taken', 'name'])
      assert.deepEqual(await create('budget', { name: 'b', amount: '$5', period: 'month' }), [
        400,
        'invalid_value',
        'amount',
      ])
      assert.deepEqual(await create('budget', { name: 'b', amount: '5', period: 'day', startDay: 2 }), [
        400,
        'invalid_value',
        'startDay',
      ])
      assert.deepEqual(await create('budget', { name: 'b', amount: '5', period: 'day', timezone: 'Mars/X' }), [
        400,
        'invalid_value',
        'timezone',
      ])
      assert.deepEqual(
        await create('budget', { name: 'b', amount: '5', period: 'day', appliesTo: { teams: ['nowhere'] } }),
        [400, 'invalid_value', 'appliesTo.teams'],
      )
      assert.deepEqual(await create('token', { name: 't', bindings: [] }), [400, 'invalid_value', 'bindings'])
      assert.deepEqual(await create('price', { provider: 'openai', model: '*', prices: {} }), [
        400,
        'invalid_value',
        'prices',
      ])
      const { records, tokens } = await stored(place)
      assert.deepEqual(
        [records.teams.length, records.keys.length, records.budgets.length, records.prices.length],
        [1, 1, 0, 0],
      )
      assert.deepEqual(tokens, [])
    })

    test('a merge patch changes members, null restores their default, and a lost update is refused', async () => {
      const { key, ok, error } = await given()
      const { id } = await key('a', {
        limits: { concurrent: 5, requestsPerMinute: 7 },
        require: NO_REQUIRE,
        access: { models: ['openai/*'] },
      })
      const patch = {
        limits: { concurrent: 6, requestsPerMinute: null },
        require: NO_REQUIRE,
        access: { models: null, routes: [] },
        name: 'b',
      }
      const patched = await ok({ do: 'patch', kind: 'key', id, patch, rev: 1 })
      assert.deepEqual(patched.limits, { ...NO_LIMITS, concurrent: 6 })
      assert.deepEqual(patched.access, { ...FULL_ACCESS, routes: [] })
      assert.deepEqual([patched.name, patched.rev, patched.prefix], ['b', 2, 'hgk_'])
      assert.deepEqual(await error({ do: 'patch', kind: 'key', id, patch: { name: 'c' }, rev: 1 }), [
        412,
        'precondition_failed',
        null,
      ])
      assert.equal((await ok({ do: 'patch', kind: 'key', id, patch: { name: 'c' }, rev: null })).rev, 3)
      assert.deepEqual(await error({ do: 'patch', kind: 'key', id, patch: { status: 'active' }, rev: 3 }), [
        400,
        'invalid_value',
        '',
      ])
      assert.deepEqual(await error({ do: 'patch', kind: 'key', id: 'key_none', patch: {}, rev: null }), [
        404,
        'not_found',
        null,
      ])
    })

    test('of concurrent patches with the same revision exactly one succeeds', async () => {
      const { key, run, ok } = await given()
      const { id } = await key('a')
      const results = await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          run({ do: 'patch', kind: 'key', id, patch: { tags: { n: String(n) } }, rev: 1 }),
        ),
      )
      assert.equal(results.filter((result) => result.ok).length, 1)
      assert.equal((await ok({ do: 'get', kind: 'key', id })).rev, 2)
    })

    test('rotation adds a secret and gives the older ones an end, at most three', async () => {
      const { place, key, ok, error } = await given()
      const { id, secret } = await key('a')
      const second = await ok({ do: 'rotate', id, overlap: '24h' })
      assert.notEqual(second.secret, secret)
      const digests = async () =>
        (await stored(place)).records.keys[0]?.secrets.map(({ digest, until }) => [digest, until] as const)
      assert.deepEqual(
        new Map(await digests()),
        new Map([
          [plainDigest(String(second.secret)), null],
          [plainDigest(secret), NOW + 24 * HOUR],
        ]),
      )
      await ok({ do: 'rotate', id, overlap: '7d' }, {}, NOW + 1)
      // A later, longer overlap does not extend the first secret.
      assert.equal(new Map(await digests()).get(plainDigest(secret)), NOW + 24 * HOUR)
      assert.deepEqual(await error({ do: 'rotate', id, overlap: '1h' }, {}, NOW + 2), [409, 'too_many_secrets', null])
      const last = await ok({ do: 'rotate', id, overlap: '0s' }, {}, NOW + 3)
      assert.deepEqual(await digests(), [[plainDigest(String(last.secret)), null]])
      assert.deepEqual(await error({ do: 'rotate', id, overlap: 'soon' }), [400, 'invalid_value', 'overlap'])
    })

    test('the older secrets of a rotation are ended before their time', async () => {
      const { place, key, ok } = await given()
      const { id } = await key('a')
      assert.equal((await ok({ do: 'retire', id })).rev, 1)
      const { secret } = await ok({ do: 'rotate', id, overlap: '24h' })
      const { rev, secrets } = await ok({ do: 'retire', id })
      assert.deepEqual([rev, Array.isArray(secrets) && secrets.length], [3, 1])
      assert.deepEqual(
        (await stored(place)).records.keys[0]?.secrets.map(({ digest, until }) => [digest, until]),
        [[plainDigest(String(secret)), null]],
      )
    })

    test('a revoked key stays in lists, frees its name, and cannot be changed', async () => {
      const { key, ok, error } = await given()
      const { id } = await key('a')
      assert.equal((await ok({ do: 'block', kind: 'key', id })).status, 'blocked')
      assert.equal((await ok({ do: 'unblock', kind: 'key', id })).status, 'active')
      assert.equal((await ok({ do: 'delete', kind: 'key', id, rev: null })).status, 'revoked')
      assert.deepEqual(await error({ do: 'unblock', kind: 'key', id }), [409, 'revoked', null])
      assert.deepEqual(await error({ do: 'rotate', id, overlap: '0s' }), [409, 'revoked', null])
      assert.deepEqual(await error({ do: 'patch', kind: 'key', id, patch: { name: 'b' }, rev: null }), [
        409,
        'revoked',
        null,
      ])
      await key('a')
    })

    test('a team with keys is deleted only with them; the default team never is', async () => {
      const { place, key, ok, error } = await given()
      const team = await ok({ do: 'create', kind: 'team', body: { name: 'search' } })
      const id = String(team.id)
      await key('a', { team: 'search' })
      assert.deepEqual(await error({ do: 'delete', kind: 'team', id, rev: null }), [409, 'team_has_keys', null])
      await ok({ do: 'delete', kind: 'team', id, rev: null, keys: 'revoke' })
      assert.deepEqual(
        (await stored(place)).records.keys.map(({ status }) => status),
        ['revoked'],
      )
      const { name, status } = await ok({ do: 'get', kind: 'team', id })
      assert.deepEqual([name, status], ['search', 'deleted'])
      assert.deepEqual(await error({ do: 'delete', kind: 'team', id, rev: null }), [404, 'not_found', null])
      assert.deepEqual(await error({ do: 'patch', kind: 'team', id, patch: {}, rev: null }), [404, 'not_found', null])
      const deletion = { do: 'delete', kind: 'team', id: 'team_default', rev: null } as const
      assert.deepEqual(await error(deletion), [409, 'default_team', null])
    })

    test('a deleted team keeps its name, and another team may take it', async () => {
      const { place, ok, error } = await given()
      const create = { do: 'create', kind: 'team', body: { name: 'search' } } as const
      const former = await ok(create)
      await ok({ do: 'delete', kind: 'team', id: String(former.id), rev: null })
      const next = await ok(create)
      assert.notEqual(next.id, former.id)
      const key = await ok({ do: 'create', kind: 'key', body: { name: 'b', team: 'search' } })
      assert.equal(key.team, next.id)
      assert.deepEqual(await error({ do: 'create', kind: 'key', body: { name: 'c', team: String(former.id) } }), [
        400,
        'invalid_value',
        'team',
      ])
      const listed = async (query: object) => {
        const { data } = await ok({ do: 'list', kind: 'team', query: { sort: 'created_at', ...query } })
        return (data as readonly { id: string; name: string }[]).map(({ id, name }) => [id, name])
      }
      assert.deepEqual(await listed({ status: ['deleted'] }), [[former.id, 'search']])
      assert.deepEqual(
        (await listed({})).filter(([id]) => id !== 'team_default'),
        [[next.id, 'search']],
      )
      const { teams } = (await stored(place)).records
      assert.deepEqual(
        teams
          .filter(({ name }) => name === 'search')
          .map(({ id, status }) => [id, status])
          .sort(),
        [
          [former.id, 'deleted'],
          [next.id, 'active'],
        ].sort(),
      )
    })

    test('a repeated write with the same idempotency key has the same answer without the secret', async () => {
      const { run, ok } = await given()
      const context = { idempotencyKey: 'once' }
      const create = { do: 'create', kind: 'key', body: { name: 'a' } } as const
      const first = await ok(create, context)
      const second = await run(create, context)
      assert.ok(second.ok)
      assert.equal(second.replayed, true)
      assert.deepEqual(second.value, { ...first, secret: null })
      const other = await run({ ...create, body: { name: 'b' } }, context)
      assert.equal(!other.ok && other.error.code, 'idempotency_key_reused')
      // Another actor's keys are separate; after 24 hours the key is free.
      const actor = { kind: 'token', id: 'adm_b', name: 'b' }
      assert.equal((await run({ ...create, body: { name: 'b' } }, { ...context, actor })).ok, true)
      assert.equal((await run({ ...create, body: { name: 'c' } }, context, NOW + 25 * HOUR)).ok, true)
    })

    test('records of the file are listed, and refuse changes with their place', async () => {
      const team = {
        id: 'team_file',
        name: 'search',
        status: 'active',
        access: FULL_ACCESS,
        limits: NO_LIMITS,
        require: NO_REQUIRE,
        cache: null,
        tags: {},
        managed: 'file',
      } as const
      const { key, ok, run, error } = await given({
        file: { ...NO_ACCOUNTS, teams: [team], places: { team_file: 'headgate.yaml:4' } },
      })
      const { value } = await key('a', { team: 'search' })
      assert.equal(value.team, 'team_file')
      const list = await ok({ do: 'list', kind: 'team', query: { sort: 'name' } })
      assert.deepEqual(
        (list.data as JsonObject[]).map(({ name, managed }) => [name, managed]),
        [
          ['default', 'api'],
          ['search', 'file'],
        ],
      )
      const result = await run({ do: 'patch', kind: 'team', id: 'team_file', patch: { name: 'x' }, rev: null })
      assert.deepEqual(!result.ok && [result.error.status, result.error.message], [
        409,
        'The team "search" is defined in headgate.yaml:4. Change it there.',
      ])
      assert.deepEqual(await error({ do: 'create', kind: 'team', body: { name: 'search' } }), [
        409,
        'managed_by_file',
        null,
      ])
    })

    test('lists have pages, sorts and filters', async () => {
      const { database, key, ok, error } = await given()
      const made: { id: string }[] = []
      for (const name of ['delta', 'alpha', 'charlie', 'bravo', 'echo'])
        made.push(await key(name, { tags: { app: name < 'c' ? 'early' : 'late' } }))
      await database.storeUses([[made[0]?.id ?? '', NOW]])
      const pages = async (query: object) => {
        const names: unknown[] = []
        let after: string | undefined
        do {
          const page = await ok({ do: 'list', kind: 'key', query: { ...query, limit: 2, ...(after && { after }) } })
          names.push(...(page.data as JsonObject[]).map(({ name }) => name))
          after = typeof page.next === 'string' ? page.next : undefined
        } while (after !== undefined)
        return names
      }
      assert.deepEqual(await pages({ sort: 'name' }), ['alpha', 'bravo', 'charlie', 'delta', 'echo'])
      assert.deepEqual(await pages({ sort: '-name' }), ['echo', 'delta', 'charlie', 'bravo', 'alpha'])
      assert.equal(new Set(await pages({})).size, 5)
      assert.deepEqual(await pages({ sort: '-last_used_at', q: 'delta' }), ['delta'])
      assert.deepEqual(await pages({ sort: 'name', tag: ['app:early'] }), ['alpha', 'bravo'])
      assert.deepEqual(await pages({ q: 'LPH' }), ['alpha'])
      // Beyond 32 bits, and one of a record that is not there.
      const amounts = [
        { id: made[1]?.id, amount: 7_000_000_000_000 },
        { id: made[2]?.id, amount: -5 },
        { id: 'key_none', amount: 9 },
        { id: made[4]?.id, amount: 8_000_000_000_000 },
      ]
      const bySpend = await pages({ sort: '-spend', amounts })
      assert.deepEqual([...bySpend.slice(0, 2), bySpend.at(-1)], ['echo', 'alpha', 'charlie'])
      assert.equal(new Set(bySpend).size, 5)
      assert.equal((await pages({ last_used_before: new Date(NOW).toISOString() })).length, 4)
      assert.deepEqual(await pages({ status: ['blocked', 'revoked'] }), [])
      assert.deepEqual(await pages({ team: ['team_none'] }), [])
      assert.deepEqual(await error({ do: 'list', kind: 'key', query: { limit: 0 } }), [400, 'invalid_value', 'limit'])
      assert.deepEqual(await error({ do: 'list', kind: 'key', query: { sort: 'doc' } }), [400, 'invalid_value', 'sort'])
      assert.deepEqual(await error({ do: 'list', kind: 'key', query: { after: 'x' } }), [400, 'invalid_value', 'after'])
    })

    test('an expired key is shown as expired, and found as such', async () => {
      const { key, ok } = await given()
      const { id } = await key('a', { expires_at: '2026-11-23T13:00:00Z' })
      const list = async (status: string, now: number) =>
        ((await ok({ do: 'list', kind: 'key', query: { status: [status] } }, {}, now)).data as JsonObject[]).length
      assert.deepEqual([await list('active', NOW), await list('expired', NOW)], [1, 0])
      assert.deepEqual([await list('active', NOW + HOUR), await list('expired', NOW + HOUR)], [0, 1])
      assert.equal((await ok({ do: 'get', kind: 'key', id }, {}, NOW + HOUR)).status, 'expired')
    })

    test('an actor bound to a team changes keys of this team only', async () => {
      const { key, ok, error } = await given()
      const id = String((await ok({ do: 'create', kind: 'team', body: { name: 'search' } })).id)
      const scope = { teams: [id] }
      const other = await key('other')
      const own = await ok({ do: 'create', kind: 'key', body: { name: 'own', team: id } }, scope)
      const list = await ok({ do: 'list', kind: 'key', query: {} }, scope)
      assert.deepEqual(
        (list.data as JsonObject[]).map(({ name }) => name),
        ['own'],
      )
      assert.deepEqual(await error({ do: 'get', kind: 'key', id: other.id }, scope), [404, 'not_found', null])
      assert.deepEqual(await error({ do: 'block', kind: 'key', id: other.id }, scope), [404, 'not_found', null])
      const move = { do: 'patch', kind: 'key', id: String(own.id), patch: { team: 'default' }, rev: null } as const
      assert.deepEqual(await error(move, scope), [403, 'not_permitted', null])
      for (const operation of [
        { do: 'create', kind: 'key', body: { name: 'b' } },
        { do: 'create', kind: 'token', body: { name: 't', bindings: [{ role: 'admin' }] } },
        { do: 'patch', kind: 'team', id, patch: { limits: { concurrent: null } }, rev: null },
        { do: 'decide', kind: 'circuit', id: 'openai', state: 'open', until: null, reason: '' },
      ] as const)
        assert.deepEqual(await error(operation, scope), [403, 'not_permitted', null], JSON.stringify(operation))
    })

    test('a bulk action applies to each key and lists those that failed', async () => {
      const { place, key, ok } = await given()
      const [a, b] = [await key('a', { tags: { app: 'x' } }), await key('b', { tags: { app: 'x' } })]
      const result = await ok({ do: 'bulk', action: 'block', ids: [a.id, 'key_none'] })
      assert.equal(result.done, 1)
      assert.deepEqual(
        (result.failed as JsonObject[]).map(({ id }) => id),
        ['key_none'],
      )
      assert.equal((await ok({ do: 'bulk', action: 'revoke', filter: { tag: ['app:x'] } })).done, 2)
      assert.deepEqual(
        (await stored(place)).records.keys.map(({ status }) => status),
        ['revoked', 'revoked'],
      )
      assert.ok(b.id)
    })

    test('budgets, prices, tokens and decisions reach the serving process', async () => {
      const { place, key, ok } = await given()
      const { id } = await key('a')
      const budget = await ok({
        do: 'create',
        kind: 'budget',
        body: {
          name: 'b',
          amount: '2500.00',
          period: 'month',
          appliesTo: { teams: ['default'], keys: ['a'] },
          alerts: [80],
        },
      })
      assert.equal(budget.amount, '2500.00')
      await ok({
        do: 'create',
        kind: 'price',
        body: { provider: 'openai', model: 'gpt-5*', prices: { input: 2.5, factor: 0.85 } },
      })
      const token = await ok({
        do: 'create',
        kind: 'token',
        body: { name: 't', bindings: [{ role: 'admin', team: 'default' }] },
      })
      assert.match(String(token.secret), /^hga_/)
      await ok({ do: 'decide', kind: 'credential', id: '77c0', state: 'disabled', until: null, reason: 'leaked' })
      const { records, tokens, decisions } = await stored(place)
      assert.equal(records.budgets[0]?.amount, 2_500_000_000_000)
      assert.deepEqual(records.budgets[0]?.appliesTo.keys, [id])
      assert.deepEqual(records.budgets[0]?.appliesTo.teams, ['team_default'])
      assert.deepEqual(records.prices[0]?.prices, { input: 2_500, factor: 0.85 })
      assert.deepEqual(tokens[0]?.digests, [plainDigest(String(token.secret))])
      assert.deepEqual(tokens[0]?.bindings, [{ role: 'admin', team: 'team_default' }])
      assert.deepEqual(
        decisions.map(({ id, state }) => [id, state]),
        [['77c0', 'disabled']],
      )
      await ok({ do: 'decide', kind: 'credential', id: '77c0', state: null, until: null, reason: '' })
      assert.deepEqual((await stored(place)).decisions, [])
    })

    test('changes of another connection are reported, once', async () => {
      const { place, database } = await given()
      const other = await ControlDatabase.open(place, SETTINGS)
      closers.push(() => other.close())
      const { seq } = await stored(place)
      assert.equal(await database.changes(seq), null)
      const made = await other.run({ do: 'create', kind: 'key', body: { name: 'a' } }, CONTEXT, NOW)
      assert.ok(made.ok)
      const change = await database.changes(seq)
      assert.ok(change && 'records' in change)
      assert.deepEqual(
        change.records.keys.map(({ name }) => name),
        ['a'],
      )
      assert.equal(change.records.keys[0]?.secrets.length, 1)
      assert.equal(await database.changes(change.seq), null)
      const complete = await database.changes(null)
      assert.ok(complete && 'complete' in complete)
      assert.equal(complete.complete.records.keys.length, 1)
    })

    test('every write has an audit row, without secrets, in an unbroken chain', async () => {
      const { place, key, ok } = await given()
      const { id, secret } = await key('a')
      const rotated = await ok({ do: 'rotate', id, overlap: '1h' })
      await ok({ do: 'note', action: 'login', object: 'root', details: { ok: true } })
      await ok({ do: 'delete', kind: 'key', id, rev: null })
      const audit = await ok({ do: 'audit', query: { limit: 2 } })
      const rows = audit.data as JsonObject[]
      assert.deepEqual(
        rows.map(({ action }) => action),
        ['key.revoke', 'login'],
      )
      assert.deepEqual(rows[0]?.actor, CONTEXT.actor)
      const rest = await ok({ do: 'audit', query: { after: String(audit.next), object: [id] } })
      assert.deepEqual(
        (rest.data as JsonObject[]).map(({ action }) => action),
        ['key.rotate', 'key.create'],
      )
      const actions = async (query: AuditList) =>
        ((await ok({ do: 'audit', query })).data as readonly JsonObject[]).map(({ action }) => String(action))
      const everything = await actions({})
      assert.deepEqual(
        await actions({ sign_ins: 'none' }),
        everything.filter((action) => action !== 'login'),
      )
      assert.deepEqual(await actions({ sign_ins: 'only' }), ['login'])
      assert.deepEqual(
        await actions({ kind: ['key'] }),
        everything.filter((action) => action.startsWith('key.')),
      )
      assert.deepEqual(await actions({ kind: ['ke', 'k%'] }), [])
      assert.deepEqual(await actions({ q: 'KEY.CREATE' }), ['key.create'])
      assert.deepEqual(await actions({ q: '%' }), [])
      const all = JSON.stringify(await ok({ do: 'audit', query: {} }))
      for (const hidden of [secret, String(rotated.secret), plainDigest(secret)]) assert.ok(!all.includes(hidden))
      assert.deepEqual(await ok({ do: 'verify' }), { ok: true, checked: 4, problem: null })

      const outside = connectTo(place)
      closers.push(() => outside.close())
      const broken = async (statement: string) => {
        await outside.run(statement)
        return (await ok({ do: 'verify' })).problem
      }
      assert.match(
        String(await broken("UPDATE audit SET action = 'key.update' WHERE seq = 2")),
        /^Row 2 .* was changed/,
      )
      assert.equal(await broken("UPDATE audit SET action = 'key.rotate' WHERE seq = 2"), null)
      assert.equal(
        await broken('CREATE TABLE kept AS SELECT * FROM audit; DELETE FROM audit WHERE seq = 3'),
        'Row 3 is missing.',
      )
      await broken('DELETE FROM audit; INSERT INTO audit SELECT * FROM kept')
      assert.equal(await broken('DELETE FROM audit WHERE seq = 1'), 'Row 1 is missing.')
      await broken('DELETE FROM audit; INSERT INTO audit SELECT * FROM kept')
      assert.equal(await broken('DELETE FROM audit WHERE seq = 4'), 'Rows after 3 are missing (last: 4).')
    })

    test('old audit rows are deleted, and the chain of the others stays valid', async () => {
      const { database, key, ok } = await given({ auditDays: 1 })
      const { id } = await key('a')
      await ok({ do: 'block', kind: 'key', id }, {}, NOW + 20 * HOUR)
      assert.equal(await database.sweep(NOW + 30 * HOUR), false)
      assert.deepEqual(await ok({ do: 'verify' }), { ok: true, checked: 1, problem: null })
      assert.equal(await database.sweep(NOW + 60 * HOUR), false)
      assert.deepEqual(await ok({ do: 'verify' }), { ok: true, checked: 0, problem: null })
      await ok({ do: 'unblock', kind: 'key', id }, {}, NOW + 60 * HOUR)
      assert.deepEqual(await ok({ do: 'verify' }), { ok: true, checked: 1, problem: null })
    })

    test('of sessions the 1,000 used last are kept, and a sweep deletes those that have ended', async () => {
      const { ok, error, database } = await given()
      const create = (digest: string, now: number) =>
        ok({ do: 'login_create', digest, actor: { kind: 'bootstrap' }, csrf: 'c' }, {}, now)
      for (let n = 0; n < 1_001; n++) await create(`d${n}`, NOW + n)
      assert.deepEqual(await error({ do: 'login_use', digest: 'd0', rules: null }), [404, 'not_found', null])
      assert.equal((await ok({ do: 'login_use', digest: 'd1', rules: null })).until, NOW + 1 + 8 * HOUR)
      const later = NOW + 9 * HOUR
      await create('late', later)
      await database.sweep(later)
      assert.deepEqual(await error({ do: 'login_use', digest: 'd1000', rules: null }, {}, NOW), [
        404,
        'not_found',
        null,
      ])
      assert.equal((await ok({ do: 'login_use', digest: 'late', rules: null }, {}, later)).until, later + 8 * HOUR)
    })

    test('a record with which 17 budgets count one request is refused and not stored', async () => {
      const { place, key, run, ok } = await given()
      const budget = (name: string, appliesTo: JsonObject) =>
        ({ do: 'create', kind: 'budget', body: { name, amount: '1', period: 'day', appliesTo } }) as const
      const { id } = await key('a', { tags: { app: 'x' } })
      const names = [...'bcdefghijklmnopq']
      for (const name of names) await ok(budget(name, { tags: { app: 'x' } }))
      await ok(budget('other', { tags: { app: 'y' } }))
      const refusal = async (operation: ControlOperation) => {
        const result = await run(operation)
        return result.ok ? '' : `${result.error.code}: ${result.error.message}`
      }
      assert.equal(
        await refusal(budget('last', { keys: [id] })),
        `too_many_budgets: 17 budgets would count the same requests of the key "a" (limit 16): ${names.join(', ')}, last. Restrict or delete one of them.`,
      )
      await ok(budget('team', { teams: ['default'], tags: { app: 'z' } }))
      const more = { do: 'create', kind: 'key', body: { name: 'k', tags: { app: 'x' } } } as const
      await ok(more)
      await ok(budget('of-z', { tags: { zone: 'eu' } }))
      assert.match(
        await refusal({ do: 'patch', kind: 'key', id, patch: { tags: { zone: 'eu' } }, rev: null }),
        /^too_many_budgets: 17 budgets would count the same requests of the key "a"/,
      )
      const { budgets, keys } = (await stored(place)).records
      assert.equal(budgets.length, 19)
      assert.deepEqual(keys.find((one) => one.id === id)?.tags, { app: 'x' })
    })

    test('a price below the least one of headgate.yaml is refused', async () => {
      const { error, ok } = await given()
      const price = (input: number) =>
        ({ do: 'create', kind: 'price', body: { provider: 'openai', model: `m${input}`, prices: { input } } }) as const
      for (const input of [-1, 0.0001, 100_001])
        assert.deepEqual(await error(price(input)), [400, 'invalid_value', 'prices.input'])
      for (const input of [0, 0.001, 100_000]) await ok(price(input))
    })
  })
