import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Block, ChatEvent } from '../../core/chat.ts'
import { AnswerTexts } from './answer-texts.ts'

const delta = (text: string): ChatEvent => ({ type: 'delta', text })
const open = (block: Block): ChatEvent => ({ type: 'open', block })
const CLOSE: ChatEvent = { type: 'close' }

/** The texts of these events, and the events after these edits. */
const given = (events: readonly ChatEvent[]) => {
  const texts = new AnswerTexts()
  texts.push(0, events)
  const edit = (edits: Parameters<AnswerTexts['changed']>[0], choice = 0) => {
    const stage = texts.changed(edits, choice)
    return [...events.flatMap((event) => stage.push(event)), ...stage.end()]
  }
  return { texts, list: texts.list().map(({ kind, text }) => [kind, text]), edit }
}
const textOf = (events: readonly ChatEvent[]) =>
  events.map((event) => (event.type === 'delta' ? event.text : event.type === 'open' ? '|' : '')).join('')

test('answer texts: one for each block, and only text is changed', () => {
  const events = [
    ...[open({ type: 'reasoning' }), delta('think of ann'), CLOSE],
    ...[open({ type: 'text' }), delta('ask '), delta('ann'), CLOSE],
    ...[open({ type: 'tool-call', id: 'c', name: 'save' }), delta('{"to":"ann"}'), CLOSE],
    ...[open({ type: 'foreign', protocol: 'openai-responses', raw: { type: 'x', output: 'ann' } }), CLOSE],
    ...[open({ type: 'refusal' }), delta('not ann'), CLOSE],
  ]
  const { list, edit } = given(events)
  assert.deepEqual(list, [
    ['text', 'think of ann'],
    ['text', 'ask ann'],
    ['arguments', '{"to":"ann"}'],
    ['result', '{"type":"x","output":"ann"}'],
    ['text', 'not ann'],
  ])
  const edits = list.map(([, text = ''], index) => {
    const start = text.indexOf('ann')
    return { index, start, end: start + 3, text: '[PERSON]' }
  })
  assert.equal(textOf(edit(edits)), '|think of ann|ask [PERSON]|{"to":"ann"}||not [PERSON]')
  assert.deepEqual(edit([]), events)
  // The events of another choice.
  assert.deepEqual(edit(edits, 1), events)
})

test('answer texts: text before the first block, and offsets of citations', () => {
  const cited: ChatEvent = { type: 'citation', citation: { url: 'https://x', start: 8, end: 13 } }
  const { list, edit } = given([
    delta('ann '),
    delta('and cited'),
    cited,
    { type: 'finish', finish: { kind: 'stop', raw: 'stop' } },
  ])
  assert.deepEqual(list, [['text', 'ann and cited']])
  const after = edit([{ index: 0, start: 0, end: 3, text: '[PERSON]' }])
  assert.equal(textOf(after), '[PERSON] and cited')
  const moved = after.find((event) => event.type === 'citation')
  assert.deepEqual(moved?.type === 'citation' && [moved.citation.start, moved.citation.end], [13, 18])
})

test('property: edits are made wherever the text is cut', () => {
  const part = fc.record({ text: fc.string({ maxLength: 5 }), isEdited: fc.boolean() })
  fc.assert(
    fc.property(fc.array(part), fc.array(fc.nat({ max: 40 })), (parts, cuts) => {
      const whole = parts.map(({ text }) => text).join('')
      let at = 0
      const edits = parts.flatMap(({ text, isEdited }) => {
        const start = at
        at += text.length
        return isEdited && text !== '' ? [{ index: 0, start, end: at, text: '[X]' }] : []
      })
      const ends = [...new Set(cuts.map((cut) => cut % (whole.length + 1)))].toSorted((a, b) => a - b)
      const pieces = [...ends, whole.length].map((end, n) => delta(whole.slice(ends[n - 1] ?? 0, end)))
      const expected = parts.map(({ text, isEdited }) => (isEdited && text !== '' ? '[X]' : text)).join('')
      assert.equal(textOf(given([open({ type: 'text' }), ...pieces, CLOSE]).edit(edits)), `|${expected}`)
    }),
  )
})
