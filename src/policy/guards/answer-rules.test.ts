/** Rules on answers: the stage, at every cut, equals the same rules on the whole text. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO_RULE } from '../../../test/support/guard-rule.ts'
import type { Block, ChatEvent } from '../../core/chat.ts'
import type { GuardRule } from '../../core/guard.ts'
import { type RuleVerdict, summedVerdicts } from '../../core/guard-verdict.ts'
import { run } from '../../core/stage.ts'
import { AnswerRules } from './answer-rules.ts'
import { searchOf } from './finders/find-texts.ts'

const RULE: GuardRule = {
  ...NO_RULE,
  name: 'pii',
  on: ['answer'],
  kinds: ['email', 'phone', 'card', 'iban', 'apiKey'],
  action: 'mask',
}
const TEXT: Block = { type: 'text' }
const CALL: Block = { type: 'tool-call', id: 'c', name: 'save' }

type Outcome = {
  readonly text: string
  readonly failure: string | undefined
  readonly verdicts: readonly RuleVerdict[]
}

/** What a client receives of the events, and the verdicts. */
const through = (
  rules: readonly GuardRule[],
  events: readonly ChatEvent[],
): Outcome & { readonly out: ChatEvent[] } => {
  const verdicts = new Map<string, RuleVerdict>()
  const stage = new AnswerRules({
    rules: rules.map((rule) => ({ rule, search: searchOf(rule) })),
    note: (verdict) => {
      const name = `${verdict.guard} ${verdict.action}`
      const known = verdicts.get(name)
      verdicts.set(name, known ? summedVerdicts(known, verdict) : verdict)
    },
    now: () => 0,
  })
  const out = run(stage, events)
  const text = out.map((event) => (event.type === 'delta' ? event.text : '')).join('')
  const failed = out.find((event) => event.type === 'failure')
  return {
    out,
    text,
    failure: failed?.type === 'failure' ? failed.failure.message : undefined,
    verdicts: [...verdicts.values()],
  }
}

const answer = (block: Block, pieces: readonly string[]): readonly ChatEvent[] => [
  { type: 'start' },
  { type: 'open', block },
  ...pieces.map((text): ChatEvent => ({ type: 'delta', text })),
  { type: 'close' },
  { type: 'finish', finish: { kind: 'stop', raw: 'stop' } },
]

const seen = (rules: readonly GuardRule[], block: Block, pieces: readonly string[]): Outcome => {
  const { out: _, ...outcome } = through(rules, answer(block, pieces))
  // A rule may find its first text before or after another, depending on the cut.
  return { ...outcome, verdicts: outcome.verdicts.toSorted((a, b) => a.guard.localeCompare(b.guard)) }
}

/** The outcome at every cut, and in single characters. */
const assertAtEveryCut = (rules: readonly GuardRule[], block: Block, text: string, expected: Partial<Outcome>) => {
  const whole = seen(rules, block, [text])
  assert.deepEqual({ ...whole, ...expected }, whole)
  for (let cut = 0; cut <= text.length; cut++)
    assert.deepEqual(seen(rules, block, [text.slice(0, cut), text.slice(cut)]), whole, `cut at ${cut}`)
  assert.deepEqual(seen(rules, block, text.split('')), whole)
}

const SOURCE = 'Ann (ann@b.example, +49 30 1234567) paid 4111 1111 1111 1111 with key=a1b2c3d4e5f6 and more.'
const MASKED = 'Ann ([EMAIL], [PHONE]) paid [CARD] with key=[APIKEY] and more.'

for (const block of [TEXT, { type: 'refusal' }] as const)
  test(`answers: what is new in a ${block.type} is masked for good`, () =>
    assertAtEveryCut([RULE], block, SOURCE, { text: MASKED, failure: undefined }))

for (const action of ['flag', 'log'] as const)
  test(`answers: ${action} changes and delays nothing`, () => {
    assertAtEveryCut([{ ...RULE, action }], TEXT, SOURCE, { text: SOURCE })
    const { out, verdicts } = through([{ ...RULE, action }], answer(TEXT, SOURCE.split('')))
    assert.deepEqual(out, answer(TEXT, SOURCE.split('')))
    assert.deepEqual(verdicts, [
      { guard: 'pii', phase: 'answer', action, counts: { EMAIL: 1, PHONE: 1, CARD: 1, APIKEY: 1 }, ms: 0 },
    ])
  })

test('answers: a block ends the answer before what it found, without a finish', () => {
  const rules: readonly GuardRule[] = [
    { ...RULE, name: 'cards', kinds: ['card'], action: 'block' },
    { ...RULE, kinds: ['email'] },
  ]
  assertAtEveryCut(rules, TEXT, SOURCE, {
    text: 'Ann ([EMAIL], +49 30 1234567) paid ',
    failure:
      'Blocked by the rule "cards", which found in the answer: card. Change the request so that the answer does not contain it.',
  })
  const { out } = through(rules, answer(TEXT, SOURCE.split('')))
  assert.equal(out.at(-1)?.type, 'failure')
  assert.ok(!out.some(({ type }) => type === 'finish' || type === 'close'))
})

