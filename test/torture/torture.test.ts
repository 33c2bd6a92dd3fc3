/**
 * Each environment call fails once. A first run of each scenario counts its calls (upstream, timers, store, log,
 * reply); then the scenario runs again for each call and each way it can fail. In every run nothing hangs, every
 * request ends once and is logged once, and no resources remain.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Instance } from '../../src/core/provider.ts'
import { chatAnswer, instance, respondWith, type SettingsInput } from '../support/gateway.ts'
import type { ScriptedCall } from '../support/still-world.ts'
import { type CallName, FAULTS, type Plan, type Rig, rig } from './faults.ts'

type Scenario = {
  readonly name: string
  readonly instances?: () => readonly Instance[]
  readonly settings?: SettingsInput
  readonly script: (request: ScriptedCall) => void
  /** What the client does. Resolves once time has advanced. */
  readonly run: (made: Rig) => Promise<void>
  /** Whether the scenario succeeded; checked for runs without a fault. */
  readonly good: (made: Rig) => boolean
}

const question = (more: object = {}) => ({ model: 'm', messages: [{ role: 'user', content: 'hello' }], ...more })
const host = ({ url }: ScriptedCall) => new URL(url).host.split('.')[0]
const streams = ({ headers }: ScriptedCall) => headers.accept === 'text/event-stream'
const two = () => [instance('a'), instance('b')]

const answers = (request: ScriptedCall) =>
  streams(request)
    ? respondWith.stream(request, chatAnswer.stream('Hel', 'lo'))
    : respondWith.json(request, 200, chatAnswer.whole('Hello'))
const slowly = (request: ScriptedCall, { world, caught }: Rig) => {
  request.head(200, { 'content-type': 'text/event-stream' })
  const pieces = [
    chatAnswer.role(),
    chatAnswer.chunk({ content: 'Hel' }),
    chatAnswer.chunk({ content: 'lo' }),
    chatAnswer.chunk({}, 'stop'),
    chatAnswer.done,
  ]
  for (const [at, piece] of pieces.entries())
    world.later(100 * (at + 1), () =>
      caught(() => {
        request.send(piece)
        if (at === pieces.length - 1) request.end()
      }),
    )
}

