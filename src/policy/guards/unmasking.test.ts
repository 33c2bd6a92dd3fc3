import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Block, ChatEvent } from '../../core/chat.ts'
import { Masks } from './masks.ts'
import { UnmaskingStage } from './unmasking.ts'

const digest = (text: string) => createHmac('sha256', 'secret').update(text).digest()
const VALUES = ['ann@example.com', 'a "quoted"\nline\\', '4111 1111 1111 1111']
const masked = () => {
  const masks = new Masks(digest)
  return { masks, all: VALUES.map((value, at) => masks.maskOf(['EMAIL', 'TEXT', 'CARD'][at] ?? '', value)) }
}

const TEXT: Block = { type: 'text' }
const CALL: Block = { type: 'tool-call', id: 'c', name: 'save' }

/** The text of a block that arrives in these pieces. */
const streamed = (masks: Masks, block: Block, pieces: readonly string[]): string => {
  const stage = new UnmaskingStage(masks)
  const deltas = pieces.map((text): ChatEvent => ({ type: 'delta', text }))
  const events: readonly ChatEvent[] = [{ type: 'open', block }, ...deltas, { type: 'close' }]
  return [...events.flatMap((event) => stage.push(event)), ...stage.end()]
    .map((event) => (event.type === 'delta' ? event.text : ''))
    .join('')
}

const assertAtEveryCut = (masks: Masks, block: Block, text: string, expected: string) => {
  for (let cut = 0; cut <= text.length; cut++)
    assert.equal(streamed(masks, block, [text.slice(0, cut), text.slice(cut)]), expected, `cut at ${cut}`)
  assert.equal(streamed(masks, block, [...text]), expected)
}

test('unmasking: a mask is restored at every cut, also in other case and with escaped brackets', () => {
  const { masks, all } = masked()
  const [email = '', text = ''] = all
  const escaped = email.replace('[', '\\[').replace(']', '\\]')
  for (const block of [TEXT, { type: 'refusal' }, { ...CALL, custom: true }] as const)
    assertAtEveryCut(
      masks,
      block,
      `[${email}, ${email.toLowerCase()} ${escaped} ${text}] [EMAIL_AAAAAA] [EMAIL] a[0] \\[x\\] ${email.slice(0, -1)}`,
      `[${VALUES[0]}, ${VALUES[0]} ${VALUES[0]} ${VALUES[1]}] [EMAIL_AAAAAA] [EMAIL] a[0] \\[x\\] ${email.slice(0, -1)}`,
    )
})

test('unmasking: arguments of a tool remain JSON at every cut', () => {
  const { masks, all } = masked()
  const source = { to: all, note: `\\${all[0]} "${all[1]}" C:\\`, n: [1] }
  const expected = JSON.stringify({ to: VALUES, note: `${VALUES[0]} "${VALUES[1]}" C:\\`, n: [1] })
  assertAtEveryCut(masks, CALL, JSON.stringify(source), expected)
})

test('unmasking: reasoning stays, since its signature is valid for its text only', () => {
  const { masks, all } = masked()
  assertAtEveryCut(masks, { type: 'reasoning' }, `${all[0]}`, `${all[0]}`)
})

test('unmasking: citations and blocks of one format are restored, and offsets follow the text', () => {
  const { masks, all } = masked()
  const [email = ''] = all
  const stage = new UnmaskingStage(masks)
  stage.push({ type: 'open', block: TEXT })
  const text = `${email} is cited`
  stage.push({ type: 'delta', text })
  const start = text.indexOf('cited')
  const raw = { start_index: start, end_index: text.length, title: email }
  const [event] = stage.push({
    type: 'citation',
    citation: { url: `https://x/${email}`, start, end: text.length, raw },
  })
  assert.ok(event?.type === 'citation')
  const restored = `${VALUES[0]} is cited`
  const [from, to] = [restored.indexOf('cited'), restored.length]
  assert.deepEqual(event.citation, {
    url: `https://x/${VALUES[0]}`,
    start: from,
    end: to,
    raw: { start_index: from, end_index: to, title: VALUES[0] },
  })
  const call = { type: 'mcp_call', arguments: JSON.stringify({ to: all[1] }), output: `for ${all[1]}` }
  const [open] = stage.push({ type: 'open', block: { type: 'foreign', protocol: 'openai-responses', raw: call } })
  assert.ok(open?.type === 'open' && open.block.type === 'foreign')
  assert.deepEqual(open.block.raw, {
    type: 'mcp_call',
    arguments: JSON.stringify({ to: VALUES[1] }),
    output: `for ${VALUES[1]}`,
  })
})

test('unmasking: an unchanged delta is the same event, with its probabilities', () => {
  const stage = new UnmaskingStage(masked().masks)
  const event: ChatEvent = { type: 'delta', text: 'no mask [1] here', logprobs: [1] }
  stage.push({ type: 'open', block: TEXT })
  assert.equal(stage.push(event)[0], event)
})

test('masks: the same text has the same mask, and another client another one', () => {
  const [one, two] = [new Masks(digest), new Masks((text) => digest(`other ${text}`))]
  const mask = one.maskOf('EMAIL', 'ann@example.com')
  assert.match(mask, /^\[EMAIL_[A-Z2-7]{6}\]$/)
  assert.equal(new Masks(digest).maskOf('EMAIL', 'ann@example.com'), mask)
  assert.notEqual(two.maskOf('EMAIL', 'ann@example.com'), mask)
  assert.notEqual(one.maskOf('EMAIL', 'bob@example.com'), mask)
})

test('masks: texts whose digests begin alike have masks of their own', () => {
  const masks = new Masks((text) => Uint8Array.from([1, 2, 3, 4, 5, 6, text.length, 8, 9, 10]))
  const all = ['a', 'bb', 'ccc'].map((text) => masks.maskOf('T', text))
  assert.equal(new Set(all).size, 3)
  assert.equal(masks.restored(all.join(' '), 'plain'), 'a bb ccc')
  const same = new Masks(() => new Uint8Array(10))
  assert.deepEqual(
    ['a', 'b', 'c'].map((text) => same.maskOf('T', text)),
    ['[T_AAAAAA]', '[T_AAAAAAAAAA]', '[T]'],
  )
})

test('property: a text whose parts are masked is restored, cut anywhere', () => {
  const part = fc.oneof(
    fc.constantFrom(...VALUES),
    fc.string({ unit: fc.constantFrom('[', ']', '\\', 'A', '_', '2', '"') }),
  )
  fc.assert(
    fc.property(fc.array(part, { maxLength: 8 }), fc.nat(), (parts, at) => {
      const { masks, all } = masked()
      const text = parts.map((one) => all[VALUES.indexOf(one)] ?? one.replaceAll('\\', '/')).join('')
      const expected = parts.map((one) => (VALUES.includes(one) ? one : one.replaceAll('\\', '/'))).join('')
      const cut = at % (text.length + 1)
      assert.equal(streamed(masks, TEXT, [text.slice(0, cut), text.slice(cut)]), expected)
    }),
    { numRuns: 1_000 },
  )
})
