import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { BetaRules } from '../../core/betas.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'
import { betasIn, refusedBetas, withBetas } from './betas.ts'

const seen = 'a test'
const rules = (place: BetaRules['in']): BetaRules => ({
  in: place,
  rows: new Map([
    ['plain', { as: 'plain', seen }],
    ['older', { as: 'newer', seen }],
    ['newer', { as: 'newer', members: ['tools[].defer'], seen }],
    ['edits', { as: 'edits', members: ['edits'], seen }],
    ['fast', { as: null, members: ['speed'], seen }],
    ['shape', { as: null, members: ['format.schema'], essential: true, seen }],
  ]),
})

type Row = readonly [
  what: string,
  body: JsonObject,
  wanted: readonly string[],
  refused: readonly string[],
  after: JsonObject,
  sent: readonly string[],
  needed: readonly string[],
  losses: readonly string[],
]

const rows: readonly Row[] = [
  ['none', { a: 1 }, [], [], { a: 1 }, [], [], []],
  ['a known one', {}, ['plain'], [], {}, ['plain'], [], []],
  ['one by another name', {}, ['older'], [], {}, ['newer'], [], []],
  ['an unknown one', {}, ['other'], [], {}, [], [], ['anthropic-beta.other']],
  [
    'those of header and body, each once',
    { anthropic_beta: ['plain', 'edits'] },
    ['plain'],
    [],
    {},
    ['plain', 'edits'],
    [],
    [],
  ],
  ['a member needs one that was not named', { edits: 1 }, [], [], { edits: 1 }, ['edits'], ['edits'], []],
  [
    'an entry needs one',
    { tools: [{}, { defer: true }] },
    [],
    [],
    { tools: [{}, { defer: true }] },
    ['newer'],
    ['newer'],
    [],
  ],
  [
    'a refused one goes with its members',
    { tools: [{ defer: true, b: 1 }] },
    ['older'],
    ['newer'],
    { tools: [{ b: 1 }] },
    [],
    [],
    ['anthropic-beta.older', 'tools[0].defer'],
  ],
  ['one that is never taken', { speed: 'fast' }, ['fast'], [], {}, [], [], ['anthropic-beta.fast', 'speed']],
  ['an essential member', { format: { schema: 1, b: 2 } }, [], [], { format: { b: 2 } }, [], [], ['!format.schema']],
]

for (const [what, body, wanted, refused, after, sent, needed, losses] of rows)
  for (const place of ['body', 'header'] as const)
    test(`betas: ${what}, in the ${place}`, () => {
      const lost: string[] = []
      const made = withBetas(body, rules(place), {
        wanted,
        isRefused: (beta) => refused.includes(beta),
        onLoss: (path, essential) => lost.push(essential ? `!${path}` : path),
      })
      assert.deepEqual(made.betas, { sent, needed })
      assert.deepEqual(made.body, place === 'body' && sent.length > 0 ? { ...after, anthropic_beta: sent } : after)
      assert.deepEqual(lost, losses)
    })

test('betas: a body without any stays the same object', () => {
  const body = { model: 'm', tools: [{ name: 'a' }], messages: [{ role: 'user', content: [{ type: 'text' }] }] }
  assert.equal(withBetas(body, rules('body'), { wanted: [], isRefused: () => false, onLoss: () => {} }).body, body)
})

test('betas: the header is a list', () => {
  assert.deepEqual(betasIn(' a,b , ,c'), ['a', 'b', 'c'])
  assert.deepEqual(betasIn(undefined), [])
})

const incompatible = (message: string): Failure => fail('incompatible', message, { upstream: { message } })
const VERTEX =
  'Unexpected value(s) `b`, `c` for the `anthropic-beta` header. Please consult our documentation at docs.anthropic.com or try again without the header.'
const refusals: readonly (readonly [Failure, sent: string[], needed: string[], refused: string[]])[] = [
  [incompatible('invalid beta flag'), ['a', 'b'], ['b'], ['a']],
  [incompatible('The model returned the following errors: invalid beta flag'), ['b'], ['b'], ['b']],
  [incompatible(VERTEX), ['a', 'b', 'c'], ['b'], ['b', 'c']],
  [incompatible(VERTEX), ['a'], [], []],
  [incompatible('messages: Field required'), ['a'], [], []],
  [incompatible('invalid beta flag'), [], [], []],
  [fail('rate_limited', 'invalid beta flag', { upstream: { message: 'invalid beta flag' } }), ['a'], [], []],
]
for (const [failure, sent, needed, refused] of refusals)
  test(`betas: ${failure.kind} "${failure.message.slice(0, 50)}" of ${sent} refuses ${refused}`, () =>
    assert.deepEqual(refusedBetas(failure, { sent, needed }), refused))
