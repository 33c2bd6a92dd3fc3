import assert from 'node:assert/strict'
import { test } from 'node:test'
import OpenAI from 'openai'
import { until } from '../support/upstream.ts'
import { start } from './support/process.ts'
import { startUpstreamProcess } from './support/upstream-process.ts'

const REQUESTS = 1_000
const AT_ONCE = 25
const KILL_AFTER = 400
const TEXT = Array.from({ length: 20 }, (_, at) => `word${String(at).padStart(2, '0')}`).join(' ')
const PACE = { text: TEXT, first: 60, gap: 6 }

/** What the SDK received for one request. */
type Received = {
  content: string
  endedAt: number
  provider: string | null
  finished: boolean
  error: unknown
}

/** Reads a stream of either style to its end, and reports each piece of text and the finish. */
const read = {
  chat: async (client: OpenAI, received: Received, onText: (text: string) => void) => {
    const { data, response } = await client.chat.completions
      .create({ model: 'any', messages: [{ role: 'user', content: 'hello' }], stream: true })
      .withResponse()
    received.provider = response.headers.get('x-headgate-provider')
    for await (const chunk of data) {
      const choice = chunk.choices[0]
      if (choice?.delta.content) onText(choice.delta.content)
      if (choice?.finish_reason === 'stop') received.finished = true
    }
  },
  responses: async (client: OpenAI, received: Received, onText: (text: string) => void) => {
    const { data, response } = await client.responses
      .create({ model: 'any', input: 'hello', stream: true })
      .withResponse()
    received.provider = response.headers.get('x-headgate-provider')
    for await (const event of data) {
      if (event.type === 'response.output_text.delta') onText(event.delta)
      if (event.type === 'response.completed') received.finished = true
    }
  },
} as const

const ask = async (
  client: OpenAI,
  style: keyof typeof read,
  watch: (received: Received) => void = () => {},
): Promise<Received> => {
  const received: Received = { content: '', endedAt: 0, provider: null, finished: false, error: undefined }
  watch(received)
  try {
    await read[style](client, received, (text) => {
      received.content += text
      watch(received)
    })
  } catch (error) {
    received.error = error
  }
  received.endedAt = performance.now()
  return received
}

