import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { JsonObject } from '../../core/json.ts'
import { writeFrame } from '../../protocols/framing/sse.ts'
import { BackgroundResponse } from './background-response.ts'

const event = (type: string, sequence_number: number, more: object = {}) =>
  writeFrame(type, JSON.stringify({ type, sequence_number, ...more }))
const body = (status: string, more: object = {}) => ({ object: 'response', id: 'resp_1', status, output: [], ...more })
const created = event('response.created', 0, { response: body('in_progress') })
const completed = event('response.completed', 2, { response: body('completed') })
const DONE = writeFrame(undefined, '[DONE]')

type Kept = { readonly status: string; readonly response: JsonObject; readonly events: number }

/** `gate`: the store confirms a write when this resolves. */
const given = (hasRoom = () => true, gate = Promise.resolve()) => {
  const kept: Kept[] = []
  let gone = 0
  const job = new BackgroundResponse({
    owner: 'me',
    users: [],
    queued: body('queued', { created_at: 7, model: 'asked' }),
    failed: ({ kind, message }) => body('failed', { error: { code: kind, message } }),
    mayRunAgain: false,
    hasRoom,
    save: async (response, status, events) => {
      kept.push({ status, response, events: events.length })
      await gate
    },
  })
  job.onDisconnect(() => gone++)
  return { job, kept, gone: () => gone }
}

const cases: readonly (readonly [string, (job: BackgroundResponse) => void, readonly string[], readonly string[]])[] = [
  ['nothing yet', () => {}, [], []],
  ['begun', (job) => job.write(created), ['in_progress'], ['response.created']],
  [
    'complete',
    (job) => {
      job.write(created)
      job.write(event('response.output_text.delta', 1))
      job.end(completed + DONE)
    },
    ['in_progress', 'completed'],
    ['response.created', 'response.output_text.delta', 'response.completed'],
  ],
  [
    'in one write',
    (job) => job.end(created + completed + DONE),
    ['in_progress', 'completed'],
    ['response.created', 'response.completed'],
  ],
  [
    'incomplete',
    (job) => job.end(created + event('response.incomplete', 1, { response: body('incomplete') })),
    ['in_progress', 'incomplete'],
    ['response.created', 'response.incomplete'],
  ],
  [
    'interrupted with an error',
    (job) => job.end(created + event('error', 1) + event('response.failed', 2, { response: body('failed') }) + DONE),
    ['in_progress', 'failed'],
    ['response.created', 'error', 'response.failed'],
  ],
  [
    'no target answered',
    (job) => {
      job.writeHead()
      job.end('{"error":{"code":"status","message":"It broke.","type":"upstream_error"}}')
    },
    ['failed'],
    ['response.created', 'error', 'response.failed'],
  ],
  [
    'cut in the middle',
    (job) => {
      job.write(created)
      job.abort()
    },
    ['in_progress', 'failed'],
    ['response.created', 'error', 'response.failed'],
  ],
  [
    'ended without a final event',
    (job) => {
      job.write(created)
      job.end()
    },
    ['in_progress', 'failed'],
    ['response.created', 'error', 'response.failed'],
  ],
  [
    'cancelled',
    (job) => {
      job.write(created)
      job.cancel()
      job.cancel()
      job.write(event('response.output_text.delta', 1))
      job.end(completed)
      job.abort()
    },
    ['in_progress', 'cancelled'],
    ['response.created', 'response.incomplete'],
  ],
  [
    'cancelled before its first event',
    (job) => {
      job.cancel()
    },
    ['cancelled'],
    ['response.created', 'response.incomplete'],
  ],
  [
    'cancelled too late',
    (job) => {
      job.end(created + completed)
      job.cancel()
      job.abort()
    },
    ['in_progress', 'completed'],
    ['response.created', 'response.completed'],
  ],
  ['keep-alives change nothing', (job) => job.write(': ping\n'), [], []],
]
for (const [name, run, states, types] of cases)
  test(`job: ${name}`, async () => {
    const { job, kept } = given()
    run(job)
    await setImmediate()
    assert.deepEqual(
      kept.map(({ status }) => status),
      states,
    )
    assert.deepEqual(
      job.events.map(({ type }) => type),
      types,
    )
    const numbers = job.events.map(({ number }) => number)
    assert.deepEqual(
      numbers,
      [...new Set(numbers)].sort((a, b) => a - b),
    )
    for (const { number, type, data } of job.events)
      assert.partialDeepStrictEqual(JSON.parse(data), { type, sequence_number: number })
    assert.equal(job.response.status, states.at(-1) ?? 'queued')
    assert.equal(job.hasEnded, !['queued', 'in_progress'].includes(String(job.response.status)))
    // The stored end equals the published response, with all events.
    if (job.hasEnded)
      assert.deepEqual(kept.at(-1), { status: states.at(-1), response: job.response, events: types.length })
  })

test('job: a call that no target answered fails with the reason of its error', async () => {
  const { job } = given()
  job.end('{"error":{"code":"no_target_available","message":"No target.","type":"upstream_error"}}')
  await setImmediate()
  assert.partialDeepStrictEqual(job.response, { error: { code: 'server_error', message: 'No target.' } })
  assert.partialDeepStrictEqual(JSON.parse(job.events[1]?.data ?? ''), { error: { code: 'no_target_available' } })
})

