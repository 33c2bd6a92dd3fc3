/**
 * Over sockets: whole answers aggregated from upstream streams, holdback of the first content, and text continued by
 * another model.
 */
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import OpenAI from 'openai'
import { type AnswerContent, answerWith, piecesOf } from '../support/answers.ts'
import type { Act, Ending, Upstream, UpstreamRequest } from '../support/upstream.ts'
import type { Started } from './support/process.ts'
import { callsOf, eventsIn, type ProviderInput, STYLES, sendChat, stage, textIn } from './support/stage.ts'

const TEXT = 'one two three four five'
const CALLS = [
  { id: 'call_1', name: 'weather', arguments: '{"city":"Bern","days":3}' },
  { id: 'call_2', name: 'weather', arguments: '{"city":"Chur"}' },
]
const FORMATS = ['chat', 'responses', 'messages'] as const
const KINDS: Readonly<Record<string, AnswerContent>> = {
  text: { text: TEXT },
  calls: { tools: CALLS },
  'cut off': { text: TEXT, cut: true },
}
const ENDINGS: readonly Ending[] = ['end', 'close', 'reset', 'stall']

/** This many pieces, and then the ending. */
const broken = (request: UpstreamRequest, answerContent: AnswerContent, ending: Ending): Act => {
  const pieces = piecesOf(request, answerContent)
  return { do: 'stream', pieces: pieces.slice(0, Math.ceil(pieces.length / 2)), gap: 3, ending }
}

/** Removes members that are generated for each answer. */
const plain = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (key, inner) =>
      key === 'created_at' || key === 'created' || key === 'completed_at' || (key === 'id' && !/^call/.test(inner))
        ? undefined
        : inner,
    ),
  )

// ── Aggregation ───────────────────────────────────────────────────────────────────────────────────────────────────

describe('aggregate: the answer equals the one without aggregation', () => {
  const on = stage()
  let gateway: Started
  let upstream: Upstream
  before(async () => {
    upstream = await on.upstream((request) => {
      const [, , kind = '', ending] = request.path.split('/')
      const answerContent = KINDS[decodeURIComponent(kind)] ?? { text: TEXT }
      return ending && ENDINGS.includes(ending as Ending) && request.stream
        ? broken(request, answerContent, ending as Ending)
        : answerWith(request, answerContent)
    })
    const providers: Record<string, ProviderInput & { aggregate?: boolean }> = {}
    const routes: Record<string, { targets: string[] }> = {}
    for (const [f, format] of FORMATS.entries()) {
      for (const [k, kind] of Object.keys(KINDS).entries()) {
        const place = { baseUrl: `${upstream.url}/x/${encodeURIComponent(kind)}/whole/v1`, styles: [format] }
        providers[`whole${f}${k}`] = place
        providers[`put${f}${k}`] = { ...place, aggregate: true }
      }
      for (const [e, ending] of ENDINGS.entries()) {
        providers[`broken${f}${e}`] = {
          baseUrl: `${upstream.url}/x/text/${ending}/v1`,
          styles: [format],
          aggregate: true,
        }
        routes[`route${f}${e}`] = { targets: [`broken${f}${e}/m`, 'good/m'] }
      }
    }
    providers.good = { baseUrl: `${upstream.url}/x/text/good/v1`, aggregate: true }
    gateway = await on.gateway({ fallback: 'same-model', timeout: { idle: 400 }, providers, routes })
  })

  for (const style of STYLES)
    for (const [f, format] of FORMATS.entries())
      for (const [k, kind] of Object.keys(KINDS).entries())
        test(`${style} from ${format}: ${kind}`, async () => {
          const whole = await sendChat(gateway, { style, model: `whole${f}${k}/m`, stream: false })
          const put = await sendChat(gateway, { style, model: `put${f}${k}/m`, stream: false })
          assert.equal(put.status, 200, put.text)
          assert.equal(put.headers.get('content-type'), 'application/json')
          assert.deepEqual(plain(put.json()), plain(whole.json()))
          const [asWhole, asStream] = callsOf(upstream).slice(-2)
          assert.deepEqual([asWhole?.stream, asStream?.stream], [false, true])
        })

  for (const style of STYLES)
    for (const [f, format] of FORMATS.entries())
      for (const [e, ending] of ENDINGS.entries())
        test(`${style} from ${format}: ${ending} in the middle fails over`, async () => {
          const answer = await sendChat(gateway, { style, model: `route${f}${e}`, stream: false })
          assert.equal(answer.status, 200, answer.text)
          assert.equal(textIn(style, false, answer.text), TEXT)
          assert.equal(answer.headers.get('x-headgate-attempts'), '2')
          assert.equal(answer.headers.get('x-headgate-provider'), 'good')
        })
})

const SECONDS = [
  ['mistral', 'mistral', 'mistral-small-latest'],
  ['anthropic', 'anthropic', 'claude-haiku-4-5'],
  ['newer', 'anthropic', 'claude-opus-4-8'],
] as const

