import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CapturedReply, chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import { compact } from './compact.ts'

const received: IncomingRequest = {
  id: 'req_a',
  method: 'POST',
  path: '/v1/responses/compact',
  query: '',
  headers: () => undefined,
  body: { text: JSON.stringify({ model: 'm', input: [{ role: 'user', content: 'a long talk' }] }) },
  client: ANONYMOUS,
}

/** Compacts with a summary that ends for this reason. */
const compacted = async (finish: string) => {
  const answer = JSON.parse(chatAnswer.whole('We talked about'))
  const choices = answer.choices.map((choice: object) => ({ ...choice, finish_reason: finish }))
  const { gateway, world } = gatewayHarness([instance('a')], (asked) =>
    respondWith.json(asked, 200, JSON.stringify({ ...answer, choices })),
  )
  const reply = new CapturedReply()
  void compact(gateway, received, reply)
  await world.advance(0)
  return reply
}

test('compact: keeps user messages and summarises the rest', async () => {
  const { status, json } = await compacted('stop')
  assert.equal(status, 200)
  assert.deepEqual(
    json.output.map(({ type }: { type: string }) => type),
    ['message', 'compaction'],
  )
})

test('compact: an incomplete summary is an error', async () => {
  const { status, json } = await compacted('length')
  assert.deepEqual([status, json.error?.code], [502, 'truncated'])
})
