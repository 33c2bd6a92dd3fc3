import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testStore } from '../../../test/support/stores.ts'
import { bad, fail, good } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { type JsonObject, list } from '../../core/json.ts'
import type { ResponseStore, StoredResponse } from '../../core/stored-response.ts'
import { openaiResponses } from '../../protocols/openai-responses/index.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'
import { parseRequest } from '../upstream/parse-request.ts'
import { type ConversationTurn, type TurnDeps, turnFor } from './conversation.ts'
import { memoryResponseStore } from './memory-response-store.ts'

const headers: HeaderLookup = () => undefined
const limits = { messages: 100_000, parts: 100_000, tools: 100_000 }

const inboundOf = (body: JsonObject): InboundRequest => {
  const asked = parseRequest(
    openaiResponses,
    { body: { text: JSON.stringify({ model: 'm', ...body }) }, headers },
    limits,
  )
  assert.ok(asked.ok, JSON.stringify(asked))
  return asked.value
}

const stored = (id: string, more: Partial<StoredResponse> = {}): StoredResponse => ({
  id,
  owner: 'me',
  previous: null,
  status: 'completed',
  created: 1,
  input: JSON.stringify([
    {
      type: 'message',
      role: 'user',
      id: `msg_in_${id}`,
      status: 'completed',
      content: [{ type: 'input_text', text: `asked ${id}` }],
    },
  ]),
  response: JSON.stringify({
    id,
    output: [
      {
        type: 'message',
        role: 'assistant',
        id: `msg_out_${id}`,
        status: 'completed',
        content: [{ type: 'output_text', text: `said ${id}`, annotations: [] }],
      },
    ],
  }),
  events: null,
  items: [`msg_in_${id}`, `msg_out_${id}`],
  maker: null,
  ...more,
})

const calling = (id: string, more: Partial<StoredResponse> = {}) =>
  stored(id, {
    response: JSON.stringify({
      id,
      output: [
        {
          type: 'function_call',
          id: `fc_${id}`,
          call_id: `call_${id}`,
          name: 'f',
          arguments: '{}',
          status: 'completed',
        },
      ],
    }),
    ...more,
  })

const MAKER = { instance: 'one', key: 'k1', model: 'm', id: 'resp_theirs' }

type World = TurnDeps & { readonly stored: (id: string) => StoredResponse | undefined }

const worldOf = (all: readonly StoredResponse[], more: Partial<TurnDeps> = {}): World => {
  const durable = testStore()
  for (const one of all) durable.memory.put(one)
  let letters = 0
  return {
    stores: { durable },
    owner: 'me',
    limits,
    loopTurn: (run) => queueMicrotask(run),
    randomLetters: (length) => String(letters++).padStart(length, 'x'),
    created: 1_700_000_000,
    upstreamMayStore: false,
    noteIssuer: () => {},
    ...more,
    stored: (id) => durable.memory.get(id, 'me'),
  }
}

const turnOf = async (world: TurnDeps, body: JsonObject, background = false): Promise<ConversationTurn> => {
  const turn = await turnFor(world, inboundOf(body), { id: 'resp_hgnew', background })
  assert.ok(turn.ok, JSON.stringify(turn))
  return turn.value
}

/** The text of every message, call and result of a request, in order. */
const saidIn = ({ body }: InboundRequest): readonly string[] =>
  typeof body.input === 'string'
    ? [body.input]
    : list(body.input).map((item) => {
        const { type, content, call_id } = item as JsonObject
        return type === 'message' || type === undefined
          ? typeof content === 'string'
            ? content
            : String((list(content)[0] as JsonObject).text)
          : `${String(type)} ${String(call_id ?? '')}`.trim()
      })

// ── The expanded request ────────────────────────────────────────────────────────────────────────────────────────────────

