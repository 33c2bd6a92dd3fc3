/** Guards of a running gateway: answers, verdicts in the ledger, metrics and the CLI, and the header of requests. */
import assert from 'node:assert/strict'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const YAML = `guards:
  pii: { on: [ answer ], find: [ email ], action: mask }
  cards: { on: [ request, answer ], find: [ card ], action: block, optionalTeams: [ default ] }
  codename: { words: [ Nightjar ], action: flag }
  extra: { words: [ extra ], action: log, onlyTeams: [] }
`
const MAIL = 'Write to bob@c.example, please.'
type Headers = Readonly<Record<string, string>>

/** The echo of the demo answers with the words of the request. */
const STYLES: readonly (readonly [path: string, of: (text: string) => object])[] = [
  ['/v1/chat/completions', (content) => ({ messages: [{ role: 'user', content }] })],
  ['/v1/responses', (input) => ({ input })],
  ['/v1/messages', (content) => ({ messages: [{ role: 'user', content }], max_tokens: 100 })],
  ['/v1/completions', (prompt) => ({ prompt })],
]

describe('guards', { concurrency: false }, () => {
  let gateway: Started
  before(async () => {
    gateway = await start({ files: { 'headgate.yaml': YAML } })
  })
  after(() => gateway[Symbol.asyncDispose]())

  const post = async (path: string, body: object, headers: Headers = {}) => {
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model: 'demo/echo', ...body }),
    })
    return { status: response.status, text: await response.text(), guards: response.headers.get('x-headgate-guards') }
  }
  // biome-ignore lint/suspicious/noExplicitAny: the tests read answers of every shape
  const admin = async (path: string): Promise<any> => {
    const response = await fetch(`${gateway.url}/admin/api/v1${path}`)
    const text = await response.text()
    assert.equal(response.status, 200, text)
    return JSON.parse(text)
  }
  const cli = (...words: readonly string[]) => verb([...words], { env: { HEADGATE_URL: gateway.url } })

  test('guards: answers of every style are masked, whole and streamed, and the ledger has the verdicts', async () => {
    for (const [path, of] of STYLES)
      for (const stream of [false, true]) {
        const { status, text, guards } = await post(path, { ...of(MAIL), stream })
        assert.equal(status, 200, text)
        assert.ok(!text.includes('bob@'), `${path} ${stream} ${text}`)
        assert.ok(text.replaceAll(/[^[\]A-Z]/g, '').includes('[EMAIL]'), `${path} ${stream} ${text}`)
        assert.equal(guards, stream ? null : 'pii=mask:1')
      }
    const { data } = await admin('/requests?guard=pii')
    assert.equal(data.length, 2 * STYLES.length)
    for (const { guards, more_guards } of data) {
      assert.deepEqual(guards, [{ guard: 'pii', phase: 'answer', action: 'mask', counts: { EMAIL: 1 } }])
      assert.equal(more_guards, 0)
    }
    assert.equal((await admin('/requests?guard=pi')).data.length, 0)
    const logs = await cli('logs', '--guard', 'pii')
    assert.equal(logs.stdout.trim().split('\n').length, 2 * STYLES.length, logs.stdout)
    const list = await admin('/guards')
    assert.deepEqual(list.data[0].hits, [
      { phase: 'answer', action: 'mask', requests: 2 * STYLES.length, found: 2 * STYLES.length },
    ])
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text()
    assert.match(metrics, /headgate_guard_verdicts_total\{guard="pii",phase="answer",action="mask"\} 8\n/)
  })

  test('guards: the header adds and leaves out what the rules permit', async () => {
    const ask = (text: string, header?: string) =>
      post(
        '/v1/chat/completions',
        { messages: [{ role: 'user', content: text }] },
        header === undefined ? {} : { 'x-headgate-guards': header },
      )
    const card = 'pay 4111 1111 1111 1111 for the extra Nightjar'
    const blocked = await ask(card)
    assert.equal(blocked.status, 400)
    assert.equal(blocked.guards, 'cards=block:1')
    assert.ok(!blocked.text.includes('4111'))
    const left = await ask(card, '-cards, +extra')
    assert.equal(left.status, 200, left.text)
    assert.equal(left.guards, 'codename=flag:1')
    const refused = await ask('hello', '-pii')
    assert.equal(refused.status, 400)
    assert.match(refused.text, /"code":"invalid_value"/)
    assert.match(refused.text, /may not leave out the guard \\"pii\\"/)
    const { data } = await admin('/requests?guard=extra')
    assert.deepEqual(data[0].guards, [
      { guard: 'codename', phase: 'request', action: 'flag', counts: { WORD: 1 } },
      { guard: 'extra', phase: 'request', action: 'log', counts: { WORD: 1 } },
    ])
  })

  test('guards: a text is tried without a trace of it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'headgate-guards-'))
    const file = join(folder, 'prompt.txt')
    writeFileSync(file, MAIL)
    const tried = await cli('guards', 'test', '-g', 'pii', '--phase', 'answer', file)
    assert.equal(tried.code, 0, tried.stderr)
    assert.match(tried.stdout, /pii: mask \(1 EMAIL\)\n\nWrite to \[EMAIL\], please\./)
    writeFileSync(file, 'pay 4111 1111 1111 1111')
    const refused = await cli('guards', 'test', file)
    assert.equal(refused.code, 1)
    assert.match(refused.stdout, /refused: Blocked by the rule "cards"/)
    const list = await cli('guards')
    assert.match(list.stdout, /codename +request +flag +words: 1 +all/)
  })
})