test('job: cancelling aborts the upstream call at once, and resolves when its end is published', async () => {
  const gate = Promise.withResolvers<void>()
  const { job, gone } = given(undefined, gate.promise)
  job.write(created)
  let resolved = 0
  const cancelled = [job.cancel(), job.cancel()].map((one) => one.then(() => resolved++))
  assert.equal(gone(), 1)
  await setImmediate()
  assert.deepEqual([resolved, job.hasEnded], [0, false])
  gate.resolve()
  await Promise.all(cancelled)
  assert.deepEqual([job.hasEnded, job.response.status], [true, 'cancelled'])
})

test('job: its end is published after the first attempt to store it; later text is ignored', async () => {
  const gate = Promise.withResolvers<void>()
  const { job, kept } = given(undefined, gate.promise)
  let seen = 0
  job.watch(() => {
    seen = job.events.length
  })
  job.write(created)
  job.write(completed)
  job.write(event('response.failed', 3, { response: body('failed') }))
  job.abort()
  await setImmediate()
  assert.deepEqual(
    kept.map(({ status, events }) => [status, events]),
    [
      ['in_progress', 1],
      ['completed', 2],
    ],
  )
  assert.deepEqual([seen, job.hasEnded, job.response.status], [1, false, 'in_progress'])
  gate.resolve()
  await setImmediate()
  assert.deepEqual([seen, job.hasEnded, job.response.status], [2, true, 'completed'])
})

test('job: above the memory limit of all jobs it fails, unless its own part is small', async () => {
  let asked = 0
  const { job, gone } = given(() => ++asked < 3)
  const words = event('response.output_text.delta', 1, { delta: 'x'.repeat(30_000) })
  job.write(created + words + words)
  assert.equal(asked, 0)
  for (let more = 0; more < 6; more++) job.write(words)
  assert.deepEqual([asked, job.hasEnded, gone()], [2, false, 0])
  for (let more = 0; more < 6; more++) job.write(words)
  await setImmediate()
  assert.partialDeepStrictEqual(job.response, { status: 'failed', error: { code: 'busy' } })
  assert.deepEqual([asked, gone()], [3, 1])
})

test('job: an ended watch receives nothing', () => {
  const { job } = given()
  let notified = 0
  const leave = job.watch(() => notified++)
  job.write(created)
  leave()
  job.end(completed)
  assert.equal(notified > 0, true)
  const before = notified
  job.abort()
  assert.equal(notified, before)
})

test('job: a cancelled response keeps the text that was streamed', async () => {
  const { job, kept } = given()
  job.write(created)
  const message = { type: 'message', role: 'assistant', status: 'in_progress', content: [] }
  const done = { type: 'reasoning', id: 'rs_1', summary: [] }
  job.write(event('response.output_item.added', 1, { output_index: 0, item: { ...done, status: 'in_progress' } }))
  job.write(event('response.output_item.done', 2, { output_index: 0, item: done }))
  job.write(event('response.output_item.added', 3, { output_index: 1, item: { ...message, id: 'msg_1' } }))
  for (const [at, delta] of ['Half ', 'a text'].entries())
    job.write(event('response.output_text.delta', 4 + at, { output_index: 1, content_index: 0, delta }))
  job.write(event('response.output_item.added', 6, { output_index: 2, item: { type: 'function_call', id: 'fc_1' } }))
  job.write(event('response.function_call_arguments.delta', 7, { output_index: 2, delta: '{"a":' }))
  await job.cancel()
  const part = { type: 'output_text', text: 'Half a text', annotations: [], logprobs: [] }
  const output = [done, { ...message, id: 'msg_1', status: 'incomplete', content: [part] }]
  assert.deepEqual(job.response.output, output)
  assert.deepEqual(kept.at(-1)?.response, job.response)
  const last = JSON.parse(job.events.at(-1)?.data ?? '')
  assert.deepEqual([last.type, last.sequence_number], ['response.incomplete', 8])
  assert.deepEqual([last.response.status, last.response.output], ['cancelled', output])
})

test('job: the time and the model are those of the queued response', async () => {
  const { job } = given()
  job.write(event('response.created', 0, { response: body('in_progress', { created_at: 9, model: 'other' }) }))
  job.end(event('response.completed', 1, { response: body('completed', { created_at: 9, model: 'other' }) }))
  await setImmediate()
  assert.deepEqual([job.response.created_at, job.response.model], [7, 'asked'])
  for (const { data } of job.events) assert.deepEqual(JSON.parse(data).response.created_at, 7)
})

for (const [type, code, shown] of [
  ['invalid_request_error', 'invalid_request', 'invalid_prompt'],
  ['invalid_request_error', 'context_length_exceeded', 'context_length_exceeded'],
  ['rate_limit_error', 'rate_limited', 'rate_limit_exceeded'],
  ['insufficient_quota', 'insufficient_quota', 'insufficient_quota'],
  ['upstream_error', 'upstream_auth', 'server_error'],
] as const)
  test(`job: the error ${code} is ${shown} in the failed response`, async () => {
    const { job } = given()
    job.end(JSON.stringify({ error: { code, message: 'It broke.', type } }))
    await setImmediate()
    assert.deepEqual(job.response.error, { code: shown, message: 'It broke.' })
  })
