import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { CONTROL_ENGINES, type ControlEngine } from '../../../test/support/control-engines.ts'
import { NO_ACCOUNTS } from '../../core/accounts.ts'
import type { JsonObject } from '../../core/json.ts'
import type { SignedIn } from '../../core/sign-in.ts'
import { ControlDatabase } from './control-database.ts'
import type { ControlContext, ControlOperation, PersonLogin } from './record-operations.ts'

const folder = mkdtempSync(join(tmpdir(), 'headgate-sign-ins-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const CONTEXT: ControlContext = {
  actor: { kind: 'operator', id: 'root', name: 'root' },
  from: null,
  requestId: null,
  teams: null,
  idempotencyKey: null,
}
const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE
const NOW = Date.parse('2026-11-23T12:00:00Z')
const ANN: SignedIn = {
  issuer: 'https://idp.example',
  subject: '1',
  provider: 'okta',
  email: 'ann@corp.example',
  name: 'Ann',
  groups: ['devs'],
}
const LOGIN: PersonLogin = { begun: NOW, checked: NOW, idToken: null, refreshToken: 'sealed' }

for (const { name, skip, start } of CONTROL_ENGINES)
  describe(`sign-ins of programs in ${name}`, { skip, concurrency: false }, () => {
    let engine: ControlEngine
    const closers: (() => Promise<void>)[] = []
    before(async () => {
      engine = await start()
    })
    after(async () => {
      for (const close of closers) await close()
      await engine?.remove()
    })
    let folders = 0
    const given = async () => {
      const place = engine.newPlace(join(folder, `${name}-${folders++}`))
      const settings = { pepper: null, configured: [], auditDays: 365, file: NO_ACCOUNTS }
      const database = await ControlDatabase.open(place, settings)
      closers.push(() => database.close())
      const ok = async (operation: ControlOperation, now = NOW): Promise<JsonObject> => {
        const result = await database.run(operation, CONTEXT, now)
        assert.ok(result.ok, JSON.stringify(result))
        return result.value
      }
      const error = async (operation: ControlOperation, now = NOW) => {
        const result = await database.run(operation, CONTEXT, now)
        assert.ok(!result.ok, JSON.stringify(result))
        return result.error.code
      }
      const create = (digest: string, code = digest, now = NOW) =>
        ok({ do: 'device_create', digest, code, client: 'cli', address: '192.0.2.1' }, now)
      const claim = (code: string, person: Partial<SignedIn> = {}, login = LOGIN): ControlOperation => ({
        do: 'device_claim',
        code,
        confirm: `confirm ${code}`,
        person: { ...ANN, ...person },
        login,
      })
      const decide = (code: string, approve = true): ControlOperation => ({
        do: 'device_decide',
        confirm: `confirm ${code}`,
        approve,
      })
      const poll = (digest: string): ControlOperation => ({ do: 'device_poll', digest, refresh: `${digest} r0` })
      const use = (refresh: string): ControlOperation => ({ do: 'sign_in_use', refresh })
      const rotate = (refresh: string, next: string): ControlOperation => ({
        do: 'sign_in_rotate',
        refresh,
        next: [next, `${next} of the second secret`],
        person: null,
        login: null,
      })
      const signedIn = async (digest: string, login = LOGIN, now = NOW) => {
        await create(digest, digest, now)
        await ok(claim(digest, {}, login), now)
        await ok(decide(digest), now)
        return ok(poll(digest), now)
      }
      const endedIds = async (now = NOW) => {
        const { data } = await ok({ do: 'decisions' }, now)
        return (data as readonly JsonObject[]).map(({ kind, id }) => `${kind} ${id}`)
      }
      return { ok, error, create, claim, decide, poll, use, rotate, signedIn, endedIds }
    }

    test('administrators list sign-ins by pages and persons, and end one', async () => {
      const { ok, error, create, claim, decide, poll, use, endedIds, signedIn } = await given()
      await signedIn('d', LOGIN, NOW - MINUTE)
      await create('e')
      await ok(claim('e', { subject: '2', email: 'bob@corp.example', name: 'Bob' }))
      await ok(decide('e'))
      const bob = await ok(poll('e'))
      const list = async (query = {}, now = NOW) => {
        const { data, next } = await ok({ do: 'sign_ins', query }, now)
        return { data: data as readonly JsonObject[], next: next === null ? null : String(next) }
      }
      const { data, next } = await list()
      assert.equal(next, null)
      assert.deepEqual(data[0], {
        id: bob.id,
        object: 'sign_in',
        person: (bob.person as JsonObject).id,
        email: 'bob@corp.example',
        name: 'Bob',
        client: 'cli',
        address: '192.0.2.1',
        created_at: '2026-11-23T12:00:00.000Z',
        used_at: '2026-11-23T12:00:00.000Z',
        ends_at: data[0]?.ends_at,
      })
      const first = await list({ limit: 1 })
      const second = await list({ limit: 1, after: first.next ?? '' })
      assert.deepEqual([...first.data, ...second.data], data)
      assert.equal(second.next, null)
      assert.deepEqual((await list({ person: String(data[1]?.person) })).data, data.slice(1))
      assert.deepEqual((await list({ person: 'usr_none' })).data, [])
      assert.equal(await error({ do: 'sign_ins', query: { limit: 0 } }), 'invalid_value')
      assert.equal(await error({ do: 'sign_ins', query: { after: '?' } }), 'invalid_value')
      assert.deepEqual((await list({}, NOW + 365 * DAY)).data, [], 'ended by age')

      const id = String(bob.id)
      assert.deepEqual(await ok({ do: 'sign_in_delete', id }), { id, object: 'sign_in', deleted: true })
      assert.equal(await error({ do: 'sign_in_delete', id }), 'not_found')
      assert.equal(await error(use('e r0')), 'invalid_grant')
      assert.ok((await endedIds()).includes(`sign_in ${id}`))
      assert.deepEqual((await list()).data, data.slice(1), 'the other one is still there')
      const [row] = (await ok({ do: 'audit', query: { action: ['sign_in.end'] } })).data as readonly JsonObject[]
      assert.equal(row?.object, id)
    })

    test('a code is found, claimed, approved, and gives one sign-in', async () => {
      const { ok, error, create, claim, decide, poll } = await given()
      await create('d', 'CODE')
      assert.deepEqual(await ok({ do: 'device_find', code: 'CODE' }), { client: 'cli', address: '192.0.2.1' })
      assert.equal(await error({ do: 'device_find', code: 'OTHER' }), 'expired_token')
      assert.equal(await error(poll('d')), 'authorization_pending')
      assert.equal(await error(poll('d'), NOW + 1_000), 'slow_down')
      assert.equal(await error(decide('CODE')), 'expired_token', 'not claimed')
      await ok(claim('CODE'))
      assert.equal(await error(poll('d'), NOW + 20_000), 'authorization_pending', 'claimed is not approved')
      await ok(decide('CODE'))
      assert.equal(await error(decide('CODE')), 'expired_token', 'decided once')
      assert.equal(await error(claim('CODE')), 'expired_token')
      const { id, person } = await ok(poll('d'), NOW + 20_001)
      assert.match(String(id), /^sgn_/)
      assert.equal((person as JsonObject).email, 'ann@corp.example')
      assert.equal(await error(poll('d'), NOW + 30_000), 'expired_token', 'used')
    })

    test('a refused or old code gives nothing', async () => {
      const { ok, error, create, claim, decide, poll } = await given()
      await create('a')
      await ok(claim('a'))
      await ok(decide('a', false))
      assert.equal(await error(poll('a')), 'access_denied')
      assert.equal(await error(poll('a')), 'expired_token')
      await create('b')
      await ok(claim('b'))
      assert.equal(await error(decide('b'), NOW + 10 * MINUTE), 'expired_token')
      assert.equal(await error(poll('b'), NOW + 10 * MINUTE), 'expired_token')
      assert.equal(
        await error({ do: 'device_create', digest: 'c', code: 'b', client: '', address: '' }),
        'conflict',
        'a code in use',
      )
    })

    test('refresh tokens rotate, and the one before is good for a minute', async () => {
      const { ok, error, signedIn, use, rotate } = await given()
      const { id } = await signedIn('d')
      assert.equal((await ok(use('d r0'))).isCheckDue, false)
      await ok(rotate('d r0', 'r1'))
      await ok(use('d r0'), NOW + MINUTE)
      await ok(rotate('d r0', 'r1'), NOW + MINUTE)
      await ok(rotate('r1', 'r2'), NOW + MINUTE)
      assert.equal((await ok({ do: 'sign_in_person', id: String(id) })).id, id)
      assert.equal(await error(use('unknown')), 'invalid_grant')
    })

    test('after the secret has changed, a repeated refresh still gives the token that is valid', async () => {
      const { ok, error, signedIn, rotate } = await given()
      await signedIn('d')
      assert.equal((await ok(rotate('d r0', 'old'))).next, 0)
      const again = { ...rotate('d r0', ''), next: ['new', 'old'] } as ControlOperation
      assert.equal((await ok(again)).next, 1)
      assert.equal(await error({ ...rotate('d r0', ''), next: ['new'] } as ControlOperation), 'invalid_grant')
    })

    test('a replay after the minute ends the sign-in everywhere', async () => {
      const { ok, error, signedIn, use, rotate, endedIds } = await given()
      const { id } = await signedIn('d')
      await ok(rotate('d r0', 'r1'))
      assert.equal(await error(rotate('d r0', 'r1'), NOW + MINUTE + 1), 'invalid_grant')
      assert.equal(await error(use('d r0'), NOW + MINUTE + 1), 'replayed')
      assert.equal(await error(use('r1'), NOW + MINUTE + 2), 'invalid_grant')
      assert.deepEqual(await endedIds(), [`sign_in ${id}`])
    })

    test('of programs that refresh at once, one asks the issuer', async () => {
      const { ok, signedIn, use } = await given()
      const { id } = await signedIn('d')
      const later = NOW + 55 * MINUTE
      assert.equal((await ok(use('d r0'), later)).isCheckDue, true)
      assert.equal((await ok(use('d r0'), later)).isCheckDue, false)
      await ok({ do: 'sign_in_unchecked', id: String(id) })
      assert.equal((await ok(use('d r0'), later)).isCheckDue, true)
    })

    test('blocking a person ends the sign-ins, and unblocking does not bring them back', async () => {
      const { ok, error, signedIn, use, claim, create, endedIds } = await given()
      const { id, person } = await signedIn('d')
      await create('waits')
      const patch = (status: 'active' | 'blocked'): ControlOperation => ({
        do: 'person_patch',
        id: String((person as JsonObject).id),
        rev: null,
        patch: { status },
      })
      const { data } = await ok({ do: 'people', query: {} })
      assert.equal((data as readonly JsonObject[])[0]?.sessions, 1)
      await ok(patch('blocked'))
      assert.equal(await error(use('d r0')), 'invalid_grant')
      assert.equal(await error(claim('waits')), 'person_blocked')
      await ok(patch('active'))
      assert.equal(await error(use('d r0')), 'invalid_grant')
      assert.deepEqual(await endedIds(), [`sign_in ${id}`])
    })

    test('a person has twenty sign-ins; one ends by its token or its ID', async () => {
      const { ok, error, signedIn, use } = await given()
      for (let n = 0; n <= 20; n++) await signedIn(`d${n}`, LOGIN, NOW + n)
      assert.equal(await error(use('d0 r0')), 'invalid_grant')
      const { id } = await ok(use('d1 r0'))
      await ok({ do: 'sign_in_end', id: String(id) })
      await ok({ do: 'sign_in_end', refresh: 'd2 r0' })
      assert.equal((await ok({ do: 'sign_in_end', refresh: 'unknown' })).person, null)
      for (const refresh of ['d1 r0', 'd2 r0']) assert.equal(await error(use(refresh)), 'invalid_grant')
      await ok(use('d3 r0'))
    })

    test('without a refresh token of the issuer a sign-in ends after 14 days', async () => {
      const { ok, error, signedIn, use, rotate } = await given()
      await signedIn('d', { ...LOGIN, refreshToken: null })
      assert.equal((await ok(use('d r0'), NOW + 10 * DAY)).isCheckDue, false)
      await ok(rotate('d r0', 'r1'), NOW + 10 * DAY)
      assert.equal(await error(use('r1'), NOW + 14 * DAY), 'invalid_grant')
    })
  })
