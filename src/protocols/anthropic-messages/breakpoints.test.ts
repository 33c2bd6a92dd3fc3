import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isList, isObject, type Json, type JsonObject, list } from '../../core/json.ts'
import { withBreakpoints as withPoints } from '../bedrock-converse/breakpoints.ts'
import { withBreakpoints } from './breakpoints.ts'

const MARK = { type: 'ephemeral' }
const user = (content: Json): JsonObject => ({ role: 'user', content })
const model = (content: Json): JsonObject => ({ role: 'assistant', content })
const text = (value: string, more: JsonObject = {}): JsonObject => ({ type: 'text', text: value, ...more })

test('breakpoints: after the instructions, and at the end of the conversation', () => {
  assert.deepEqual(
    withBreakpoints({ model: 'm', system: 'be kind', messages: [user('hi'), model('ho'), user('go')] }),
    {
      model: 'm',
      system: [text('be kind', { cache_control: MARK })],
      messages: [user('hi'), model('ho'), user([text('go', { cache_control: MARK })])],
    },
  )
})

test('breakpoints: without instructions after the last tool that is in the prompt', () => {
  const tools = [{ name: 'a' }, { name: 'b' }, { name: 'c', defer_loading: true }]
  const { tools: marked, system } = withBreakpoints({ tools, messages: [user('hi')] })
  assert.deepEqual([marked, system], [[{ name: 'a' }, { name: 'b', cache_control: MARK }, tools[2]], undefined])
})

const own: readonly (readonly [string, JsonObject])[] = [
  ['at the top', { cache_control: MARK, messages: [user('hi')] }],
  ['in the instructions', { system: [text('x', { cache_control: MARK })], messages: [user('hi')] }],
  ['of a tool', { tools: [{ name: 'a', cache_control: MARK }], messages: [user('hi')] }],
  ['of a block', { messages: [user([text('hi', { cache_control: MARK })]), user('go')] }],
  [
    'in a result',
    { messages: [user([{ type: 'tool_result', tool_use_id: 't', content: [text('x', { cache_control: MARK })] }])] },
  ],
]
for (const [where, body] of own)
  test(`breakpoints: a request with a mark ${where} stays as it is`, () => {
    assert.equal(withBreakpoints(body), body)
  })

test('breakpoints: neither reasoning nor a blank text has a mark', () => {
  const thinking = { type: 'thinking', thinking: 'x', signature: 's' }
  const { messages } = withBreakpoints({ messages: [user('hi'), model([text('a'), thinking, text(' ')])] })
  assert.deepEqual(messages, [user('hi'), model([text('a', { cache_control: MARK }), thinking, text(' ')])])
  const only = { messages: [user('hi'), model([thinking])] }
  assert.equal(withBreakpoints(only), only)
})

test('breakpoints: a turn of more than 20 blocks has one more, 20 blocks before its end', () => {
  const calls = Array.from({ length: 15 }, (_, at) => ({ type: 'tool_use', id: `t${at}`, name: 'f', input: {} }))
  const results = calls.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: 'x' }))
  const { messages } = withBreakpoints({ messages: [user('hi'), model(calls), user(results)] })
  const marked = list(messages).flatMap((message) =>
    isObject(message) ? list(message.content).map((block) => isObject(block) && block.cache_control !== undefined) : [],
  )
  assert.deepEqual(
    marked.flatMap((is, at) => (is ? [at] : [])),
    [9, 29],
  )
})

test('breakpoints: Converse has points after the blocks, as far as the family has them', () => {
  const body = {
    system: [{ text: 'be kind' }],
    toolConfig: { tools: [{ toolSpec: { name: 'a' } }] },
    messages: [user([{ text: 'hi' }]), model([{ text: 'a' }, { reasoningContent: {} }])],
  }
  const point = { cachePoint: { type: 'default' } }
  const claude = withPoints(body, 'us.anthropic.claude-sonnet-4-5-20250929-v1:0')
  assert.deepEqual(claude, {
    ...body,
    system: [...body.system, point],
    messages: [body.messages[0], model([{ text: 'a' }, point, { reasoningContent: {} }])],
  })
  assert.equal(withPoints(claude, 'anthropic.claude-sonnet-4-5'), claude)
  const { system: _, ...withoutSystem } = body
  const tools = withPoints(withoutSystem, 'anthropic.claude-sonnet-4-5').toolConfig
  assert.deepEqual(tools, { tools: [...body.toolConfig.tools, point] })
  assert.deepEqual(withPoints(withoutSystem, 'amazon.nova-pro-v1:0').toolConfig, body.toolConfig)
  assert.equal(withPoints(body, 'meta.llama3-70b'), body)
})

// ── The vendor's rules ───────────────────────────────────────────────────────────────────────────────────────────────

const BLOCK: fc.Arbitrary<JsonObject> = fc.oneof(
  fc.constantFrom('', ' ', 'hello').map((value) => text(value)),
  fc.constant({ type: 'thinking', thinking: 'x', signature: 's' }),
  fc.constant({ type: 'image', source: { type: 'url', url: 'https://a.example' } }),
)

