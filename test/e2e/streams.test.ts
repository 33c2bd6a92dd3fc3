/**
 * Streams after the first content: a broken stream never looks complete, a disconnect aborts the upstream call, a slow
 * client slows the upstream down, and irregularities are corrected.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { before, describe, test } from 'node:test'
import { answerBody, answerWith, piecesOf } from '../support/answers.ts'
import { type Act, type Ending, type Upstream, type UpstreamRequest, until } from '../support/upstream.ts'
import type { Started } from './support/process.ts'
import {
  bodyFor,
  callsOf,
  eventsIn,
  isComplete,
  PATHS,
  rawClient,
  rawRequest,
  STYLES,
  type Style,
  sendChat,
  stage,
  statusOf,
  textIn,
} from './support/stage.ts'

const TEXT = 'one two three four five'
const TOOL = { id: 'call_1', name: 'weather', arguments: '{"city":"Bern","days":3}' }

const formatOf = ({ path }: UpstreamRequest) =>
  path.endsWith('/messages') ? 'messages' : path.endsWith('/responses') ? 'responses' : 'chat'

/** In each format: the events up to the first content, and those from the finish reason on. */
const first = (pieces: readonly string[]): number =>
  1 +
  pieces.findIndex((piece) =>
    /"delta":"|"content":"one|"arguments":"\{|text_delta|"partial_json":"\{/.test(piece.replaceAll('\\"', '')),
  )
const closing = (pieces: readonly string[]): number =>
  pieces.findIndex((piece) => /"finish_reason":"|response\.completed|message_delta/.test(piece))

type Cut = {
  readonly name: string
  readonly act: (request: UpstreamRequest, pieces: readonly string[]) => Act
  /** Ends a tool call only, not plain text. */
  readonly tools?: true
}

const ending =
  (how: Ending, at: (pieces: readonly string[]) => number, more: { untilClose?: boolean } = {}) =>
  (_: UpstreamRequest, pieces: readonly string[]): Act => ({
    do: 'stream',
    pieces: pieces.slice(0, at(pieces)),
    gap: 3,
    ending: how,
    ...more,
  })
const half = (_: UpstreamRequest, pieces: readonly string[]): Act => {
  const to = first(pieces)
  return { do: 'stream', pieces: [...pieces.slice(0, to), (pieces[to] ?? '').slice(0, 25)], gap: 3, ending: 'end' }
}
const errorEvent = (request: UpstreamRequest): string =>
  ({
    chat: 'data: {"error":{"message":"it broke","type":"server_error","code":null,"param":null}}\n\n',
    responses:
      'event: error\ndata: {"type":"error","code":"server_error","message":"it broke","param":null,"sequence_number":7}\n\n',
    messages: 'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"it broke"}}\n\n',
  })[formatOf(request)]

const CUTS: readonly Cut[] = [
  { name: 'ended after the first content', act: ending('end', first) },
  { name: 'closed after the first content', act: ending('close', first) },
  { name: 'reset after the first content', act: ending('reset', first) },
  { name: 'ended with its connection, without a length', act: ending('close', first, { untilClose: true }) },
  { name: 'ended just before the finish reason', act: ending('end', closing) },
  { name: 'closed just before the finish reason', act: ending('close', closing) },
  { name: 'ended in the middle of an event', act: half },
  {
    name: 'an invalid chunk',
    act: (_, pieces) => {
      const text = pieces.slice(0, first(pieces)).join('')
      return {
        do: 'stream',
        headers: { 'transfer-encoding': 'chunked' },
        // By then the preceding bytes have been passed on.
        pieces: [`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`, 'zz\r\n'],
        gap: 1_000,
        untilClose: true,
      }
    },
  },
  {
    name: 'an error event',
    act: (request, pieces) => ({
      do: 'stream',
      pieces: [...pieces.slice(0, first(pieces)), errorEvent(request)],
      gap: 3,
    }),
  },
  {
    name: 'a malformed event in a tool call',
    tools: true,
    act: (_, pieces) => ({
      do: 'stream',
      pieces: pieces.toSpliced(first(pieces), 0, 'data: {nonsense\n\n'),
      gap: 3,
    }),
  },
  {
    name: 'silence',
    act: ending('stall', first),
  },
]

describe('streams: cut', { concurrency: 12 }, () => {
  const on = stage()
  let gateway: Started
  let upstream: Upstream
  const cases = CUTS.flatMap((cut) =>
    STYLES.flatMap((style) =>
      (['chat', 'responses', 'messages'] as const).flatMap((through) =>
        (cut.tools ? [true] : [false, true]).map((tools) => ({ cut, style, through, tools })),
      ),
    ),
  ).map((one, at) => ({ ...one, id: `c${at}` }))

  before(async () => {
    upstream = await on.upstream((request) => {
      const found = cases.find(({ id }) => id === request.path.split('/')[1])
      if (!found) return answerWith(request, { text: 'never called' })
      return found.cut.act(request, piecesOf(request, found.tools ? { tools: [TOOL] } : { text: TEXT }))
    })
    gateway = await on.gateway({
      fallback: 'same-model',
      timeout: { idle: 1_500 },
      keepAlive: { interval: 0 },
      providers: {
        ...Object.fromEntries(
          cases.map(({ id, through }) => [id, { baseUrl: `${upstream.url}/${id}/v1`, styles: [through] }]),
        ),
        spare: { baseUrl: `${upstream.url}/spare/v1` },
      },
      routes: Object.fromEntries(cases.map(({ id }) => [`r${id}`, { targets: [`${id}/m`, 'spare/m'] }])),
    })
  })

  for (const { cut, style, through, tools, id } of cases)
    test(`${cut.name}: ${style} from ${through}${tools ? ', a tool call' : ''}`, async () => {
      const answer = await sendChat(gateway, {
        style,
        model: `r${id}`,
        stream: true,
        more: tools ? toolsFor(style) : {},
      })
      assert.equal(answer.status, 200, answer.text)
      assert.ok(!isComplete(style, answer.text), answer.text)
      assert.doesNotMatch(answer.text, /never called|"finish_reason":"|response\.completed/)
      const events = eventsIn(answer.text)
      if (style === 'chat') {
        const { error } = events.at(-1)
        assert.equal(error?.code, 'stream_interrupted', answer.text)
        assert.equal(error?.request_id, answer.headers.get('x-request-id'))
        assert.doesNotMatch(answer.text, /\[DONE\]/)
      } else {
        const failed = events.at(-1)
        const error = events.find(({ type }) => type === 'error')
        assert.equal(error?.error?.code, 'stream_interrupted', answer.text)
        assert.deepEqual([failed?.type, failed?.response?.status], ['response.failed', 'failed'])
        assert.equal(failed?.response?.id, events[0]?.response?.id, 'the same response')
        assert.ok(answer.text.endsWith('data: [DONE]\n\n'))
        assert.deepEqual(
          events.map(({ sequence_number }) => sequence_number),
          events.map((_, at) => at),
        )
      }
      assert.equal(answer.headers.get('x-headgate-attempts'), '1', 'no failover after content')
      const { circuit } = await statusOf(gateway, id)
      assert.deepEqual([circuit.failures, circuit.successes], [1, 0])
    })

  for (const { style, through, id } of cases.filter(({ cut, tools }) => cut.name.startsWith('ended after') && !tools))
    test(`the same fault fails over in a whole answer: ${style} from ${through}`, async () => {
      upstream.play((request) =>
        request.path.includes('spare')
          ? answerWith(request, { text: TEXT })
          : { do: 'stream', pieces: piecesOf({ ...request, stream: true }, { text: TEXT }).slice(0, 4) },
      )
      const answer = await sendChat(gateway, { style, model: `r${id}`, stream: false })
      assert.equal(answer.headers.get('x-headgate-provider'), 'spare')
      assert.equal(textIn(style, false, answer.text), TEXT)
    })
})

const toolsFor = (style: Style): object => {
  const schema = { name: 'weather', description: 'says the weather', parameters: { type: 'object', properties: {} } }
  return { tools: [style === 'chat' ? { type: 'function', function: schema } : { type: 'function', ...schema }] }
}

// ── Irregular but complete streams ───────────────────────────────────────────────────────────────────────────────

type Odd = {
  readonly name: string
  readonly style?: Style
  readonly through?: 'chat'
  readonly stream?: boolean
  readonly more?: object
  readonly act: (request: UpstreamRequest) => Act
  readonly look?: (text: string) => void
  /** Tokens are estimated, because the reported usage is impossible. */
  readonly estimated?: true
}

/** Replaces each number of the usage, or removes the usage. */
const usageOf = (pieces: readonly string[], number: string | null): string[] =>
  pieces.map((piece) =>
    number === null
      ? piece.replace(/"usage":\{(?:[^{}]|\{[^{}]*\})*\}/, '"usage":null')
      : piece.replaceAll(
          /("(?:prompt_tokens|completion_tokens|total_tokens|input_tokens|output_tokens)":)\d+/g,
          `$1${number}`,
        ),
  )

const without = (pieces: readonly string[], what: string) => pieces.filter((piece) => !piece.includes(what))

const ODD: readonly Odd[] = [
  {
    name: 'no [DONE] after a finish reason: one is added',
    act: (request) => ({ do: 'stream', pieces: without(piecesOf(request, { text: TEXT }), '[DONE]') }),
  },
  {
    name: 'no [DONE], and then a reset: it is complete',
    act: (request) => ({
      do: 'stream',
      pieces: without(piecesOf(request, { text: TEXT }), '[DONE]'),
      gap: 5,
      ending: 'reset',
    }),
  },
  {
    name: 'bytes after the end are not passed on',
    act: (request) => ({
      do: 'stream',
      pieces: [
        ...piecesOf(request, { text: TEXT }),
        ...(formatOf(request) === 'responses' ? ['data: [DONE]\n\n'] : []),
        ...piecesOf(request, { text: 'once more' }),
        'data: [DONE]\n\n',
      ],
    }),
    look: (text) => {
      assert.doesNotMatch(text, /once more|once |more"/)
      assert.equal(text.match(/\[DONE\]/g)?.length, 1)
    },
  },
  {
    name: 'event ids are not passed on',
    act: (request) => ({
      do: 'stream',
      pieces: piecesOf(request, { text: TEXT }).map((piece, at) => `id: ${at}\n${piece}`),
    }),
    look: (text) => assert.doesNotMatch(text, /^id/m),
  },
  {
    name: 'a JSON body instead of a stream',
    act: (request) => ({ do: 'answer', body: answerBody(request, { text: TEXT }) }),
  },
  {
    name: 'a stream instead of a JSON body',
    stream: false,
    act: (request) => ({ do: 'stream', pieces: piecesOf({ ...request, stream: true }, { text: TEXT }) }),
  },
  {
    name: 'no usage at all',
    act: (request) => ({ do: 'stream', pieces: usageOf(piecesOf(request, { text: TEXT }), null) }),
    estimated: true,
  },
  ...(['-5', '1e400', '"many"', '1e300'] as const).map(
    (number): Odd => ({
      name: `a usage of ${number}`,
      act: (request) => ({ do: 'stream', pieces: usageOf(piecesOf(request, { text: TEXT }), number) }),
      estimated: true,
    }),
  ),
  {
    name: 'a malformed event in plain text: it is skipped',
    through: 'chat',
    act: (request) => {
      const pieces = piecesOf(request, { text: TEXT })
      return { do: 'stream', pieces: pieces.toSpliced(first(pieces), 0, 'data: {nonsense\n\n') }
    },
    look: (text) => assert.doesNotMatch(text, /nonsense/),
  },
  {
    name: '[DONE] without a finish reason: passed unchanged',
    style: 'chat',
    through: 'chat',
    act: (request) => ({ do: 'stream', pieces: without(piecesOf(request, { text: TEXT }), '"finish_reason":"') }),
  },
  {
    name: 'usage, not requested',
    style: 'chat',
    act: (request) => answerWith(request, { text: TEXT }),
    look: (text) =>
      assert.equal(eventsIn(text).filter(({ usage, choices }) => usage && choices?.length === 0).length, 0, text),
  },
  {
    name: 'usage, requested',
    style: 'chat',
    more: { stream_options: { include_usage: true } },
    act: (request) => answerWith(request, { text: TEXT }),
    look: (text) => {
      const { usage, choices } = eventsIn(text).at(-1)
      assert.deepEqual([usage?.prompt_tokens, usage?.completion_tokens, choices], [9, 5, []])
    },
  },
]

describe('streams: odd', { concurrency: 8 }, () => {
  const on = stage()
  let gateway: Started
  const cases = ODD.flatMap((odd, at) =>
    STYLES.flatMap((style) =>
      (['chat', 'responses'] as const).flatMap((through) =>
        (odd.style && odd.style !== style) || (odd.through && odd.through !== through)
          ? []
          : [{ odd, style, through, id: `o${at}${style}${through}` }],
      ),
    ),
  )
  before(async () => {
    const upstream = await on.upstream(
      (request) => cases.find(({ id }) => id === request.path.split('/')[1])?.odd.act(request) ?? { do: 'hang' },
    )
    gateway = await on.gateway({
      fallback: 'none',
      providers: Object.fromEntries(
        cases.map(({ id, through }) => [id, { baseUrl: `${upstream.url}/${id}/v1`, styles: [through] }]),
      ),
    })
  })
  for (const { odd, style, through, id } of cases)
    test(`${odd.name}: ${style} from ${through}`, async () => {
      const stream = odd.stream ?? true
      const answer = await sendChat(gateway, { style, model: `${id}/m`, stream, more: odd.more })
      assert.equal(answer.status, 200, answer.text)
      assert.equal(textIn(style, stream, answer.text), TEXT)
      if (stream) assert.ok(isComplete(style, answer.text), answer.text)
      else assert.equal(answer.headers.get('content-type'), 'application/json')
      odd.look?.(answer.text)
      const { circuit } = await statusOf(gateway, id)
      assert.equal(circuit.failures, 0)
      // For a whole answer the gateway requests no stream usage in this format.
      if (!stream && through === 'chat') return
      const line = await gateway.line(({ event, provider }) => event === 'request' && provider === id)
      assert.equal(line.estimated, odd.estimated)
      if (odd.estimated)
        assert.ok(Number(line.output_tokens) > 0 && Number(line.output_tokens) < 50, String(line.output_tokens))
      else
        assert.deepEqual(
          [line.output_tokens, line.input_tokens],
          [5, 9],
          'usage is recorded even if the client did not request it',
        )
    })
})

// ── Endings that come from the model ─────────────────────────────────────────────────────────────────────────────

describe('streams: endings that come from the model', () => {
  const on = stage()
  let gateway: Started
  const HALF = { ...TOOL, arguments: '{"city":"Be' }
  before(async () => {
    const upstream = await on.upstream((request) => {
      if (request.path.startsWith('/spare')) return answerWith(request, { text: 'never called' })
      if (request.path.startsWith('/half')) return answerWith(request, { tools: [HALF] })
      const filtered = piecesOf(request, { text: TEXT }).map((piece) =>
        piece
          .replace('"finish_reason":"stop"', '"finish_reason":"content_filter"')
          .replace('event: response.completed', 'event: response.incomplete')
          .replace('"type":"response.completed"', '"type":"response.incomplete"')
          .replace('"status":"completed"', '"status":"incomplete"')
          .replace('"incomplete_details":null', '"incomplete_details":{"reason":"content_filter"}'),
      )
      return { do: 'stream', pieces: filtered }
    })
    gateway = await on.gateway({
      providers: Object.fromEntries(
        ['filter-chat', 'filter-responses', 'half-chat', 'half-responses', 'spare'].map((id) => [
          id,
          { baseUrl: `${upstream.url}/${id}/v1`, ...(id !== 'spare' && { styles: [id.split('-')[1] ?? ''] }) },
        ]),
      ),
      routes: Object.fromEntries(
        ['filter-chat', 'filter-responses', 'half-chat', 'half-responses'].map((id) => [
          `r-${id}`,
          { targets: [`${id}/m`, 'spare/m'] },
        ]),
      ),
    })
  })
  for (const style of STYLES)
    for (const through of STYLES) {
      test(`a content filter in the middle is final: ${style} from ${through}`, async () => {
        const answer = await sendChat(gateway, { style, model: `r-filter-${through}`, stream: true })
        assert.equal(answer.status, 200, answer.text)
        assert.equal(textIn(style, true, answer.text), TEXT)
        assert.match(answer.text, style === 'chat' ? /"finish_reason":"content_filter"/ : /"reason":"content_filter"/)
        assert.equal(answer.headers.get('x-headgate-attempts'), '1')
        assert.equal((await statusOf(gateway, `filter-${through}`)).circuit.failures, 0)
      })
      test(`arguments that are not JSON are passed to the client unchanged: ${style} from ${through}`, async () => {
        const answer = await sendChat(gateway, {
          style,
          model: `r-half-${through}`,
          stream: true,
          more: toolsFor(style),
        })
        assert.equal(answer.status, 200, answer.text)
        const receivedArguments = eventsIn(answer.text)
          .map((event) =>
            style === 'chat'
              ? (event.choices?.[0]?.delta?.tool_calls?.[0]?.function?.arguments ?? '')
              : event.type === 'response.function_call_arguments.delta'
                ? event.delta
                : '',
          )
          .join('')
        assert.equal(receivedArguments, HALF.arguments)
        assert.ok(isComplete(style, answer.text), answer.text)
        assert.equal((await statusOf(gateway, `half-${through}`)).circuit.failures, 0)
      })
    }
})

// ── Disconnects and slow clients ─────────────────────────────────────────────────────────────────────────────────

describe('streams: clients', () => {
  const on = stage()
  let gateway: Started
  let upstream: Upstream
  let sent = 0
  const PIECE = 8_192

  before(async () => {
    function* much(request: UpstreamRequest) {
      const pieces = piecesOf(request, { text: TEXT })
      const at = first(pieces)
      yield pieces.slice(0, at).join('')
      const more = (pieces[at] ?? '').replace('wo th', 'x'.repeat(PIECE))
      for (;;) {
        sent += more.length
        yield more
      }
    }
    upstream = await on.upstream((request) =>
      request.path.startsWith('/much')
        ? { do: 'stream', pieces: much(request) }
        : { do: 'stream', pieces: piecesOf(request, { text: TEXT }).slice(0, 5), ending: 'stall' },
    )
    gateway = await on.gateway({
      keepAlive: { interval: 0 },
      providers: Object.fromEntries(['stall', 'much'].map((name) => [name, { baseUrl: `${upstream.url}/${name}/v1` }])),
    })
  })

  const client = (style: Style, model: string, allowHalfOpen = false) =>
    rawClient(gateway.url, rawRequest(PATHS[style], JSON.stringify(bodyFor(style, model, true))), allowHalfOpen)

  test('a disconnect aborts the upstream call', async (t) => {
    const waits: number[] = []
    for (let at = 0; at < 50; at++) {
      const style = STYLES[at % 2] ?? 'chat'
      const one = await client(style, 'stall/m')
      await until('content', () => one.text().includes('one'))
      const call = callsOf(upstream).at(-1)
      const left = performance.now()
      one.socket.destroy()
      await until('released', () => call?.ended === 'aborted')
      waits.push((call?.endedAt ?? Number.POSITIVE_INFINITY) - left)
    }
    waits.sort((a, b) => a - b)
    const [p50 = 0, p99 = 0] = [waits[25], waits[49]]
    t.diagnostic(`upstream released after a disconnect: p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`)
    assert.ok(p50 < 100, `p50 ${p50} ms`)
    assert.ok(p99 < 500, `p99 ${p99} ms`)
    const { circuit, keys } = await statusOf(gateway, 'stall')
    assert.deepEqual([circuit.failures, keys[0]?.in_flight], [0, 0])
    assert.equal(
      (await gateway.logged()).filter(({ event, outcome }) => event === 'request' && outcome === 'client_gone').length,
      50,
    )
  })

  for (const style of STYLES)
    test(`${style}: a client that half-closes counts as disconnected, because a crashed one looks the same`, async () => {
      const one = await client(style, 'stall/m', true)
      await until('content', () => one.text().includes('one'))
      const call = callsOf(upstream).at(-1)
      const left = performance.now()
      one.socket.end()
      await until('released', () => call?.ended === 'aborted')
      assert.ok((call?.endedAt ?? Number.POSITIVE_INFINITY) - left < 500)
      one.socket.destroy()
    })

  for (const style of STYLES)
    test(`${style}: clients that do not read hold their upstreams back, and memory stays bounded`, async () => {
      const memory = () =>
        Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${gateway.child.pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
      const before = memory()
      sent = 0
      const clients = await Promise.all(Array.from({ length: 10 }, () => client(style, 'much/m')))
      await until('all have started', () => clients.every((one) => one.text().includes('one')))
      for (const { socket } of clients) socket.pause()
      let last = { sent: -1, at: 0 }
      // Until every buffer on the path is full, no further byte is read. A busy machine may pause before that.
      await until(
        'standing still',
        () => {
          const now = performance.now()
          if (sent !== last.sent) last = { sent, at: now }
          return sent > 0 && now - last.at > 2_000
        },
        40_000,
      )
      const each = sent / clients.length
      assert.ok(each < 24 * 1024 * 1024, `${Math.round(each / 1024)} KiB for each`)
      const before2 = sent
      await new Promise((resolve) => setTimeout(resolve, 300))
      assert.ok(sent - before2 < 64 * PIECE, 'the upstream stays blocked')
      const grown = memory() - before
      // Includes early garbage; without a bound the growth would not end.
      assert.ok(grown < 400, `${Math.round(grown)} MiB more for ten clients that do not read`)
      clients[0]?.socket.resume()
      const had = clients[0]?.text().length ?? 0
      await until(
        'the stream continues',
        () => (clients[0]?.text().length ?? 0) > had + 20 * 1024 * 1024 || sent > before2 + 20 * PIECE,
        5_000,
      )
      for (const { socket } of clients) socket.destroy()
      await until('released', () => callsOf(upstream).every(({ ended }) => ended === 'aborted'), 5_000)
    })
})
