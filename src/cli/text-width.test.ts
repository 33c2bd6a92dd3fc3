import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { noPaint } from '../observe/colour.ts'
import { columnsThatFit, table } from './table.ts'
import { cut, padded, textWidth, wrapped } from './text-width.ts'

const FAMILY = '👨‍👩‍👧'

for (const [text, cells] of [
  ['search-prod', 11],
  ['Zürich', 6],
  ['検索チーム', 10],
  ['ｶﾅ', 2],
  ['검색', 4],
  ['！', 2],
  ['🚀', 2],
  [FAMILY, 2],
  ['🇩🇪', 2],
  ['e\u0301', 1],
  ['n\u0303a\u0300', 2],
  ['צוות', 4],
  ['فريق', 4],
  ['✓ → …', 5],
  ['zero\u200bwidth', 9],
] as const)
  test(`${JSON.stringify(text)} has ${cells} cells`, () => assert.equal(textWidth(text), cells))

/** Names as users give them. */
const NAMES = [
  'search',
  '検索チーム-本番',
  `${FAMILY}-${FAMILY}`,
  'צוות חיפוש',
  'e\u0301'.repeat(30),
  '\u001b[31mred\u0007',
  '\u202eevil',
]
const WIDTHS = [20, 30, 40, 60, 72, 80, 100, 120, 160, 200, null]

describe('a table with wide, combining, right-to-left and control characters', () => {
  for (const width of WIDTHS)
    test(`${width ?? 'no'} columns: every line fits, and columns begin at the same cell`, () => {
      const rows = NAMES.map((name, at) => [name, String(at), 'the rest of the line, which is wrapped'])
      const headings = ['NAME', 'AT', 'REST']
      const count = columnsThatFit(headings, rows, width)
      const shown = rows.map((row) => row.slice(0, count))
      const lines = table(headings.slice(0, count), shown, { paint: noPaint, width })
      for (const line of lines) {
        assert.doesNotMatch(line, /[\p{Cc}\u202a-\u202e\u2066-\u2069]/u)
        // Three columns of ten characters are the least that a table needs.
        if (width !== null && width >= 40) assert.ok(textWidth(line) <= width, `${textWidth(line)}: ${line}`)
      }
      if (width !== null && width < 100) return
      const starts = lines.slice(1).map((line) => textWidth(line.slice(0, line.indexOf('the rest'))))
      assert.equal(new Set(starts).size, 1, lines.join('\n'))
    })
})

test('any text is cut, padded and wrapped to its width', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 40 }).map((one) => one.replaceAll(/\p{Cc}/gu, ' '))
  fc.assert(
    fc.property(text, fc.integer({ min: 3, max: 50 }), (one, width) => {
      assert.ok(textWidth(cut(one, width)) <= width)
      assert.ok(textWidth(padded(one, width)) >= Math.min(width, textWidth(one)))
      const lines = wrapped(one, width)
      for (const line of lines) assert.ok(textWidth(line) <= width, JSON.stringify(line))
      assert.equal(lines.join('').replaceAll(/\s/g, ''), one.replaceAll(/\s/g, ''))
    }),
  )
})
