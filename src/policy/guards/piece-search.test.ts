/** A text that arrives in pieces has the spans that a search of the whole text finds, wherever it is cut. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { FINDER_KINDS } from '../../core/finder-kinds.ts'
import { longestMatch } from '../../core/linear-pattern.ts'
import { searchOf } from './finders/find-texts.ts'
import type { Search } from './finders/finder.ts'
import { PieceSearch } from './piece-search.ts'

const PATTERNS = ['\\bEMP-\\d{6}\\b', 'ab?c{1,3}', '(?:x|yy)[^q]{0,4}z']
const WORDS = ['Nightjar', 'night', 'project x', 'ΟΔΟΣ', '机密', 'été']
const ALL = searchOf({ kinds: FINDER_KINDS, patterns: PATTERNS, words: WORDS })

/** The spans in these pieces, as positions in the whole, with their texts. */
const inPieces = (search: Search, pieces: readonly string[]): readonly string[] => {
  const reader = new PieceSearch([{ rule: 'r', search }])
  const found: string[] = []
  let length = 0
  let all = ''
  for (const part of [...pieces.map((piece) => reader.push(piece)), reader.end()]) {
    for (const { start, end, kind } of part.spans)
      found.push(`${length + start}-${length + end} ${kind} ${part.text.slice(start, end)}`)
    length += part.text.length
    all += part.text
    assert.equal(part.received, part.text.length)
  }
  assert.equal(all, pieces.join(''))
  return found
}

const inWhole = (search: Search, text: string): readonly string[] =>
  search.find(text).map(({ start, end, kind }) => `${start}-${end} ${kind} ${text.slice(start, end)}`)

const SEEDS = [
  'ann@b.example',
  'ann%40b.example',
  'ann\\u0040b.example',
  'ж@домен.рф',
  'a\u200b@b.example',
  '+49 (30) 123 45 67',
  '(555) 123-4567',
  '030 1234567 22',
  '0049 30 1234567',
  '4111 1111 1111 1111',
  '4111111111111111',
  '3782-822463-10005',
  'DE89 3704 0044 0532 0130 00',
  'gb82west12345698765432',
  'sk-proj-abcdefgh12345',
  'Bearer abc12345def',
  'password is: hunter2hunter2',
  "api_key = 'a1b2c3d4e5f6'",
  'token("a1b2c3d4e5")',
  '219-09-9999',
  'AB 12 34 56 C',
  '12345678Z',
  'X1234567L',
  '86 095 742 719',
  '2 69 05 49 588 157 80',
  'EMP-123456',
  'abccc',
  'xq z',
  'yyabcdz',
  'NIGHTJAR',
  'project  x',
  'project x',
  'οδος',
  '机密文件',
  'ÉTÉ',
  '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----',
  '-----BEGIN',
  '😀',
]
const JOINTS = ['', ' ', '  ', '.', ', ', '\n', '"', '=', ':', '-', '_', '1', 'a', 'é', '\\', '+', '(', '@', '00', '/']

const texts = fc
  .array(fc.tuple(fc.constantFrom(...SEEDS), fc.constantFrom(...JOINTS), fc.nat(12)), { minLength: 1, maxLength: 4 })
  .map((parts) =>
    // Some are cut off, and so the beginnings of others.
    parts.map(([seed, joint, cut]) => (cut < 4 ? seed.slice(0, -cut || undefined) : seed) + joint).join(''),
  )

const RUNS = Number(process.env.GUARD_RUNS ?? 150)

test('pieces: a text has the spans of the whole text at every cut', () => {
  fc.assert(
    fc.property(texts, (text) => {
      const whole = inWhole(ALL, text)
      for (let cut = 0; cut <= text.length; cut++)
        assert.deepEqual(
          inPieces(ALL, [text.slice(0, cut), text.slice(cut)]),
          whole,
          `${JSON.stringify(text)} cut at ${cut}`,
        )
      assert.deepEqual(inPieces(ALL, text.split('')), whole, `${JSON.stringify(text)} in single characters`)
    }),
    { numRuns: RUNS },
  )
})

for (const kind of FINDER_KINDS)
  test(`pieces: ${kind} alone, in single characters`, () => {
    const search = searchOf({ kinds: [kind], patterns: [], words: [] })
    fc.assert(
      fc.property(texts, (text) => assert.deepEqual(inPieces(search, text.split('')), inWhole(search, text), text)),
      { numRuns: RUNS * 2 },
    )
  })

test('pieces: prose is released up to the last word, 64 characters at most', () => {
  const search = searchOf({ kinds: ['email', 'phone', 'card', 'iban'], patterns: [], words: [] })
  const prose = 'On 12 May 2024 the team met in room 21 (3 people), and agreed on version 2.1.3 of the plan. '.repeat(4)
  const reader = new PieceSearch([{ rule: 'r', search }])
  let released = 0
  let most = 0
  for (const [at, char] of [...prose].entries()) {
    released += reader.push(char).text.length
    most = Math.max(most, at + 1 - released)
  }
  assert.ok(most <= 24, `${most}`)
})

test('pieces: a long span is kept in bounded memory, and found as one', () => {
  const search = searchOf({ kinds: ['apiKey'], patterns: [], words: [] })
  const key = `-----BEGIN PRIVATE KEY-----\n${'QUJD\n'.repeat(10_000)}-----END PRIVATE KEY-----`
  const reader = new PieceSearch([{ rule: 'r', search }])
  const parts = [...(`a ${key} z`.match(/.{1,50}/gs) ?? [])].map((piece) => reader.push(piece))
  const all = [...parts, reader.end()]
  assert.equal(all.flatMap(({ spans }) => spans).length, 1)
  assert.equal(
    all.reduce((sum, { received }) => sum + received, 0),
    key.length + 4,
  )
  assert.ok(all.every(({ text }) => text.length < 6_000))
  assert.equal(
    all
      .map(({ text, spans }) => (spans.length > 0 ? text.slice(0, spans[0]?.start) + text.slice(spans[0]?.end) : text))
      .join(''),
    'a  z',
  )
})

test('patterns: the bound of a match', () => {
  for (const [pattern, least] of [
    ['a', 1],
    ['EMP-\\d{6}', 10],
    ['a{2,5}b?', 6],
    ['(?:ab|c)\\p{L}{3}', 6],
    ['[a-z\\]]{1,4}x', 5],
    ['\\u{1F600}{2}', 4],
    ['.{9}', 18],
  ] as const)
    assert.ok(
      longestMatch(pattern) >= least && longestMatch(pattern) <= 3 * least + 4,
      `${pattern} ${longestMatch(pattern)}`,
    )
})
