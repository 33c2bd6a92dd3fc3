import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { CONTROL_ENGINES, type ControlEngine, connectTo } from '../../../test/support/control-engines.ts'
import { NO_ACCOUNTS } from '../../core/accounts.ts'
import type { JsonObject } from '../../core/json.ts'
import type { SignedIn } from '../../core/sign-in.ts'
import { ControlDatabase } from './control-database.ts'
import type { ControlContext, ControlOperation, PersonLogin } from './record-operations.ts'

const folder = mkdtempSync(join(tmpdir(), 'headgate-people-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const CONTEXT: ControlContext = {
  actor: { kind: 'operator', id: 'root', name: 'root' },
  from: null,
  requestId: null,
  teams: null,
  idempotencyKey: null,
}
const HOUR = 3_600_000
const NOW = Date.parse('2026-11-23T12:00:00Z')
const RULES = { idle: 8 * HOUR, max: 24 * HOUR, recheck: HOUR }
const ANN: SignedIn = {
  issuer: 'https://idp.example',
  subject: '1',
  provider: 'okta',
  email: 'ann@corp.example',
  name: 'Ann',
  groups: ['ai-admins'],
}
const LOGIN: PersonLogin = { begun: NOW, checked: NOW, idToken: 'i', refreshToken: 'r' }

for (const { name, skip, start } of CONTROL_ENGINES)
  describe(`people in ${name}`, { skip, concurrency: false }, () => {
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
      const database = await ControlDatabase.open(place, {
        pepper: null,
        configured: [],
        auditDays: 365,
        file: NO_ACCOUNTS,
      })
      closers.push(() => database.close())
      const run = (operation: ControlOperation, now = NOW) => database.run(operation, CONTEXT, now)
      const ok = async (operation: ControlOperation, now = NOW): Promise<JsonObject> => {
        const result = await run(operation, now)
        assert.ok(result.ok, JSON.stringify(result))
        return result.value
      }
      const error = async (operation: ControlOperation, now = NOW) => {
        const result = await run(operation, now)
        assert.ok(!result.ok, JSON.stringify(result))
        return [result.error.status, result.error.code]
      }
      const signIn = (digest: string, person: Partial<SignedIn> = {}, sid: string | null = null, login = LOGIN) =>
        ok({ do: 'login_person', digest, csrf: 'c', person: { ...ANN, ...person }, sid, login, rules: RULES })
      const use = (digest: string): ControlOperation => ({ do: 'login_use', digest, rules: RULES })
      const idOf = (session: JsonObject) => String((session.person as JsonObject).id)
      const people = async (query = {}) => (await ok({ do: 'people', query })).data as readonly JsonObject[]
      return { place, run, ok, error, signIn, use, idOf, people }
    }

    test('a person is an issuer and a subject, whatever the e-mail address', async () => {
      const { signIn, idOf, people } = await given()
      const first = idOf(await signIn('a'))
      assert.equal(idOf(await signIn('b', { email: 'new@corp.example', groups: ['x'] })), first)
      assert.notEqual(idOf(await signIn('c', { subject: '2' })), first)
      assert.notEqual(idOf(await signIn('d', { issuer: 'https://other.example' })), first)
      const all = await people()
      assert.equal(all.length, 3)
      const ann = all.find(({ id }) => id === first)
      assert.deepEqual([ann?.email, ann?.groups, ann?.sessions, ann?.rev], ['new@corp.example', ['x'], 2, 1])
    })

    test('a session of a person ends by its rules, and is checked once in their time', async () => {
      const { ok, error, signIn, use } = await given()
      assert.equal((await signIn('a')).until, NOW + 8 * HOUR)
      assert.equal((await ok(use('a'), NOW + 10 * 60_000)).isCheckDue, false)
      const due = await ok(use('a'), NOW + HOUR)
      assert.deepEqual([due.isCheckDue, due.until], [true, NOW + 9 * HOUR])
      assert.equal((await ok(use('a'), NOW + HOUR)).isCheckDue, false, 'one request checks')
      for (let hour = 2; hour < 24; hour++) await ok(use('a'), NOW + hour * HOUR)
      assert.deepEqual(await error(use('a'), NOW + 24 * HOUR), [404, 'not_found'])
      await signIn('b', {}, null, { ...LOGIN, refreshToken: null })
      assert.equal((await ok(use('b'), NOW + 7 * HOUR)).until, NOW + 8 * HOUR)
    })

    test('without the settings of single sign-on no session of a person is valid', async () => {
      const { ok, error, signIn, use } = await given()
      await signIn('a')
      assert.deepEqual(await error({ do: 'login_use', digest: 'a', rules: null }), [404, 'not_found'])
      await ok(use('a'))
    })

    test('a check at the issuer changes the groups of the person', async () => {
      const { ok, signIn, use } = await given()
      await signIn('a')
      const login = { ...LOGIN, checked: NOW + 1, refreshToken: 'r2' }
      await ok({ do: 'login_checked', digest: 'a', person: { ...ANN, groups: [] }, login })
      const used = await ok(use('a'))
      assert.deepEqual((used.person as JsonObject).groups, [])
      assert.deepEqual(used.login, login)
    })

    test('a blocked person is signed out and cannot sign in, until an administrator admits them', async () => {
      const { ok, error, signIn, use, idOf, people } = await given()
      const id = idOf(await signIn('a'))
      await ok({ do: 'person_patch', id, rev: 1, patch: { status: 'blocked' } })
      assert.deepEqual(await error(use('a')), [404, 'not_found'])
      const again: ControlOperation = {
        do: 'login_person',
        digest: 'b',
        csrf: 'c',
        person: ANN,
        sid: null,
        login: LOGIN,
        rules: RULES,
      }
      assert.deepEqual(await error(again), [403, 'person_blocked'])
      assert.deepEqual(await error({ do: 'person_patch', id, rev: 1, patch: { status: 'active' } }), [
        412,
        'precondition_failed',
      ])
      await ok({
        do: 'person_patch',
        id,
        rev: 2,
        patch: { status: 'active', bindings: [{ role: 'viewer', team: null }] },
      })
      assert.deepEqual(((await ok(again)).person as JsonObject).bindings, [{ role: 'viewer', team: null }])
      assert.equal((await people())[0]?.status, 'active')
      const audit = (await ok({ do: 'audit', query: { object: [id] } })).data as readonly JsonObject[]
      assert.deepEqual(
        audit.map(({ action }) => action),
        ['person.update', 'person.update'],
      )
    })

    test('an administrator and the issuer end sessions, a logout token works once', async () => {
      const { ok, error, signIn, use, idOf } = await given()
      const id = idOf(await signIn('a', {}, 's1'))
      await signIn('b', {}, 's2')
      await signIn('other', { subject: '2' }, 's1')
      const end = { do: 'login_end_by_issuer', issuer: ANN.issuer, subject: '1', sid: 's1', jti: 'j1' } as const
      assert.equal((await ok({ ...end, issuer: 'https://other.example' })).ended, 0)
      assert.equal((await ok(end)).ended, 1)
      assert.deepEqual(await error(end), [400, 'invalid_value'])
      assert.deepEqual(await error(use('a')), [404, 'not_found'])
      await ok(use('b'))
      assert.equal((await ok({ do: 'person_sign_out', id })).ended, 1)
      assert.deepEqual(await error(use('b')), [404, 'not_found'])
      await ok(use('other'))
      assert.equal((await ok({ ...end, subject: null, jti: 'j2' })).ended, 1)
      assert.deepEqual(await error({ do: 'person_sign_out', id: 'usr_none' }), [404, 'not_found'])
    })

    test('lists of people have pages and find parts of names', async () => {
      const { ok, signIn, people } = await given()
      for (let n = 0; n < 5; n++)
        await signIn(`d${n}`, { subject: `s${n}`, email: `p${n}_%@corp.example`, name: `Person ${n}` })
      const first = await ok({ do: 'people', query: { limit: 2 } })
      const rest = await ok({ do: 'people', query: { limit: 200, after: String(first.next) } })
      const ids = [first, rest].flatMap(({ data }) => (data as readonly JsonObject[]).map(({ id }) => id))
      assert.equal(new Set(ids).size, 5)
      assert.equal((await people({ q: 'PERSON 3' })).length, 1)
      assert.equal((await people({ q: 'p2_%' })).length, 1)
      assert.equal((await people({ q: '%' })).length, 5, 'a percent sign is a letter')
      assert.equal((await people({ q: '%x' })).length, 0)
    })

    test('the database has no session of a person by name or token', async () => {
      const { place, signIn } = await given()
      await signIn('digest-a')
      const outside = connectTo(place)
      const rows = await outside.rows('SELECT * FROM login')
      await outside.close()
      assert.deepEqual(
        rows.map(({ digest, actor }) => [digest, actor]),
        [['digest-a', '{}']],
      )
    })
  })