test('kill: an upstream dies during 1,000 streamed requests; none without content fails, none with content looks complete', async (t) => {
  await using second = await startUpstreamProcess(PACE)
  await using first = await startUpstreamProcess(PACE)
  await using gateway = await start({
    env: {
      OPENAI_API_KEY: 'sk-first-0000000000000000',
      OPENAI_BASE_URL: `${first.url}/v1`,
      OPENAI_MODELS: 'one',
      GROQ_API_KEY: 'gsk-second-0000000000000000',
      GROQ_BASE_URL: `${second.url}/v1`,
      GROQ_MODELS: 'two',
      CIRCUIT_RESET_TIMEOUT: '1500',
    },
  })
  const client = new OpenAI({ baseURL: gateway.base, apiKey: 'any', maxRetries: 0 })

  const received: Received[] = []
  const live = new Set<Received>()
  let killedAt = 0
  let begun = 0
  /** Kills the upstream once some answers are in progress and some have not started. */
  const watch = (one: Received) => {
    live.add(one)
    if (killedAt > 0 || begun < KILL_AFTER) return
    const middle = [...live].filter(({ content }) => content !== '').length
    if (middle < 5 || live.size - middle < 5) return
    killedAt = performance.now()
    void first.kill()
  }
  const worker = async () => {
    while (begun < REQUESTS) {
      const style = begun++ % 2 === 0 ? 'chat' : 'responses'
      const one = await ask(client, style, watch)
      live.delete(one)
      received.push(one)
    }
  }
  const startedAt = performance.now()
  const all = Promise.all(Array.from({ length: AT_ONCE }, worker))
  // While the other requests continue, the page shows the first upstream as unavailable.
  await gateway.line(({ event, to }) => event === 'circuit' && to === 'open')
  const opened = await status(gateway.url)
  await all
  const seconds = (performance.now() - startedAt) / 1000

  const failed = received.filter(({ error }) => error !== undefined)
  const withoutContent = failed.filter(({ content }) => content === '')
  const complete = received.filter(({ error }) => error === undefined)
  const bySecond = received.filter(({ provider }) => provider === 'groq')
  const fallbacks = (await gateway.logged()).filter(({ event }) => event === 'fallback')
  t.diagnostic(
    `${received.length} requests in ${seconds.toFixed(1)} s: ${complete.length} complete (${bySecond.length} from the second), ` +
      `${failed.length} ended with an error after content, ${withoutContent.length} failed without content; ` +
      `${fallbacks.length} fallbacks`,
  )

  assert.equal(received.length, REQUESTS)
  assert.deepEqual(withoutContent, [], 'failed although nothing had been sent')
  // Every complete answer has every word and a regular end; answers of the killed upstream are not among them.
  for (const one of complete) assert.deepEqual([one.content, one.finished], [TEXT, true])
  for (const one of failed) {
    assert.equal(one.provider, 'openai')
    // Every word may have arrived, but the end must be missing.
    assert.ok(TEXT.startsWith(one.content), one.content)
    assert.equal(one.finished, false)
    assert.ok(one.error instanceof OpenAI.APIError, String(one.error))
    assert.equal(one.error.code, 'stream_interrupted')
    assert.ok(one.endedAt > killedAt)
  }
  // The kill must have met answers in progress and requests without content; otherwise the test proves nothing.
  assert.ok(failed.length > 0, 'no stream was in flight')
  assert.ok(fallbacks.length > 0, 'no request failed over')
  assert.ok(bySecond.length > REQUESTS / 4, `only ${bySecond.length} were answered by the second`)

  // The log agrees.
  await until('every request has its line', () => requestLines(gateway).length === REQUESTS)
  const outcomes = Object.groupBy(requestLines(gateway), ({ outcome }) => String(outcome))
  assert.equal(outcomes.answered?.length, complete.length)
  assert.equal(outcomes.interrupted?.length, failed.length)
  assert.deepEqual(Object.keys(outcomes).sort(), ['answered', 'interrupted'])
  for (const { from, to } of fallbacks) {
    assert.match(String(from), /^openai#[0-9a-f]{4,}\/one$/)
    assert.match(String(to), /^groq#[0-9a-f]{4,}\/two$/)
  }
  // The status page agrees: the first upstream is unavailable, the second serves.
  assert.equal(opened.openai.status, 'unavailable')
  assert.match(opened.openai.circuit.state, /^(?:open|half_open)$/)
  assert.ok(Date.parse(opened.openai.circuit.opened_at) > 0 && Date.parse(opened.openai.circuit.retry_at) > 0)
  assert.match(opened.openai.last_error.kind, /^(?:refused|reset|truncated)$/)
  assert.equal(opened.groq.status, 'available')
  // Once a circuit was open, hardly any request tried the dead upstream.
  assert.ok(fallbacks.length < 3 * AT_ONCE, `${fallbacks.length} requests went to the dead upstream first`)

  // It restarts at the same address and is used again.
  await using back = await startUpstreamProcess({ ...PACE, port: first.port })
  assert.equal(back.port, first.port)
  let again: string | null = null
  for (const end = performance.now() + 120_000; again !== 'openai' && performance.now() < end; ) {
    const one = await ask(client, 'chat')
    assert.deepEqual([one.content, one.finished, one.error], [TEXT, true, undefined])
    again = one.provider
  }
  assert.equal(again, 'openai')
  const healed = await status(gateway.url)
  assert.equal(healed.openai.circuit.state, 'closed')
  assert.equal(healed.openai.status, 'available')
  await gateway.line(({ event, to }) => event === 'circuit' && to === 'closed')
  await gateway.logged()
  assert.doesNotMatch(gateway.output(), /sk-first|gsk-second/)
})

const requestLines = (gateway: Awaited<ReturnType<typeof start>>) =>
  gateway.lines().filter(({ event }) => event === 'request')

/** The status page, by provider. */
const status = async (url: string) => {
  const response = await fetch(`${url}/providers/status`)
  // biome-ignore lint/suspicious/noExplicitAny: the page's members are only read
  const page: any = await response.json()
  return {
    openai: page.data.find(({ id }: { id: string }) => id === 'openai'),
    groq: page.data.find(({ id }: { id: string }) => id === 'groq'),
  }
}
