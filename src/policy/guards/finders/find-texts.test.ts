import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { assertLinear } from '../../../../test/support/growth.ts'
import { FINDER_KINDS, type FinderKind } from '../../../core/finder-kinds.ts'
import { finderOf } from './find-texts.ts'

const found = (text: string, kinds: readonly FinderKind[], words: readonly string[] = []) =>
  finderOf({ kinds, patterns: [], words })(text).map(({ start, end, kind }) => [kind, text.slice(start, end)])

/** Text with numbers of the kind, in the order in which they stand. */
const NUMBERS: readonly (readonly [kind: FinderKind, text: string, numbers: readonly string[]])[] = [
  ['ssn', 'SSN 219-09-9999, or 219 09 9999.', ['219-09-9999', '219 09 9999']],
  ['ssn', '000-12-3456 666-12-3456 900-12-3456 219-00-9999 219-09-0000 219-09 9999 219099999 1219-09-9999', []],
  ['nino', 'NI: AB123456C, ab 12 34 56 d', ['AB123456C', 'ab 12 34 56 d']],
  ['nino', 'BG123456A DA123456A AO123456A AB123456E xAB123456C AB1234567C', []],
  ['nif', 'DNI 12345678Z, 12.345.678-Z y X-1234567-L', ['12345678Z', '12.345.678-Z', 'X-1234567-L']],
  ['nif', '12345678A X1234567A 112345678Z 12345678ZZ', []],
  ['steuerid', 'IdNr. 86095742719, auch 47 036 892 816', ['86095742719', '47 036 892 816']],
  ['steuerid', '86095742718 12345678901 11111111111 1.86095742719 08609574271', []],
  ['insee', 'NIR 1 84 12 76 451 089 46 ou 255081416802538', ['1 84 12 76 451 089 46', '255081416802538']],
  ['insee', '1841276451089 184127645108947 584127645108946', []],
]

describe('numbers of persons', () => {
  for (const [kind, text, numbers] of NUMBERS)
    test(`${kind} in ${JSON.stringify(text)}`, () =>
      assert.deepEqual(
        found(text, [kind]),
        numbers.map((number) => [kind, number]),
      ))

  for (const [kind, valid] of [
    ['card', '4111111111111111'],
    ['iban', 'DE89370400440532013000'],
    ['nif', '12345678Z'],
    ['steuerid', '86095742719'],
    ['insee', '184127645108946'],
  ] as const)
    test(`${kind}: no number with another digit at one place passes`, () => {
      assert.equal(found(`x ${valid} y`, [kind]).length, 1)
      for (let at = 2; at < valid.length; at++)
        for (let digit = 0; digit <= 9; digit++)
          if (/\d/.test(valid[at] ?? '') && valid[at] !== `${digit}`) {
            const changed = `${valid.slice(0, at)}${digit}${valid.slice(at + 1)}`
            assert.deepEqual(found(`x ${changed} y`, [kind]), [], changed)
          }
    })

  test('a key of Corsica counts its letter', () => {
    assert.equal(found('2 69 05 2A 004 020 15', ['insee']).length + found('269054902407004', ['insee']).length, 0)
    const number = 2_690_519_004_020
    const key = `${97 - (number % 97)}`.padStart(2, '0')
    assert.deepEqual(found(`269052A004020${key}`, ['insee']), [['insee', `269052A004020${key}`]])
  })
})

