import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  CapturedReply,
  chatAnswer,
  gatewayHarness,
  instance,
  respondWith,
  type SettingsInput,
} from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import { bad, fail } from '../../core/failure.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import { type JsonObject, object, text } from '../../core/json.ts'
import { createResponse } from './create-response.ts'
import { eventsIn } from './recording-writer.ts'
import { cancelResponse, deleteResponse, listInput, showResponse } from './retrieve-response.ts'

const received = (more: Partial<IncomingRequest> = {}): IncomingRequest => ({
  id: 'req_test',
  method: 'POST',
  path: '/v1/responses',
  query: '',
  headers: () => undefined,
  body: { text: '' },
  client: ANONYMOUS,
  ...more,
})

/** A gateway with one scripted upstream, and functions to send requests. */
const given = (script: (asked: ScriptedCall) => void, settings: SettingsInput = {}) => {
  const { gateway, world, store } = gatewayHarness([instance('one')], script, settings)
  const ask = async (body: object, owner = ''): Promise<CapturedReply> => {
    const reply = new CapturedReply()
    reply.done = createResponse(
      gateway,
      received({
        body: { text: JSON.stringify({ model: 'm', input: 'hi', ...body }) },
        client: { ...ANONYMOUS, owner },
      }),
      reply,
    )
    await world.settle()
    return reply
  }
  const page = async (show: typeof showResponse, id: string, query = '', owner = ''): Promise<CapturedReply> => {
    const reply = new CapturedReply()
    const shown = show(gateway, received({ method: 'GET', query, client: { ...ANONYMOUS, owner } }), reply, id)
    await world.settle()
    reply.done = shown
    return reply
  }
  return { gateway, world, store, ask, page }
}

const answers = (asked: ScriptedCall) =>
  asked.headers.accept === 'text/event-stream'
    ? respondWith.stream(asked, chatAnswer.stream('Hel', 'lo'))
    : respondWith.json(asked, 200, chatAnswer.whole('Hello'))

/** Starts a stream, sends one word, and waits. */
const slow = (asked: ScriptedCall) => {
  asked.head(200, { 'content-type': 'text/event-stream' })
  asked.send(chatAnswer.role() + chatAnswer.chunk({ content: 'Hel' }))
}

test('stored: a response is returned as it was sent', async () => {
  const { ask, page } = given(answers)
  const { json } = await ask({})
  assert.deepEqual((await page(showResponse, json.id)).json, json)
  assert.equal((await page(showResponse, json.id, '', 'another')).status, 404)
  assert.equal((await page(showResponse, 'resp_hgno')).status, 404)
})

test('stored: the replayed stream equals the original', async () => {
  const { ask, page } = given(answers)
  const came = eventsIn((await ask({ stream: true })).text)
  const response = came.at(-1)?.response
  assert.ok(response && typeof response === 'object' && 'id' in response)
  const again = eventsIn((await page(showResponse, String(response.id), 'stream=true')).text)
  assert.deepEqual(
    again.map(({ type }) => type).filter((type) => type !== 'response.output_text.delta'),
    came.map(({ type }) => type).filter((type) => type !== 'response.output_text.delta'),
  )
  assert.deepEqual(again.at(-1)?.response, response)
  const idsIn = (events: readonly JsonObject[]) =>
    new Set(events.flatMap(({ item_id, item }) => text(item_id) ?? text(object(item)?.id) ?? []))
  assert.deepEqual(idsIn(again), idsIn(came))
})

const queries: readonly (readonly [string, number])[] = [
  ['stream=true&starting_after=0', 200],
  ['stream=true&starting_after=999999', 200],
  ['stream=true&starting_after=-1', 400],
  ['stream=true&starting_after=x', 400],
  ['stream=true&starting_after=9999999999999999', 400],
  ['starting_after=x', 200],
]
for (const [query, status] of queries)
  test(`stored: ${query} is ${status}`, async () => {
    const { ask, page } = given(answers)
    const { json } = await ask({})
    assert.equal((await page(showResponse, json.id, query)).status, status)
  })

test('stored: a watcher receives new events and keep-alives until the end', async () => {
  const { ask, page, world } = given(slow, { keepAlive: { interval: 1_000 } })
  const { json } = await ask({ background: true })
  const watcher = await page(showResponse, json.id, 'stream=true')
  assert.ok(eventsIn(watcher.text).some(({ type }) => type === 'response.output_text.delta'))
  await world.advance(2_500)
  // Keep-alives of the call are not stored: the watcher's are sent separately.
  assert.ok((watcher.text.match(/: ping\n|event: response\.in_progress\n/g)?.length ?? 0) >= 3, watcher.text)
  const [asked] = world.calls
  asked?.send(chatAnswer.chunk({ content: 'lo' }) + chatAnswer.chunk({}, 'stop') + chatAnswer.done)
  asked?.end()
  await world.settle()
  assert.equal(watcher.ending, 'ended')
  const events = eventsIn(watcher.text)
  assert.equal(events.at(-1)?.type, 'response.completed')
  assert.ok(watcher.text.endsWith('data: [DONE]\n\n'))
  assert.equal(world.timers(), 0)
})

