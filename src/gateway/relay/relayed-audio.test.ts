import assert from 'node:assert/strict'
import { test } from 'node:test'
import { receivedForm } from '../../../test/support/form.ts'
import {
  CapturedReply,
  gatewayHarness,
  instance,
  respondWith,
  type SettingsInput,
} from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import type { TextOrBytes } from '../../core/encoded-text.ts'
import { fail } from '../../core/failure.ts'
import type { RelayName } from '../../core/relay.ts'
import { serveRelay } from './serve-relay.ts'

const AUDIO = {
  relays: { transcriptions: { models: ['m'] }, speech: { models: ['m'] } },
} as const
const first = instance('first', ['k1'], AUDIO)
const second = instance('second', ['k1'], AUDIO)

/** Keeps the bytes that are written. */
class FileReply extends CapturedReply {
  readonly bytes: Buffer[] = []
  override write(piece: TextOrBytes): boolean {
    this.bytes.push(Buffer.from(piece))
    return super.write(piece)
  }
}

type Asking = {
  readonly settings?: SettingsInput
  readonly instances?: readonly (typeof first)[]
}

const begin = (
  name: RelayName,
  body: string | object,
  script: (asked: ScriptedCall) => void,
  { settings = {}, instances = [first, second] }: Asking = {},
) => {
  const made = gatewayHarness(instances, script, settings)
  const reply = new FileReply()
  const received = {
    id: 'req_test',
    method: 'POST',
    path: '/v1/audio',
    query: '',
    headers: (header: string) => (header === 'content-type' ? 'multipart/form-data; boundary=B' : undefined),
    body: typeof body === 'string' ? receivedForm(Buffer.from(body, 'latin1')) : { text: JSON.stringify(body) },
    client: ANONYMOUS,
  }
  const done = serveRelay(made.gateway, { name, received, responseWriter: reply })
  return { ...made, reply, done }
}

const asking = async (...input: Parameters<typeof begin>) => {
  const started = begin(...input)
  await started.world.advance(700_000)
  await started.done
  const trace = started.events.flatMap((item) => (item.event === 'request' ? item.trace : []))
  return { ...started, called: started.world.calls, trace }
}

const part = (name: string, value: string, more = '') =>
  `--B\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n${value}\r\n`
const FILE = part('file', 'RIFF the model is "m" here', '; filename="a.wav"\r\nContent-Type: audio/wav')
const form = (...parts: readonly string[]) => `${parts.join('')}--B--\r\n`
const FORM = form(FILE, part('model', 'm'), part('language', 'de'))
const from = (asked: ScriptedCall) => new URL(asked.url).host.split('.')[0]
const outcome = (trace: readonly { readonly type: string }[]) => trace.find(({ type }) => type === 'ended')

// ── Forms ────────────────────────────────────────────────────────────────────────────────────────────────────────

test('relayed audio: a form passes unchanged', async () => {
  const answer =
    '{"text": "hallo", "usage": {"type":"tokens","input_tokens":14,"output_tokens":4,"input_token_details":{"audio_tokens":12}}}'
  const { reply, called, trace } = await asking('transcriptions', FORM, (asked) => respondWith.json(asked, 200, answer))
  assert.equal(reply.text, answer)
  assert.equal(called[0]?.body, FORM)
  assert.equal(called[0]?.url, 'http://first.test/v1/audio/transcriptions')
  assert.equal(called[0]?.headers['content-type'], 'multipart/form-data; boundary=B')
  const used = trace.find((fact) => fact.type === 'usage')
  assert.ok(used?.type === 'usage' && !used.estimated)
  assert.deepEqual([used.usage.input, used.usage.output, used.usage.audioInput], [14, 4, 12])
})

test('relayed audio: only the field of the model is rewritten, before and after the file', async () => {
  for (const [sent, expected] of [
    [form(FILE, part('model', 'second/m')), form(FILE, part('model', 'm'))],
    [form(part('model', 'second/m'), FILE), form(part('model', 'm'), FILE)],
  ] as const) {
    const { called } = await asking('transcriptions', sent, (asked) => respondWith.json(asked, 200, '{"text":""}'))
    assert.equal(called[0]?.body, expected)
    assert.equal(from(called[0] as ScriptedCall), 'second')
  }
})

for (const [format, type, answer] of [
  ['text', 'text/plain; charset=utf-8', 'hallo\n'],
  ['srt', 'text/plain', '1\n00:00:00,000 --> 00:00:01,000\nhallo\n'],
  ['vtt', 'text/vtt', 'WEBVTT\n\n00:00.000 --> 00:01.000\nhallo\n'],
  ['a file without speech', 'text/plain', ''],
] as const)
  test(`relayed audio: ${format} passes with its type, and is not free`, async () => {
    const { reply, trace } = await asking('transcriptions', FORM, (asked) =>
      respondWith.raw(asked, 200, { 'content-type': type }, answer),
    )
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.text, answer)
    assert.equal(reply.headers['content-type'], type)
    const used = trace.find((fact) => fact.type === 'usage')
    assert.ok(used?.type === 'usage' && used.estimated && used.usage.input > 0, JSON.stringify(used))
  })

