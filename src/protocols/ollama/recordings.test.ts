/** What Ollama really said, through the codec, and on to clients of every style. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { tellClients } from '../../../test/conformance/told.ts'
import { recordingsAreHere, recordingsOf, skip } from '../../../test/support/recordings.ts'
import { problemsOf } from '../../../test/support/schemas.ts'
import { type ChatEvent, fold } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { ndjson } from '../ndjson.ts'
import { ollama } from './index.ts'

const recordings = recordingsOf('ollama')

/** Recordings that are no answers of `/api/chat`, and why. */
const EXCLUDED: readonly (readonly [string, string])[] = [
  [
    'ollama-ollama-structured-with-multiple-tools-structured-mode-1',
    'an answer of the compatible endpoint, filed here by its source',
  ],
]

// ── A second opinion: what an answer says, read from the lines without the codec ─────────────────────────────────

type Said = {
  readonly text: string
  readonly thoughts: string
  readonly calls: readonly { readonly name: Json; readonly input: Json }[]
  readonly reason: string
  readonly input: number
  readonly output: number
  readonly model: Json
}

const saidIn = (lines: readonly JsonObject[]): Said => {
  const messages = lines.map((line) => object(line.message) ?? {})
  const last = lines.findLast(({ done }) => done === true) ?? {}
  return {
    text: messages.map(({ content }) => text(content) ?? '').join(''),
    thoughts: messages.map(({ thinking }) => text(thinking) ?? '').join(''),
    calls: messages.flatMap(({ tool_calls }) =>
      list(tool_calls).map((call) => {
        const { name = null, arguments: input = null } = object(object(call)?.function) ?? {}
        return { name, input }
      }),
    ),
    reason: text(last.done_reason) ?? '',
    input: Number(last.prompt_eval_count ?? 0),
    output: Number(last.eval_count ?? 0),
    model: lines[0]?.model ?? null,
  }
}

const check = (events: readonly ChatEvent[], said: Said): void => {
  const answer = fold(events)
  assert.equal(answer.failure, undefined)
  const words = (type: string) => answer.blocks.flatMap((block) => (block.type === type ? [block.text] : [])).join('')
  assert.equal(words('text'), said.text)
  assert.equal(words('reasoning'), said.thoughts)
  const calls = answer.blocks.flatMap((block) =>
    block.type === 'tool-call' ? [{ id: block.id, name: block.name, input: JSON.parse(block.text) as Json }] : [],
  )
  assert.deepEqual(
    calls.map(({ name, input }) => ({ name, input })),
    said.calls,
  )
  assert.equal(new Set(calls.map(({ id }) => id)).size, calls.length)
  assert.equal(answer.model, said.model)
  assert.deepEqual([answer.usage?.input, answer.usage?.output], [said.input, said.output])
  assert.equal(answer.finish?.raw, said.reason)
  assert.equal(answer.finish?.kind, said.reason === 'length' ? 'length' : calls.length > 0 ? 'tool-calls' : 'stop')
  tellClients(events, {
    text: said.text,
    reasoning: said.thoughts.replaceAll(/\s*\n\s*/g, ''),
    calls,
    reason: said.reason,
    usage: { input: said.input, output: said.output, cacheRead: 0, cacheWrite: 0, reasoning: 0 },
  })
}

// ── The sweep ────────────────────────────────────────────────────────────────────────────────────────────────────

recordingsAreHere()

const streamOf = (wire: Uint8Array, size = wire.length): ChatEvent[] => {
  const pieces = Array.from({ length: Math.ceil(wire.length / size) }, (_, at) =>
    wire.subarray(at * size, (at + 1) * size),
  )
  return run(ollama.decodeStream(), run(ndjson.frames(1_000_000), pieces))
}

describe('recorded answers of Ollama', { skip }, () => {
  let seen = 0
  for (const { id, response, chunks } of recordings) {
    if (chunks || EXCLUDED.some(([part]) => id.startsWith(part))) continue
    seen++
    test(id, () => {
      assert.ok(isObject(response))
      check(ollama.decodeAnswer(response), saidIn([response]))
    })
  }
  test('there are some', () => assert.ok(seen >= 5, String(seen)))
})

describe('recorded streams of Ollama', { skip }, () => {
  let seen = 0
  for (const { id, framing, chunks } of recordings) {
    if (!chunks) continue
    seen++
    test(id, () => {
      assert.equal(framing, 'ndjson')
      const wire = new TextEncoder().encode(chunks.map((chunk) => `${chunk}\n`).join(''))
      const events = streamOf(wire)
      check(events, saidIn(chunks.map((chunk) => JSON.parse(chunk))))
      for (const size of [1, 7]) assert.deepEqual(streamOf(wire, size), events)
      // Cut before its last line it is never taken for complete.
      const cut = fold(streamOf(new TextEncoder().encode(chunks.slice(0, -1).join('\n'))))
      assert.equal(cut.failure?.kind, 'truncated')
      assert.equal(cut.finish, undefined)
    })
  }
  test('there are enough of them', () => assert.ok(seen > 10, String(seen)))
})

/** Its client libraries say nothing with these. */
const SAYS_NOTHING: ReadonlySet<string> = new Set(['""', 'null', '{}', '[]'])

test('the schema of a request knows what was really asked', { skip }, () => {
  let seen = 0
  for (const { id, request } of recordings) {
    if (!isObject(request)) continue
    const said = Object.entries(request).filter(([, value]) => !SAYS_NOTHING.has(JSON.stringify(value)))
    // A stream is what is given unless told otherwise; the gateway always says which.
    assert.equal(problemsOf('ollama', 'ChatRequest', { stream: true, ...Object.fromEntries(said) }), undefined, id)
    seen++
  }
  assert.ok(seen >= 9, String(seen))
})
