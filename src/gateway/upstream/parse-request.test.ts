import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultSettings } from '../../../test/support/settings.ts'
import type { JsonObject } from '../../core/json.ts'
import { openaiChat } from '../../protocols/openai-chat/index.ts'
import { parseInTurns, parseRequest } from './parse-request.ts'

const user = { role: 'user', content: 'x' }
const large = 'x'.repeat(300_000)
const bodies: readonly (readonly [name: string, source: string])[] = [
  ['a valid body', JSON.stringify({ model: 'm', messages: [{ role: 'user', content: large }] })],
  [
    'a body with long numbers',
    `{"model":"m","seed":12345678901234567890,"messages":[{"role":"user","content":"${large}"}]}`,
  ],
  ['invalid JSON', `{"model":"m","messages":["${large}`],
  ['invalid JSON after line feeds', `{"model":"m",${'\n'.repeat(300_000)}"messages":x}`],
  ['not an object', `["${large}"]`],
  ['whitespace only', ' '.repeat(300_000)],
  ['too many messages', JSON.stringify({ model: 'm', messages: Array(10_001).fill(user) })],
  ['a duplicate member', `{"model":"m","model":"n","messages":[],"user":"${large}"}`],
  ['a number beyond a 64-bit float', `{"model":"m","messages":[],"user":"${large}","n":1e999}`],
  ['a member of the wrong type', JSON.stringify({ model: 'm', messages: large })],
]
for (const [name, source] of bodies)
  test(`parse request: parsing in steps gives the same result: ${name}`, async () => {
    const headers = () => undefined
    let turns = 0
    const turn = (run: () => void) => {
      turns++
      queueMicrotask(run)
    }
    const { limit } = defaultSettings
    const body = { text: source }
    const inTurns = await parseInTurns(openaiChat, { body, headers }, limit, turn)
    assert.deepEqual(inTurns, parseRequest(openaiChat, { body, headers }, limit))
    assert.ok(turns > 1)
  })

test('parse request: a small body is parsed at once', async () => {
  const { limit } = defaultSettings
  const body = { text: JSON.stringify({ model: 'm', messages: [user] }) }
  const asked = await parseInTurns(openaiChat, { body, headers: () => undefined }, limit, () => assert.fail('a turn'))
  assert.equal(asked.ok, true)
})

test('parse request: a format receives the path of the request, whose members may be in it', async () => {
  const paths: (string | undefined)[] = []
  const format = {
    ...openaiChat,
    decodeRequest: (body: JsonObject, path?: string) => {
      paths.push(path)
      return openaiChat.decodeRequest(body)
    },
  }
  const received = {
    body: { text: '{"model":"m","messages":[]}' },
    headers: () => undefined,
    path: '/v1beta/models/m:generateContent',
  }
  parseRequest(format, received, defaultSettings.limit)
  await parseInTurns(format, received, defaultSettings.limit, () => assert.fail('a turn'))
  assert.deepEqual(paths, [received.path, received.path])
})
