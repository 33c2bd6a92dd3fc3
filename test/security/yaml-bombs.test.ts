/** YAML that is small to send and expensive to parse: it is refused before it is parsed, or parsed in a thread with limits. */
import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { ConfigChecks } from '../../src/edge/checking/client.ts'
import { readTree } from '../../src/edge/config/tree.ts'
import { yamlExcess } from '../../src/edge/config/yaml-limits.ts'

const MB = 1_048_576
const times = (text: string, count: number): string => text.repeat(count)
const filled = (text: string): string => times(text, Math.floor(MB / text.length))
const lines = (count: number, line: (at: number) => string): string =>
  Array.from({ length: count }, (_, at) => line(at)).join('\n')

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
  ['pairs of quotes', () => filled('"" '), /words and marks/],
  ['quoted entries', () => `[${times('"",', 300_000)}`, /words and marks/],
  ['commas', () => `[${times(',', MB - 2)}]`, /words and marks/],
  ['empty entries', () => filled('-\n'), /words and marks/],
  ['entries on a line', () => filled('- '), /words and marks/],
  ['reserved characters', () => filled('- @\n'), /words and marks/],
  ['names without values', () => filled('? '), /words and marks/],
  ['values without names', () => filled(':\n'), /words and marks/],
  ['one name', () => filled('a: 1\n'), /words and marks/],
  ['comments', () => filled('#\n'), /words and marks/],
  ['tabs', () => filled('a:\t1\n'), /words and marks/],
  ['short block texts', () => filled('a: |\n x\n'), /words and marks/],
  ['documents', () => filled('a: 1\n---\n'), /words and marks/],
  ['other indentation', () => filled('  a: 1\n b: 2\n'), /words and marks/],
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
