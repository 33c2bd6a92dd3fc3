/** Internal errors during an answer: permits are released, and the client never receives an answer with a gap. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  CapturedReply,
  chatAnswer,
  type GatewayHarness,
  gatewayHarness,
  instance,
  respondWith,
} from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import type { JsonObject } from '../../core/json.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import { protocols } from '../../protocols/index.ts'
import { serveChat } from '../chat/serve-chat.ts'

const bug = (): never => {
  throw new Error('a bug')
}

const broken = {
  'writing a whole answer': { encodeAnswer: bug },
  'beginning a stream': { encodeStream: bug },
  'writing to a stream': { encodeStream: () => ({ push: bug, end: () => [], keepAlive: () => '' }) },
} as const satisfies Record<string, Partial<ClientProtocol>>

const put = (
  { gateway }: GatewayHarness,
  protocol: ClientProtocol,
  { stream = true, reply = new CapturedReply(), model = 'a/m' } = {},
): CapturedReply => {
  const body = { text: JSON.stringify({ model, input: 'hello', stream }) }
  const received = { id: 'req_bug', method: 'POST', path: '', query: '', headers: () => undefined, body }
  reply.done = serveChat(gateway, {
    protocol,
    received: { ...received, client: ANONYMOUS },
    responseWriter: reply,
  })
  return reply
}

/** The only upstream call, in the middle of its stream. */
const midStream = async ({ world }: GatewayHarness): Promise<ScriptedCall> => {
  await world.settle()
  const [asked] = world.calls
  assert.ok(asked)
  asked.head(200, { 'content-type': 'text/event-stream' })
  asked.send(chatAnswer.stream('one').replace(chatAnswer.done, ''))
  await world.settle()
  return asked
}

for (const [what, fault] of Object.entries(broken))
  test(`internal error while ${what}: the attempt ends for circuits, keys and the upstream`, async () => {
    const a = instance('a')
    const here = gatewayHarness([a], (asked) => {
      const stream = asked.headers.accept === 'text/event-stream'
      asked.head(200, { 'content-type': stream ? 'text/event-stream' : 'application/json' })
      asked.send(stream ? `${chatAnswer.role()}${chatAnswer.chunk({ content: 'Hello' })}` : chatAnswer.whole('Hello'))
      if (!stream) asked.end()
    })
    const reply = put(here, { ...protocols['openai-responses'], ...fault }, { stream: !('encodeAnswer' in fault) })
    await here.world.settle()
    await reply.done
    const { health } = here.gateway
    assert.equal(a.keys[0] && health.load.inFlight(a, a.keys[0]), 0)
    assert.deepEqual(
      here.world.calls.map(({ aborted }) => aborted),
      [true],
    )
    assert.equal(here.gateway.activeCalls.size, 0)
    assert.equal(here.world.timers(), 0)
    assert.equal(here.events.filter(({ event }) => event === 'error').length, 1)
  })

/** A protocol whose stream encoder throws at this text. */
const throwsAt = (text: string): ClientProtocol => {
  const { 'openai-responses': whole } = protocols
  return {
    ...whole,
    encodeStream: (context) => {
      const writer = whole.encodeStream(context)
      return {
        push: (passing) =>
          passing.events.some((event) => event.type === 'delta' && event.text === text) ? bug() : writer.push(passing),
        end: () => writer.end(),
        keepAlive: () => writer.keepAlive(),
      }
    },
  }
}

test('internal error in a stream: it breaks off there, and later events are not sent', async () => {
  const a = instance('a')
  const here = gatewayHarness([a], () => {})
  const reply = put(here, throwsAt('two'))
  await here.world.settle()
  const [asked] = here.world.calls
  assert.ok(asked)
  asked.head(200, { 'content-type': 'text/event-stream' })
  asked.send(`${chatAnswer.role()}${chatAnswer.chunk({ content: 'one' })}`)
  await here.world.settle()
  // The error propagates to the edge, which logs it.
  assert.throws(() => asked.send(chatAnswer.chunk({ content: 'two' })), /a bug/)
  asked.send(`${chatAnswer.chunk({ content: 'three' })}${chatAnswer.chunk({}, 'stop')}${chatAnswer.done}`)
  asked.end()
  await here.world.settle()
  await reply.done
  assert.match(reply.text, /one/)
  assert.doesNotMatch(reply.text, /three|response\.completed/)
  assert.match(reply.text, /event: response\.failed/)
  assert.equal(asked.aborted, true)
  assert.equal(a.keys[0] && here.gateway.health.load.inFlight(a, a.keys[0]), 0)
})

