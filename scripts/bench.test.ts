/** The parts of `npm run bench` that compute figures and write the page. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { type Figure, find, median, ROWS, type Round, type Sample, together, wrongs } from '../bench/figures.ts'
import { flame } from '../bench/flame.ts'
import { BEGIN, digits, END, measured, type ProfileResult, type Result, verdicts, withMeasured } from '../bench/page.ts'
import { byArea, byFunction, type CpuProfile, fold } from '../bench/profile.ts'

const sample = (numbers: Sample['numbers'], errors: Sample['errors'] = {}): Sample => ({ numbers, errors })
const cpu = (nginx: number, headgate: number): Round => ({
  nginx: sample({ cpu: nginx }),
  headgate: sample({ cpu: headgate }),
})

describe('bench: figures', () => {
  const medians = [
    ['nothing', [], undefined],
    ['one', [4], 4],
    ['an odd count', [9, 1, 5], 5],
    ['an even count', [4, 1, 9, 2], 3],
  ] as const
  for (const [name, numbers, wanted] of medians)
    test(`median of ${name}`, () => assert.equal(median([...numbers]), wanted))

  const [figure] = ROWS['chat-1k'].figures
  test('a ratio is computed within a round, so a slow round does not change it', () => {
    // Separate medians would give 15 to 10.
    const found = find(figure, [cpu(10, 14), cpu(100, 150), cpu(5, 15)])
    assert.deepEqual([found.value, found.low, found.high, found.met], [1.5, 1.4, 3, 'yes'])
    assert.deepEqual([found.ours, found.base], [15, 10])
  })
  test('a target is met, missed, or unknown without a figure', () => {
    assert.equal(find(figure, [cpu(10, 15.01)]).met, 'no')
    assert.equal(find(figure, []).met, 'unknown')
    assert.equal(find(figure, [{ headgate: sample({ cpu: 1 }) }]).met, 'unknown')
    const least: Figure = { ...figure, measure: 'rate', least: 0.7, most: Number.POSITIVE_INFINITY }
    const rates = (ours: number): Round => ({ nginx: sample({ rate: 10 }), headgate: sample({ rate: ours }) })
    assert.deepEqual(
      [7, 6.9].map((ours) => find(least, [rates(ours)]).met),
      ['yes', 'no'],
    )
  })
  test('added time is relative to a direct connection, in ms', () => {
    const [added] = ROWS['open-1000'].figures
    const round: Round = {
      direct: sample({ p50: 120 }),
      nginx: sample({ p50: 220 }),
      headgate: sample({ p50: 300 }),
    }
    const found = find(added, [round])
    assert.deepEqual([found.base, found.ours, found.value?.toFixed(6), found.met], [0.1, 0.18, '0.080000', 'yes'])
  })
  test('start times are in ms', () => {
    const [first] = ROWS.start.figures
    assert.equal(find(first, [{ [first.ours]: sample({ start: 151 }) }]).met, 'no')
    assert.equal(find(first, [{ [first.ours]: sample({ start: 149 }) }]).value, 149)
  })
  test('two concurrent windows are one: counts are added, costs are weighted by requests', () => {
    const left = sample({ rate: 10, right: 30, cpu: 90, p50: 5, noise: 0.5 }, { content: 1 })
    const right = sample({ rate: 5, right: 10, cpu: 50 }, { content: 2, reset: 1 })
    assert.deepEqual(together([left, right]), sample({ rate: 15, right: 40, cpu: 80 }, { content: 3, reset: 1 }))
    assert.deepEqual(together([left]), left)
    assert.deepEqual(together([sample({}), sample({})]), sample({ rate: 0, right: 0 }))
  })
  test('wrong answers are counted over all rounds, by server', () =>
    assert.deepEqual(
      wrongs([
        { nginx: sample({}), headgate: sample({}, { content: 2 }) },
        { nginx: sample({}, { reset: 1 }), headgate: sample({}, { content: 3, timeout: 0 }) },
      ]),
      ['headgate: content ×5', 'nginx: reset ×1'],
    ))
})

const run = {
  at: '2026-11-22T04:00Z',
  commit: 'abc1234',
  command: 'npm run bench',
  machine: { cpu: 'A processor', cores: 2, kernel: '6.1.0', memoryGb: 16, descriptors: 20_000 },
  versions: { node: '24.0.0', nginx: '1.22.1' },
}
const result = (more: Partial<Result>): Result => ({ ...run, row: 'chat-1k', rounds: [cpu(10, 14)], ...more })

describe('bench: the page', () => {
  const cases = [
    [undefined, '–'],
    [0, '0'],
    [0.1234, '0.123'],
    [1.5, '1.50'],
    [12.345, '12.3'],
    [723, '723'],
    [20_910.4, '20,910'],
    [-0.0123, '-0.012'],
  ] as const
  for (const [value, wanted] of cases) test(`${value} is ${wanted}`, () => assert.equal(digits(value), wanted))

  const lineOf = (part: string, fragment: string): string =>
    part.split('\n').find((line) => line.includes(fragment)) ?? ''
  test('a figure has both values, the ratio, the target, and whether it is met', () => {
    const part = measured([result({ rounds: [cpu(10, 14), cpu(10, 16), cpu(10, 12)] })], [])
    assert.equal(
      lineOf(part, '`chat-1k`'),
      '| `chat-1k`: small chat, not streamed, 64 connections | CPU per request | 10 µs | 14 µs | 1.40 × (1.20–1.60) | ≤ 1.5 × | yes | 3 |',
    )
    assert.match(part, /A processor, 2 cores/)
    assert.match(part, /node 24\.0\.0, nginx 1\.22\.1/)
  })
  test('a wrong answer fails the row, whatever its figures are', () => {
    const rounds = [{ nginx: sample({ cpu: 10 }), headgate: sample({ cpu: 1 }, { content: 1 }) }]
    assert.match(lineOf(measured([result({ rounds })], []), '`chat-1k`'), /\*\*failed\*\*: headgate: content ×1/)
    assert.deepEqual(verdicts([result({ rounds })]), { met: 0, of: 2 })
  })
  test('skipped and unmeasured rows are marked', () => {
    const part = measured([result({ row: 'workers', rounds: [], skipped: 'why | so' })], [])
    assert.match(lineOf(part, '`workers`'), /skipped: why \\\| so/)
    assert.match(lineOf(part, '`burst`'), /not measured yet/)
  })
  test('a busy machine is reported', () => {
    const rounds = [0.1, 1.34].map((noise) => ({ nginx: sample({ cpu: 10, noise }), headgate: sample({ cpu: 10 }) }))
    assert.match(measured([result({ rounds })], []), /\| 2, other processes used up to 1\.3 cores \|/)
    assert.doesNotMatch(measured([result({ rounds: rounds.slice(0, 1) })], []), /used up to/)
  })
  test('runs of different commits are listed separately', () => {
    const part = measured([result({}), result({ row: 'burst', commit: 'def5678+' })], [])
    assert.match(part, /abc1234 \(`chat-1k`\); def5678\+ \(`burst`\)/)
  })
  test('profiles: the areas side by side, and the top of a request', () => {
    const profile: ProfileResult = {
      ...run,
      row: 'chat-1k',
      busyMs: 10,
      top: [{ name: 'parse', place: 'src/a.ts:1', percent: 12.34 }],
      areas: { gateway: 60, kernel: 40 },
    }
    const part = measured([], [profile, { ...profile, row: 'burst', areas: { kernel: 90 } }])
    assert.equal(lineOf(part, '| kernel'), '| kernel | 40.0 | 90.0 |')
    assert.equal(lineOf(part, '| gateway'), '| gateway | 60.0 |  |')
    assert.equal(lineOf(part, '| `parse`'), '| `parse` | src/a.ts:1 | 12.3 |')
  })

  const pages = [
    ['between the markers only', `# A\n\n${BEGIN}\nold\n${END}\n\n## By hand\n`, '# A\n\n', '\n\n## By hand\n'],
    [
      'before the first heading, without markers',
      '# A\n\nwords\n\n## By hand\n',
      '# A\n\nwords\n\n',
      '\n\n## By hand\n',
    ],
    ['at the end, without headings', '# A\n', '# A\n\n', '\n'],
  ] as const
  for (const [name, page, before, after] of pages)
    test(`the measured part is written ${name}, and unchanged the second time`, () => {
      const made = withMeasured(page, 'new')
      assert.equal(made, `${before}${BEGIN}\n\nnew\n\n${END}${after}`)
      assert.equal(withMeasured(made, 'new'), made)
    })
  test('a page with only one marker is an error', () =>
    assert.throws(() => withMeasured(`# A\n${BEGIN}\n`, 'new'), /one of the two markers/))
})

/** `all → begin → (parse | write)`, and idle time. Every sample is one millisecond. */
const nodes = [
  [1, '(root)', '', [2, 5, 6]],
  [2, 'begin', 'file:///home/user/project/src/server/server.ts', [3, 4]],
  [3, 'parse', 'file:///home/user/project/src/protocols/shared/type-checks.ts', []],
  [4, 'writeUtf8String', '', []],
  [5, '(idle)', '', []],
  [6, '(garbage collector)', '', []],
] as const
const profiled = (samples: readonly number[]): CpuProfile => ({
  nodes: nodes.map(([id, functionName, url, children]) => ({
    id,
    children,
    callFrame: { functionName, url, lineNumber: url === '' ? -1 : 9 },
  })),
  startTime: 1000,
  samples,
  timeDeltas: samples.map(() => 1000),
})
const ALWAYS = { from: 0, to: Number.POSITIVE_INFINITY }

