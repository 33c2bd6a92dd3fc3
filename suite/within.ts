/** Family B: what breaks in the stream. Family C: what is hard to read, and right. */
import type { Expected } from './judge.ts'
import {
  advisory,
  atMost,
  callPieces,
  cutAfter,
  inPieces,
  mapEvents,
  type Run,
  type Scenario,
  slowest,
  textOf,
} from './scenario.ts'
import { piecesOf, USAGE, wordsOf } from './wall.ts'
import { isFinish, type Style } from './wire.ts'

const FAILOVERBENCH = 'https://github.com/failoverbench/failoverbench/blob/main/scenarios/catalogue.yaml'
const SSE = 'https://html.spec.whatwg.org/multipage/server-sent-events.html'

const nonceCalls = (nonce: string, count: number): Expected => ({
  text: '',
  calls: Array.from({ length: count }, (_, at) => ({ name: 'store', arguments: callPieces(nonce, at + 1).join('') })),
})
const withCalls =
  (count: number, interleaved = false): Scenario['script'] =>
  ({ nonce }) => ({
    answer: (answer) => ({
      ...answer,
      pieces: [],
      calls: Array.from({ length: count }, (_, at) => ({
        id: `call_${answer.id}_${at}`,
        name: 'store',
        pieces: callPieces(nonce, at + 1),
      })),
      ...(interleaved && { interleaved: true as const }),
    }),
  })

const usageCheck = ({ judged }: Run) => {
  const usage = judged[0]?.seen.usage
  return { name: 'usage is there', ok: usage !== null && usage !== undefined && usage.output > 0 }
}
const exactUsage = ({ judged, attempts }: Run) => {
  const usage = judged[0]?.seen.usage
  const expected = USAGE[attempts('backup').length > 0 ? 'backup' : 'primary']
  return {
    name: 'usage is exact',
    ok: usage?.input === expected.input && usage.output === expected.output,
    found: JSON.stringify(usage ?? null),
  }
}
const fromPrimary = ({ attempts }: Run) => advisory(atMost('attempts', attempts().length, 1))

/** The events until and with the finish. */
const untilFinish = (style: Style, isBefore: boolean) => (texts: readonly string[]) => {
  const at = texts.findIndex((text) => isFinish(style, text))
  return isBefore ? at : at + 1
}

/** Words with characters of two to four bytes. */
const wide = (nonce: string) => wordsOf(nonce).map((word) => `${word}é漢😀`)

