/** `Idempotency-Key` at several gateways, which share a store of answers. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CapturedReply, chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import { bad, fail, good } from '../../core/failure.ts'
import type { AnswerClaim, AnswerClaims, RepeatableAnswer } from '../../core/shared-answer.ts'
import { summarize } from '../../core/trace-summary.ts'
import { protocols } from '../../protocols/index.ts'
import { serveChat } from '../chat/serve-chat.ts'
import { repeatableChat, shareResponses } from './idempotency.ts'

const chat = protocols['openai-chat']

type Row = { readonly fingerprint: string; readonly worker: string; answer: RepeatableAnswer | null }

/** The store, as each worker sees it. */
const newStore = () => {
  const rows = new Map<string, Row>()
  /** `isAway`: no request asks it, because it has failed for some time. */
  const state = { isBroken: false, isAway: false }
  const of = (worker: string): AnswerClaims => ({
    async claim(name, fingerprint) {
      if (state.isBroken) return bad(fail('storage', 'The database does not answer.'))
      const row = rows.get(name)
      if (!row || (row.worker === worker && !row.answer)) rows.set(name, { fingerprint, worker, answer: null })
      const claim: AnswerClaim =
        !row || (row.worker === worker && !row.answer)
          ? { state: 'claimed' }
          : row.answer
            ? { state: 'kept', fingerprint: row.fingerprint, answer: row.answer, left: 60_000 }
            : { state: 'held', fingerprint: row.fingerprint }
      return good(claim)
    },
    async keep(name, answer) {
      const row = rows.get(name)
      if (row?.worker === worker) row.answer = answer
      return null
    },
    async release(name) {
      if (rows.get(name)?.worker === worker) rows.delete(name)
      return null
    },
  })
  return { rows, state, of }
}

const gatewayWith = (claims: () => AnswerClaims | null, script: (asked: ScriptedCall) => void) => {
  const made = gatewayHarness([instance('a')], script, { keepAlive: { interval: 0 }, idempotency: { finish: 5_000 } })
  const share = shareResponses({ ...made.gateway, claims }, (text) => text)
  let number = 0
  const ask = (body: object, key = 'k', owner = '') => {
    const reply = new CapturedReply()
    const text = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }], ...body })
    const received = {
      id: `req_${number++}`,
      method: 'POST',
      path: '/v1/chat/completions',
      query: '',
      headers: (name: string) => (name === 'idempotency-key' ? key : undefined),
      body: { text },
      client: { ...ANONYMOUS, owner },
    }
    reply.done = share(
      { protocol: chat, style: chat.style, received, responseWriter: reply, repeatable: repeatableChat(chat, false) },
      (gateway, to) => serveChat(gateway, { protocol: chat, received, responseWriter: to }),
    )
    return reply
  }
  const lines = () => made.events.flatMap((news) => (news.event === 'request' ? [summarize(news.trace)] : []))
  return { ...made, ask, lines, calls: made.world.calls }
}

const two = (script: (asked: ScriptedCall) => void) => {
  const store = newStore()
  const [first, second] = [store.of('one'), store.of('other')]
  const one = gatewayWith(() => (store.state.isAway ? null : first), script)
  const other = gatewayWith(() => second, script)
  const settle = async () => {
    for (let turn = 0; turn < 3; turn++) {
      await one.world.settle()
      await other.world.settle()
    }
  }
  return { ...store, one, other, settle }
}

const answers = (asked: ScriptedCall) =>
  asked.headers.accept === 'text/event-stream'
    ? respondWith.stream(asked, chatAnswer.stream('Hel', 'lo \ud83d\ude00'))
    : respondWith.json(asked, 200, chatAnswer.whole('Hello \ud83d\ude00'))
const waits = () => {}

for (const stream of [true, false])
  test(`an answer is repeated by another gateway, ${stream ? 'streamed' : 'whole'}`, async () => {
    const { one, other, settle } = two(answers)
    const first = one.ask({ stream })
    await settle()
    const again = other.ask({ stream })
    await settle()
    const third = other.ask({ stream })
    await settle()
    assert.deepEqual([one.calls.length, other.calls.length], [1, 0])
    for (const reply of [again, third]) {
      assert.deepEqual([reply.status, reply.text, reply.ending], [200, first.text, 'ended'])
      assert.equal(reply.headers['x-headgate-idempotent'], 'stored')
    }
    assert.equal(again.headers['x-request-id'], 'req_0')
    assert.deepEqual(
      other.lines().map((line) => [line.shared, line.outcome, line.attempts.length]),
      Array.from({ length: 2 }, () => [{ how: 'stored', with: 'req_0' }, 'answered', 0]),
    )
  })