test('relayed audio: tokens of a file follow its size', async () => {
  const large = form(part('file', 'x'.repeat(2_400_000), '; filename=a'), part('model', 'm'))
  const { trace } = await asking('transcriptions', large, (asked) =>
    respondWith.json(asked, 200, '{"text":"a","usage":{"type":"duration","seconds":600}}'),
  )
  const used = trace.find((fact) => fact.type === 'usage')
  assert.deepEqual(used?.type === 'usage' && [used.usage.input, used.usage.output], [10_000, 2_000])
})

test('relayed audio: after a failure the next target receives the same file', async () => {
  const { reply, called } = await asking('transcriptions', FORM, (asked) =>
    from(asked) === 'first' ? respondWith.error(asked, 500) : respondWith.json(asked, 200, '{"text":"a"}'),
  )
  assert.equal(reply.headers['x-headgate-provider'], 'second')
  for (const { body } of called) assert.equal(body, FORM)
})

for (const [name, body, message] of [
  ['no model', form(FILE), /model/],
  ['an empty model', form(FILE, part('model', ' ')), /model/],
  ['a file as model', form(FILE, part('model', 'm', '; filename=x')), /one field/],
  ['another way to write the model', form(FILE, part('model', 'm'), part('model[]', 'gpt')), /one field/],
  ['a model that is no text', form(FILE, part('model', '\xff\xfe')), /UTF-8/],
] as const)
  test(`relayed audio: ${name} is refused before an attempt`, async () => {
    const { reply, called } = await asking('transcriptions', body, () => {})
    assert.equal(reply.status, 400, reply.text)
    assert.match(reply.json.error.message, message)
    assert.equal(called.length, 0)
  })

// ── Events ───────────────────────────────────────────────────────────────────────────────────────────────────────

const EVENTS = [
  'event: transcript.text.delta\ndata: {"type":"transcript.text.delta","delta":"hal"}\n\n',
  'data: {"type":"transcript.text.delta","delta":"lo"}\n\n',
  'data: {"type":"transcript.text.done","text":"hallo","usage":{"type":"tokens","input_tokens":9,"output_tokens":3}}\n\n',
]
const STREAMED = form(FILE, part('model', 'm'), part('stream', 'true'))

test('relayed audio: events pass as they arrive, and the last one has the tokens', async () => {
  const { reply, trace } = await asking('transcriptions', STREAMED, (asked) =>
    respondWith.stream(asked, EVENTS.join('')),
  )
  assert.equal(reply.text, EVENTS.join(''))
  assert.equal(reply.headers['content-type'], 'text/event-stream')
  assert.equal(reply.ending, 'ended')
  const used = trace.find((fact) => fact.type === 'usage')
  assert.equal(used?.type === 'usage' && used.usage.output, 3)
})

test('relayed audio: a provider that ignores stream=true is answered whole', async () => {
  const { reply } = await asking('transcriptions', STREAMED, (asked) => respondWith.json(asked, 200, '{"text":"a"}'))
  assert.equal(reply.text, '{"text":"a"}')
  assert.equal(reply.headers['content-type'], 'application/json')
})

test('relayed audio: before the first event the next target is tried, afterwards the failure is an event', async () => {
  const early = await asking('transcriptions', STREAMED, (asked) =>
    from(asked) === 'first' ? respondWith.stream(asked, '') : respondWith.stream(asked, EVENTS.join('')),
  )
  assert.equal(early.reply.headers['x-headgate-provider'], 'second')
  const late = await asking('transcriptions', STREAMED, (asked) => respondWith.stream(asked, EVENTS[0] ?? ''))
  assert.equal(late.reply.status, 200)
  const [, last = ''] = late.reply.text.trim().split('\n\n')
  assert.equal(JSON.parse(last.replace('data: ', '')).error.code, 'stream_interrupted')
  assert.equal((outcome(late.trace) as { how?: string }).how, 'interrupted')
})

// ── Bytes ────────────────────────────────────────────────────────────────────────────────────────────────────────

const SPEECH = { model: 'm', input: 'Good morning', voice: 'alloy' }
const CHUNKS = [Buffer.from([0xff, 0xfb, 0, 13, 10]), Buffer.from([0x80]), Buffer.alloc(9_000, 0xc3)]
const speaking = (asked: ScriptedCall) => {
  asked.head(200, { 'content-type': 'audio/mpeg' })
  for (const chunk of CHUNKS) asked.sendBytes(Buffer.from(chunk))
  asked.end()
}

