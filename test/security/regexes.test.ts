/**
 * SEC-28: every regular expression in the source, found by reading it, takes time in proportion to what it is given. Each
 * is run over long texts that make backtracking dear; one whose time grows with the square of the length fails.
 */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const src = join(import.meta.dirname, '..', '..', 'src')

type Found = { readonly where: string; readonly source: string; readonly flags: string }

/** A literal begins where no value can have ended, and is on one line. */
const LITERAL =
  /(?:^|[=(,:;!&|?{}[\n]|=>|return|case)\s*\/((?:[^/\\[\n*]|\\.|\[(?:[^\]\\\n]|\\.)*\])(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])*)\/([dgimsuvy]*)/g

const found: readonly Found[] = globSync('**/*.ts', { cwd: src })
  // What those read was written by the operator, who need not attack.
  .filter((file) => !file.endsWith('.test.ts') && !/^(?:providers|edge\/(?:config|catalogue|identity))\//.test(file))
  .flatMap((file) => {
    const text = readFileSync(join(src, file), 'utf8')
      .replace(/\/\*[\s\S]*?\*\//g, '')
      .replace(/^\s*\/\/.*$/gm, '')
    return [...text.matchAll(LITERAL)].flatMap(([, source = '', flags = '']) => {
      try {
        new RegExp(source, flags)
        return [{ where: `${file}: /${source}/${flags}`, source, flags }]
      } catch {
        // A division, or a piece of text that looks like one: no expression.
        return []
      }
    })
  })

/** Characters and words an expression itself mentions are what it stumbles over. */
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
/** ms below which a growth says nothing on a machine that does other things. */
const NOTHING = 40

/** The least of several runs (ms): whatever else the machine does makes a run longer, never shorter. */
const time = (regex: RegExp, text: string, runs: number): number => {
  let least = Number.POSITIVE_INFINITY
  for (let run = 0; run < runs; run++) {
    const begun = performance.now()
    regex.lastIndex = 0
    if (regex.global) text.replaceAll(regex, '')
    else regex.test(text)
    least = Math.min(least, performance.now() - begun)
    if (least < NOTHING) break
  }
  return least
}

test('regexes: the source is read as it should be', () => {
  assert.ok(found.length > 100, `${found.length} found`)
  for (const file of [
    'policy/access.ts',
    'protocols/errors/classify.ts',
    'edge/observe/line.ts',
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
      const long = time(regex, make(SHORT * GROWTH), 1)
      if (long < NOTHING) continue
      // Linear is eight times as long, a square sixty-four; in between lies what a busy machine makes of either.
      const short = Math.max(0.05, time(regex, make(SHORT), 3))
      const again = time(regex, make(SHORT * GROWTH), 3)
      if (again > NOTHING && again / short > GROWTH * 3)
        return `${JSON.stringify(seed)}…${JSON.stringify(end)}: ${short.toFixed(1)} ms, then ${again.toFixed(1)} ms for ${GROWTH} times as much`
    }
  return null
}

test('regexes: one that is not linear is noticed', () => {
  assert.match(grows('a+$', '') ?? '', /times as much/)
})

/**
 * Not linear for some text, and why none of that length reaches it.
 */
const BOUNDED: { readonly [literal: string]: string } = {}

test('regexes: every one is linear', () => {
  const slow = found.flatMap(({ where, source, flags }) => {
    if (BOUNDED[where] !== undefined) return []
    const problem = grows(source, flags)
    return problem === null ? [] : [`${where}: ${problem}`]
  })
  assert.deepEqual(slow, [])
})

test('regexes: what is said to be bounded is still there', () => {
  for (const where of Object.keys(BOUNDED))
    assert.ok(
      found.some((one) => one.where === where),
      where,
    )
})
