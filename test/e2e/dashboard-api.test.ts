/** What the pages of the dashboard read and do through the admin API, with real processes and two providers. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, describe, test } from 'node:test'
import { restoreBackup } from '../../src/backup/backup.ts'
import { CLIENTS } from '../../src/connect/clients.ts'
import { readStoredAccounts } from '../../src/records/store/read-accounts.ts'
import { answerWith, failWith, piecesOf } from '../support/answers.ts'
import type { Upstream } from '../support/upstream.ts'
import { skipWithoutProc } from './support/gauges.ts'
import { post, type Started } from './support/process.ts'
import { callsOf, isComplete, sleep, stage } from './support/stage.ts'
import { verb } from './support/verb.ts'

const ADMIN = 'operator-token-0123456789'
const ANSWER = { text: 'hello', input: 10, output: 5 }

/** Calls the admin API of a gateway. Each call has a connection of its own, so that all workers receive some. */
const adminOf =
  (gateway: () => Pick<Started, 'url'>) =>
  async (method: string, path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}) => {
    const response = await fetch(`${gateway().url}/admin/api/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${ADMIN}`,
        connection: 'close',
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    // biome-ignore lint/suspicious/noExplicitAny: the tests read bodies of every shape
    return { status: response.status, headers: response.headers, text, json: (): any => JSON.parse(text) }
  }

describe('what the dashboard reads', { concurrency: false }, () => {
  const { upstream, gateway: startGateway } = stage()
  let alpha: Upstream
  let beta: Upstream
  let isDown = false
  /** Streams of beta stop before their end. */
  let isStalled = false
  /** A key of a client, once there is one. */
  let key = ''
  let gateway: Started
  const admin = adminOf(() => gateway)
  /** Sends a model call, and returns its ID. */
  const ask = async (body: object): Promise<string> => {
    const whole = { messages: [{ role: 'user', content: 'Hello' }], ...body }
    const answer = await post(`${gateway.base}/chat/completions`, whole, { authorization: `Bearer ${key}` })
    return answer.headers.get('x-request-id') ?? ''
  }
  before(async () => {
    alpha = await upstream((request) =>
      isDown ? failWith(request, 503, { type: 'api_error', message: 'down' }) : answerWith(request, ANSWER),
    )
    beta = await upstream((request) =>
      isStalled
        ? { do: 'stream', pieces: piecesOf(request, ANSWER).slice(0, 2), ending: 'stall' }
        : answerWith(request, ANSWER),
    )
    gateway = await startGateway(
      {
        providers: {
          alpha: { kind: 'openai', baseUrl: `${alpha.url}/v1`, models: ['gpt-5'] },
          beta: { baseUrl: `${beta.url}/v1`, models: ['small'] },
        },
        routes: { fast: { targets: ['alpha/gpt-5'], fallback: ['beta/small'] }, alone: { targets: ['alpha/gpt-5'] } },
        fallback: 'none',
      },
      { AUTH_ADMIN: ADMIN, AUTH_REQUIRED: 'auto' },
    )
  })

  describe('explained plans', () => {
    test('every route with a provider down: which still answer, and what they lose', async () => {
      const { status, text, json } = await admin('POST', '/explain', { for: '*', assume: { down: ['alpha'] } })
      assert.equal(status, 200, text)
      const { data } = json()
      assert.deepEqual(
        data.map(({ model, before }: Record<string, unknown>) => [model, before]),
        ['fast', 'alone', 'auto'].map((name) => [name, { provider: 'alpha', model: 'gpt-5' }]),
      )
      const [fast, alone] = data
      assert.deepEqual(fast.targets[0].keys[0].because, 'assumed_down')
      assert.equal(alone.answers, null)
      assert.deepEqual([callsOf(alpha).length, callsOf(beta).length], [0, 0])
    })

    test('a target that the catalogue does not have loses nothing that is known', async () => {
      const [openai, other] = [{ kind: 'openai', baseUrl: alpha.url }, { baseUrl: beta.url }]
      const own = await startGateway(
        {
          providers: { openai: { ...openai, models: ['gpt-5'] }, other: { ...other, models: ['small'] } },
          routes: { both: { targets: ['openai/gpt-5', 'other/small'] } },
        },
        { AUTH_ADMIN: ADMIN },
      )
      const answer = await adminOf(() => own)('POST', '/explain', { for: '*', assume: { down: ['openai'] } })
      const { answers, loses } = answer.json().data[0]
      assert.deepEqual([answers, loses], [{ provider: 'other', model: 'small' }, []])
    })

    test('each target with the estimated cost of an attempt, by its price and the tokens of the request', async () => {
      const request = { model: 'fast', max_tokens: 100, messages: [{ role: 'user', content: 'x'.repeat(30_000) }] }
      const estimates = async (changes: object) => {
        const { targets } = (await admin('POST', '/explain', { request: { ...request, ...changes } })).json()
        return targets.map(({ cost_estimate }: { cost_estimate: string | null }) => cost_estimate)
      }
      const [short] = await estimates({})
      const [unpriced] = await estimates({ model: 'beta/small' })
      assert.equal(unpriced, null)
      const [longer] = await estimates({ max_tokens: 200 })
      // The catalogue has $1.25 and $10 for a million tokens; a token is estimated at 3 bytes.
      assert.ok(Number(short) > 0.0125 && Number(short) < 0.015, short)
      assert.equal((Number(longer) - Number(short)).toFixed(6), '0.001000')
    })

    test('one request with a limited key, and without a provider', async () => {
      const request = { model: 'fast', messages: [{ role: 'user', content: 'Hello' }] }
      const plan = async (assume: object) => (await admin('POST', '/explain', { request, assume })).json()
      const { targets } = await plan({})
      const kid = targets[0].keys[0].id
      const limited = await plan({ limited: [`alpha#${kid}`] })
      assert.equal(limited.targets[0].keys[0].because, 'assumed_limited')
      const without = await plan({ without: ['alpha'] })
      assert.deepEqual(
        without.targets.map(({ provider }: { provider: string }) => provider),
        ['beta'],
      )
    })

    test('a target with an open circuit is the first choice only where no other one is ready', async () => {
      const down = await upstream((request) => failWith(request, 503, { type: 'api_error', message: 'down' }))
      const other = await startGateway(
        {
          providers: {
            down: { baseUrl: `${down.url}/v1`, models: ['large'] },
            beta: { baseUrl: `${beta.url}/v1`, models: ['small'] },
          },
          routes: { fast: { targets: ['down/large', 'beta/small'] }, alone: { targets: ['down/large'] } },
          fallback: 'same-model',
          circuit: { whenAllOpen: 'try' },
        },
        { AUTH_ADMIN: ADMIN },
      )
      const messages = [{ role: 'user', content: 'Hello' }]
      for (let n = 0; n < 6; n++) await post(`${other.base}/chat/completions`, { model: 'alone', messages })
      const { data } = (await adminOf(() => other)('POST', '/explain', { for: '*' })).json()
      const [fast, alone] = data
      assert.equal(fast.targets[0].keys[0].because, 'circuit')
      assert.deepEqual(fast.answers, { provider: 'beta', model: 'small' })
      assert.deepEqual(alone.answers, { provider: 'down', model: 'large' })
    })

    test('an unknown provider is refused with the nearest name, and a missing request too', async () => {
      const unknown = await admin('POST', '/explain', { for: '*', assume: { down: ['alhpa'] } })
      assert.equal(unknown.status, 400)
      assert.equal(unknown.json().error.errors[0].path, 'assume.down[0]')
      assert.match(unknown.json().error.message, /"alpha"/)
      const missing = await admin('POST', '/explain', { assume: {} })
      assert.equal(missing.json().error.param, 'request')
    })
  })

  describe('changes', () => {
    test('one list of writes, circuits with their request, and the start, without values', async () => {
      const made = await admin('POST', '/keys', { name: 'ci' })
      assert.equal(made.status, 201, made.text)
      const { id, rev, last4, secret } = made.json()
      key = secret
      await admin('PATCH', `/keys/${id}`, { limits: { concurrent: 5 } }, { 'if-match': `"${rev}"` })
      isDown = true
      const ids = await Promise.all(Array.from({ length: 12 }, () => ask({ model: 'alone' })))
      isDown = false
      const { data, has_more } = (await admin('GET', '/changes')).json()
      assert.equal(has_more, false)
      const actions = data.map(({ action }: { action: string }) => action)
      for (const action of ['key.create', 'key.update', 'gateway.start']) assert.ok(actions.includes(action), action)
      const updated = data.find(({ action }: { action: string }) => action === 'key.update')
      assert.deepEqual([updated.object, updated.details], [{ id, name: 'ci' }, ['limits']])
      assert.equal(updated.actor.name, 'auth.admin')
      const opened = data.find(({ action }: { action: string }) => action === 'circuit.open')
      assert.ok(ids.includes(opened.request), JSON.stringify(opened))
      assert.deepEqual(opened.providers, ['alpha'])
      assert.ok(!JSON.stringify(data).includes(last4))
      const times = data.map(({ at }: { at: string }) => at)
      assert.deepEqual(times, times.toSorted().reverse())
    })

    test('a viewer of one team sees its writes only', async () => {
      const team = (await admin('POST', '/teams', { name: 'own' })).json()
      const mine = (await admin('POST', '/keys', { name: 'mine', team: 'own' })).json()
      const token = (
        await admin('POST', '/tokens', { name: 't', bindings: [{ role: 'viewer', team: team.id }] })
      ).json()
      const seen = (await admin('GET', '/changes', undefined, { authorization: `Bearer ${token.secret}` })).json().data
      const written = seen.flatMap(({ kind, object }: { kind: string; object: { id: string } }) =>
        kind === 'account' ? [object.id] : [],
      )
      assert.deepEqual(written, [mine.id, team.id])
    })

    test('pages by a cursor, and a range', async () => {
      const all = (await admin('GET', '/changes')).json().data
      const read: unknown[] = []
      let after: string | null = ''
      while (after !== null) {
        const query: string = after === '' ? '' : `&after=${encodeURIComponent(after)}`
        const page = (await admin('GET', `/changes?limit=2${query}`)).json()
        read.push(...page.data)
        after = page.next
      }
      assert.deepEqual(read, all)
      const none = (await admin('GET', '/changes?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z')).json()
      assert.deepEqual(none.data, [])
      assert.equal((await admin('GET', '/changes?from=2021-01-01T00:00:00Z&to=2020-01-02T00:00:00Z')).status, 400)
      assert.equal((await admin('GET', '/changes?after=x')).status, 400)
    })
  })

  test('a revoked key ends its streams where that is requested, and others go on', async () => {
    const made = (await admin('POST', '/keys', { name: 'leaving' })).json()
    const staying = (await admin('POST', '/keys', { name: 'staying' })).json()
    isStalled = true
    const open = async (secret: string) => {
      const answer = await fetch(`${gateway.base}/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${secret}` },
        body: JSON.stringify({ model: 'beta/small', stream: true, messages: [{ role: 'user', content: 'Hello' }] }),
      })
      assert.equal(answer.status, 200)
      return answer
    }
    const [leaving, other] = await Promise.all([open(made.secret), open(staying.secret)])
    isStalled = false
    const removed = await admin('DELETE', `/keys/${made.id}?cut=true&force=true`)
    assert.equal(removed.status, 200, removed.text)
    assert.match(await leaving.text(), /This API key was revoked/)
    const calls = callsOf(beta).slice(-2)
    const left = () => calls.filter(({ ended }) => ended === 'open').length
    for (const end = performance.now() + 120_000; left() === 2; await sleep(20))
      assert.ok(performance.now() < end, 'the provider still answers')
    assert.equal(left(), 1)
    // The other one is listed with the tokens that have arrived.
    const arrived = async (): Promise<readonly number[]> =>
      (await admin('GET', '/requests/running'))
        .json()
        .data.filter(({ key: of }: { key: { id: string } | null }) => of?.id === staying.id)
        .map(({ output_tokens }: { output_tokens: number }) => output_tokens)
    for (const end = performance.now() + 120_000; !((await arrived())[0] ?? 0); await sleep(20))
      assert.ok(performance.now() < end, 'no tokens are reported')
    assert.equal((await arrived()).length, 1)
    await other.body?.cancel()
  })

  test('`keys revoke --cut` ends the streams of a key, and `budgets list` has the projection of each', async () => {
    const made = (await admin('POST', '/keys', { name: 'leaked' })).json()
    isStalled = true
    const stream = await fetch(`${gateway.base}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${made.secret}` },
      body: JSON.stringify({ model: 'beta/small', stream: true, messages: [{ role: 'user', content: 'Hello' }] }),
    })
    isStalled = false
    const run = (...words: string[]) => verb(words, { env: { HEADGATE_URL: gateway.url, HEADGATE_ADMIN_TOKEN: ADMIN } })
    const revoked = await run('keys', 'revoke', 'leaked', '--cut')
    assert.deepEqual([revoked.code, revoked.stdout], [0, 'leaked is revoked\n'], revoked.stderr)
    assert.match(await stream.text(), /This API key was revoked/)
    const ids = []
    for (const [name, per] of [
      ['projected', 'all'],
      ['each', 'key'],
    ])
      ids.push(
        (await admin('POST', '/budgets', { name, per, amount: '9.00', period: 'year', countFrom: 'period' })).json().id,
      )
    const { data } = (await admin('GET', '/budgets?forecast=true')).json()
    assert.equal(data.length, 2)
    for (const { id, forecast } of data) {
      const single = (await admin('GET', `/budgets/${id}/forecast`)).json()
      assert.deepEqual([forecast.object, typeof forecast.projected], ['forecast', typeof single.projected])
    }
    assert.equal((await admin('GET', '/budgets')).json().data[0].forecast, undefined)
    const { stdout } = await run('budgets', 'list')
    assert.match(stdout, /^projected .* ok, projected \$\d[\d,.]* as in this period$/m)
    assert.match(stdout, /^each .* – +projected \$\d[\d,.]* as in this period$/m)
    for (const id of ids) await admin('DELETE', `/budgets/${id}?force=true`)
  })

  test('a backup of the running gateway restores its keys', async () => {
    const response = await fetch(`${gateway.url}/admin/api/v1/system/backup`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ADMIN}` },
    })
    assert.equal(response.status, 200)
    const folder = mkdtempSync(join(tmpdir(), 'headgate-backup-'))
    try {
      const file = join(folder, 'backup.tar.gz')
      writeFileSync(file, new Uint8Array(await response.arrayBuffer()))
      const folders = { data: join(folder, 'data'), journal: join(folder, 'data', 'journal'), isShared: false }
      await restoreBackup(file, folders, false)
      const names = readStoredAccounts(folders.data)?.records.keys.map(({ name }) => name)
      assert.ok(names?.includes('ci'), String(names))
      const left = readdirSync(join(gateway.folder, '.headgate')).filter((name) => name.startsWith('backup-'))
      assert.deepEqual(left, [])
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  describe('a provider that rests', () => {
    const circuit = (body: object, headers = {}) => admin('POST', '/providers/beta/circuit', body, headers)
    const shown = async () => (await admin('GET', '/providers/beta')).json()
    const statusOf = async () => {
      const messages = [{ role: 'user', content: 'Hello' }]
      const headers = { authorization: `Bearer ${key}` }
      return (await post(`${gateway.base}/chat/completions`, { model: 'beta/small', messages }, headers)).status
    }

    test('receives no request until a second call ends the rest', async () => {
      const opened = await circuit({ action: 'open', seconds: 600, reason: 'maintenance' })
      assert.equal(opened.status, 200, opened.text)
      const { until } = opened.json().resting
      const { status, resting } = await shown()
      assert.deepEqual([status, resting.reason], ['unavailable', 'maintenance'])
      // The gateway's monotonic clock has fractions of a ms.
      assert.ok(Math.abs(Date.parse(resting.until) - Date.parse(until)) < 2_000)
      const before = callsOf(beta).length
      assert.equal(await statusOf(), 503)
      assert.equal(callsOf(beta).length, before)
      const plan = (await admin('POST', '/explain', { request: { model: 'beta/small', prompt: 'x' } })).json()
      assert.deepEqual([plan.targets[0].keys[0].because, plan.targets[0].keys[0].reason], ['resting', 'maintenance'])
      assert.equal((await circuit({ action: 'probe' })).json().error.code, 'provider_rests')
      assert.equal((await circuit({ action: 'close' })).status, 200)
      assert.equal((await shown()).resting, null)
      assert.equal(await statusOf(), 200)
      const actions = (await admin('GET', '/changes')).json().data.map(({ action }: { action: string }) => action)
      assert.deepEqual(actions.slice(0, 2), ['circuit.release', 'circuit.open'])
    })

    test('is used again by itself when the time is over', async () => {
      assert.equal((await circuit({ action: 'open', seconds: 1 })).status, 200)
      for (const end = performance.now() + 120_000; (await shown()).resting !== null; )
        assert.ok(performance.now() < end, 'it still rests')
      assert.equal(await statusOf(), 200)
    })

    test('open circuits are closed, and admit a probe at once', async () => {
      const alphaState = async () => (await admin('GET', '/providers/alpha')).json().circuit.state
      assert.equal(await alphaState(), 'open')
      const probed = (await admin('POST', '/providers/alpha/circuit', { action: 'probe' })).json()
      assert.ok(probed.changed > 0)
      assert.equal(await alphaState(), 'half_open')
      const closed = (await admin('POST', '/providers/alpha/circuit', { action: 'close' })).json()
      assert.equal(closed.resting, null)
      assert.equal(await alphaState(), 'closed')
    })

    test('its lanes have what happened and why, and its strip has the failures', async () => {
      const { transitions, keys, failures } = (await admin('GET', '/providers/alpha/lanes')).json()
      const opened = transitions.find(({ to }: { to: string }) => to === 'open')
      assert.equal(opened.why, 'overloaded')
      assert.ok(failures.some(({ request }: { request: string }) => request === opened.request))
      assert.equal(transitions.at(-1).why, 'operator')
      assert.deepEqual(keys, [])
      const { minutes } = await (await admin('GET', '/providers/alpha')).json()
      assert.equal(minutes.length, 60)
      assert.ok(minutes.some(({ failed }: { failed: number }) => failed > 0))
    })

    test('live events state reloads and written records, without their content', async () => {
      const stream = await fetch(`${gateway.url}/admin/api/v1/live?topics=config,audit,circuits`, {
        headers: { authorization: `Bearer ${ADMIN}` },
      })
      const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader()
      assert.ok(reader)
      const made = (await admin('POST', '/keys', { name: 'announced' })).json()
      await circuit({ action: 'open', seconds: 600, reason: 'x' })
      await circuit({ action: 'close' })
      writeFileSync(
        join(gateway.folder, 'headgate.yaml'),
        readFileSync(join(gateway.folder, 'headgate.yaml'), 'utf8').replace('"fallback":"none"', '"fallback":"any"'),
      )
      await admin('POST', '/system/reload')
      let text = ''
      for (const wanted of [
        `"kind":"key","id":"${made.id}"`,
        '"what":"provider","name":"beta","from":"open"',
        'event: config',
      ])
        while (!text.includes(wanted)) {
          const { value, done } = await reader.read()
          assert.ok(!done, text)
          text += value
        }
      assert.ok(!text.includes('announced'))
      await reader.cancel()
    })

    test('bad input is refused', async () => {
      for (const body of [{}, { action: 'break' }, { action: 'open', seconds: 0 }, { action: 'open', seconds: 86_401 }])
        assert.equal((await circuit(body)).status, 400, JSON.stringify(body))
      const unknown = await admin('POST', '/providers/bta/circuit', { action: 'close' })
      assert.equal(unknown.status, 404)
      assert.match(unknown.json().error.message, /"beta"/)
    })
  })

  describe('model calls behind a session', () => {
    const messages = [{ role: 'user', content: 'Hello' }]
    const chat = { model: 'beta/small', messages }
    const rowOf = async (id: string) => {
      for (const end = performance.now() + 120_000; performance.now() < end; await sleep(50)) {
        const found = await admin('GET', `/requests/${id}`)
        if (found.status === 200) return found.json()
      }
      return assert.fail(`the request ${id} was not stored`)
    }

    test('stream, as the client dashboard with its tag, and need the CSRF header', async () => {
      const begun = await fetch(`${gateway.url}/admin/api/v1/session`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ token: ADMIN }),
      })
      const { csrf } = JSON.parse(await begun.text())
      const cookie = begun.headers.get('set-cookie')?.split(';')[0] ?? ''
      const call = (headers: Readonly<Record<string, string>>) =>
        fetch(`${gateway.url}/admin/api/v1/try/v1/chat/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', cookie, ...headers },
          body: JSON.stringify({ ...chat, stream: true }),
        })
      const refused = await call({})
      assert.equal(refused.status, 403, await refused.text())
      const answered = await call({ 'x-headgate-csrf': csrf })
      const text = await answered.text()
      assert.equal(answered.headers.get('content-type')?.split(';')[0], 'text/event-stream', text)
      assert.ok(isComplete('chat', text), text)
      const sent = callsOf(beta).at(-1)
      assert.ok(sent && !JSON.stringify(sent.headers).includes(cookie.slice(10)))
      const row = await rowOf(answered.headers.get('x-request-id') ?? '')
      assert.deepEqual([row.key, row.tags], [{ id: 'dashboard', name: 'dashboard' }, { source: 'playground' }])
    })

    test('an error has the shape of the path, and a wrong type is refused', async () => {
      const unknown = await admin('POST', '/try/v1/messages', { model: 'beta/small', max_tokens: 1 })
      assert.equal(unknown.status, 400)
      assert.equal(unknown.json().type, 'error')
      const form = await admin('POST', '/try/v1/chat/completions', chat, { 'content-type': 'text/plain' })
      assert.equal(form.status, 415)
    })

    test('obey the limits of a key with the name dashboard, and stop when it is blocked', async () => {
      const { id } = (await admin('POST', '/keys', { name: 'dashboard', limits: { requestsPerMinute: 1 } })).json()
      const call = () => admin('POST', '/try/v1/chat/completions', chat)
      const first = await call()
      assert.equal(first.status, 200, first.text)
      assert.equal((await rowOf(first.headers.get('x-request-id') ?? '')).key.id, id)
      assert.equal((await call()).status, 429)
      assert.equal((await admin('POST', `/keys/${id}/block`)).status, 200)
      assert.equal((await call()).status, 403)
      assert.equal((await admin('DELETE', `/keys/${id}?force=true`)).status, 200)
      assert.equal((await call()).status, 200)
    })
  })

  describe('clients', () => {
    const send = (path: string, headers: Readonly<Record<string, string>>, body: object = {}) =>
      post(`${gateway.url}${path}`, body, headers)
    const seen = async (family: string) =>
      (await admin('GET', '/clients/seen')).json().data.find((one: { family: string }) => one.family === family)

    test('the last request of each kind, and what was wrong', async () => {
      const messages = [{ role: 'user', content: 'Hello' }]
      const authorization = `Bearer ${key}`
      await send(
        '/v1/chat/completions',
        { authorization, 'user-agent': 'curl/8.5.0' },
        { model: 'beta/small', messages },
      )
      const curl = await seen('curl')
      assert.deepEqual(
        [curl.last.outcome, curl.last.status, curl.last.model, curl.wrong],
        ['answered', 200, 'beta/small', null],
      )
      await send('/v1/messages', { 'x-api-key': 'sk-wrong-0123456789wxyz', 'user-agent': 'claude-cli/2.1.0' })
      const claude = (await seen('claude-code')).wrong
      assert.deepEqual([claude.status, claude.problem.header, claude.problem.last4], [401, 'x-api-key', 'wxyz'])
      await send('/v1/v1/responses', { 'user-agent': 'codex_exec/0.169.0' })
      const codex = (await seen('codex')).wrong
      assert.deepEqual([codex.problem.kind, codex.path], ['doubled_path', '/v1/v1/responses'])
      await send('/v1/chat/completions', { authorization, 'user-agent': 'opencode/1.18' }, { model: 'fsat', messages })
      assert.deepEqual((await seen('opencode')).last.model, 'fsat')
    })

    test('the table of headgate connect, with the address of this gateway', async () => {
      const { data, base_url, key_required } = (await admin('GET', '/clients?model=fast')).json()
      assert.deepEqual([base_url, key_required], [gateway.url, true])
      assert.deepEqual(
        data.map(({ name }: { name: string }) => name),
        CLIENTS.map(({ name }) => name),
      )
      for (const { name, format, fragment } of data) {
        if (format === 'json') JSON.parse(fragment)
        assert.ok(fragment.includes(base_url), name)
        assert.ok(!fragment.includes(key), name)
      }
      const claude = data.find(({ name }: { name: string }) => name === 'claude')
      assert.equal(claude.file, '~/.claude/settings.json')
      assert.equal(JSON.parse(claude.fragment).env.ANTHROPIC_AUTH_TOKEN, 'YOUR_HEADGATE_KEY')
    })
  })
})