test('relayed audio: the bytes of speech pass as they arrive', async () => {
  const { reply, trace } = await asking('speech', SPEECH, speaking)
  assert.deepEqual(Buffer.concat(reply.bytes), Buffer.concat(CHUNKS))
  assert.equal(reply.headers['content-type'], 'audio/mpeg')
  assert.equal(reply.headers['x-headgate-provider'], 'first')
  assert.equal(reply.ending, 'ended')
  const used = trace.find((fact) => fact.type === 'usage')
  assert.ok(used?.type === 'usage' && used.estimated && used.usage.output === 6 * used.usage.input)
})

test('relayed audio: speech that breaks is cut, not ended', async () => {
  const { reply, trace, called } = await asking('speech', SPEECH, (asked) => {
    asked.head(200, { 'content-type': 'audio/mpeg' })
    asked.sendBytes(Buffer.from([1, 2, 3]))
    asked.fail(fail('reset', 'reset'))
  })
  assert.equal(reply.ending, 'cut')
  assert.equal(called.length, 1)
  assert.equal((outcome(trace) as { how?: string }).how, 'interrupted')
})

for (const [name, answer, attempts] of [
  ['a refused connection', (asked: ScriptedCall) => asked.fail({ ...fail('refused', 'refused'), unsent: true }), 2],
  ['a rate limit', (asked: ScriptedCall) => respondWith.error(asked, 429), 2],
  ['an overloaded provider', (asked: ScriptedCall) => respondWith.error(asked, 503), 2],
  ['a failure after the work', (asked: ScriptedCall) => respondWith.error(asked, 500), 1],
  ['silence', () => {}, 1],
  ['JSON instead of audio', (asked: ScriptedCall) => respondWith.json(asked, 200, '{}'), 1],
] as const)
  test(`relayed audio: after ${name}, speech is attempted ${attempts} times`, async () => {
    const { called, reply } = await asking('speech', SPEECH, (asked) =>
      from(asked) === 'first' ? answer(asked) : speaking(asked),
    )
    assert.equal(called.length, attempts)
    assert.equal(reply.status === 200, attempts === 2, reply.text)
    assert.equal(called[0]?.once, true)
  })

test('relayed audio: a slow client pauses the provider, and one that reads nothing is cut', async () => {
  const { reply, world, done, events } = begin('speech', SPEECH, (asked) => {
    asked.head(200, { 'content-type': 'audio/mpeg' })
    asked.sendBytes(Buffer.from([1]))
  })
  await world.advance(10)
  const [call] = world.calls
  reply.writable = false
  assert.equal(call?.sendBytes(Buffer.from([2])), false)
  reply.drain()
  assert.equal(call?.resumed, 1)
  reply.writable = false
  call?.sendBytes(Buffer.from([3]))
  await world.advance(700_000)
  await done
  assert.equal(reply.ending, 'cut')
  assert.equal(call?.aborted, true)
  const [line] = events.filter((item) => item.event === 'request')
  assert.equal((outcome(line?.trace ?? []) as { how?: string }).how, 'client_gone')
})

test('relayed audio: a client that leaves ends the call, at every moment', async () => {
  for (const moment of ['before the answer', 'after the headers', 'after content'] as const) {
    const { reply, world, done } = begin('speech', SPEECH, (asked) => {
      if (moment === 'before the answer') return
      asked.head(200, { 'content-type': 'audio/mpeg' })
      if (moment === 'after content') asked.sendBytes(Buffer.from([1]))
    })
    await world.advance(10)
    reply.disconnect()
    await world.advance(10)
    await done
    assert.equal(world.calls[0]?.aborted, true, moment)
    assert.equal(reply.ending, 'cut', moment)
    assert.equal(world.timers(), 0, moment)
  }
})

test('relayed audio: the time limit of the request ends an answer that goes on', async () => {
  const { reply, world, done } = begin(
    'speech',
    SPEECH,
    (asked) => {
      asked.head(200, { 'content-type': 'audio/mpeg' })
      asked.sendBytes(Buffer.from([1]))
    },
    { settings: { timeout: { request: 5_000 } } },
  )
  await world.advance(6_000)
  await done
  assert.equal(reply.ending, 'cut')
  assert.equal(world.calls[0]?.aborted, true)
})

for (const [given, shown] of [
  ['audio/wav', 'audio/wav'],
  ['audio/pcm;rate=24000', 'audio/pcm;rate=24000'],
  ['image/svg+xml', 'application/octet-stream'],
  ['text/javascript', 'application/octet-stream'],
] as const)
  test(`relayed audio: content of type ${given} is sent as ${shown}`, async () => {
    const { reply } = await asking('speech', SPEECH, (asked) => {
      asked.head(200, { 'content-type': given })
      asked.sendBytes(Buffer.from([1]))
      asked.end()
    })
    assert.equal(reply.headers['content-type'], shown)
  })