test('answers: a mask of two rules is one, and each states what it found', () => {
  const words: GuardRule = { ...RULE, name: 'words', kinds: [], words: ['ann'], label: 'NAME' }
  const domain: GuardRule = { ...RULE, name: 'domain', kinds: [], patterns: ['b\\.example'] }
  assertAtEveryCut([RULE, words, domain], TEXT, 'to ann@b.example, ann', { text: 'to [EMAIL], [NAME]' })
  const { verdicts } = seen([RULE, words, domain], TEXT, ['to ann@b.example, ann'])
  assert.deepEqual(
    verdicts.map(({ guard, counts }) => [guard, counts]),
    [
      ['domain', { TEXT: 1 }],
      ['pii', { EMAIL: 1 }],
      ['words', { NAME: 2 }],
    ],
  )
})

// ── Calls of tools and reasoning ───────────────────────────────────────────────────────────────────────────────────

const ARGUMENTS = '{"to":"ann\\u0040b.example","note":"say \\"Night\\u006aar\\"","n":[1,"x@y.example"]}'

test('answers: arguments of a tool stay, and are counted', () => {
  assertAtEveryCut([RULE], CALL, ARGUMENTS, { text: ARGUMENTS })
  assert.deepEqual(seen([RULE], CALL, [ARGUMENTS]).verdicts[0]?.counts, { EMAIL: 2 })
})

test('answers: with tools, arguments are masked and remain JSON', () => {
  const words: GuardRule = { ...RULE, name: 'words', kinds: [], words: ['nightjar'], tools: true }
  const text = '{"to":"[EMAIL]","note":"say \\"[WORD]\\"","n":[1,"[EMAIL]"]}'
  assertAtEveryCut([{ ...RULE, tools: true }, words], CALL, ARGUMENTS, { text })
  assertAtEveryCut([{ ...RULE, tools: true }], { ...CALL, custom: true }, SOURCE, { text: MASKED })
  const cut = ARGUMENTS.slice(0, 30)
  assertAtEveryCut([{ ...RULE, tools: true }], CALL, cut, { text: '{"to":"[EMAIL]","no' })
})

test('answers: integers in arguments are read as their digits', () => {
  const pieces = ['{"card":41111', '11111111111,"long":6304000000000000000,"n":4111}']
  const source = pieces.join('')
  const counted = through([RULE], answer(CALL, pieces))
  assert.deepEqual([counted.text, counted.verdicts[0]?.counts], [source, { CARD: 2 }])
  assert.equal(
    through([{ ...RULE, tools: true }], answer(CALL, pieces)).text,
    '{"card":"[CARD]","long":"[CARD]","n":4111}',
  )
  assert.equal(through([{ ...RULE, action: 'block' }], answer(CALL, pieces)).text, '')
})

test('answers: a block releases no arguments with what it found', () => {
  const words: GuardRule = { ...RULE, name: 'no', kinds: [], words: ['nightjar'], action: 'block' }
  assertAtEveryCut([words], CALL, ARGUMENTS, { text: '' })
  assert.match(seen([words], CALL, [ARGUMENTS]).failure ?? '', /^Blocked by the rule "no"/)
  assertAtEveryCut([words], CALL, '{"a" : 1}', { text: '{"a" : 1}', failure: undefined })
})

test('answers: reasoning is blocked and counted, and never changed', () => {
  const reasoning: Block = { type: 'reasoning' }
  assertAtEveryCut([RULE], reasoning, SOURCE, { text: SOURCE })
  assert.equal(seen([RULE], reasoning, [SOURCE]).verdicts.length, 1)
  const blocking: GuardRule = { ...RULE, action: 'block' }
  assertAtEveryCut([blocking], reasoning, SOURCE, { text: 'Ann (' })
  const signature: ChatEvent = { type: 'signature', signature: { origin: 'anthropic-messages', value: 'c2ln' } }
  const { out } = through(
    [blocking],
    [{ type: 'open', block: reasoning }, { type: 'delta', text: 'the end' }, signature, { type: 'close' }],
  )
  assert.deepEqual(
    out.map(({ type }) => type),
    ['open', 'delta', 'delta', 'signature', 'close'],
  )
})

test('answers: citations and blocks of one format are masked, and offsets follow the text', () => {
  const { out } = through(
    [RULE],
    [
      { type: 'open', block: TEXT },
      { type: 'delta', text: 'Mail ann@b.example now. ' },
      {
        type: 'citation',
        citation: {
          url: 'https://b.example/?m=ann@b.example',
          title: 'ann@b.example',
          start: 19,
          end: 22,
          raw: { encrypted_index: 'ann@b.example' },
        },
      },
      { type: 'close' },
      {
        type: 'open',
        block: { type: 'foreign', protocol: 'anthropic-messages', raw: { id: 'a@b.example', text: 'a@b.example' } },
      },
      { type: 'close' },
    ],
  )
  assert.deepEqual(out.filter(({ type }) => type === 'citation' || type === 'open').slice(1), [
    {
      type: 'citation',
      citation: {
        url: 'https://b.example/?[EMAIL]',
        title: '[EMAIL]',
        start: 13,
        end: 16,
        raw: { encrypted_index: 'ann@b.example' },
      },
    },
    {
      type: 'open',
      block: { type: 'foreign', protocol: 'anthropic-messages', raw: { id: 'a@b.example', text: '[EMAIL]' } },
    },
  ])
})

test('answers: text that is held when a block closes is released before it, and each block begins a text', () => {
  const { out } = through(
    [RULE],
    [...answer(TEXT, ['one 4111 1111']).slice(0, -1), ...answer(TEXT, [' 1111 1111 two'])],
  )
  const text = out.map((event) => (event.type === 'delta' ? event.text : event.type === 'close' ? '|' : '')).join('')
  assert.equal(text, 'one 4111 1111| 1111 1111 two|')
})
