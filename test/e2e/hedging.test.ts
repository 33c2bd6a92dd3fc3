/**
 * Hedging over real sockets: a slow first provider and a second that answers. The losing call is cancelled, hedges stay
 * within their budget, and there are none by default.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { answerWith, piecesOf } from '../support/answers.ts'
import type { Act, Upstream, UpstreamRequest } from '../support/upstream.ts'
import {
  callsOf,
  isComplete,
  rawClient,
  rawRequest,
  STYLES,
  sendChat,
  sleep,
  stage,
  statusOf,
  textIn,
} from './support/stage.ts'

const { gateway, upstream } = stage()

const text = (by: string): string => `Hello from the ${by} one`
const quickly = (request: UpstreamRequest): Act => answerWith(request, { text: text('quick') })
/** Starts its answer, and sends content far too late. */
const late = (request: UpstreamRequest): Act =>
  request.stream
    ? { do: 'stream', pieces: piecesOf(request, { text: text('slow') }), first: 60_000 }
    : { do: 'answer', body: {}, after: 60_000 }
/** Answers correctly after this many ms. */
const slowly =
  (ms: number) =>
  (request: UpstreamRequest): Act => {
    const act = answerWith(request, { text: text('slow') })
    return act.do === 'answer' || act.do === 'stream' ? { ...act, after: ms } : act
  }

const staged = async (
  slow: (request: UpstreamRequest) => Act,
  quick: (request: UpstreamRequest) => Act,
  settings: object,
) => {
  const [first, second] = [await upstream(slow), await upstream(quick)]
  const started = await gateway({
    providers: { slow: { baseUrl: `${first.url}/v1` }, quick: { baseUrl: `${second.url}/v1` } },
    routes: { r: { targets: ['slow/m', 'quick/m'] } },
    ...settings,
  })
  return { first, second, it: started }
}

/** Waits at most 10 s for a condition. */
const until = async (holds: () => boolean | Promise<boolean>, what: string): Promise<void> => {
  const end = performance.now() + 10_000
  while (!(await holds())) {
    assert.ok(performance.now() < end, `${what}: not within 10 s`)
    await sleep(20)
  }
}
const endsOf = (one: Upstream) => callsOf(one).map(({ ended }) => ended)
const counted = async (url: string): Promise<string[]> =>
  (await (await fetch(`${url}/metrics`)).text()).split('\n').filter((line) => line.startsWith('headgate_hedges_total{'))

describe('the hedge wins', () => {
  for (const style of STYLES)
    for (const stream of [false, true])
      test(`${style}, ${stream ? 'a stream' : 'whole'}: and the first call is cancelled`, async () => {
        const { first, second, it } = await staged(late, quickly, { hedge: { percent: 100, delay: 200 } })
        const answer = await sendChat(it, { style, model: 'r', stream })
        assert.equal(answer.status, 200, answer.text)
        assert.equal(textIn(style, stream, answer.text), text('quick'))
        if (stream) assert.ok(isComplete(style, answer.text), answer.text)
        assert.equal(answer.headers.get('x-headgate-provider'), 'quick')
        assert.equal(answer.headers.get('x-headgate-attempts'), '2')
        assert.match(answer.headers.get('x-headgate-trail') ?? '', /^slow#\w+:abandoned, quick#\w+:200$/)
        assert.equal(callsOf(second).length, 1)
        await until(() => endsOf(first).join() === 'aborted', 'the loser’s connection ends')
        const { circuit, keys } = await statusOf(it, 'slow')
        assert.deepEqual([circuit.state, circuit.failures, keys[0]?.in_flight], ['closed', 0, 0])
        assert.deepEqual(await counted(it.url), ['headgate_hedges_total{won="true"} 1'])
      })
})

describe('the first provider wins', () => {
  for (const stream of [false, true])
    test(`${stream ? 'a stream' : 'whole'}: and the hedge is cancelled`, async () => {
      const { first, second, it } = await staged(slowly(1_500), late, { hedge: { percent: 100, delay: 100 } })
      const answer = await sendChat(it, { style: 'chat', model: 'r', stream })
      assert.equal(textIn('chat', stream, answer.text), text('slow'))
      assert.match(answer.headers.get('x-headgate-trail') ?? '', /^slow#\w+:200, quick#\w+:abandoned$/)
      await until(() => endsOf(first).join() === 'finished', 'the first is finished, not aborted')
      await until(() => endsOf(second).join() === 'aborted', 'the loser’s connection ends')
      assert.deepEqual(await counted(it.url), ['headgate_hedges_total{won="false"} 1'])
    })
})

test('a disconnect cancels both calls', async () => {
  const { first, second, it } = await staged(late, late, { hedge: { percent: 100, delay: 100 } })
  const body = JSON.stringify({ model: 'r', stream: true, messages: [{ role: 'user', content: 'hello' }] })
  const client = await rawClient(
    it.url,
    rawRequest('/v1/chat/completions', body, { 'content-type': 'application/json' }),
  )
  await until(() => callsOf(second).length === 1, 'the hedge is sent')
  client.socket.destroy()
  await until(() => [...endsOf(first), ...endsOf(second)].join() === 'aborted,aborted', 'both connections end')
})

test('hedges stay within the configured share of requests', async () => {
  const { first, second, it } = await staged(slowly(600), quickly, { hedge: { percent: 20, delay: 100 } })
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => sendChat(it, { style: 'chat', model: 'r', stream: false })),
  )
  assert.deepEqual(
    answers.map(({ status }) => status),
    answers.map(() => 200),
  )
  assert.deepEqual([callsOf(first).length, callsOf(second).length], [10, 2])
})

test('off by default', async () => {
  const { first, second, it } = await staged(slowly(1_500), quickly, {})
  const answer = await sendChat(it, { style: 'chat', model: 'r', stream: false })
  assert.equal(textIn('chat', false, answer.text), text('slow'))
  assert.match(answer.headers.get('x-headgate-trail') ?? '', /^slow#\w+:200$/)
  assert.deepEqual([callsOf(first).length, callsOf(second).length], [1, 0])
  assert.deepEqual(await counted(it.url), [])
})