test('breakpoints: never more than four, and nothing but marks differs', () => {
  const content = fc.oneof(fc.string(), fc.array(BLOCK, { maxLength: 40 }))
  const messages = fc.array(fc.record({ role: fc.constantFrom('user', 'assistant'), content }), { maxLength: 8 })
  const tools = fc.array(fc.record({ name: fc.string(), defer_loading: fc.boolean() }), { maxLength: 3 })
  const body = fc.record({ messages, tools, system: content, model: fc.constant('m') }, { requiredKeys: ['messages'] })
  const plain = (value: Json): Json => {
    if (isList(value)) return value.map(plain)
    if (!isObject(value)) return value
    const { cache_control: _, ...rest } = value
    const isText = rest.type === 'text' && Object.keys(value).length === 3
    return Object.fromEntries(
      Object.entries(rest).map(([name, one]) => [name, isText ? (one ?? null) : plain(one ?? null)]),
    )
  }
  const asBlocks = (value: Json | undefined): Json => (typeof value === 'string' ? [text(value)] : (value ?? []))
  const normal = ({ system, messages: all, ...rest }: JsonObject): Json => ({
    ...rest,
    system: asBlocks(system),
    messages: list(all).map((one) => (isObject(one) ? { ...one, content: asBlocks(one.content) } : one)),
  })
  fc.assert(
    fc.property(body, (before: JsonObject) => {
      const after = withBreakpoints(before)
      const marks = JSON.stringify(after).split('"cache_control":').length - 1
      assert(marks <= 3, `${marks} marks`)
      assert.deepEqual(plain(normal(after)), plain(normal(before)))
      assert(!/"type":"thinking"[^{}]*"cache_control"/.test(JSON.stringify(after)))
    }),
    { numRuns: 2_000 },
  )
})

/**
 * Input tokens of a request in units of an uncached one: a write costs 1.25, a read 0.1. Each breakpoint finds an earlier prefix at
 * most 20 blocks before it, and prefixes below 1,024 tokens are not cached.
 */
const costOf = (
  blocks: readonly { readonly size: number; readonly isMarked: boolean }[],
  cache: Set<number>,
): number => {
  let sum = 0
  const ends = blocks.map(({ size }) => (sum += size))
  const marked = blocks.flatMap(({ isMarked }, at) => (isMarked && (ends[at] ?? 0) >= 1_024 ? [at] : []))
  let hit = 0
  for (const at of marked)
    for (let back = at; back >= Math.max(0, at - 20); back--) if (cache.has(back)) hit = Math.max(hit, ends[back] ?? 0)
  for (const at of marked) cache.add(at)
  const written = Math.max(hit, ends[marked.at(-1) ?? -1] ?? 0)
  return 0.1 * hit + 1.25 * (written - hit) + ((ends.at(-1) ?? 0) - written)
}

test('breakpoints: from two turns on, 2,000 conversations of agents cost at most what they cost without', () => {
  let seed = 7
  const chance = () => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed / 2_147_483_647
  }
  const [paid, plain] = [new Map<number, number>(), new Map<number, number>()]
  let dearer = 0
  for (let n = 0; n < 2_000; n++) {
    const sizes: number[] = [1_000 + Math.floor(chance() * 15_000), 50 + Math.floor(chance() * 1_000)]
    let messages: readonly JsonObject[] = [user('hi')]
    const cache = new Set<number>()
    let [cost, without] = [0, 0]
    for (let turn = 1; turn <= 8; turn++) {
      const body = withBreakpoints({ system: 'be kind', messages: [...messages] })
      const contents = list(body.messages).map((one) => (isObject(one) ? (one.content ?? null) : null))
      const marks = [...list(body.system), ...contents.flatMap((one) => (isList(one) ? one : [one]))].map(
        (block) => isObject(block) && block.cache_control !== undefined,
      )
      assert.equal(marks.length, sizes.length)
      cost += costOf(
        sizes.map((size, at) => ({ size, isMarked: marks[at] === true })),
        cache,
      )
      without += sizes.reduce((all, size) => all + size, 0)
      paid.set(turn, (paid.get(turn) ?? 0) + cost)
      plain.set(turn, (plain.get(turn) ?? 0) + without)
      if (turn >= 2 && cost > without) dearer++
      // Parallel calls and their results: up to 30 blocks in a turn, together smaller than the first prompt.
      const calls = 1 + Math.floor(chance() * 15)
      const more = Array.from({ length: 2 * calls }, () => 1 + Math.floor((chance() * (sizes[0] ?? 0)) / (2 * calls)))
      sizes.push(...more)
      const blocks = Array.from({ length: calls }, (_, at) => text(`${at}`))
      messages = [...messages, model(blocks), user(blocks)]
    }
  }
  const shares = [...paid].map(([turn, cost]) => cost / (plain.get(turn) ?? 1))
  assert((shares[0] ?? 0) <= 1.25)
  for (const share of shares.slice(1)) assert(share <= 1, shares.join())
  assert.equal(dearer, 0, `${dearer} are dearer`)
  assert((shares.at(-1) ?? 1) < 0.5, shares.join())
})