test('stored: a slow watcher receives every event once', async () => {
  const { ask, page, world } = given(slow)
  const { json } = await ask({ background: true })
  const reply = await page(showResponse, json.id, 'stream=true')
  reply.writable = false
  const [asked] = world.calls
  asked?.send(chatAnswer.chunk({ content: 'l' }) + chatAnswer.chunk({ content: 'o' }))
  await world.settle()
  const before = eventsIn(reply.text).length
  asked?.send(chatAnswer.chunk({ content: '!' }) + chatAnswer.chunk({}, 'stop') + chatAnswer.done)
  asked?.end()
  await world.settle()
  assert.equal(eventsIn(reply.text).length, before)
  assert.equal(reply.ending, null)
  reply.drain()
  const numbers = eventsIn(reply.text).map(({ sequence_number }) => sequence_number)
  assert.deepEqual(
    numbers,
    numbers.map((_, at) => at),
  )
  assert.equal(reply.ending, 'ended')
})

test('stored: a watcher that stops reading is disconnected', async () => {
  const { ask, page, world } = given(slow, {
    timeout: { clientWrite: 5_000, contentIdle: 0, idle: 0 },
    circuit: { timeout: 0 },
  })
  const { json } = await ask({ background: true })
  const reply = await page(showResponse, json.id, 'stream=true')
  reply.writable = false
  world.calls[0]?.send(chatAnswer.chunk({ content: 'lo' }))
  await world.advance(4_900)
  assert.equal(reply.ending, null)
  await world.advance(200)
  assert.equal(reply.ending, 'cut')
})

test('stored: the response continues when its watcher disconnects', async () => {
  const { ask, page, world, gateway } = given(slow)
  const { json } = await ask({ background: true })
  const reply = await page(showResponse, json.id, 'stream=true')
  reply.disconnect()
  const before = reply.text
  await world.settle()
  assert.equal(world.calls[0]?.aborted, false)
  const [asked] = world.calls
  asked?.send(chatAnswer.chunk({}, 'stop') + chatAnswer.done)
  asked?.end()
  await world.settle()
  assert.equal(reply.text, before)
  assert.equal((await page(showResponse, json.id)).json.status, 'completed')
  assert.equal(gateway.jobs.size, 0)
})

test('stored: cancelling aborts the upstream call; deleting removes the response', async () => {
  for (const show of [cancelResponse, deleteResponse]) {
    const { ask, page, world, gateway } = given(slow)
    const { json } = await ask({ background: true })
    assert.equal((await await page(show, json.id, '', 'another')).status, 404)
    assert.equal(world.calls[0]?.aborted, false)
    assert.equal((await await page(show, json.id)).status, 200)
    await world.settle()
    assert.equal(world.calls[0]?.aborted, true)
    assert.equal(gateway.jobs.size, 0)
    const then = await page(showResponse, json.id)
    assert.deepEqual(
      show === cancelResponse ? [then.status, then.json.status] : [then.status],
      show === cancelResponse ? [200, 'cancelled'] : [404],
    )
  }
})

test('stored: a queued response that was cancelled is replayed as a stream with its final state', async () => {
  const { ask, page } = given(() => {})
  const { json } = await ask({ background: true })
  await page(cancelResponse, json.id)
  const events = eventsIn((await page(showResponse, json.id, 'stream=true')).text)
  assert.equal(events[0]?.type, 'response.created')
  assert.partialDeepStrictEqual(events.at(-1), { response: { id: json.id, status: 'cancelled' } })
})

test('stored: a background response survives a failed write and is stored later', async () => {
  const { ask, page, world, gateway, store } = given(slow)
  const { json } = await ask({ background: true })
  store.failure = fail('storage', 'the disk is full', { retryAfter: 5_000 })
  const [asked] = world.calls
  asked?.send(chatAnswer.chunk({ content: 'lo' }) + chatAnswer.chunk({}, 'stop') + chatAnswer.done)
  asked?.end()
  await world.settle()
  assert.equal((await page(showResponse, json.id)).json.status, 'completed')
  assert.equal(store.memory.get(json.id, '')?.status, 'in_progress')
  await world.advance(1_000)
  assert.equal(store.memory.get(json.id, '')?.status, 'in_progress')
  store.failure = null
  await world.advance(2_000)
  assert.equal(store.memory.get(json.id, '')?.status, 'completed')
  assert.equal(gateway.jobs.size, 0)

  store.failure = fail('storage', 'the disk is full', { retryAfter: 5_000 })
  const second = await ask({ background: true })
  assert.deepEqual([second.status, second.json.error.code], [503, 'storage_unavailable'])
  assert.equal(second.headers['x-should-retry'], 'true')
  assert.equal(gateway.jobs.size, 0)
  assert.equal(world.timers(), 0)
})