describe('listed words', () => {
  test('are found whole, in upper and lower case', () => {
    const words = ['Nightjar', 'night', 'big bang', 'C++', 'straße', '秘密']
    for (const [text, matches] of [
      ['NIGHTJAR, nightjars, night jar', ['NIGHTJAR', 'night']],
      ['the Big\nBang. bigbang big bangs', ['Big\nBang']],
      ['C++ and C+++ and xC++', ['C++', 'C++']],
      ['Straße, STRASSE İstanbul straße', ['Straße', 'straße']],
      ['这是秘密项目', ['秘密']],
      ['', []],
    ] as const)
      assert.deepEqual(
        found(text, [], words),
        matches.map((match) => ['word', match]),
        text,
      )
  })

  test('property: the tree finds what a search for each word finds', () => {
    const char = fc.constantFrom('a', 'b', ' ', '-')
    const word = fc.string({ unit: char, minLength: 1, maxLength: 4 }).filter((text) => text.trim() === text)
    fc.assert(
      fc.property(
        fc.array(word, { minLength: 1, maxLength: 6 }),
        fc.string({ unit: char, maxLength: 30 }),
        (words, text) => {
          const expected: (readonly [string, string])[] = []
          const splits = (at: number) => /\w/.test(text[at - 1] ?? '') && /\w/.test(text[at] ?? '')
          for (let at = 0; at < text.length; ) {
            const fits = words.filter((one) => text.startsWith(one, at) && !splits(at) && !splits(at + one.length))
            const longest = fits.toSorted((a, b) => b.length - a.length)[0]
            if (longest) expected.push(['word', longest])
            at += longest?.length ?? 1
          }
          assert.deepEqual(found(text, [], words), expected)
        },
      ),
      { numRuns: 500 },
    )
  })
})

test('property: spans of all finders are in order, do not overlap, and lie in the text', () => {
  const find = finderOf({ kinds: FINDER_KINDS, patterns: ['\\d{2,4}', 'a{1,3}'], words: ['a b', '4111'] })
  const part = fc.constantFrom(
    'a@b.example',
    '4111 1111 1111 1111',
    '+49 30 1234567',
    'DE89 3704 0044 0532 0130 00',
    ' ',
    'a',
    '1',
  )
  fc.assert(
    fc.property(fc.array(part, { maxLength: 12 }), (parts) => {
      const text = parts.join('')
      let before = 0
      for (const { start, end } of find(text)) {
        assert.ok(start >= before && end > start && end <= text.length, text)
        before = end
      }
    }),
    { numRuns: 500 },
  )
})

test('property: a UUID is no personal data', () => {
  const find = finderOf({ kinds: FINDER_KINDS, patterns: [], words: [] })
  const digit = fc.constantFrom('0', '2', '4', '8', 'a')
  const part = (length: number) => fc.string({ unit: digit, minLength: length, maxLength: length })
  const uuid = fc
    .tuple(part(8), part(4), part(3), part(3), part(12))
    .map(([a, b, c, d, e]) => `${a}-${b}-4${c}-8${d}-${e}`)
  fc.assert(
    fc.property(uuid, (text) => assert.deepEqual(find(`id ${text}, ${text.toUpperCase()}.`), [])),
    { numRuns: 2_000 },
  )
})

test('a call in a program is no stated secret, but a quoted text in it is', () => {
  for (const text of ['Object.keys(r1.data!)', 'token(request2.headers)', 'key(a1b2c3d4e5)'])
    assert.deepEqual(found(text, ['apiKey']), [], text)
  for (const text of ["setKey('a1b2c3d4e5')", 'token("a1b2c3d4e5")', 'key (a1b2c3d4e5)', 'key=a1b2c3d4e5'])
    assert.deepEqual(found(text, ['apiKey']), [['apiKey', 'a1b2c3d4e5']], text)
})

describe('long texts', () => {
  const find = finderOf({ kinds: FINDER_KINDS, patterns: [], words: ['a'.repeat(100), 'a a a b', '1'] })
  for (const unit of [
    'a',
    'a ',
    '1',
    '1 ',
    '12 ',
    '123-',
    '123 ',
    'AB12',
    'X',
    'X1234567',
    '86 095 742 ',
    '1 84 12 ',
    'İ',
  ])
    test(`of ${JSON.stringify(unit)} are searched in linear time`, () =>
      assertLinear(unit, 65_536, (size) => void find(unit.repeat(Math.ceil(size / unit.length)))))
})
