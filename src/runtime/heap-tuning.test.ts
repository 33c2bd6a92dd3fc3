import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { YOUNG_GENERATION_LIMIT } from './heap-tuning.ts'

/** A process that allocates 1.5 million surviving objects in 150 turns; prints the maximum size of its young generation in bytes. */
const PROGRAM = `
import { getHeapSpaceStatistics } from 'node:v8'
import { limitYoungGeneration } from ${JSON.stringify(new URL('heap-tuning.ts', import.meta.url).href)}
if (process.argv[2] !== 'any') limitYoungGeneration(() => Number(process.argv[2]))
const kept = []
let most = 0
let next = 0
let turns = 150
const some = () => {
  // About 100 MB a second, as under full load; all of it survives for a while.
  for (let at = 0; at < 10_000; at++) kept[next++ % 300_000] = { at, of: [at] }
  for (const space of getHeapSpaceStatistics()) if (space.space_name === 'new_space') most = Math.max(most, space.space_size)
  if (--turns > 0) setTimeout(some, 10)
  else console.log(most)
}
some()
`

const most = (how: string): number =>
  Number(execFileSync(process.execPath, ['--input-type=module', '-e', PROGRAM, '-', how], { encoding: 'utf8' }))

test('heap tuning: the young generation stays below its limit', () => {
  assert.ok(most('any') > YOUNG_GENERATION_LIMIT.many, 'V8 no longer grows it that far, so the limit is not needed')
  assert.ok(most('10') <= YOUNG_GENERATION_LIMIT.few)
  assert.ok(most('10000') <= YOUNG_GENERATION_LIMIT.many)
})

test('heap tuning: V8 has the flags that are changed', () => {
  const known = execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' })
  assert.match(known, /--memory-reducer-favors-memory .*\n.*default: --memory-reducer-favors-memory/)
  assert.match(known, /--maglev-destroy-on-background .*\n.*default: --maglev-destroy-on-background/)
  assert.match(known, /--max-inlined-bytecode-size .*\n.*default: --max-inlined-bytecode-size=460/)
  assert.match(
    known,
    /--max-inlined-bytecode-size-cumulative .*\n.*default: --max-inlined-bytecode-size-cumulative=920/,
  )
})