describe('bench: profiles', () => {
  test('time is assigned to functions and areas, without idle time', () => {
    const root = fold(profiled([2, 3, 3, 4, 5, 5, 5, 6]), ALWAYS)
    assert.equal(root.total, 5000)
    assert.deepEqual(byFunction(root, 2), [
      { name: 'parse', place: 'src/protocols/shared/type-checks.ts:10', percent: 40 },
      { name: 'begin', place: 'src/server/server.ts:10', percent: 20 },
    ])
    assert.deepEqual(byArea(root), {
      'headgate: protocols': 40,
      'headgate: server': 20,
      'kernel: writes': 20,
      'garbage collection': 20,
    })
  })
  test('only samples in the window count, without the warm-up', () => {
    const root = fold(profiled([3, 3, 3, 4, 4, 3]), { from: 4500, to: 6500 })
    assert.deepEqual(byFunction(root, 5), [{ name: 'writeUtf8String', place: 'native', percent: 100 }])
  })
  test('a caller’s total includes its callees', () => {
    const [begin] = fold(profiled([3, 4, 2]), ALWAYS).calls
    assert.deepEqual([begin?.name, begin?.self, begin?.total], ['begin', 1000, 3000])
  })

  test('a flame graph has every wide call with its share, and escapes markup', () => {
    const svg = flame(fold(profiled([2, 3, 3, 4]), ALWAYS), 'a < b')
    assert.match(svg, /<title>parse src\/protocols\/shared\/type-checks\.ts:10 50\.0 %<\/title>/)
    assert.match(svg, />a &lt; b</)
    assert.equal(svg.match(/<g>/g)?.length, 4)
    assert.equal(svg.match(/<g>/g)?.length, svg.match(/<\/g>/g)?.length)
  })
  test('a flame graph of very many calls omits narrow ones and stays small', () => {
    const many = Array.from({ length: 1200 }, (_, at) => at + 2)
    const spent = many.flatMap((id) => Array.from({ length: 2 + (id % 3) }, () => id))
    const wide: CpuProfile = {
      nodes: [
        { id: 1, callFrame: { functionName: '(root)', url: '', lineNumber: -1 }, children: many },
        ...many.map((id) => ({
          id,
          callFrame: {
            functionName: `a function with a ${'rather '.repeat(8)}long name, the ${id}th`,
            url: 'node:net',
            lineNumber: id,
          },
        })),
      ],
      startTime: 0,
      samples: spent,
      timeDeltas: spent.map(() => 1),
    }
    const svg = flame(fold(wide, ALWAYS), 'many')
    const boxes = svg.match(/<g>/g)?.length ?? 0
    assert.ok(svg.length < 200_000, `${svg.length} bytes`)
    // Only the narrowest third is omitted.
    assert.equal(boxes, 801)
  })
  test('a profile without busy time is an empty flame graph', () =>
    assert.doesNotMatch(flame(fold(profiled([5]), ALWAYS), 'idle'), /<g>/))
})

const go = ['go', '/usr/local/go/bin/go'].find((program) => spawnSync(program, ['version']).status === 0)
test('bench: the load rig builds, vets and passes its tests', { skip: go ? false : 'go is not installed' }, () => {
  const rig = join(import.meta.dirname, '..', 'bench', 'rig')
  for (const words of [
    ['vet', './...'],
    ['test', '-count=1', './...'],
  ]) {
    const { status, stdout, stderr } = spawnSync(go ?? 'go', words, { cwd: rig, encoding: 'utf8', timeout: 300_000 })
    assert.equal(status, 0, `go ${words.join(' ')}\n${stdout}${stderr}`)
  }
})
