import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gatewayHarness, instance } from '../../../test/support/gateway.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import type { Provider } from '../../core/provider.ts'
import { NO_ASSUMPTION } from '../../policy/routing/assumption.ts'
import { explain, parseOnce } from './explain.ts'

/** Chat and embeddings. */
const BOTH: Partial<Provider> = {
  speaks: [{ protocol: 'openai-chat' }],
  embeds: { protocol: 'openai-embeddings', models: ['m', 'n', 'other'] },
}

const receivedOf = (body: IncomingRequest['body']): IncomingRequest => ({
  id: 'req_test',
  method: 'POST',
  path: '/v1/route',
  query: '',
  headers: () => undefined,
  body,
  client: ANONYMOUS,
})

for (const [style, members] of [
  ['chat', { messages: [{ role: 'user', content: 'Hello' }] }],
  ['messages', { max_tokens: 9, system: 'Be brief.', messages: [{ role: 'user', content: 'Hello' }] }],
  ['embeddings', { input: ['Hello'] }],
] as const)
  test(`explain: a body of ${style} is parsed once for all models`, () => {
    const { gateway } = gatewayHarness([instance('first', ['k1'], BOTH), instance('second', ['k1'], BOTH)], () => {})
    const textFor = (model: string) => JSON.stringify({ model, ...members })
    let text = textFor('m')
    const received = receivedOf({
      get text() {
        return text
      },
    })
    const parsed = parseOnce(gateway, { received, audience: 'client' })
    assert.ok(parsed.ok)
    // Another parsing would fail.
    text = text.replaceAll(/["{}[\]]/g, ' ')
    for (const model of ['m', 'n', 'first/m', 'second/other']) {
      const once = parsed.value(NO_ASSUMPTION, model)
      assert.ok(once.ok, JSON.stringify(once))
      assert.deepEqual(once, explain(gateway, receivedOf({ text: textFor('m').replace('"m"', JSON.stringify(model)) })))
    }
  })

test('explain: a body that cannot be parsed has the same error for every model', () => {
  const { gateway } = gatewayHarness([instance('first')], () => {})
  const received = receivedOf({ text: '{' })
  const parsed = parseOnce(gateway, { received, audience: 'client' })
  assert.deepEqual(parsed, explain(gateway, received))
  assert.equal(parsed.ok, false)
})
