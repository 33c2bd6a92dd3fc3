/**
 * What is found where: each kind in each part of a request and an answer, in all API styles, whole and streamed. The table is in
 * docs/guards.md; `MATRIX=write` writes it.
 */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { AnswerContent } from '../../../test/support/answers.ts'
import { answering, harness, hasTools, rulesOf, STYLES, seen } from '../../../test/support/guarded-gateway.ts'
import type { ClientProtocolName } from '../../core/chat.ts'
import { FINDER_KINDS, type FinderKind } from '../../core/finder-kinds.ts'
import type { GuardRule } from '../../core/guard.ts'
import type { JsonObject } from '../../core/json.ts'

const PAGE = join(import.meta.dirname, '..', '..', '..', 'docs', 'guards.md')

const SAMPLES: { readonly [kind in FinderKind | 'patterns' | 'words']: string } = {
  apiKey: 'sk-proj-abcdefgh12345',
  iban: 'DE89 3704 0044 0532 0130 00',
  card: '4111 1111 1111 1111',
  email: 'ann@b.example',
  phone: '+49 30 1234567',
  ssn: '219-09-9999',
  nino: 'AB 12 34 56 C',
  nif: '12345678Z',
  steuerid: '86 095 742 719',
  insee: '2 69 05 49 588 157 80',
  patterns: 'EMP-123456',
  words: 'Nightjar',
}
type Kind = keyof typeof SAMPLES

const ruleOf = (kind: Kind): Pick<GuardRule, 'kinds' | 'patterns' | 'words'> => ({
  kinds: FINDER_KINDS.filter((one) => one === kind),
  patterns: kind === 'patterns' ? ['EMP-\\d{6}'] : [],
  words: kind === 'words' ? ['nightjar'] : [],
})

const PLACES = [
  'text of requests',
  'arguments of calls',
  'results of tools',
  'text of answers',
  'arguments in answers',
] as const
type Place = (typeof PLACES)[number]

/** A request with the sample in one place; null: the style has no such place. */
const requestWith = (style: ClientProtocolName, place: Place, sample: string): JsonObject | null => {
  const at = (one: Place) => (place === one ? `say ${sample} now` : 'nothing')
  const text = at('text of requests')
  const args = { note: at('arguments of calls') }
  const result = at('results of tools')
  if (style === 'openai-completions') return place === 'text of requests' ? { model: 'm', prompt: text } : null
  if (style === 'anthropic-messages')
    return {
      ...{ model: 'm', max_tokens: 9 },
      messages: [
        { role: 'user', content: text },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'save', input: args }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: result }] },
      ],
    }
  if (style === 'gemini')
    return {
      model: 'm',
      contents: [
        { role: 'user', parts: [{ text }] },
        { role: 'model', parts: [{ functionCall: { id: 'c1', name: 'save', args } }] },
        { role: 'user', parts: [{ functionResponse: { id: 'c1', name: 'save', response: { output: result } } }] },
      ],
    }
  const source = JSON.stringify(args)
  if (style === 'openai-responses')
    return {
      ...{ model: 'm', store: false },
      input: [
        { role: 'user', content: text },
        { type: 'function_call', call_id: 'c1', name: 'save', arguments: source },
        { type: 'function_call_output', call_id: 'c1', output: result },
      ],
    }
  return {
    model: 'm',
    messages: [
      { role: 'user', content: text },
      {
        role: 'assistant',
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'save', arguments: source } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: result },
    ],
  }
}

const PLAIN: Readonly<Record<ClientProtocolName, JsonObject>> = {
  'openai-chat': { model: 'm', messages: [{ role: 'user', content: 'hello' }] },
  'openai-responses': { model: 'm', store: false, input: 'hello' },
  'anthropic-messages': { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'hello' }] },
  'openai-completions': { model: 'm', prompt: 'hello' },
  gemini: { model: 'm', contents: [{ role: 'user', parts: [{ text: 'hello' }] }] },
}

/** Whether the sample is masked in this place; null: the style has no such place. */
const isMasked = async (
  kind: Kind,
  place: Place,
  style: ClientProtocolName,
  stream: boolean,
): Promise<boolean | null> => {
  const sample = SAMPLES[kind]
  const guards = rulesOf({ name: 'pii', on: ['request', 'answer'], action: 'mask', tools: true, ...ruleOf(kind) })
  const upstream = style === 'openai-completions' ? 'openai-chat' : style
  const inAnswer = place === 'text of answers' || place === 'arguments in answers'
  if (place === 'arguments in answers' && !hasTools(style)) return null
  const content: AnswerContent =
    place === 'arguments in answers'
      ? { text: 'x', tools: [{ id: 'c2', name: 'save', arguments: JSON.stringify({ note: `say ${sample} now` }) }] }
      : { text: inAnswer ? `say ${sample} now` : 'x' }
  const { send, world } = harness(answering(content), { guards, upstream })
  const body = inAnswer ? PLAIN[style] : requestWith(style, place, sample)
  if (body === null) return null
  const reply = await send({ ...body, stream }, style)
  assert.equal(reply.status, 200, reply.text)
  if (!inAnswer) return !world.calls.some(({ body: sent = '' }) => sent.includes(sample)) && world.calls.length === 1
  const { text, note } = seen(style, reply, stream)
  const shown = place === 'text of answers' ? text : note?.note
  return /^say \[[A-Z]+\] now$/.test(shown) && !reply.text.includes(sample)
}

const cellOf = async (kind: Kind, place: Place): Promise<string> => {
  const found: boolean[] = []
  for (const style of STYLES)
    for (const stream of [false, true]) {
      const masked = await isMasked(kind, place, style, stream)
      if (masked !== null) found.push(masked)
    }
  return `${found.filter(Boolean).length} of ${found.length}`
}

const START = '<!-- matrix -->\n'
const END = '<!-- /matrix -->\n'

test('matrix: each kind is found in each part, in all styles, whole and streamed', async () => {
  const rows: string[] = []
  for (const kind of Object.keys(SAMPLES) as readonly Kind[]) {
    const cells: string[] = []
    for (const place of PLACES) cells.push(await cellOf(kind, place))
    rows.push(`| \`${kind}\` | ${cells.join(' | ')} |`)
  }
  const table = `| kind | ${PLACES.join(' | ')} |\n| --- |${PLACES.map(() => ' --- |').join('')}\n${rows.join('\n')}\n`
  const page = readFileSync(PAGE, 'utf8')
  const [before = '', rest = ''] = page.split(START)
  const [shown = '', after = ''] = rest.split(END)
  if (process.env.MATRIX === 'write') writeFileSync(PAGE, `${before}${START}${table}${END}${after}`)
  else assert.equal(shown, table)
  for (const row of rows) for (const [, some, all] of row.matchAll(/(\d+) of (\d+)/g)) assert.equal(some, all, row)
})