test('stored: writes that keep failing are abandoned after a while', async () => {
  const { ask, world, gateway, store } = given(answers)
  const { json } = await ask({ background: true })
  assert.equal(gateway.jobs.size, 0)
  assert.equal(store.memory.get(json.id, '')?.status, 'completed')
  const gate = Promise.withResolvers<void>()
  store.gate = gate.promise
  const waiting = ask({ background: true })
  await world.settle()
  store.gate = null
  gate.resolve()
  await waiting
  store.failure = fail('storage', 'the disk is full')
  await world.advance(1_000_000)
  assert.deepEqual([gateway.jobs.size, world.timers()], [0, 0])
})

for (const stream of [false, true])
  test(`stored: an answer that cannot be stored states it${stream ? ' in the final event of its stream' : ''}`, async () => {
    const { ask, page, store } = given(answers)
    store.failure = fail('storage', 'the disk is full')
    const reply = await ask({ stream })
    const answer = stream ? eventsIn(reply.text).at(-1)?.response : reply.json
    assert.deepEqual([reply.status, reply.ending, answer.store], [200, 'ended', false])
    assert.equal((await page(showResponse, answer.id)).status, 404)
  })

test('stored: a failed read or delete is not reported as unknown', async () => {
  const { gateway, ask, page } = given(answers)
  const { json } = await ask({})
  const failure = fail('storage', 'the disk does not answer', { retryAfter: 5_000 })
  const broken = async () => bad(failure)
  Object.assign(gateway.responses, { get: broken, turns: broken, delete: broken })
  for (const show of [showResponse, listInput, cancelResponse, deleteResponse])
    assert.equal((await page(show, json.id)).status, 503)
})

const items = Array.from({ length: 5 }, (_, at) => ({ role: 'user', content: `item ${at}` }))
const pages: readonly (readonly [string, readonly number[], boolean])[] = [
  ['', [4, 3, 2, 1, 0], false],
  ['order=asc', [0, 1, 2, 3, 4], false],
  ['order=asc&limit=2', [0, 1], true],
  ['limit=2', [4, 3], true],
  ['order=asc&after=1', [2, 3, 4], false],
  ['order=asc&after=1&limit=2', [2, 3], true],
  ['order=asc&before=3', [0, 1, 2], false],
  ['order=asc&after=0&before=4&limit=2', [1, 2], true],
  ['order=asc&after=4', [], false],
]
for (const [query, found, more] of pages)
  test(`stored: input items in pages: ${query || 'default'}`, async () => {
    const { ask, page } = given(answers)
    const { json } = await ask({ input: items })
    const all: { id: string; content: { text: string }[] }[] = (await page(listInput, json.id, 'order=asc')).json.data
    const wanted = query.replace(/(after|before)=(\d)/g, (_, name, at) => `${name}=${all[Number(at)]?.id}`)
    const body = (await page(listInput, json.id, wanted)).json
    assert.deepEqual(
      body.data.map((item: { content: { text: string }[] }) => Number(item.content[0]?.text.slice(5))),
      found,
    )
    assert.equal(body.has_more, more)
    assert.equal(body.first_id, body.data[0]?.id ?? '')
    assert.equal(body.last_id, body.data.at(-1)?.id ?? '')
  })

test('stored: a missing model is tried once, also after a refusal', async () => {
  const { ask, world } = given((asked) => {
    const { model, temperature } = JSON.parse(asked.body ?? '{}')
    if (temperature !== undefined)
      respondWith.error(asked, 400, { code: 'unsupported_parameter', param: 'temperature' })
    else if (model.startsWith('gone'))
      respondWith.error(asked, 404, { code: 'model_not_found', message: 'The model does not exist' })
    else answers(asked)
  })
  const calls = async (body: object): Promise<number> => {
    const before = world.calls.length
    await ask({ model: 'one/m', ...body })
    await world.advance(5_000)
    return world.calls.length - before
  }
  assert.equal(await calls({ model: 'one/gone' }), 1)
  assert.equal(await calls({ temperature: 0.5 }), 2)
  assert.equal(await calls({ model: 'one/gone-too' }), 1)
})
