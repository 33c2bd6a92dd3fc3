/** Which requests are copied, what is compared of answers, and the sums of comparisons. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChatEvent, ChatRequest, Part } from '../../core/chat.ts'
import type { ShadowSide } from '../../core/shadow.ts'
import { ComparedAnswer, joinedCounts, NO_COPIES, shadowName, uncopied, withLeftOut, withPair } from './shadow.ts'

const requestWith = (more: Partial<ChatRequest>, ...content: readonly Part[]): ChatRequest => ({
  model: 'fast',
  messages: [{ role: 'user', at: 'messages.0', content }],
  tools: [],
  settings: {},
  extras: [],
  stream: false,
  ...more,
})

const TEXT: Part = { type: 'text', at: 'a', text: 'hi' }
const image = (source: Extract<Part, { type: 'image' }>['source']): Part => ({ type: 'image', at: 'a', source })

test('shadow: which requests have no copy', () => {
  const cases = [
    ['a text', requestWith({}, TEXT), 10, false, null],
    ['a tool of the client', requestWith({ tools: [{ kind: 'function', name: 'f', at: 't' }] }, TEXT), 10, false, null],
    ['an address', requestWith({}, image({ kind: 'url', url: 'https://a.example/b.png' })), 10, false, null],
    ['stored turns', requestWith({}, TEXT), 10, true, 'stored'],
    ['1 MiB', requestWith({}, TEXT), 1_048_576, false, null],
    ['above 1 MiB', requestWith({}, TEXT), 1_048_577, false, 'large'],
    ['store', requestWith({ settings: { store: { value: true, at: 'store' } } }, TEXT), 10, false, 'effects'],
    ['choices', requestWith({ settings: { choices: { value: 2, at: 'n' } } }, TEXT), 10, false, 'effects'],
    [
      'a tool of the provider',
      requestWith({ tools: [{ kind: 'foreign', protocol: 'openai-responses', raw: { type: 'mcp' }, at: 't' }] }, TEXT),
      10,
      false,
      'effects',
    ],
    ['a file', requestWith({}, image({ kind: 'id', id: 'file-1', protocol: 'openai-chat' })), 10, false, 'files'],
  ] as const
  for (const [name, request, length, isContinued, wanted] of cases)
    assert.equal(uncopied(request, length, isContinued), wanted, name)
})

test('shadow: tools, characters and the end of an answer, however its events are divided', () => {
  const events: readonly ChatEvent[] = [
    { type: 'open', block: { type: 'reasoning' } },
    { type: 'delta', text: 'not counted' },
    { type: 'close' },
    { type: 'open', block: { type: 'text' } },
    { type: 'delta', text: 'abc' },
    { type: 'delta', text: 'de' },
    { type: 'close' },
    { type: 'open', block: { type: 'tool-call', id: '1', name: 'search' } },
    { type: 'delta', text: '{"q":1}' },
    { type: 'close' },
    { type: 'finish', finish: { kind: 'tool-calls', raw: 'tool_calls' } },
  ]
  const wanted = { tools: ['search'], characters: 5, finish: 'tool-calls' }
  for (let cut = 0; cut <= events.length; cut++) {
    const answer = new ComparedAnswer()
    answer.push(events.slice(0, cut))
    answer.push(events.slice(cut))
    assert.deepEqual(answer.facts, wanted, `cut at ${cut}`)
  }
})

const side = (more: Partial<ShadowSide> = {}): ShadowSide => ({
  ...{ provider: 'a', model: 'm', status: 200, failure: null, firstContentMs: 10, totalMs: 20 },
  ...{ inputTokens: 3, outputTokens: 4, isEstimated: false, cost: 100, finish: 'stop', tools: [], characters: 5 },
  ...more,
})

test('shadow: sums have no unknown cost or count, and no failed copy', () => {
  const pairs = [
    { own: side(), other: side({ cost: 50, characters: 7 }) },
    { own: side({ cost: null }), other: side({ finish: 'length', tools: ['f'] }) },
    { own: side(), other: side({ outputTokens: null, firstContentMs: null }) },
    { own: side(), other: side({ failure: 'server', status: 502, totalMs: 9_999 }) },
  ]
  const counts = withLeftOut(pairs.reduce(withPair, NO_COPIES), 'large')
  assert.deepEqual(
    [counts.sent, counts.answered, counts.failed, counts.sameFinish, counts.sameTools, counts.priced, counts.counted],
    [4, 3, 1, 2, 2, 2, 2],
  )
  assert.deepEqual([counts.own.cost, counts.other.cost], [200, 150])
  assert.deepEqual([counts.other.timed, counts.other.totalMs, counts.other.characters], [2, 60, 17])
  const joined = joinedCounts([counts, counts, NO_COPIES])
  assert.deepEqual([joined.sent, joined.leftOut, joined.other.cost, joined.own.timed], [8, { large: 2 }, 300, 6])
})

test('shadow: names of routes in tags and budgets differ and are allowed there', () => {
  assert.equal(shadowName('fast'), 'fast')
  const names = ['claude-*', 'claude-/', '*', '**', '/', 'ü', 'x'.repeat(200), 'x'.repeat(201), 'a/b', 'a-b']
  const made = names.map(shadowName)
  assert.equal(new Set(made).size, names.length)
  for (const name of made) assert.match(`shadow ${name}`, /^[A-Za-z0-9][A-Za-z0-9 ._@+-]{0,63}$/)
})