describe('what the dashboard reads of several workers', { skip: skipWithoutProc, concurrency: false }, () => {
  const { upstream, gateway: startGateway } = stage()
  let alpha: Upstream
  let gateway: Started
  const admin = adminOf(() => gateway)
  before(async () => {
    alpha = await upstream((request) => answerWith(request, ANSWER))
    gateway = await startGateway(
      { providers: { alpha: { baseUrl: `${alpha.url}/v1` } } },
      { AUTH_ADMIN: ADMIN, WORKERS: '2' },
    )
  })
  /** Reads until the check holds, at most 30 s. */
  const until = async (check: () => Promise<boolean>): Promise<void> => {
    for (const end = performance.now() + 120_000; !(await check()); await sleep(50))
      assert.ok(performance.now() < end, `not within 30 s: ${check}`)
  }
  const resting = async (): Promise<readonly boolean[]> =>
    (await admin('GET', '/providers')).json().data.map((one: { resting: unknown }) => one.resting !== null)

  test('a provider rests in all of them, and a second call ends that', async () => {
    const opened = await admin('POST', '/providers/alpha/circuit', { action: 'open', seconds: 600 })
    assert.equal(opened.status, 200, opened.text)
    await until(async () => (await resting()).join() === 'true,true')
    const ask = () => post(`${gateway.base}/chat/completions`, { model: 'm', messages: [] }, { connection: 'close' })
    const statuses = await Promise.all(Array.from({ length: 20 }, async () => (await ask()).status))
    assert.ok(statuses.every((status) => status !== 200))
    assert.equal(callsOf(alpha).length, 0)
    assert.equal((await admin('POST', '/providers/alpha/circuit', { action: 'close' })).json().processes.answered, 2)
    await until(async () => (await resting()).join() === 'false,false')
  })

  test('changes and clients are those of all, and the plans of all routes come from any', async () => {
    const { data } = (await admin('GET', '/changes')).json()
    const starts = data.filter(({ kind }: { kind: string }) => kind === 'start')
    assert.deepEqual(starts.map(({ node }: { node: string }) => node).toSorted(), ['1/2', '2/2'])
    const rests = data.filter(({ action }: { action: string }) => action === 'circuit.open')
    assert.equal(rests.length, 1, JSON.stringify(rests))
    const ask = () => post(`${gateway.base}/v1/models`, {}, { connection: 'close', 'user-agent': 'codex_exec/0.169.0' })
    await Promise.all(Array.from({ length: 20 }, ask))
    const seen = (await admin('GET', '/clients/seen')).json().data
    const codex = seen.find(({ family }: { family: string }) => family === 'codex')
    assert.deepEqual([codex.requests, codex.wrong.problem.kind], [20, 'doubled_path'])
    for (let n = 0; n < 6; n++) {
      const plans = (await admin('POST', '/explain', { for: '*', assume: { down: ['alpha'] } })).json().data
      assert.deepEqual([plans[0].model, plans[0].answers, plans[0].before.provider], ['auto', null, 'alpha'])
    }
  })
})
