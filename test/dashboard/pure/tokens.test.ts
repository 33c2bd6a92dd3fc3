/** The contrasts of tokens.css (WCAG 2.2): text at least 4.5, borders of controls at least 3, in both themes. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'

const css = readFileSync(join(import.meta.dirname, '..', '..', '..', 'dashboard', 'src', 'tokens.css'), 'utf8')

type Tokens = { readonly [name: string]: string }

const tokensIn = (block: string): Tokens =>
  Object.fromEntries(
    [...block.matchAll(/--([a-z0-9-]+): (#[0-9a-f]{6});/g)].map(([, name = '', value = '']) => [name, value]),
  )

/** The blocks: light, dark by the system, dark by choice. */
const [light = {}, system = {}, dark = {}] = [...css.matchAll(/\{([^{}]*--bg:[^{}]*)\}/g)].map(([, block = '']) =>
  tokensIn(block),
)

const luminance = (colour: string): number => {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

const contrast = (one: string, other: string): number => {
  const [low = 0, high = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b)
  return (high + 0.05) / (low + 0.05)
}

const GROUNDS = ['bg', 'surface', 'raised', 'selected']
/** What became of requests that were not answered. */
const OUTCOMES = ['failed', 'refused', 'left']
const SERIES = [1, 2, 3, 4, 5, 6].map((n) => `series-${n}`)
/** What is written on what, and the least contrast. */
const PAIRS: readonly (readonly [colours: readonly string[], on: readonly string[], least: number])[] = [
  [['text', 'text-2', 'text-3', 'accent', 'ok', 'warn', 'bad', 'probe', ...OUTCOMES, ...SERIES], GROUNDS, 4.5],
  [['edge'], GROUNDS, 3],
  [['on-accent'], ['accent'], 4.5],
  ...['ok', 'warn', 'bad', 'probe'].map((tone) => [[tone, 'text'], [`${tone}-bg`], 4.5] as const),
]

describe('tokens', () => {
  for (const [name, tokens] of Object.entries({ light, dark }))
    for (const [colours, grounds, least] of PAIRS)
      test(`${name}: ${colours.join(', ')} on ${grounds.join(', ')}`, () => {
        for (const colour of colours)
          for (const ground of grounds) {
            const found = contrast(tokens[colour] ?? '', tokens[ground] ?? '')
            assert.ok(found >= least, `${colour} on ${ground} has ${found.toFixed(2)}, not ${least}`)
          }
      })

  test('failed, refused and left have colours of their own', () => {
    for (const tokens of [light, dark])
      assert.equal(new Set(OUTCOMES.map((name) => tokens[name])).size, OUTCOMES.length)
  })

  test('the dark theme of the system is the chosen one', () => {
    assert.ok(Object.keys(dark).length > 20)
    assert.deepEqual(system, dark)
  })
})