const chain = [
  stored('resp_hga'),
  stored('resp_hgb', { previous: 'resp_hga' }),
  stored('resp_hgc', { previous: 'resp_hgb' }),
]
const asked: readonly (readonly [string, readonly StoredResponse[], JsonObject, readonly string[]])[] = [
  ['a first request is unchanged', [], { input: 'hello' }, ['hello']],
  [
    'the previous turn comes first',
    chain,
    { previous_response_id: 'resp_hga', input: 'next' },
    ['asked resp_hga', 'said resp_hga', 'next'],
  ],
  [
    'all earlier turns come first, oldest first',
    chain,
    { previous_response_id: 'resp_hgc', input: [{ role: 'user', content: 'next' }] },
    ['asked resp_hga', 'said resp_hga', 'asked resp_hgb', 'said resp_hgb', 'asked resp_hgc', 'said resp_hgc', 'next'],
  ],
  [
    'a result of a call in the previous turn',
    [calling('resp_hga')],
    {
      previous_response_id: 'resp_hga',
      input: [{ type: 'function_call_output', call_id: 'call_resp_hga', output: 'x' }],
    },
    ['asked resp_hga', 'function_call call_resp_hga', 'function_call_output call_resp_hga'],
  ],
  [
    'a result of a call in the same request',
    chain,
    {
      previous_response_id: 'resp_hga',
      input: [
        { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c', output: 'x' },
      ],
    },
    ['asked resp_hga', 'said resp_hga', 'function_call c', 'function_call_output c'],
  ],
  [
    'an item reference',
    chain,
    {
      input: [
        { type: 'item_reference', id: 'msg_out_resp_hgb' },
        { role: 'user', content: 'next' },
      ],
    },
    ['said resp_hgb', 'next'],
  ],
]
for (const [name, all, body, said] of asked)
  test(`turn: ${name}`, async () => {
    const turn = await turnOf(worldOf(all), body)
    assert.deepEqual(saidIn(turn.inbound), said)
    // The next target does not know these ids.
    if (all.length > 0) assert.doesNotMatch(turn.inbound.source.text, /"previous_response_id"|msg_in|msg_out|"fc_/)
    assert.deepEqual(JSON.parse(turn.inbound.source.text), turn.inbound.body)
    assert.deepEqual(turn.storage, {
      id: 'resp_hgnew',
      previous: body.previous_response_id ?? null,
      store: true,
      background: false,
    })
  })

const refusals: readonly (readonly [
  string,
  readonly StoredResponse[],
  Partial<TurnDeps>,
  JsonObject,
  string,
  string,
])[] = [
  [
    'an unknown id of the gateway',
    [],
    { upstreamMayStore: true },
    { previous_response_id: 'resp_hgx', input: 'a' },
    'unknown_previous',
    'previous_response_id',
  ],
  [
    'an id that no provider can know',
    [],
    {},
    { previous_response_id: 'resp_x', input: 'a' },
    'unknown_previous',
    'previous_response_id',
  ],
  [
    'an id of another client',
    [stored('resp_hga', { owner: 'you' })],
    {},
    { previous_response_id: 'resp_hga', input: 'a' },
    'unknown_previous',
    'previous_response_id',
  ],
  [
    'a conversation whose first turn is gone',
    [stored('resp_hgb', { previous: 'resp_hga' })],
    { upstreamMayStore: true },
    { previous_response_id: 'resp_hgb', input: 'a' },
    'unknown_previous',
    'previous_response_id',
  ],
  [
    'a conversation that continues an id of a removed provider',
    [stored('resp_hgb', { previous: 'resp_x' })],
    {},
    { previous_response_id: 'resp_hgb', input: 'a' },
    'unknown_previous',
    'previous_response_id',
  ],
  [
    'a queued response',
    [stored('resp_hga', { status: 'queued' })],
    {},
    { previous_response_id: 'resp_hga', input: 'a' },
    'unknown_previous',
    'previous_response_id',
  ],
  [
    'a response in progress',
    [stored('resp_hga', { status: 'in_progress' })],
    {},
    { previous_response_id: 'resp_hga', input: 'a' },
    'unknown_previous',
    'previous_response_id',
  ],
  [
    'a result without its call',
    chain,
    {},
    {
      previous_response_id: 'resp_hga',
      input: [
        { role: 'user', content: 'x' },
        { type: 'function_call_output', call_id: 'no', output: '' },
      ],
    },
    'invalid_request',
    'input[1].call_id',
  ],
  [
    'without a store',
    chain,
    { stores: { durable: null } },
    { previous_response_id: 'resp_hga', input: 'a' },
    'unknown_previous',
    'previous_response_id',
  ],
]
for (const [name, all, more, body, kind, param] of refusals)
  test(`turn: refused: ${name}`, async () => {
    const turn = await turnFor(worldOf(all, more), inboundOf(body), { id: 'resp_hgnew', background: false })
    assert.ok(!turn.ok)
    assert.deepEqual([turn.failure.kind, turn.failure.param], [kind, param])
  })

test('turn: an id that a provider may know is passed on', async () => {
  const world = worldOf([], { upstreamMayStore: true })
  const turn = await turnOf(world, { previous_response_id: 'resp_theirs', input: 'a' })
  assert.deepEqual(turn.inbound.body, { model: 'm', previous_response_id: 'resp_theirs', input: 'a' })
  turn.save({ response: '{"output":[]}', status: 'completed', events: null })
  // The next turn starts from the same id.
  const next = await turnOf(world, { previous_response_id: 'resp_hgnew', input: 'b' })
  assert.equal(next.inbound.body.previous_response_id, 'resp_theirs')
  assert.deepEqual(saidIn(next.inbound), ['a', 'b'])
})

test('turn: an id that no provider may know is not found', async () => {
  const turn = await turnOf(worldOf([], { upstreamMayStore: true }), {
    previous_response_id: 'resp_theirs',
    input: 'a',
  })
  const why = (kind: 'unsupported' | 'status', param: string) => turn.asClientError({ kind, message: '', param }).kind
  assert.equal(why('unsupported', 'previous_response_id'), 'unknown_previous')
  assert.equal(why('unsupported', 'tools[0]'), 'unsupported')
  assert.equal(why('status', 'previous_response_id'), 'status')
})

test('turn: an error in the conversation has a path in the request of the client', async () => {
  const turn = await turnOf(worldOf(chain), {
    previous_response_id: 'resp_hgb',
    input: [{ role: 'user', content: 'a' }],
  })
  const { clientPath } = turn.inbound
  assert.deepEqual(
    ['input[0].content', 'input[3]', 'input[4].content[0].text', 'tools[0]'].map((path) => clientPath?.(path)),
    ['previous_response_id', 'previous_response_id', 'input[0].content[0].text', 'tools[0]'],
  )
  const words = await turnOf(worldOf(chain), { previous_response_id: 'resp_hgb', input: 'a' })
  assert.equal(words.inbound.clientPath?.('input[4].content'), 'input')
})

// ── Conversations stored by a provider ──────────────────────────────────────────────────────────────────────────────────

/** A target with the given ids. */
const target = (instance: string, key: string): Parameters<ConversationTurn['inboundFor']>[0] =>
  // The turn reads only these members.
  ({ candidate: { instance: { id: instance }, model: 'm' }, key: { id: key } }) as Parameters<
    ConversationTurn['inboundFor']
  >[0]

const native = () =>
  turnOf(worldOf([stored('resp_hga', { maker: MAKER })]), { previous_response_id: 'resp_hga', input: 'next', x: 1.5 })

for (const [name, instance, key, own] of [
  ['the key with the stored conversation continues it', 'one', 'k1', true],
  ['another key receives everything', 'one', 'k2', false],
  ['another provider receives everything', 'two', 'k1', false],
] as const)
  test(`turn: ${name}`, async () => {
    const turn = await native()
    const inbound = turn.inboundFor(target(instance, key))
    assert.equal(inbound !== turn.inbound, own)
    assert.equal(inbound.body.previous_response_id, own ? 'resp_theirs' : undefined)
    assert.deepEqual(saidIn(inbound), own ? ['next'] : ['asked resp_hga', 'said resp_hga', 'next'])
    assert.deepEqual(JSON.parse(inbound.source.text), inbound.body)
    // The member positions must match the text: the model name is replaced by position.
    for (const { key, start, value, end } of inbound.members)
      assert.deepEqual(JSON.parse(`{${inbound.source.text.slice(start, end)}}`), {
        [key]: JSON.parse(inbound.source.text.slice(value, end)),
      })
  })

test('turn: the key with the stored conversation comes first', async () => {
  const turn = await native()
  const keys = ['k0', 'k1', 'k2'].map((id) => ({ id, secret: null, weight: 1 }))
  const order = (instance: string) =>
    Array.from(turn.preferredKeys(target(instance, 'k0').candidate, keys), ({ id }) => id)
  assert.deepEqual(order('one'), ['k1', 'k0', 'k2'])
  assert.deepEqual(order('two'), ['k0', 'k1', 'k2'])
})

for (const [name, failure, gone] of [
  ['it is not found', { kind: 'model_missing', message: '', status: 404 }, true],
  [
    'by its code',
    { kind: 'invalid_request', message: '', status: 400, upstream: { code: 'previous_response_not_found' } },
    true,
  ],
  ['another error', { kind: 'invalid_request', message: '', status: 400 }, false],
  ['no connection', { kind: 'refused', message: '' }, false],
] as const)
  test(`turn: an expired record: ${name}`, async () => {
    const turn = await native()
    assert.equal(turn.isExpiredUpstream(turn.inbound, failure), false)
    assert.equal(turn.isExpiredUpstream(turn.inboundFor(target('one', 'k1')), failure), gone)
    assert.equal(turn.inboundFor(target('one', 'k1')) === turn.inbound, gone)
    // Only once: the whole conversation does not depend on the record.
    assert.equal(turn.isExpiredUpstream(turn.inboundFor(target('one', 'k1')), failure), false)
  })

test('turn: a turn that its provider did not store is continued nowhere', async () => {
  const maker = { ...MAKER, id: null }
  const turn = await turnOf(worldOf([stored('resp_hga', { maker })]), {
    previous_response_id: 'resp_hga',
    input: 'next',
  })
  assert.equal(turn.inboundFor(target('one', 'k1')), turn.inbound)
  assert.deepEqual(saidIn(turn.inbound), ['asked resp_hga', 'said resp_hga', 'next'])
})

// ── Encrypted reasoning ─────────────────────────────────────────────────────────────────────────────────────────────

test('turn: the issuer of stored reasoning is noted', async () => {
  const reasoning = (encrypted_content: string) => ({ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content })
  const before = stored('resp_hga', {
    maker: { ...MAKER, id: null },
    // The client sent this one. Its issuer is unknown.
    input: JSON.stringify([reasoning('sent')]),
    response: JSON.stringify({ id: 'resp_hga', output: [reasoning('written'), { type: 'reasoning', id: 'rs_hg_1' }] }),
  })
  const noted: string[] = []
  const noteIssuer = (encrypted: string, instance: string) => void noted.push(`${instance} ${encrypted}`)
  await turnOf(worldOf([before], { noteIssuer }), { previous_response_id: 'resp_hga', input: 'next' })
  assert.deepEqual(noted, ['one written'])
  await turnOf(worldOf([{ ...before, maker: null }], { noteIssuer }), { previous_response_id: 'resp_hga', input: 'x' })
  assert.equal(noted.length, 1)
})

// ── The stored turn ─────────────────────────────────────────────────────────────────────────────────────────────────

test('turn: stores its own input, each item with an id, and the answer', async () => {
  const world = worldOf([])
  const turn = await turnOf(world, {
    input: [
      { role: 'user', content: 'text' },
      { type: 'message', role: 'assistant', content: 'before', id: 'msg_own' },
      { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c', output: 'x' },
    ],
  })
  assert.equal(
    await turn.save({
      response: '{"id":"resp_hgnew","output":[{"id":"msg_answer"}]}',
      status: 'completed',
      events: null,
    }),
    null,
  )
  const kept = world.stored('resp_hgnew')
  assert.ok(kept)
  const items: JsonObject[] = JSON.parse(kept.input)
  assert.deepEqual(
    items.map(({ type, id }) => [type, String(id).replace(/_x.*/, '')]),
    [
      ['message', 'msg'],
      ['message', 'msg_own'],
      ['function_call', 'fc'],
      ['function_call_output', 'fco'],
    ],
  )
  assert.deepEqual(items[0]?.content, [{ type: 'input_text', text: 'text' }])
  assert.deepEqual(items[1]?.content, [{ type: 'output_text', text: 'before' }])
  assert.deepEqual(kept.items, [...items.map(({ id }) => String(id)), 'msg_answer'])
  assert.partialDeepStrictEqual(kept, {
    owner: 'me',
    previous: null,
    status: 'completed',
    created: 1_700_000_000,
    maker: null,
  })
})

const shelves: readonly (readonly [string, JsonObject, boolean, boolean, 'durable' | 'connection' | null])[] = [
  ['stored', { store: true }, true, true, 'durable'],
  ['by default', {}, true, true, 'durable'],
  ['not stored, on a connection', { store: false }, true, true, 'connection'],
  ['not stored, without one', { store: false }, true, false, null],
  ['without a durable store, on a connection', {}, false, true, 'connection'],
  ['without any store', {}, false, false, null],
]
for (const [name, body, keeps, connected, where] of shelves)
  test(`turn: where it is stored: ${name}`, async () => {
    const durable = testStore()
    const connection = memoryResponseStore(10_000)
    const world = worldOf([], { stores: { durable: keeps ? durable : null, ...(connected && { connection }) } })
    const turn = await turnOf(world, { input: 'a', ...body })
    assert.equal(turn.storage.store, keeps && body.store !== false)
    await turn.save({ response: '{"output":[]}', status: 'completed', events: null })
    assert.equal(durable.memory.get('resp_hgnew', 'me') !== undefined, where === 'durable')
    assert.equal(connection.get('resp_hgnew', 'me') !== undefined, where === 'connection')
  })

test('turn: a conversation may use the connection and the durable store together', async () => {
  const connection = memoryResponseStore(10_000)
  const world = worldOf([stored('resp_hga')], {})
  const both: TurnDeps = { ...world, stores: { ...world.stores, connection } }
  connection.put(stored('resp_hgb', { previous: 'resp_hga' }))
  const turn = await turnOf(both, { previous_response_id: 'resp_hgb', input: 'next', store: false })
  assert.deepEqual(saidIn(turn.inbound), ['asked resp_hga', 'said resp_hga', 'asked resp_hgb', 'said resp_hgb', 'next'])
})

test('turn: a failed turn is not stored, and removes the turn it continued from the connection', async () => {
  const connection = memoryResponseStore(10_000)
  const world = worldOf([stored('resp_hga')])
  connection.put(stored('resp_hgb', { previous: 'resp_hga' }))
  const both: TurnDeps = { ...world, stores: { ...world.stores, connection } }
  const turn = await turnOf(both, { previous_response_id: 'resp_hgb', input: 'next', store: false })
  turn.save({ response: '{}', status: 'failed', events: null })
  assert.equal(connection.get('resp_hgnew', 'me'), undefined)
  assert.equal(connection.get('resp_hgb', 'me'), undefined)
  assert.ok(world.stored('resp_hga'))
})

test('turn: a failed background turn is stored', async () => {
  const world = worldOf([])
  await (await turnOf(world, { input: 'a' }, true)).save({
    response: '{"status":"failed"}',
    status: 'failed',
    events: 'events',
  })
  assert.partialDeepStrictEqual(world.stored('resp_hgnew'), { status: 'failed', events: 'events' })
})

test('turn: a failed write is its result', async () => {
  const durable = testStore()
  durable.failure = fail('storage', 'the disk is full')
  const turn = await turnOf(worldOf([], { stores: { durable } }), { input: 'a' })
  assert.equal(await turn.save({ response: '{}', status: 'completed', events: null }), durable.failure)
})

test('turn: a failed read is a store failure, not an unknown id', async () => {
  const failure = fail('storage', 'the disk does not answer')
  const broken: ResponseStore = {
    ...testStore(),
    turns: async () => bad(failure),
    findByItem: async () => bad(failure),
  }
  const world = worldOf([], { stores: { durable: broken } })
  for (const body of [
    { previous_response_id: 'resp_hga', input: 'a' },
    { input: [{ type: 'item_reference', id: 'msg_a' }] },
  ])
    assert.deepEqual(await turnFor(world, inboundOf(body), { id: 'resp_hgnew', background: false }), {
      ok: false,
      failure,
    })
})

test('turn: reasoning without encrypted content keeps only its text', async () => {
  const output = [
    { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'sealed', status: 'completed' },
    { type: 'reasoning', id: 'rs_2', summary: [{ type: 'summary_text', text: 'hm' }] },
  ]
  const turn = await turnOf(worldOf([stored('resp_hga', { response: JSON.stringify({ output }) })]), {
    previous_response_id: 'resp_hga',
    input: 'next',
  })
  assert.deepEqual(list(turn.inbound.body.input).slice(1, 3), [
    { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'sealed' },
    { type: 'reasoning', id: 'rs_hg_rs_2', summary: [{ type: 'summary_text', text: 'hm' }] },
  ])
})

test('turn: a conversation above the limit is refused before all of it is read', async () => {
  const large = JSON.stringify([{ role: 'user', content: 'x'.repeat(10_000_000) }])
  const ids = Array.from({ length: 10 }, (_, at) => `resp_hg${at}`)
  const all = ids.map((id, at) => stored(id, { input: large, previous: ids[at - 1] ?? null }))
  const durable = testStore(1_000_000_000)
  for (const one of all) durable.memory.put(one)
  let read = 0
  const turns: ResponseStore['turns'] = (id, owner) => {
    read++
    return durable.turns(id, owner)
  }
  const world = worldOf([], { stores: { durable: { ...durable, turns } } })
  const turn = await turnFor(world, inboundOf({ previous_response_id: 'resp_hg9', input: 'next' }), {
    id: 'resp_hgnew',
    background: false,
  })
  assert.partialDeepStrictEqual(turn, {
    ok: false,
    failure: { kind: 'invalid_request', param: 'previous_response_id' },
  })
  assert.equal(read, 4)
  const shorter = inboundOf({ previous_response_id: 'resp_hg1', input: 'next' })
  assert.ok((await turnFor(world, shorter, { id: 'a', background: false })).ok)
})

test('turn: the store returns several turns of a conversation at once', async () => {
  const durable = testStore()
  for (const one of chain) durable.memory.put(one)
  const asked: string[] = []
  const turns: ResponseStore['turns'] = async (id) => {
    asked.push(id)
    return good(id === 'resp_hgc' ? [chain[2], chain[1]].filter((one) => one !== undefined) : chain.slice(0, 1))
  }
  const world = worldOf([], { stores: { durable: { ...durable, turns } } })
  const turn = await turnOf(world, { previous_response_id: 'resp_hgc', input: 'next' })
  assert.deepEqual(asked, ['resp_hgc', 'resp_hga'])
  assert.equal(saidIn(turn.inbound)[0], 'asked resp_hga')
  assert.equal(saidIn(turn.inbound).length, 7)
})

test('turn: a turn is parsed once for all references to its items', async () => {
  const input = Array.from({ length: 500 }, (_, at) => ({ type: 'message', role: 'user', id: `m${at}`, content: 'x' }))
  const durable = testStore()
  durable.memory.put(stored('resp_hga', { input: JSON.stringify(input), items: input.map(({ id }) => id) }))
  let read = 0
  const holding: ResponseStore['findByItem'] = (item, owner) => {
    read++
    return durable.findByItem(item, owner)
  }
  const world = worldOf([], { stores: { durable: { ...durable, findByItem: holding } } })
  const turn = await turnOf(world, { input: input.map(({ id }) => ({ type: 'item_reference', id })) })
  assert.equal(saidIn(turn.inbound).length, 500)
  assert.equal(read, 1)
})

test('turn: repeated references to a large item are refused before they are expanded', async () => {
  const input = [{ type: 'message', role: 'user', id: 'm', content: 'x'.repeat(1_000_000) }]
  const world = worldOf([stored('resp_hga', { input: JSON.stringify(input), items: ['m'] })], {})
  const durable = testStore(10_000_000)
  durable.memory.put(stored('resp_hga', { input: JSON.stringify(input), items: ['m'] }))
  const turn = await turnFor(
    { ...world, stores: { durable } },
    inboundOf({ input: Array(1_000).fill({ type: 'item_reference', id: 'm' }) }),
    { id: 'resp_hgnew', background: false },
  )
  assert.partialDeepStrictEqual(turn, { ok: false, failure: { kind: 'invalid_request', param: 'input' } })
})

test('turn: of very many items only the last can be referenced', async () => {
  const world = worldOf([])
  const input = Array.from({ length: 20_000 }, (_, at) => ({ role: 'user', id: `m${at}`, content: 'x' }))
  await (await turnOf(world, { input })).save({
    response: '{"output":[{"id":"said"}]}',
    status: 'completed',
    events: null,
  })
  const { items } = world.stored('resp_hgnew') ?? { items: [] }
  assert.deepEqual([items.length, items[0], items.at(-1)], [10_000, 'm10001', 'said'])
})

test('turn: a large conversation is expanded and stored in several turns of the event loop', async () => {
  const words = 'a "word" é😀 '.repeat(30_000)
  const earlier = (id: string, previous: string | null): StoredResponse =>
    stored(id, {
      previous,
      input: JSON.stringify([
        { type: 'message', role: 'user', id: `msg_${id}`, content: [{ type: 'input_text', text: words }] },
      ]),
    })
  let turns = 0
  const loopTurn = (run: () => void) => {
    turns++
    queueMicrotask(run)
  }
  const world = worldOf([earlier('resp_hgone', null), earlier('resp_hgtwo', 'resp_hgone')], { loopTurn })
  const turn = await turnOf(world, { model: 'm', input: 'and now?', previous_response_id: 'resp_hgtwo' })
  const input = list(turn.inbound.body.input)
  assert.equal(input.length, 5)
  assert.equal(input.filter((item) => JSON.stringify(item).includes(JSON.stringify(words))).length, 2)
  assert.ok(turns > 10, `${turns} turns`)

  const large = await turnOf(world, { model: 'm', input: words })
  const before = turns
  assert.equal(
    await large.save({ response: '{"id":"resp_hgnew","output":[]}', status: 'completed', events: null }),
    null,
  )
  assert.ok(turns > before + 1)
  assert.match(
    world.stored('resp_hgnew')?.input ?? '',
    /^\[\{"type":"message","role":"user","content":\[\{"type":"input_text"/,
  )
})
