/** docs/compare.md: it is generated, and each of its figures is in the file of its row. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { comparePage, PEER_NAMES, type PeerRun, readRuns } from '../bench/peers-page.ts'

const root = join(import.meta.dirname, '..')
const folder = join(root, 'bench', 'peers')
const page = readFileSync(join(root, 'docs', 'compare.md'), 'utf8')
const { runs, hand, faults } = readRuns(folder)

/** Cells of the table rows that name a file of results. */
const figureRows = page
  .split('\n')
  .filter((line) => line.includes('](../bench/peers/'))
  .map((line) => line.split(' | '))

const numbersIn = (text: string): readonly string[] => text.match(/\d+(?:\.\d+)?/g) ?? []

test('compare: the page is current', () => {
  assert.equal(page, comparePage({ runs, hand, faults }), 'run: node bench/peers.ts --page')
})

test('compare: each number of a row occurs in its raw file', () => {
  assert.equal(figureRows.length, runs.length)
  for (const cells of figureRows) {
    const [, file = ''] = /\]\(\.\.\/bench\/peers\/([a-z0-9-]+\.json)\)/.exec(cells.at(-1) ?? '') ?? []
    const raw = new Set(numbersIn(readFileSync(join(folder, file), 'utf8')))
    const shown = cells.slice(1, -1).flatMap(numbersIn)
    assert.ok(shown.length >= 3, file)
    for (const number of shown) assert.ok(raw.has(number), `${file} has no ${number}`)
  }
})

test('compare: versions, dates and machines are those of the runs', () => {
  for (const { at, load, row, versions } of runs) {
    assert.match(page, new RegExp(`^\\| ${row} \\| ${at} \\| .* load ${load} \\|`, 'm'))
    for (const name of PEER_NAMES) assert.ok(versions[name], `${row}: ${name}`)
  }
})

const run = (row: PeerRun['row'], headgate: number, portkey: number): PeerRun => ({
  row,
  at: '2026-01-02',
  command: 'x',
  load: 1,
  versions: {},
  machine: { cpu: 'c', cores: 2, kernel: 'k', memoryGb: 1, descriptors: 1 },
  numbers: { nginx: [1], Headgate: [headgate, headgate + 2, headgate + 1], Portkey: [portkey] },
})

test('compare: our weakest row comes first, and a peer without a value has a dash', () => {
  const made = comparePage({ runs: [run('size', 5, 10), run('memory', 20, 10)], hand, faults })
  assert.ok(made.indexOf('memory.json') < made.indexOf('size.json'))
  assert.ok(made.includes('| 1 | 21 (20–22) | 10 | – |'))
})