export const WITHIN: readonly Scenario[] = [
  {
    id: 'b01',
    title: 'closed after 40 words',
    source: 'https://github.com/BerriAI/litellm/issues/27967',
    ideal: 'answer',
    script: () => ({ fault: 'cut@40' }),
  },
  {
    id: 'b02',
    title: 'reset after 40 words',
    source: 'https://www.rfc-editor.org/rfc/rfc9112#section-8',
    ideal: 'answer',
    script: () => ({ response: cutAfter(40, 'reset') }),
  },
  {
    id: 'b03',
    title: 'clean end in mid-answer',
    source: 'https://github.com/open-webui/computer/issues/300',
    ideal: 'answer',
    script: () => ({ response: cutAfter(40, 'complete') }),
  },
  {
    id: 'b04',
    title: 'stall after 20 words',
    source: `${FAILOVERBENCH} (S09)`,
    ideal: 'answer',
    script: () => ({ response: cutAfter(22, 'open') }),
    checks: (run) => [
      atMost('ms', slowest(run), Math.max(15_000, 100_000 * run.scale)),
      advisory(atMost('ms', slowest(run), Math.max(10_000, 45_000 * run.scale))),
    ],
  },
  {
    id: 'b05',
    title: 'error event after 30 words',
    source: 'https://platform.claude.com/docs/en/build-with-claude/streaming#error-events',
    ideal: 'answer',
    script: () => ({ fault: 'error@30' }),
  },
  {
    id: 'b06',
    title: 'malformed event',
    source: `${FAILOVERBENCH} (S10)`,
    ideal: 'answer',
    script: () => ({ fault: 'malformed@10' }),
  },
  {
    id: 'b07',
    title: 'no last marker',
    source: `${FAILOVERBENCH} (S11)`,
    ideal: 'answer',
    script: () => ({ fault: 'no-done' }),
    checks: (run) => [atMost('ms', slowest(run), 8_000), advisory(usageCheck(run))],
  },
  {
    id: 'b08',
    title: 'bytes after the end',
    source: SSE,
    ideal: 'answer',
    script: () => ({
      response: (response) => ({
        ...response,
        pieces: [...response.pieces, ...response.pieces.slice(5, 7).map((piece) => ({ ...piece, after: 0 }))],
      }),
    }),
  },
  {
    id: 'b09',
    title: 'cut in the arguments of a tool call',
    source: 'https://github.com/NousResearch/hermes-agent/pull/6847',
    ideal: 'answer',
    tools: true,
    script: (attempt, since) => ({ ...withCalls(1)(attempt, since), fault: 'cut-in-tool' }),
    expected: (nonce) => nonceCalls(nonce, 1),
    fallback: 'tool',
  },
  {
    id: 'b10',
    title: 'cut before the usage',
    source: 'https://platform.openai.com/docs/api-reference/chat/create#chat-create-stream_options',
    ideal: 'either',
    script: ({ style }) => ({
      response: (response) =>
        cutAfter(
          untilFinish(style, style !== 'chat')(response.pieces.map(({ data }) => String(data))),
          'closed',
        )(response),
    }),
  },
  {
    id: 'b11',
    title: 'cut in a character of UTF-8',
    source: 'https://www.rfc-editor.org/rfc/rfc3629#section-3',
    ideal: 'answer',
    fallback: 'wide',
    script: ({ nonce }) => ({
      answer: (answer) => ({ ...answer, pieces: piecesOf(wide(nonce)) }),
      response: (response) => {
        const bytes = new TextEncoder().encode(textOf(cutAfter(40, 'closed')(response)))
        // Two bytes of the last character of four.
        const at = bytes.lastIndexOf(0xf0) + 2
        return { ...response, pieces: [{ after: 0, data: bytes.slice(0, at) }], end: 'closed' }
      },
    }),
    expected: (nonce) => ({ text: wide(nonce).join(' '), calls: [] }),
  },
  {
    id: 'b12',
    title: 'cut, and the fallback refuses prefill',
    source: `${FAILOVERBENCH} (S14)`,
    ideal: 'answer',
    fallback: 'noprefill',
    script: () => ({ fault: 'cut@40' }),
    checks: ({ judged }) => [
      { name: 'the refusal of prefill is not the error', ok: judged.every(({ seen }) => !/prefill/i.test(seen.error)) },
    ],
  },
]

const BIG = 'x'.repeat(1_000_000)
/** A word that carries a megabyte, after the third. */
const bigWords = (nonce: string) => wordsOf(nonce).map((word, index) => (index === 3 ? word + BIG : word))
export const hugeWords = (nonce: string, scale: number) => {
  const filler = 'y'.repeat(Math.round(850_000 * scale))
  return wordsOf(nonce).map((word) => word + filler)
}

/** Signs of life of a vendor that thinks for a minute. */
const SIGN: { readonly [style in Style]: string } = {
  chat: ': keep-alive\n\n',
  messages: 'event: ping\ndata: {"type":"ping"}\n\n',
  responses: ': keep-alive\n\n',
}

