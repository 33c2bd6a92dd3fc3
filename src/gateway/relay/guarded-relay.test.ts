/** Rules of an operator on the answers of relayed endpoints. Shapes: developers.openai.com/docs/api-reference/audio, docs.cohere.com/reference/rerank. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { receivedForm } from '../../../test/support/form.ts'
import { CapturedReply, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import { rulesOf } from '../../../test/support/guarded-gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import type { GuardAction } from '../../core/guard-verdict.ts'
import type { RelayName } from '../../core/relay.ts'
import { serveRelay } from './serve-relay.ts'

const pii = (action: GuardAction) =>
  ({ name: 'pii', on: ['request', 'answer'], kinds: ['email', 'card'], action }) as const

const asking = async (
  name: RelayName,
  fields: Readonly<Record<string, string | readonly string[]>>,
  script: (call: ScriptedCall) => void,
  action: GuardAction = 'mask',
) => {
  const relays = { transcriptions: { models: ['m'] }, rerank: { models: ['m'] } }
  const made = gatewayHarness([instance('a', ['k1'], { relays })], script)
  const reply = new CapturedReply()
  const part = (field: string, value: string, more = '') =>
    `--B\r\ncontent-disposition: form-data; name="${field}"${more}\r\n\r\n${value}\r\n`
  const form = Object.entries({ model: 'm', ...fields }).map(([field, value]) => part(field, String(value)))
  const isForm = name === 'transcriptions'
  const received = {
    id: 'req_a',
    method: 'POST',
    path: '/v1',
    query: '',
    headers: (header: string) => (isForm && header === 'content-type' ? 'multipart/form-data; boundary=B' : undefined),
    body: isForm
      ? receivedForm(Buffer.from(`${part('file', 'RIFF', '; filename=a')}${form.join('')}--B--`))
      : { text: JSON.stringify({ model: 'm', ...fields }) },
    client: ANONYMOUS,
  }
  reply.done = serveRelay({ ...made.gateway, guards: rulesOf(pii(action)) }, { name, received, responseWriter: reply })
  for (let turn = 0; turn < 20; turn++) await made.world.advance(1)
  const trace = made.events.flatMap((item) => (item.event === 'request' ? item.trace : []))
  return { ...made, reply, trace }
}

const json = (body: object) => (call: ScriptedCall) => respondWith.json(call, 200, JSON.stringify(body))

test('relay: a mask of an answer leaves no second copy of the text', async () => {
  const answer = {
    task: 'transcribe',
    duration: 4.2,
    text: 'Write to bob@c.example.',
    segments: [{ id: 0, start: 0, end: 4.2, text: 'Write to bob@c.example.', avg_logprob: -0.2 }],
    words: [{ word: 'bob@c.example', start: 1, end: 2 }],
    usage: { type: 'duration', seconds: 5 },
  }
  const { reply } = await asking('transcriptions', { response_format: 'verbose_json' }, json(answer))
  const { segments, words, ...rest } = answer
  assert.deepEqual(JSON.parse(reply.text), { ...rest, text: 'Write to [EMAIL].' })
})

test('relay: an answer in which nothing is found keeps its bytes', async () => {
  const text = '{ "text" : "Good morning", "words":[{"word":"Good"}] }'
  const { reply } = await asking('transcriptions', {}, (call) => respondWith.json(call, 200, text))
  assert.equal(reply.text, text)
})

test('relay: plain text is masked, subtitles with a match are refused', async () => {
  const cues =
    '1\n00:00:00,000 --> 00:00:01,000\nMy card is 4111 1111\n\n2\n00:00:01,000 --> 00:00:02,000\n1111 1111.\n'
  const answers = [
    ['text', 'Card 4111 1111 1111 1111.\n', 200, /^Card \[CARD\]\.\n$/],
    ['srt', cues, 400, /guardrail_blocked.*subtitles|subtitles.*guardrail_blocked/],
    ['vtt', `WEBVTT\n\n${cues.replaceAll(',', '.')}`, 400, /subtitles/],
    ['srt', cues.replace('4111', '9000'), 200, /9000 1111/],
  ] as const
  for (const [format, text, status, expected] of answers) {
    const { reply } = await asking('transcriptions', { response_format: format }, (call) =>
      respondWith.raw(call, 200, { 'content-type': 'text/plain; charset=utf-8' }, text),
    )
    assert.equal(reply.status, status, reply.text)
    assert.match(reply.text, expected)
  }
})

test('relay: a refused answer is paid for', async () => {
  const { reply, trace } = await asking('transcriptions', {}, json({ text: 'bob@c.example' }), 'block')
  assert.equal(reply.status, 400)
  assert.match(reply.text, /guardrail_blocked/)
  assert.doesNotMatch(reply.text, /bob/)
  assert.ok(trace.some(({ type }) => type === 'usage'))
})

const SPOKEN = ['Write to bob', '@c.exa', 'mple, please.']
const events = (text: string) => [
  ...SPOKEN.map((delta) => ({
    type: 'transcript.text.delta',
    delta,
    logprobs: [{ token: delta, logprob: 0, bytes: [1] }],
  })),
  { type: 'transcript.text.segment', id: 'seg_1', start: 0, end: 1, text, speaker: 'A' },
  {
    type: 'transcript.text.done',
    text,
    logprobs: [],
    usage: { type: 'tokens', input_tokens: 14, output_tokens: 9, total_tokens: 23 },
  },
]
const streamed =
  (list: readonly object[], cut = Number.POSITIVE_INFINITY) =>
  (call: ScriptedCall) => {
    const bytes = Buffer.from(list.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''))
    call.head(200, { 'content-type': 'text/event-stream' })
    for (let at = 0; at < bytes.length; at += cut) call.send(bytes.subarray(at, at + cut).toString())
    call.end()
  }
const dataOf = (text: string) =>
  text
    .split('\n\n')
    .filter(Boolean)
    .map((frame) => JSON.parse(frame.replace(/^data: /, '')))

test('relay: a stream is held back and masked, however its bytes are cut', async () => {
  for (const cut of [1, 7, 1_000]) {
    const { reply, trace } = await asking('transcriptions', { stream: 'true' }, streamed(events(SPOKEN.join('')), cut))
    assert.deepEqual(
      dataOf(reply.text).map(({ type, delta, text }) => [type, delta ?? text]),
      [
        ['transcript.text.delta', 'Write to [EMAIL], please.'],
        ['transcript.text.done', 'Write to [EMAIL], please.'],
      ],
    )
    assert.doesNotMatch(reply.text, /bob|exa|logprobs/)
    const used = trace.find(({ type }) => type === 'usage')
    assert.ok(used?.type === 'usage' && used.usage.output === 9)
  }
})

test('relay: a stream in which nothing is found passes as it is, one with a block ends with an error', async () => {
  const clean = events('Good morning').slice(-1)
  assert.deepEqual(dataOf((await asking('transcriptions', { stream: 'true' }, streamed(clean))).reply.text), clean)
  const { reply } = await asking('transcriptions', { stream: 'true' }, streamed(events('x')), 'block')
  assert.match(reply.text, /Blocked by the rule .*stream_interrupted/)
  assert.doesNotMatch(reply.text, /bob|transcript/)
})

test('relay: what was masked in a request is restored in its answer', async () => {
  const documents = ['Write to bob@c.example', 'None']
  const { reply, world } = await asking('rerank', { query: 'who?', documents }, (call) => {
    const sent = JSON.parse(call.body ?? '')
    json({ id: 'r', results: [{ index: 0, relevance_score: 0.9, document: { text: sent.documents[0] } }] })(call)
  })
  assert.doesNotMatch(world.calls[0]?.body ?? '', /bob/)
  assert.equal(JSON.parse(reply.text).results[0].document.text, documents[0])
})