test('a request waits for the answer that another gateway receives, also together with equal ones', async () => {
  const { one, other, settle } = two(waits)
  const first = one.ask({ stream: false })
  await settle()
  const second = other.ask({ stream: false })
  const third = other.ask({ stream: false })
  await settle()
  assert.deepEqual([one.calls.length, second.ending, third.ending], [1, null, null])
  const [call] = one.calls
  if (call) answers(call)
  await settle()
  await other.world.advance(100)
  await settle()
  assert.deepEqual([second.text, third.text], [first.text, first.text])
  assert.equal(other.calls.length, 0)
})

test('another body or path with the same key is refused, also while the first is in progress', async () => {
  const { one, other, settle } = two(waits)
  one.ask({})
  await settle()
  const refused = other.ask({ max_tokens: 5 })
  await settle()
  assert.equal(refused.status, 422)
  assert.match(refused.text, /idempotency_key_reused/)
})

test('keys of two clients are two keys', async () => {
  const { one, other, settle } = two(answers)
  one.ask({}, 'k', 'me')
  other.ask({}, 'k', 'you')
  await settle()
  assert.deepEqual([one.calls.length, other.calls.length], [1, 1])
})

test('a call that fails frees its key for the gateway that waits', async () => {
  let fails = true
  const { one, other, settle } = two((asked) =>
    fails ? respondWith.json(asked, 400, '{"error":{"message":"no"}}') : answers(asked),
  )
  const first = one.ask({})
  await settle()
  assert.equal(first.status, 400)
  fails = false
  const again = other.ask({})
  await settle()
  assert.deepEqual([again.status, other.calls.length, again.headers['x-headgate-idempotent']], [200, 1, undefined])
})

test('a retry after a call that was given up keeps its claim when that call ends', async () => {
  const { one, other, rows, settle } = two(waits)
  const first = one.ask({ stream: true })
  await settle()
  first.disconnect()
  await one.world.advance(5_001)
  const again = one.ask({ stream: true })
  await settle()
  assert.deepEqual(
    [...rows.values()].map(({ worker, answer }) => [worker, answer]),
    [['one', null]],
  )
  other.ask({ stream: true })
  await settle()
  assert.deepEqual([other.calls.length, again.ending], [0, null])
})

test('a client that leaves while it waits makes no call', async () => {
  const { one, other, rows, settle } = two(waits)
  one.ask({})
  await settle()
  const left = other.ask({})
  await settle()
  left.disconnect()
  rows.clear()
  await other.world.advance(1_000)
  await settle()
  assert.deepEqual([other.calls.length, rows.size], [0, 0])
  assert.deepEqual(
    other.lines().map(({ outcome }) => outcome),
    ['client_gone'],
  )
})

test('a request that waits for too long is refused, not made twice', async () => {
  const { one, other, settle } = two(waits)
  one.ask({})
  await settle()
  const refused = other.ask({})
  for (let minutes = 0; minutes < 11; minutes++) await other.world.advance(60_000)
  await settle()
  assert.deepEqual([refused.status, other.calls.length], [409, 0])
  assert.match(refused.text, /in progress at another gateway/)
})

test('a request that waits at a gateway that shuts down is refused, and can be sent again', async () => {
  const { one, other, settle } = two(waits)
  one.ask({})
  await settle()
  const refused = other.ask({})
  await settle()
  for (const call of other.gateway.activeCalls) call.cancel(fail('shutdown', 'The gateway is shutting down.'))
  await settle()
  assert.deepEqual([refused.status, refused.ending, other.gateway.activeCalls.size], [503, 'ended', 0])
  assert.match(refused.text, /server_shutdown/)
})

test('without the store each gateway knows its own answers', async () => {
  const { one, other, state, settle } = two(answers)
  state.isBroken = true
  one.ask({})
  await settle()
  one.ask({})
  other.ask({})
  await settle()
  assert.deepEqual([one.calls.length, other.calls.length], [1, 1])
})

for (const fails of [false, true])
  test(`a call that ${fails ? 'fails' : 'ends'} while its gateway does not use the store still settles its name`, async () => {
    const { one, other, rows, state, settle } = two(waits)
    one.ask({ stream: false })
    await settle()
    state.isAway = true
    const [call] = one.calls
    if (call && fails) respondWith.json(call, 400, '{"error":{"message":"no"}}')
    else if (call) answers(call)
    await settle()
    state.isAway = false
    assert.deepEqual(
      [...rows.values()].map(({ answer }) => answer?.status),
      fails ? [] : [200],
    )
    const again = other.ask({ stream: false })
    await settle()
    assert.deepEqual([again.status, other.calls.length], fails ? [null, 1] : [200, 0])
  })

test('equal requests of one gateway claim their key once', async () => {
  const { one, settle } = two(waits)
  const replies = [one.ask({ stream: false }), one.ask({ stream: false }), one.ask({ stream: false })]
  await settle()
  assert.equal(one.calls.length, 1)
  const [call] = one.calls
  if (call) answers(call)
  await settle()
  assert.deepEqual(
    replies.map(({ status, headers }) => [status, headers['x-headgate-idempotent']]),
    [
      [200, undefined],
      [200, 'joined'],
      [200, 'joined'],
    ],
  )
})