export const hard = (scale: number): readonly Scenario[] => [
  {
    id: 'c01',
    title: 'a byte a packet',
    source: 'https://www.rfc-editor.org/rfc/rfc9112#section-7.1',
    ideal: 'answer',
    script: () => ({ response: (response) => inPieces(response, 1) }),
    checks: (run) => [fromPrimary(run)],
  },
  {
    id: 'c02',
    title: 'CRLF and comments',
    source: SSE,
    ideal: 'answer',
    script: () => ({ response: mapEvents((text) => `: comment\r\n${text.replaceAll('\n', '\r\n')}`) }),
    checks: (run) => [fromPrimary(run)],
  },
  {
    id: 'c03',
    title: 'an event over several data lines',
    source: SSE,
    ideal: 'answer',
    script: () => ({ response: mapEvents((text) => text.replace(/^data: (\{.*?),(?=")/m, 'data: $1,\ndata: ')) }),
    checks: (run) => [fromPrimary(run)],
  },
  {
    id: 'c04',
    title: 'an event of a megabyte',
    source: SSE,
    ideal: 'answer',
    script: ({ nonce }) => ({ answer: (answer) => ({ ...answer, pieces: piecesOf(bigWords(nonce)) }) }),
    expected: (nonce) => ({ text: bigWords(nonce).join(' '), calls: [] }),
    checks: (run) => [fromPrimary(run)],
  },
  {
    id: 'c05',
    title: 'parallel tool calls in turn',
    source: 'https://platform.openai.com/docs/guides/function-calling#streaming',
    ideal: 'answer',
    tools: true,
    script: withCalls(2, true),
    expected: (nonce) => nonceCalls(nonce, 2),
    checks: (run) => [fromPrimary(run)],
  },
  {
    id: 'c06',
    title: 'empty deltas',
    source: 'https://platform.openai.com/docs/api-reference/chat-streaming',
    ideal: 'answer',
    script: () => ({ answer: (answer) => ({ ...answer, pieces: answer.pieces.flatMap((piece) => ['', piece]) }) }),
    checks: (run) => [fromPrimary(run)],
  },
  {
    id: 'c07',
    title: 'usage in an event without choices',
    source: 'https://platform.openai.com/docs/api-reference/chat/create#chat-create-stream_options',
    ideal: 'answer',
    script: () => ({}),
    checks: (run) => [fromPrimary(run), exactUsage(run)],
  },
  {
    id: 'c08',
    title: 'signs of life for 60 s before the content',
    source: 'https://platform.claude.com/docs/en/build-with-claude/streaming#ping-events',
    ideal: 'answer',
    script: ({ style }) => ({
      response: (response) => {
        const before = style === 'messages' ? 1 : 0
        const signs = Array.from({ length: 20 }, () => ({ after: 3_000 * scale, data: SIGN[style] }))
        return {
          ...response,
          pieces: [...response.pieces.slice(0, before), ...signs, ...response.pieces.slice(before)],
        }
      },
    }),
    checks: (run) => [fromPrimary(run)],
  },
  {
    id: 'c09',
    title: '50 MB to a slow reader',
    source: 'https://nodejs.org/en/learn/modules/backpressuring-in-streams',
    ideal: 'answer',
    script: ({ nonce }) => ({
      pace: 0,
      answer: (answer) => ({ ...answer, pieces: piecesOf(hugeWords(nonce, scale)) }),
    }),
    expected: (nonce) => ({ text: hugeWords(nonce, scale).join(' '), calls: [] }),
    drive: async (run) => {
      await run.ask({ slow: 30 }, (nonce) => ({ text: hugeWords(nonce, scale).join(' '), calls: [] }))
    },
    checks: (run) => [fromPrimary(run)],
  },
  {
    id: 'c10',
    title: 'gzip',
    source: 'https://www.rfc-editor.org/rfc/rfc9110#section-8.4.1.3',
    ideal: 'answer',
    script: () => ({ gzip: true }),
    checks: (run) => [fromPrimary(run)],
  },
]

/** Scripts of fallbacks, by name. */
export const fallbackTool: Scenario['script'] = withCalls(1)
export const fallbackWide: Scenario['script'] = ({ nonce }) => ({
  answer: (answer) => ({ ...answer, pieces: piecesOf(wide(nonce)) }),
})