test('internal error at the end of a stream: the connection is reset, so that no client sees a complete answer', async () => {
  const a = instance('a')
  const here = gatewayHarness([a], () => {})
  const { 'openai-responses': whole } = protocols
  const protocol: ClientProtocol = {
    ...whole,
    encodeStream: (context) => {
      const writer = whole.encodeStream(context)
      return { push: (passing) => writer.push(passing), end: bug, keepAlive: () => writer.keepAlive() }
    },
  }
  const reply = put(here, protocol)
  const asked = await midStream(here)
  assert.throws(() => asked.end(), /a bug/)
  await reply.done
  assert.equal(reply.ending, 'cut')
  assert.equal(a.keys[0] && here.gateway.health.load.inFlight(a, a.keys[0]), 0)
  assert.equal(here.world.timers(), 0)
})

test('internal error in the response writer at the end of a stream: the call still ends', async () => {
  const a = instance('a')
  const here = gatewayHarness([a], () => {})
  class Broken extends CapturedReply {
    override end = bug
  }
  const reply = put(here, protocols['openai-responses'], { reply: new Broken() })
  const asked = await midStream(here)
  assert.throws(() => asked.end(), /a bug/)
  await here.world.settle()
  assert.equal(reply.ending, 'cut')
  assert.equal(here.gateway.activeCalls.size, 0)
  assert.equal(a.keys[0] && here.gateway.health.load.inFlight(a, a.keys[0]), 0)
})

test('internal error in a continued stream: it breaks off there, and no target is charged', async () => {
  const takesPrefill = { protocol: 'openai-chat', body: (body: JsonObject) => body } as const
  const [a, b] = [instance('a'), instance('b', ['k1'], { supportsPrefill: takesPrefill })]
  const play2 = (asked: ScriptedCall) => {
    asked.head(200, { 'content-type': 'text/event-stream' })
    asked.send(chatAnswer.role() + chatAnswer.chunk({ content: asked.url.startsWith('http://b.') ? 'two' : 'one' }))
    if (asked.url.startsWith('http://a.')) asked.end()
  }
  const here = gatewayHarness([a, b], play2, { stream: { continue: true } })
  const reply = put(here, throwsAt('two'), { model: 'anything' })
  await here.world.settle()
  assert.match(reply.text, /event: response\.failed/)
  assert.equal(reply.ending, 'ended')
  assert.deepEqual(
    here.world.calls.map(({ aborted }) => aborted),
    [true, true],
  )
  const { health, activeCalls } = here.gateway
  assert.equal(activeCalls.size, 0)
  assert.equal(b.keys[0] && health.load.inFlight(b, b.keys[0]), 0)
  assert.equal(health.circuits.counts('b k1 m', here.gateway.config().settings.circuit).failures, 0)
  assert.equal(here.events.filter(({ event }) => event === 'error').length, 1)
  assert.equal(here.world.timers(), 0)
})

test('a client that disconnects just before a break causes no internal error', async () => {
  const a = instance('a')
  const here = gatewayHarness([a], () => {})
  class Leaving extends CapturedReply {
    override write(text: string): boolean {
      const room = super.write(text)
      if (text.includes('two')) this.disconnect()
      return room
    }
  }
  const reply = put(here, protocols['openai-responses'], { reply: new Leaving() })
  await here.world.settle()
  const [asked] = here.world.calls
  assert.ok(asked)
  asked.head(200, { 'content-type': 'text/event-stream' })
  asked.send(`${chatAnswer.role()}${chatAnswer.chunk({ content: 'one' })}`)
  await here.world.settle()
  asked.send(`${chatAnswer.chunk({ content: 'two' })}data: {"error":{"message":"no more","type":"server_error"}}\n\n`)
  await reply.done
  assert.equal(reply.ending, 'cut')
  assert.deepEqual(
    here.events.map(({ event }) => event),
    ['request'],
  )
})

test('internal error while decoding, before output is sent: the next target is tried', async () => {
  const here = gatewayHarness([instance('a'), instance('b')], (asked) => {
    if (asked.url.startsWith('http://b.')) return respondWith.json(asked, 200, chatAnswer.whole('Hello'))
    // Reading these bytes throws, as a decoder with a bug would.
    asked.head(200, { 'content-type': 'application/json' })
    const nonsense = { length: 1 } as unknown as Uint8Array
    assert.throws(() => asked.listener.onBody(nonsense))
  })
  const reply = put(here, protocols['openai-responses'], { stream: false })
  await reply.done
  assert.equal(reply.status, 200)
  assert.match(String(reply.headers['x-headgate-trail']), /^a#k1:malformed, b#k1:200$/)
})
