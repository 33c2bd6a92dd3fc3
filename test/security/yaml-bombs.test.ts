/** YAML that is small to send and expensive to parse: it is refused before it is parsed, or parsed in a thread with limits. */
import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { ConfigChecks } from '../../src/config/checking/config-checks.ts'
import { readTree } from '../../src/config/tree.ts'
import { yamlExcess } from '../../src/config/yaml-limits.ts'

const MB = 1_048_576
const times = (text: string, count: number): string => text.repeat(count)
const filled = (text: string): string => times(text, Math.floor(MB / text.length))
const lines = (count: number, line: (at: number) => string): string =>
  Array.from({ length: count }, (_, at) => line(at)).join('\n')

/** What is counted. */
const COUNTED = /^more than \d+ (?:words and marks|entries|commas|comments|question marks)$/

/** Texts that the parser needs up to a minute for, and what is found in them. */
const REFUSED: readonly (readonly [name: string, text: () => string, found: RegExp])[] = [
  ['merge keys', () => `a: &a { x: 1 }\n${lines(4_000, (at) => `b${at}: { <<: *a }`)}`, /1000 aliases/],
  ['merges in a list', () => `a: &a { x: 1 }\nb: { <<: [${times('*a, ', 4_000)}] }`, /1000 aliases/],
  ['aliases', () => `a: &a 1\n${lines(20_000, (at) => `b${at}: *a`)}`, /1000 aliases/],
  ['aliases without anchors', () => filled('- *a\n'), /1000 aliases/],
  ['aliases without names', () => filled('* '), /1000 aliases/],
  ['aliases as names', () => `a: &a x\n${filled('*a : 1\n')}`.slice(0, MB), /1000 aliases/],
  ['anchors', () => lines(20_000, (at) => `b${at}: &a${at} 1`), /100 anchors/],
  ['anchors of one name', () => filled('- &a 1\n'), /100 anchors/],
  ['anchors without names', () => filled('& '), /100 anchors/],
  ['anchors with tags', () => filled('&a !b '), /100 anchors|100 tags/],
  ['tags', () => filled('- !x 1\n'), /100 tags/],
  ['tags without names', () => filled('! '), /100 tags/],
  ['open lists', () => times('[', 100_000), /brackets nested too deeply/],
  ['open sections', () => filled('{a: '), /brackets nested too deeply/],
  ['lists in lists', () => `${times('[', 20_000)}${times(']', 20_000)}`, /brackets nested too deeply/],
  ['closing brackets', () => filled(']'), /without its opening bracket/],
  ['pairs of quotes', () => filled('"" '), COUNTED],
  ['quoted entries', () => `[${times('"",', 300_000)}`, COUNTED],
  ['commas', () => `[${times(',', MB - 2)}]`, /50000 commas/],
  ['few commas', () => `[${times(',', 200_000)}`, /50000 commas/],
  ['commas in a map', () => `{${times(',\n', 100_000)}}`, /50000 commas/],
  ['colons in a map', () => `{${times(':,', 100_000)}}`, /50000 (entries|commas)/],
  ['empty maps', () => `[${times('{},', 100_000)}]`, /50000 commas/],
  ['pairs in a list', () => `[${lines(60_000, (at) => `a${at}: 1,`)}]`, /50000 entries/],
  ['nested dashes', () => times('- - - -\n', 60_000), /50000 entries/],
  ['empty entries', () => filled('-\n'), COUNTED],
  ['entries on a line', () => filled('- '), COUNTED],
  ['reserved characters', () => filled('- @\n'), COUNTED],
  ['names without values', () => filled('? '), COUNTED],
  ['values without names', () => filled(':\n'), COUNTED],
  ['one name', () => filled('a: 1\n'), COUNTED],
  ['comments', () => filled('#\n'), COUNTED],
  ['tabs', () => filled('a:\t1\n'), COUNTED],
  ['short block texts', () => filled('a: |\n x\n'), COUNTED],
  ['documents', () => filled('a: 1\n---\n'), COUNTED],
  ['other indentation', () => filled('  a: 1\n b: 2\n'), COUNTED],
]
for (const [name, text, found] of REFUSED)
  test(`YAML bombs: a text is refused before it is parsed (${name})`, () => {
    const written = text()
    assert.ok(written.length <= MB)
    assert.match(yamlExcess(written)?.found ?? 'nothing', found)
    const tree = readTree(written, 'headgate.yaml', { env: {} })
    assert.ok(!tree.ok)
    assert.match(tree.problems[0]?.where ?? '', /^headgate\.yaml:\d+$/)
  })

