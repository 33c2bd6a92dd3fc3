import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CapturedReply, chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { ANONYMOUS, type Client } from '../../core/accounts.ts'
import { fail } from '../../core/failure.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import type { StoredResponse } from '../../core/stored-response.ts'
import { createResponse } from './create-response.ts'
import { runAgain } from './run-again.ts'

const CLIENT: Client = { ...ANONYMOUS, id: 'key_a', owner: 'key_a' }
const SECRET = 'Bearer hg-secret'

const waits = () => {}
const answers = (asked: ScriptedCall) => respondWith.stream(asked, chatAnswer.stream('Hel', 'lo'))

/** A gateway with a store that other gateways share. `known`: its client may call models now. */
const given = (script: (asked: ScriptedCall) => void, known = true, forwardHeaders?: readonly string[]) => {
  const made = gatewayHarness([{ ...instance('one'), ...(forwardHeaders && { forwardHeaders }) }], script)
  const { store, world } = made
  const gateway = {
    ...made.gateway,
    responses: { ...made.gateway.responses, handsOver: true },
    clientNow: ({ id }: Pick<Client, 'id'>) => (known && id === CLIENT.id ? CLIENT : null),
  }
  const ask = async (body: object): Promise<StoredResponse> => {
    const headers = (name: string) => ({ authorization: SECRET, 'user-agent': 'app/1', 'x-token': 'secret' })[name]
    const received: IncomingRequest = {
      id: 'req_client',
      method: 'POST',
      path: '/v1/responses',
      query: '',
      headers,
      body: { text: JSON.stringify({ model: 'm', input: 'hi', background: true, ...body }) },
      client: CLIENT,
    }
    const reply = new CapturedReply()
    reply.done = createResponse(gateway, received, reply)
    await world.settle()
    const { id } = reply.text.startsWith('{') ? reply.json : { id: [...gateway.jobs.keys()][0] }
    return stored(id)
  }
  const stored = (id: string): StoredResponse => store.memory.get(id, CLIENT.owner) ?? assert.fail('it is not stored')
  return { ...made, gateway, ask, stored }
}

/** What another gateway has left behind. */
const lost = async (body: object = {}) => {
  const first = await given(waits).ask(body)
  return { stored: first, again: first.again ?? assert.fail('it cannot run again') }
}

test('a response of another gateway runs again with its ids and its time', async () => {
  const { gateway, world, events, stored } = given(answers)
  const run = await lost({ input: [{ role: 'user', content: 'hi' }] })
  assert.ok(!run.again.includes(SECRET))
  await world.advance(60_000)
  await runAgain(gateway, run)
  await world.settle()
  const end = stored(run.stored.id)
  assert.equal(end.status, 'completed')
  assert.match(end.response, /Hello/)
  const [before, after] = [JSON.parse(run.stored.response), JSON.parse(end.response)]
  assert.deepEqual(
    [end.created, end.input, after.id, after.created_at],
    [run.stored.created, run.stored.input, before.id, before.created_at],
  )
  assert.equal(end.again, undefined)
  const traces = events.flatMap((news) => (news.event === 'request' ? [news.trace[0]] : []))
  const [received] = traces
  assert.ok(received?.type === 'received')
  assert.equal(received.id, 'req_client')
  assert.match(received.ownId ?? '', /^req_[a-z]{20}$/)
})

const once: readonly (readonly [string, object, (readonly string[])?])[] = [
  ['its client sees its events', { stream: true }],
  [
    'a tool of its provider changes something',
    { tools: [{ type: 'mcp', server_label: 'a', server_url: 'https://a.example' }] },
  ],
  ['a header is forwarded, which may be a credential', {}, ['x-token']],
]
for (const [why, body, forwarded] of once)
  test(`a response does not run again if ${why}`, async () => {
    assert.equal((await given(waits, true, forwarded).ask(body)).again, undefined)
  })

test('a response whose client may not call models any more has failed', async () => {
  const { gateway, world, stored } = given(answers, false)
  const run = await lost()
  await runAgain(gateway, run)
  await world.settle()
  const end = stored(run.stored.id)
  assert.deepEqual([end.status, world.calls.length], ['failed', 0])
  assert.match(end.response, /may not call models any more/)
})

test('a response that this process still runs goes on', async () => {
  const { gateway, world, ask } = given(waits)
  const first = await ask({})
  await runAgain(gateway, { stored: first, again: first.again ?? '' })
  await world.settle()
  assert.equal(world.calls.length, 1)
})

test('the end of a lost response is stored when that is possible', async () => {
  const { gateway, world, store, stored } = given(answers, false)
  const run = await lost()
  store.failure = fail('storage', 'The database does not answer.')
  await runAgain(gateway, run)
  await world.settle()
  store.failure = null
  await world.advance(1_000)
  await world.settle()
  assert.equal(stored(run.stored.id).status, 'failed')
})

test('what is handed over is not stored, and what is followed is not handed over', async () => {
  const { gateway, world, ask, stored } = given(waits)
  const [handed, followed] = [await ask({}), await ask({})]
  gateway.jobs.get(followed.id)?.watch(() => {})
  for (const job of gateway.jobs.values()) job.handOver()
  assert.deepEqual(
    [...gateway.jobs.values()].map(({ hasEnded }) => hasEnded),
    [true, false],
  )
  for (const call of [...gateway.activeCalls]) call.cancel(fail('shutdown', 'The gateway is shutting down.'))
  await world.settle()
  for (const job of gateway.jobs.values()) await job.storeAgain()
  assert.deepEqual([stored(handed.id).status, stored(followed.id).status], ['queued', 'failed'])
})