const ended = ({ replies }: Rig): boolean => replies.every(({ reply }) => reply.ending === 'ended')
const hello = (made: Rig): boolean => ended(made) && made.replies.every(({ reply }) => /Hel"?.*lo/s.test(reply.text))

const once =
  (style: Parameters<Rig['ask']>[0], body: object) =>
  async ({ ask, world }: Rig): Promise<void> => {
    ask(style, body)
    await world.advance(1_000)
  }

/** A world exists before its script can refer to it. */
const delayed = (): { script: (request: ScriptedCall) => void; with: (made: Rig) => void } => {
  let here: Rig | undefined
  return {
    script: (request) => (here ? slowly(request, here) : undefined),
    with: (made) => {
      here = made
    },
  }
}
const slow = delayed()

const SCENARIOS: readonly Scenario[] = [
  { name: 'a whole answer', script: answers, run: once('openai-chat', question()), good: hello },
  { name: 'a stream', script: answers, run: once('openai-chat', question({ stream: true })), good: hello },
  {
    name: 'a stream, piece by piece',
    script: slow.script,
    run: async (made) => {
      slow.with(made)
      await once('openai-chat', question({ stream: true }))(made)
    },
    good: hello,
  },
  {
    name: 'failover, whole',
    instances: two,
    settings: { strategy: 'priority' },
    script: (request) => (host(request) === 'a' ? respondWith.error(request, 500) : answers(request)),
    run: once('openai-chat', question()),
    good: hello,
  },
  {
    name: 'failover, streamed',
    instances: two,
    settings: { strategy: 'priority' },
    script: (request) => (host(request) === 'a' ? respondWith.error(request, 503) : answers(request)),
    run: once('openai-chat', question({ stream: true })),
    good: hello,
  },
  {
    name: 'no upstream answers',
    instances: two,
    script: (request) => respondWith.error(request, 500),
    run: once('openai-chat', question()),
    good: (made) => ended(made) && made.replies[0]?.reply.status === 502,
  },
  {
    name: 'waiting for a rate limit',
    script: (() => {
      const seen = new WeakSet<object>()
      return (request: ScriptedCall) => {
        const world = request.listener
        if (seen.has(world)) return answers(request)
        seen.add(world)
        return request.at < 1_500 ? respondWith.error(request, 429, {}, { 'retry-after': '1' }) : answers(request)
      }
    })(),
    run: async ({ ask, world }) => {
      ask('openai-chat', question())
      await world.advance(5_000)
    },
    good: ended,
  },
  {
    name: 'another format, whole',
    script: answers,
    run: once('anthropic-messages', question({ max_tokens: 9 })),
    good: hello,
  },
  {
    name: 'another format, streamed',
    script: answers,
    run: once('anthropic-messages', question({ max_tokens: 9, stream: true })),
    good: hello,
  },
  {
    name: 'a hedge',
    instances: two,
    settings: { hedge: { percent: 100, delay: 1_000 }, strategy: 'priority' },
    script: (request) => (host(request) === 'a' ? undefined : answers(request)),
    run: async ({ ask, world }) => {
      ask('openai-chat', question())
      await world.advance(3_000)
    },
    good: hello,
  },
  {
    name: 'a whole answer from a stream',
    instances: () => [{ ...instance('a'), aggregate: true }],
    script: answers,
    run: once('openai-chat', question()),
    good: hello,
  },
  {
    name: 'a continued text',
    instances: () => [
      instance('a'),
      instance('b', ['k1'], { supportsPrefill: { protocol: 'openai-chat', body: (body) => body } }),
    ],
    settings: { stream: { continue: true }, strategy: 'priority' },
    script: (request) => {
      request.head(200, { 'content-type': 'text/event-stream' })
      if (host(request) === 'a') request.send(chatAnswer.role() + chatAnswer.chunk({ content: 'Hel' }))
      else
        request.send(
          chatAnswer.role() + chatAnswer.chunk({ content: 'lo' }) + chatAnswer.chunk({}, 'stop') + chatAnswer.done,
        )
      request.end()
    },
    run: once('openai-chat', question({ stream: true })),
    good: hello,
  },
  {
    name: 'retries with one idempotency key',
    script: slow.script,
    run: async (made) => {
      slow.with(made)
      const { ask, world } = made
      ask('openai-chat', question({ stream: true }), 'key')
      await world.advance(150)
      ask('openai-chat', question({ stream: true }), 'key')
      await world.advance(1_000)
      ask('openai-chat', question({ stream: true }), 'key')
      await world.advance(1_000)
    },
    good: (made) => hello(made) && made.world.calls.length === 1,
  },
  {
    name: 'two coalesced calls',
    settings: { coalesce: true },
    script: slow.script,
    run: async (made) => {
      slow.with(made)
      made.ask('openai-chat', question({ temperature: 0, stream: true }))
      made.ask('openai-chat', question({ temperature: 0, stream: true }))
      await made.world.advance(2_000)
    },
    good: (made) => hello(made) && made.world.calls.length === 1,
  },
  {
    name: 'a stored conversation',
    script: answers,
    run: async ({ ask, world }) => {
      const first = ask('turn', { model: 'm', input: 'hello' })
      await world.advance(500)
      const { reply } = first
      const id: unknown = reply.ending === 'ended' && reply.status === 200 ? reply.json.id : 'resp_none'
      ask('turn', { model: 'm', input: 'and then?', previous_response_id: id, stream: true })
      await world.advance(1_000)
    },
    good: hello,
  },
  {
    name: 'a background response',
    script: answers,
    run: async ({ ask, world }) => {
      ask('turn', { model: 'm', input: 'hello', background: true })
      await world.advance(2_000)
    },
    good: (made) => ended(made) && made.gateway.jobs.size === 0,
  },
  {
    name: 'the client leaves',
    script: slow.script,
    run: async (made) => {
      slow.with(made)
      const asking = made.ask('openai-chat', question({ stream: true }))
      await made.world.advance(250)
      asking.left = true
      asking.reply.disconnect()
      await made.world.advance(1_000)
    },
    good: ({ world }) => world.calls[0]?.aborted === true,
  },
  {
    name: 'a slow client',
    script: slow.script,
    run: async (made) => {
      slow.with(made)
      const { reply } = made.ask('openai-chat', question({ stream: true }))
      reply.writable = false
      await made.world.advance(1_000)
      if (!reply.ending) reply.drain()
      await made.world.advance(1_000)
    },
    good: hello,
  },
  {
    name: 'shutdown',
    script: slow.script,
    run: async (made) => {
      slow.with(made)
      made.ask('openai-chat', question({ stream: true }))
      made.ask('openai-chat', question())
      await made.world.advance(250)
      made.shutdown()
      await made.world.advance(1_000)
    },
    good: ended,
  },
  {
    name: 'a reload during a request',
    script: slow.script,
    run: async (made) => {
      slow.with(made)
      made.ask('openai-chat', question({ stream: true }))
      await made.world.advance(250)
      made.reload()
      made.ask('openai-chat', question({ stream: true }))
      await made.world.advance(2_000)
    },
    good: hello,
  },
  {
    name: 'embeddings',
    instances: () => [instance('a', ['k1'], { embeds: { protocol: 'openai-embeddings', models: ['m'] } })],
    script: (request) =>
      respondWith.json(
        request,
        200,
        JSON.stringify({
          object: 'list',
          model: 'm',
          data: [{ object: 'embedding', index: 0, embedding: [0.5, 0.25] }],
          usage: { prompt_tokens: 1, total_tokens: 1 },
        }),
      ),
    run: once('embeddings', { model: 'm', input: 'hello' }),
    good: (made) => ended(made) && made.replies[0]?.reply.status === 200,
  },
]

/** ms after which every wait has timed out. */
const LONG = 3_600_000

const play1 = async (scenario: Scenario, plan: Plan): Promise<Rig> => {
  const { instances = () => [instance('a')], script, settings = {} } = scenario
  const made = rig(plan, instances(), script, settings)
  await scenario.run(made)
  await made.world.advance(LONG)
  return made
}

/** Describes what is wrong with the end of a run. */
const wrong = ({ gateway, world, replies, outcomes }: Rig): string[] => {
  const found: string[] = []
  const say = (is: boolean, what: string) => {
    if (is) found.push(what)
  }
  for (const [at, { reply, state, left }] of replies.entries()) {
    say(state === 'open', `request ${at} never ends`)
    say(reply.ending === null && !left, `the answer to request ${at} never ends`)
  }
  // A request that ends in an exception has an edge log line of its own.
  const rejected = replies.filter(({ state }) => state === 'rejected').length
  const count = outcomes()
  say(count > replies.length || count + rejected < replies.length, `${count} outcomes of ${replies.length} requests`)
  say(world.timers() > 0, `${world.timers()} timers remain`)
  say(gateway.activeCalls.size > 0, `${gateway.activeCalls.size} requests still count as in flight`)
  say(gateway.jobs.size > 0, `${gateway.jobs.size} jobs still count as in flight`)
  for (const one of gateway.config().instances)
    for (const key of one.keys)
      say(gateway.health.load.inFlight(one, key) !== 0, `${one.id} still counts a call in flight`)
  return found
}

let stray: unknown[] = []
process.on('unhandledRejection', (error) => stray.push(error))

for (const scenario of SCENARIOS)
  test(`torture: ${scenario.name}`, async (t) => {
    const sound = await play1(scenario, null)
    assert.deepEqual(wrong(sound), [])
    assert.ok(scenario.good(sound), `it fails without a fault: ${sound.replies.map(({ reply }) => reply.text)}`)
    assert.deepEqual(sound.edge, [])
    const counts = new Map<CallName, number>()
    for (const call of sound.calls) counts.set(call, (counts.get(call) ?? 0) + 1)
    const faults: string[] = []
    let runs = 0
    for (const [at, call] of sound.calls.entries())
      for (const fault of FAULTS[call]) {
        stray = []
        const made = await play1(scenario, { at, fault })
        runs++
        const found = wrong(made)
        if (stray.length > 0) found.push(`unhandled: ${stray}`)
        for (const what of found) faults.push(`call ${at} (${call}) ${fault}: ${what}`)
      }
    t.diagnostic(`${runs} runs: ${[...counts].map(([call, n]) => `${n} ${call}`).join(', ')}`)
    assert.deepEqual(faults, [])
  })
