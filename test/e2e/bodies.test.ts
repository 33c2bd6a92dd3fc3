/** Kept bodies of a real process: off by default, redacted on disk, read by operators, sent again. */
import assert from 'node:assert/strict'
import { existsSync, globSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerWith, failWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { gauge, settles } from './support/gauges.ts'
import { post, type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const ADMIN_TOKEN = 'operator-token-0123456789'
const ADMIN = { authorization: `Bearer ${ADMIN_TOKEN}` }
const PROVIDER_KEY = 'sk-provider-0123456789'
const CANARY = 'alice@canary.example'

type Text = { readonly text: string }
type Headers = Readonly<Record<string, string>>
type Bodies = {
  readonly headers: Headers
  readonly request: Text
  readonly response: {
    readonly status: number
    readonly headers: Headers
    readonly events: {
      readonly types: readonly string[]
      readonly list: readonly (readonly [ms: number, bytes: number, type: number])[]
    } | null
  }
  readonly attempts: readonly {
    readonly sent: Headers
    readonly received: Headers
    readonly request: Text
    readonly answer: Text
  }[]
}
type Shown = {
  readonly key: { readonly id: string } | null
  readonly asked: string
}

const filesOf = ({ folder }: Started): readonly string[] => globSync(join(folder, 'kept', 'bodies.db*'))

describe('kept bodies', () => {
  let upstream: Upstream
  before(async () => {
    upstream = await startUpstream((request) => {
      const { model } = request
      if (model === 'broken') return failWith(request, 400, { type: 'invalid_request_error', message: 'refused' })
      return answerWith(request, { text: `Write to ${CANARY}\nmodel ${model}\nend` })
    })
  })
  after(() => upstream?.close())

  const started = (env: Readonly<Record<string, string>> = {}) =>
    start({
      env: {
        DATA_DIR: './kept',
        AUTH_ADMIN: ADMIN_TOKEN,
        AUTH_KEYS: 'client-key-0123456789',
        OPENAI_API_KEY: PROVIDER_KEY,
        OPENAI_BASE_URL: `${upstream.url}/v1`,
        OPENAI_MODELS: 'm,n',
        ...env,
      },
    })
  const chat = async ({ base }: Started, stream: boolean, headers = {}) => {
    const messages = [{ role: 'user', content: `I am ${CANARY}` }]
    const authorization = 'Bearer client-key-0123456789'
    const answer = await post(
      `${base}/chat/completions`,
      { model: 'm', stream, messages },
      { authorization, ...headers },
    )
    assert.equal(answer.status, 200, answer.text)
    return answer.headers.get('x-request-id') ?? ''
  }
  /** The ledger stores a request within a second, on a busy machine later. */
  const shown = async <Answer = Shown>({ url }: Started, path: string): Promise<Answer> => {
    for (const end = performance.now() + 120_000; ; await sleep(50)) {
      const response = await fetch(`${url}/admin/api/v1/requests/${path}`, { headers: ADMIN })
      const text = await response.text()
      if (response.status === 200) return JSON.parse(text)
      assert.ok(performance.now() < end, text)
    }
  }
  const bodiesOf = async (gateway: Started, id: string): Promise<Bodies | null> =>
    (await shown<{ readonly bodies: Bodies | null }>(gateway, `${id}/bodies`)).bodies
  const reads = async ({ url }: Started): Promise<readonly string[]> => {
    const audit = await fetch(`${url}/admin/api/v1/audit?action=body.read`, { headers: ADMIN })
    const { data } = (await audit.json()) as { data: { object: string }[] }
    return data.map(({ object }) => object)
  }
  const replay = ({ url }: Started, id: string, body: unknown = {}) =>
    post(`${url}/admin/api/v1/requests/${id}/replay`, body, ADMIN)

  test('are not kept without a setting, and such a request cannot be sent again', async () => {
    await using gateway = await started()
    const id = await chat(gateway, false)
    assert.equal(await bodiesOf(gateway, id), null)
    const { status, json } = await replay(gateway, id)
    assert.deepEqual([status, json().error.code], [409, 'not_replayable'])
    assert.deepEqual(filesOf(gateway), [])
    assert.ok(existsSync(join(gateway.folder, 'kept', 'usage.db')))
  })

  test('are found, also above what one page searches', async () => {
    // More than the 2,000 of a page.
    const [all, batch] = [2_100, 50]
    await using gateway = await started({ BODIES_SAMPLE: '1' })
    const sent: string[] = []
    for (let at = 0; at < all; at += batch)
      sent.push(...(await Promise.all(Array.from({ length: batch }, () => chat(gateway, false)))))
    await chat(gateway, false, { 'x-headgate-no-log': '1' })
    await shown(gateway, sent.at(-1) ?? '')
    type Page = { readonly data: readonly { readonly id: string }[]; readonly next: string | null }
    const found: string[] = []
    let after = ''
    for (let pages = 0; ; pages++) {
      assert.ok(pages < 100, 'the pages do not end')
      const page: Page = await shown(gateway, `?bodies=kept&limit=200${after}`)
      found.push(...page.data.map(({ id }) => id))
      if (page.next === null) break
      after = `&after=${page.next}`
    }
    assert.equal(new Set(found).size, found.length)
    assert.deepEqual(found.toSorted(), sent.toSorted())
    const exported = await fetch(`${gateway.url}/admin/api/v1/usage/export?bodies=kept`, { headers: ADMIN })
    const [head = '', ...lines] = (await exported.text()).trim().split('\n')
    assert.match(head, /^id,received_at,/)
    assert.deepEqual(lines.map((line) => line.slice(0, line.indexOf(','))).toSorted(), sent.toSorted())
  })

  test('are searched for a text, as a reader sees it, and each search is audited without the text', async () => {
    await using gateway = await started({ BODIES_SAMPLE: '1' })
    const asked = async (content: string, stream = false) => {
      const body = { model: 'm', stream, messages: [{ role: 'user', content }] }
      const answer = await post(`${gateway.base}/chat/completions`, body, {
        authorization: 'Bearer client-key-0123456789',
      })
      assert.equal(answer.status, 200, answer.text)
      return answer.headers.get('x-request-id') ?? ''
    }
    const refund = await asked('My "refund"\nwas declined, grüße')
    const other = await asked('Where is my order?', true)
    await shown(gateway, other)
    type Found = {
      readonly data: readonly { readonly id: string; readonly bodies?: boolean }[]
      readonly searched_until: string | null
      readonly searched_bodies: number
    }
    const search = async (text: string, more = '') => {
      const found = await shown<Found>(gateway, `search?text=${encodeURIComponent(text)}${more}`)
      assert.deepEqual([found.searched_until, found.searched_bodies], [null, 2])
      return found.data.map(({ id, bodies }) => [id, bodies])
    }
    assert.deepEqual(await search('my "REFUND" was declined'), [[refund, true]])
    assert.deepEqual(await search('GRÜßE'), [[refund, true]])
    assert.deepEqual(await search('my order'), [[other, true]])
    // The names of members are no text.
    assert.deepEqual(await search('messages'), [])
    assert.deepEqual(await search('my', '&model=n'), [])
    assert.equal((await search('my')).length, 2)
    const audit = await fetch(`${gateway.url}/admin/api/v1/audit?action=body.search`, { headers: ADMIN })
    const text = await audit.text()
    assert.equal(JSON.parse(text).data.length, 6)
    assert.doesNotMatch(text, /"text":/, 'not even its digest')
    assert.doesNotMatch(text, /refund/i)
    // Who may not read bodies may not search them.
    const made = await fetch(`${gateway.url}/admin/api/v1/tokens`, {
      method: 'POST',
      headers: { ...ADMIN, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'looker', bindings: [{ role: 'viewer' }] }),
    })
    const { secret } = (await made.json()) as { secret: string }
    const refused = await fetch(`${gateway.url}/admin/api/v1/requests/search?text=refund`, {
      headers: { authorization: `Bearer ${secret}` },
    })
    assert.equal(refused.status, 403)
  })

  test('that cannot be stored are counted, and the request is served and recorded', async () => {
    await using gateway = await started({ BODIES_SAMPLE: '1' })
    const file = join(gateway.folder, 'kept', 'bodies.db')
    // Not a database.
    mkdirSync(file, { recursive: true })
    const id = await chat(gateway, false)
    const lost = () => gauge(gateway, 'headgate_bodies_lost_total')
    assert.equal(await settles(lost, (count) => count > 0), 1)
    // The request is shown all the same.
    assert.equal((await shown(gateway, id)).asked, 'm')
    const message = /^The kept bodies cannot be read now: .+\. Check bodies\.db/
    const unread = await fetch(`${gateway.url}/admin/api/v1/requests/${id}/bodies`, { headers: ADMIN })
    const { status, text } = await replay(gateway, id)
    assert.deepEqual([unread.status, status], [503, 503])
    for (const answer of [await unread.text(), text]) assert.match(JSON.parse(answer).error.message, message)
    rmSync(file, { recursive: true })
    assert.equal(await bodiesOf(gateway, id), null)
  })

  test('are redacted, audited and sent again with another model', async () => {
    await using gateway = await started({ BODIES_SAMPLE: '1' })
    const ids = [await chat(gateway, false), await chat(gateway, true)]
    for (const id of ids)
      assert.equal((await shown<{ readonly bodies?: unknown }>(gateway, id)).bodies, true, 'only a mark')
    assert.deepEqual(await reads(gateway), [], 'the details of a request contain no bodies')
    for (const id of ids) {
      const bodies = await bodiesOf(gateway, id)
      const texts = [bodies?.request, bodies?.attempts[0]?.request, bodies?.attempts[0]?.answer]
      assert.equal(bodies?.attempts.length, 1)
      for (const body of texts) assert.match(body?.text ?? '', /\[email\]/)
    }
    for (const op of ['put', 'read'])
      assert.ok((await gauge(gateway, 'headgate_store_seconds_count', `store="bodies",op="${op}"`)) > 0, op)
    const [whole, streamed] = [await bodiesOf(gateway, ids[0] ?? ''), await bodiesOf(gateway, ids[1] ?? '')]
    for (const bodies of [whole, streamed]) {
      for (const canary of [CANARY, PROVIDER_KEY, 'client-key']) assert.ok(!JSON.stringify(bodies).includes(canary))
      const [attempt] = bodies?.attempts ?? []
      assert.deepEqual([bodies?.headers.authorization, attempt?.sent.authorization], ['[masked]', '[masked]'])
      assert.equal(bodies?.headers['content-type'], 'application/json')
      assert.ok(attempt?.received['content-type'])
      assert.deepEqual([bodies?.response.status, bodies?.response.headers['x-headgate-provider']], [200, 'openai'])
    }
    assert.equal(whole?.response.events, null)
    const { types = [], list = [] } = streamed?.response.events ?? {}
    assert.deepEqual(types, ['chat.completion.chunk', '[DONE]'])
    assert.equal(types[list.at(-1)?.[2] ?? 0], '[DONE]')
    assert.ok(list.every(([ms, bytes], at) => ms >= (list[at - 1]?.[0] ?? 0) && bytes > 10))

    const excluded = await chat(gateway, false, { 'x-headgate-no-log': '1' })
    assert.equal(await bodiesOf(gateway, excluded), null)

    const { status, json } = await replay(gateway, ids[0] ?? '', { model: 'openai/n', edit: { temperature: 0 } })
    assert.equal(status, 202)
    const again = await shown(gateway, json().id)
    assert.deepEqual([again.key?.id, again.asked], ['dashboard', 'openai/n'])
    const sent = JSON.parse((await bodiesOf(gateway, json().id))?.attempts[0]?.request.text ?? '{}')
    assert.deepEqual(
      [sent.model, sent.temperature, sent.messages],
      ['n', 0, [{ role: 'user', content: 'I am [email]' }]],
    )

    assert.ok((await reads(gateway)).includes(ids[0] ?? ''))

    const repeat = (body: object) =>
      post(`${gateway.url}/admin/api/v1/requests/${ids[0]}/replay`, body, { ...ADMIN, 'idempotency-key': 'again' })
    const calls = () => upstream.requests.filter(({ path }) => path.endsWith('/chat/completions')).length
    const before = calls()
    const first = await repeat({ model: 'openai/n' })
    const second = await repeat({ model: 'openai/n' })
    assert.deepEqual([first.status, second.status, second.json().id], [202, 202, first.json().id])
    assert.equal(second.headers.get('x-headgate-idempotent'), 'stored')
    assert.equal((await shown(gateway, first.json().id)).asked, 'openai/n')
    assert.equal(calls(), before + 1, 'one repetition is one call')
    assert.equal((await repeat({ model: 'openai/m' })).status, 422)

    const files = filesOf(gateway)
    assert.ok(files.length > 0)
    for (const file of files) {
      const disk = readFileSync(file, 'latin1')
      for (const canary of [CANARY, PROVIDER_KEY, 'canary.example', 'client-key']) assert.ok(!disk.includes(canary))
    }
  })

  test('are compared line by line with the answer of another model', async () => {
    await using gateway = await started({ BODIES_SAMPLE: '1' })
    const run = (...words: string[]) =>
      verb(['replay', ...words], { cwd: gateway.folder, env: { HEADGATE_URL: gateway.url, AUTH_ADMIN: ADMIN_TOKEN } })
    for (const stream of [false, true]) {
      const id = await chat(gateway, stream)
      assert.notEqual(await bodiesOf(gateway, id), null)
      const human = await run(id, '-m', 'openai/n', '--diff')
      const [before, after, ...lines] = human.stdout.trimEnd().split('\n')
      assert.match(before ?? '', new RegExp(`^--- .*openai/m .*${id}$`), human.stderr)
      assert.match(after ?? '', /^\+\+\+ .*openai\/n .*req_\w+$/)
      // A stream has a mark for each part of the address.
      assert.match(lines.join('\n'), /^ {2}Write to (?:\[email\])+\n- model m\n\+ model n\n {2}end$/)
      const {
        object,
        equal,
        before: first,
        after: second,
        lines: parts,
      } = (await run(id, '-m', 'n', '--diff', '--json')).json()
      assert.deepEqual([object, equal, first.request.id, second.request.model], ['request.difference', false, id, 'n'])
      assert.deepEqual(
        [first.answer, second.answer].map((text) => text.split('\n')[1]),
        ['model m', 'model n'],
      )
      assert.deepEqual(
        parts.map(({ is }: { is: string }) => is),
        ['same', 'removed', 'added', 'same'],
      )
      assert.match((await run(id, '--diff')).stdout, /\nthe answers are equal\n$/)
    }
  })

  test('are not compared with an answer that failed', async () => {
    await using gateway = await started({ BODIES_SAMPLE: '1', OPENAI_MODELS: 'm,broken' })
    const id = await chat(gateway, false)
    assert.notEqual(await bodiesOf(gateway, id), null)
    const { code, stdout, stderr } = await verb(['replay', id, '-m', 'openai/broken', '--diff'], {
      cwd: gateway.folder,
      env: { HEADGATE_URL: gateway.url, AUTH_ADMIN: ADMIN_TOKEN },
    })
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(stderr, /^headgate: req_\w+ was not answered: .+ See it with: headgate explain req_\w+/)
  })
})
