/**
 * SEC-28: every regular expression in the source runs in linear time. Each runs over long texts that provoke
 * backtracking; one with quadratic growth fails.
 */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { workOf } from '../support/growth.ts'

const src = join(import.meta.dirname, '..', '..', 'src')

type Found = { readonly where: string; readonly source: string; readonly flags: string }

/** A regular expression literal starts where no value can end, and is on one line. */
const LITERAL =
  /(?:^|[=(,:;!&|?{}[\n]|=>|return|case)\s*\/((?:[^/\\[\n*]|\\.|\[(?:[^\]\\\n]|\\.)*\])(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])*)\/([dgimsuvy]*)/g

const found: readonly Found[] = globSync(['**/*.ts', '../packages/**/*.ts'], { cwd: src })
  // Their input comes from the operator, who is trusted.
  .filter(
    (file) => !file.endsWith('.test.ts') && !/^(?:providers|config|records\/entities|transport\/identity)\//.test(file),
  )
  .flatMap((file) => {
    const text = readFileSync(join(src, file), 'utf8')
      .replace(/\/\*[\s\S]*?\*\//g, '')
      .replace(/^\s*\/\/.*$/gm, '')
    return [...text.matchAll(LITERAL)].flatMap(([, source = '', flags = '']) => {
      try {
        new RegExp(source, flags)
        return [{ where: `${file}: /${source}/${flags}`, source, flags }]
      } catch {
        // A division, or text that resembles an expression.
        return []
      }
    })
  })

/** The characters and words an expression contains are the likely triggers. */
const seedsOf = (source: string): readonly string[] => {
  const words = source.match(/[a-z]{2,}/gi) ?? []
  const signs = [...source.replaceAll(/\\[a-zA-Z]/g, '')].filter((char) => /[^\w()[\]{}|?*+^$\\]/.test(char))
  return [
    ...new Set([
      ...['a', '0', ' ', '\t', '\n', '.', '-', '_', '/', '"', '\\', ':', 'aA0-', 'a ', '0.', '[', '[0].', '=', 'é'],
      ...words.slice(0, 5),
      ...words.slice(0, 5).map((word) => `${word} `),
      ...signs.slice(0, 5),
      ...signs.slice(0, 3).map((sign) => `a${sign}`),
      ...signs.slice(0, 3).map((sign) => `${sign}${sign}0`),
    ]),
  ]
}

const SHORT = 2_000
const GROWTH = 8
/** ms of processor time. Below it growth is not significant. */
const NOTHING = 20

/** The minimum of several runs (ms of processor time): other threads that use the same caches make a run longer, never shorter. */
const time = (regex: RegExp, text: string, runs: number): number => {
  let least = Number.POSITIVE_INFINITY
  for (let run = 0; run < runs && least >= NOTHING; run++) {
    const work = workOf(() => {
      regex.lastIndex = 0
      if (regex.global) text.replaceAll(regex, '')
      else regex.test(text)
    })
    least = Math.min(least, work)
  }
  return least
}

test('regexes: the literals are found', () => {
  assert.ok(found.length > 100, `${found.length} found`)
  for (const file of [
    'policy/access.ts',
    'protocols/errors/mask-secrets.ts',
    'observe/line.ts',
    'policy/retry/retry-after.ts',
  ])
    assert.ok(
      found.some(({ where }) => where.startsWith(file)),
      file,
    )
})

const grows = (source: string, flags: string): string | null => {
  for (const seed of seedsOf(source))
    for (const end of ['\n\0!']) {
      const regex = new RegExp(source, flags)
      const make = (length: number) => seed.repeat(Math.ceil(length / seed.length)) + end
      const long = time(regex, make(SHORT * GROWTH), 3)
      if (long < NOTHING) continue
      // Linear growth is eightfold, quadratic sixty-four-fold. A short run may be less than the clock shows.
      const short = Math.max(0.05, time(regex, make(SHORT), 3))
      if (long / short > GROWTH * 3)
        return `${JSON.stringify(seed)}…${JSON.stringify(end)}: ${short.toFixed(1)} ms, then ${long.toFixed(1)} ms for ${GROWTH} times as much`
    }
  return null
}

test('regexes: quadratic growth is detected', () => {
  // Slow also on a fast machine.
  assert.match(grows('(?:a|b)+c', '') ?? '', /times as much/)
})

/**
 * Expressions that are not linear for some text, with the limit that bounds their input.
 */
const BOUNDED: { readonly [literal: string]: string } = {}

test('regexes: every expression is linear', () => {
  const slow = found.flatMap(({ where, source, flags }) => {
    if (BOUNDED[where] !== undefined) return []
    const problem = grows(source, flags)
    return problem === null ? [] : [`${where}: ${problem}`]
  })
  assert.deepEqual(slow, [])
})

test('regexes: every expression listed as bounded exists', () => {
  for (const where of Object.keys(BOUNDED))
    assert.ok(
      found.some((one) => one.where === where),
      where,
    )
})
