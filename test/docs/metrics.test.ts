/** docs/metrics.md is current, and Prometheus accepts its queries. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { METRICS_PAGE, metricsPage } from '../../scripts/pages/metrics-page.ts'

const page = readFileSync(METRICS_PAGE, 'utf8')

test('docs/metrics.md has every metric with its labels and meaning', async () => {
  assert.equal(page, await metricsPage(), 'run npm run metrics-page')
})

const hasPromtool = spawnSync('promtool', ['--version']).status === 0

test('docs/metrics.md: Prometheus accepts the queries', {
  skip: hasPromtool ? false : 'promtool is not installed',
}, () => {
  const [section = ''] = page.split('## Queries')[1]?.split('## ') ?? []
  const queries = [...section.matchAll(/^\| .+\? \| `(.+)` \|$/gm)].map(([, query = '']) => query)
  assert.ok(queries.length >= 5)
  const folder = mkdtempSync(join(tmpdir(), 'headgate-queries-'))
  try {
    const rules = queries.map((expr, index) => ({ record: `docs:query_${index}`, expr }))
    const file = join(folder, 'rules.yaml')
    // JSON is YAML.
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'docs', rules }] }))
    execFileSync('promtool', ['check', 'rules', file], { stdio: 'pipe' })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
