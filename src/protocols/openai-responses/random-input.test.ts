/** Requests, answers and streams of random content: decoding them never throws and always ends. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { bodiesOf, END_MARK, responsesContext, stepsOf } from '../../../test/support/responses-stream.ts'
import { type ChatEvent, fold } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { openaiResponses as codec } from './index.ts'

const words = [
  'response.output_item.added',
  'response.output_item.done',
  'response.content_part.added',
  'response.content_part.done',
  'response.output_text.delta',
  'response.output_text.done',
  'response.function_call_arguments.delta',
  'response.function_call_arguments.done',
  'response.reasoning_summary_text.delta',
  'response.reasoning_text.delta',
  'response.refusal.delta',
  'response.completed',
  'response.created',
  'error',
  'message',
  'function_call',
  'reasoning',
  'output_text',
  'refusal',
  'reasoning_text',
  'completed',
  'incomplete',
  'user',
  'assistant',
  'function',
  'json_schema',
]
const names = [
  'type',
  'item',
  'part',
  'output_index',
  'content_index',
  'summary_index',
  'delta',
  'text',
  'arguments',
  'name',
  'call_id',
  'id',
  'content',
  'summary',
  'encrypted_content',
  'response',
  'output',
  'status',
  'usage',
  'error',
  'annotations',
  'logprobs',
  'role',
  'input',
  'tools',
  'tool_choice',
  'reasoning',
  'include',
  'model',
  '__proto__',
]
/** JSON built from the format's own terms, so that it reaches deeper than random text. */
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    fc.constantFrom(...words),
    fc.constantFrom(0, 1, 2, -1, 0.5),
    fc.jsonValue({ maxDepth: 1 }),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...names), tie('value'), { maxKeys: 6, noNullPrototype: true }),
  ),
})).value as fc.Arbitrary<Json>
const anObject = fc.dictionary(fc.constantFrom(...names), json, { noNullPrototype: true }) as fc.Arbitrary<JsonObject>

/** Checks that blocks open and close in order and that nothing follows the end. */
const lawful = (events: readonly ChatEvent[]) => {
  let open = false
  let over = false
  for (const { type } of events) {
    assert.ok(!over, `${type} after the end`)
    if (type === 'open') assert.ok(!open, 'opened twice')
    if (type === 'close' || type === 'delta' || type === 'citation' || type === 'signature')
      assert.ok(open, `${type} of nothing`)
    if (type === 'open') open = true
    if (type === 'close') open = false
    if (type === 'finish') assert.ok(!open, 'finished with an open block')
    if (type === 'finish' || type === 'failure') over = true
  }
  assert.ok(over)
}

test('responses: any request is decoded or rejected, and a decoded one can be encoded', () =>
  fc.assert(
    fc.property(anObject, (body) => {
      const decoded = codec.decodeRequest({ model: 'm', input: 'x', ...body })
      if (decoded.ok) codec.encodeRequest(decoded.value, { model: 'm' })
      codec.passing.adaptRequest(body, { model: 'm' })
    }),
  ))

test('responses: any answer is decoded and can be encoded', () =>
  fc.assert(
    fc.property(fc.oneof(json, anObject), anObject, (body, asked) => {
      const events = codec.decodeAnswer(body)
      lawful(events)
      codec.encodeAnswer(fold(events), responsesContext(asked))
    }),
  ))

test('responses: any stream is decoded, encoded and passed', () =>
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          anObject.map((event) => JSON.stringify(event)),
          fc.string(),
        ),
        { maxLength: 12 },
      ),
      (datas) => {
        const wire = datas.map((data) => `data: ${data.replaceAll(/[\r\n]/g, '')}\n\n`).join('')
        const steps = stepsOf(wire)
        lawful(steps.flatMap(({ events }) => events))
        const written = run(codec.encodeStream(responsesContext()), steps).join('')
        assert.equal(written.split(END_MARK).length, 2)
        for (const [index, { sequence_number }] of bodiesOf(written).entries()) assert.equal(sequence_number, index)
        assert.ok(run(codec.passing.passStream(responsesContext()), steps).join('').endsWith(END_MARK))
      },
    ),
    { numRuns: 300 },
  ))