for (const [name, text] of [
  ['a section that others repeat', `a: &a { x: 1 }\nb: *a\nc: [*a, *a]\n`],
  ['signs in texts', `a: "${times('& * ! ] ', 500)}"\nb: |\n${times('  &x *y ]\n', 500)}c: x${times(' & *', 500)}\n`],
  ['signs in comments', `a: 1 # ${times('&x *y ', 1_000)}\n`],
  ['entries of a full file', lines(49_000, (at) => `a${at}: 1`)],
] as const)
  test(`YAML bombs: ordinary YAML is accepted (${name})`, () => {
    const tree = readTree(text, 'f', { env: {} })
    assert.ok(tree.ok && tree.problems.length === 0, JSON.stringify(tree))
  })

test('YAML bombs: an alias is the last anchor before it, and is expanded to a limited size', () => {
  const read = (text: string) => {
    const tree = readTree(text, 'f', { env: {} })
    return tree.ok ? JSON.stringify(tree.value) : tree.problems[0]?.found
  }
  assert.equal(read('a: &x 1\nb: *x\nc: &x 2\nd: *x\n'), '{"a":1,"b":1,"c":2,"d":2}')
  assert.equal(read('a: &x [&y 1]\nb: &y 2\nc: *x\nd: *y\n'), '{"a":[1],"b":2,"c":[1],"d":2}')
  const laughs = `a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n${lines(9, (at) => `a${at + 1}: &a${at + 1} [${times(`*a${at},`, 10)}]`)}`
  assert.equal(read(laughs), 'more than 50000 values')
  assert.equal(read('a: &a [*a, *a, *a]\n'), 'more than 50000 values')
})

test('YAML bombs: a reference without an end is text, read once', () => {
  const text = `a: "${times('${', 100_000)}"\n`
  const tree = readTree(text, 'f', { env: {} })
  assert.ok(tree.ok && tree.problems.length === 0)
})

/** Texts within the limits, with a fault in each entry: the parser needed seconds, and reported all of them. */
for (const [name, text, found] of [
  ['wrong escapes', () => `a: "${times('\\z', 500_000)}"`, /escape/],
  ['wrong escapes in many entries', () => lines(20_000, (at) => `a${at}: "\\z"`), /escape/],
  ['reserved characters', () => lines(20_000, (at) => `a${at}: @x`), /reserved/],
  ['lines without a colon', () => `a: 1\n${times('x\n', 50_000)}`, /Implicit/],
  ['entries without commas', () => `[${times('"a" ', 30_000)}]`, /Missing ,/],
  ['quotes without commas in a map', () => `{${times("'a' ", 30_000)}}`, /Missing ,/],
  ['changing indentation', () => lines(20_000, (at) => `${' '.repeat(at % 3)}a${at}: 1`), /./],
  ['texts behind quotes', () => lines(20_000, (at) => `a${at}: "x" y`), /./],
  ['documents', () => times('--- a\n', 20_000), /more than one document/],
] as const)
  test(`YAML bombs: the parser stops after ten faults (${name})`, () => {
    const tree = readTree(text(), 'f', { env: {} })
    assert.ok(!tree.ok)
    assert.ok(tree.problems.length <= 10)
    assert.match(tree.problems[0]?.found ?? '', found)
    assert.match(tree.problems[0]?.where ?? '', /^f:\d+:\d+$/)
  })

test('YAML bombs: a file with a problem in each entry reports a thousand', () => {
  const tree = readTree(
    lines(20_000, () => 'a: 1'),
    'f',
    { env: {} },
  )
  assert.equal(tree.problems.length, 1_000)
})

/** The parser needs seconds for it, within the limits. */
const SLOW = times('"', 499_998)
const taskFor = (text: string) => ({ text, env: {}, folder: tmpdir(), stored: null })

test('YAML bombs: the event loop runs while a text is checked, and the check ends with its time', async () => {
  const checks = new ConfigChecks({ limits: { start: 60_000, check: 1 } })
  let turns = 0
  let isOver = false
  const checked = checks.check(taskFor(SLOW)).finally(() => {
    isOver = true
  })
  for (; !isOver; turns++) await nextTurn()
  assert.ok(turns > 100, `${turns} turns`)
  const result = await checked
  assert.ok(result.ok && !result.value.ok)
  assert.match(result.value.problems[0]?.found ?? '', /needs more than 0\.001 s/)
})

test('YAML bombs: one text is checked at a time, and few wait', async () => {
  const checks = new ConfigChecks({ limits: { start: 60_000, check: 60_000 } })
  const results = await Promise.all(Array.from({ length: 6 }, () => checks.check(taskFor('circuit: { timeout: 1x }'))))
  assert.deepEqual(
    results.map((result) => (result.ok ? result.value.ok : result.failure.kind)),
    [false, false, false, false, 'busy', 'busy'],
  )
  assert.ok((await checks.check(taskFor('circuit: { timeout: 20000 }'))).ok)
})
