import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BEDROCK_BETAS, MANTLE_BETAS, VERTEX_BETAS } from './claude-betas.ts'

const CLOUDS = { bedrock: BEDROCK_BETAS, mantle: MANTLE_BETAS, vertex: VERTEX_BETAS }

for (const [cloud, { rows }] of Object.entries(CLOUDS))
  test(`betas of ${cloud}: each row has a source with a date, and sends a beta that has a row`, () => {
    for (const [beta, { as, seen }] of rows) {
      assert.match(seen, /^github\.com\/\S.* \(2026-\d\d-\d\d\)$/, beta)
      assert.match(beta, /-20\d\d-?\d\d-?\d\d$/)
      assert.ok(as === null || rows.get(as)?.as === as, beta)
    }
  })

const FROM_CLAUDE_CODE =
  'claude-code-20250219,interleaved-thinking-2025-05-14,effort-2025-11-24,advanced-tool-use-2025-11-20'.split(',')
test("betas: what is sent of Claude Code's", () => {
  const taken = (cloud: keyof typeof CLOUDS) => FROM_CLAUDE_CODE.map((beta) => CLOUDS[cloud].rows.get(beta)?.as ?? null)
  const search = 'tool-search-tool-2025-10-19'
  const [own, thinking, effort] = FROM_CLAUDE_CODE
  assert.deepEqual(taken('bedrock'), [null, thinking, effort, search])
  assert.deepEqual(taken('mantle'), [own, thinking, effort, search])
  assert.deepEqual(taken('vertex'), [null, thinking, null, search])
})