// ── Holdback and continuation ─────────────────────────────────────────────────────────────────────────────────────

describe('broken streams are continued', () => {
  const on = stage()
  let gateway: Started
  let held: Started
  let upstream: Upstream
  before(async () => {
    upstream = await on.upstream((request) => {
      const [, , ending = ''] = request.path.split('/')
      if (ENDINGS.includes(ending as Ending)) return broken(request, { text: TEXT }, ending as Ending)
      return answerWith(request, { text: ending === 'rest' ? ' and the rest.' : TEXT })
    })
    const at = (how: string) => `${upstream.url}/x/${how}/v1`
    const providers: Record<string, ProviderInput> = { good: { baseUrl: at('good') } }
    const routes: Record<string, { targets: string[] }> = {}
    // Each has a provider of its own, because a continuation is charged to that provider's retry budget.
    for (const [id, ending] of [...STYLES, 'sdk', 'log'].flatMap((who) =>
      ENDINGS.map((how) => [`${who}-${how}`, how]),
    )) {
      if (id === undefined || ending === undefined) continue
      providers[`first-${id}`] = { baseUrl: at(ending) }
      const first = `first-${id}/m`
      for (const [name, kind, model] of SECONDS) {
        providers[`${name}-${id}`] = { kind, baseUrl: at('rest'), models: [model] }
        routes[`${id}-${name}`] = { targets: [first, `${name}-${id}/${model}`] }
      }
      routes[`${id}-good`] = { targets: [first, 'good/m'] }
    }
    const circuit = { consecutiveFailures: 0, minRequests: 1_000 }
    const file = { fallback: 'same-model', timeout: { idle: 400 }, circuit, providers, routes }
    gateway = await on.gateway({ ...file, stream: { continue: true } })
    held = await on.gateway({ ...file, stream: { holdback: 5_000 } })
  })

  for (const style of STYLES)
    for (const ending of ENDINGS) {
      for (const second of ['mistral', 'anthropic'])
        test(`continue: ${style}, ${ending}, then ${second}`, async () => {
          const answer = await sendChat(gateway, { style, model: `${style}-${ending}-${second}`, stream: true })
          const text = textIn(style, true, answer.text)
          assert.match(text, /^one two.* and the rest\.$/, answer.text)
          assert.match(answer.text, new RegExp(`: headgate continued provider=${second}-${style}-${ending} model=`))
          assert.doesNotMatch(answer.text, /stream_interrupted/)
          const request = callsOf(upstream).at(-1)
          assert.match(request?.body ?? '', /"role":"assistant","content":/)
          if (second === 'mistral') assert.match(request?.body ?? '', /"prefix":true/)
        })
      test(`continue: ${style}, ${ending}, without a model that supports prefill`, async () => {
        const answer = await sendChat(gateway, { style, model: `${style}-${ending}-newer`, stream: true })
        assert.match(answer.text, /stream_interrupted/)
        assert.equal(answer.headers.get('x-headgate-attempts'), '1')
      })
      test(`holdback: ${style}, ${ending} during holdback`, async () => {
        const answer = await sendChat(held, { style, model: `${style}-${ending}-good`, stream: true })
        assert.equal(textIn(style, true, answer.text), TEXT)
        assert.equal(answer.headers.get('x-headgate-attempts'), '2')
        assert.doesNotMatch(answer.text, /headgate continued|stream_interrupted/)
      })
    }

  test('continue: OpenAI’s own client sees one answer, with the usage of both', async () => {
    const client = new OpenAI({ baseURL: gateway.base, apiKey: 'none', maxRetries: 0 })
    const stream = client.chat.completions.stream({
      model: 'sdk-reset-anthropic',
      messages: [{ role: 'user', content: 'hello' }],
      stream_options: { include_usage: true },
    })
    const { id, choices, usage } = await stream.finalChatCompletion()
    assert.match(choices[0]?.message.content ?? '', /^one two.* and the rest\.$/)
    assert.equal(id, 'chatcmpl-test')
    assert.ok((usage?.prompt_tokens ?? 0) > 9, JSON.stringify(usage))
    const line = await gateway.line(({ event, model }) => event === 'request' && model === 'sdk-reset-anthropic')
    assert.ok(line)
  })

  test('continue: the log names both models and the estimated tokens', async () => {
    const answer = await sendChat(gateway, { style: 'chat', model: 'log-close-mistral', stream: true })
    const id = answer.headers.get('x-request-id')
    const line = await gateway.line((one) => one.event === 'request' && one.id === id)
    assert.equal(line.outcome, 'answered')
    assert.equal(line.provider, 'mistral-log-close')
    assert.equal(line.attempts, 2)
    assert.equal(line.estimated, true)
    assert.match(String(line.trail), /^first-log-close#[0-9a-f]+:truncated, mistral-log-close#[0-9a-f]+:200$/)
    assert.ok(eventsIn(answer.text).length > 3)
  })
})
