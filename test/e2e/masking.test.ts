/** Keys of this gateway that a client sends in the wrong place reach neither the log nor an error. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { createKey } from '../../src/policy/accounts/client-key.ts'
import { start } from './support/process.ts'

test('masking: a key in the model, the path, a header or the body is in no log line and no error', async () => {
  await using gateway = await start({ env: { LOG_LEVEL: 'debug' } })
  const [client, admin] = [createKey('client', randomBytes), createKey('admin', randomBytes)]
  const messages = [{ role: 'user', content: 'hi' }]
  const ask = async (path: string, body: unknown, headers: Readonly<Record<string, string>> = {}) => {
    const response = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
    return { status: response.status, text: await response.text() }
  }
  for (const key of [client, admin]) {
    const answers = [
      await ask('/v1/chat/completions', { model: key, messages }),
      await ask('/v1/chat/completions', { model: `demo/${key}`, messages }),
      await ask(`/v1/${key}/chat/completions`, { messages }),
      await ask(`/v1/responses/${key}/cancel`, {}),
      await ask('/v1/chat/completions', { messages, stream: key }),
      await ask('/v1/chat/completions', { messages: [{ role: key, content: 'hi' }] }),
      await ask('/v1/chat/completions', { messages, [key]: { nested: key } }),
      await ask('/v1/chat/completions', { messages }, { 'x-headgate-metadata': key }),
      await ask('/v1/chat/completions', { messages }, { 'x-headgate-route': key, 'user-agent': key }),
    ]
    assert.ok(answers.some(({ status }) => status >= 400))
    for (const { status, text } of answers) if (status >= 400) assert.ok(!text.includes(key.slice(0, 16)), text)
  }
  await gateway.stop()
  for (const key of [client, admin]) assert.ok(!gateway.output().includes(key.slice(0, 16)))
  assert.match(gateway.output(), /hgk_\[key\]/)
})
