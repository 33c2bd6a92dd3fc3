/** The files for Prometheus and Grafana name metrics that the gateway has, and the rules fire as their test says. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { post, start } from '../e2e/support/process.ts'

const DEPLOY = join(import.meta.dirname, '..', '..', 'deploy')
const RULES = join(DEPLOY, 'prometheus', 'headgate.rules.yaml')
const GRAFANA = join(DEPLOY, 'grafana', 'headgate.json')

const BUDGET = `teams:
  search: {}
budgets:
  day: { amount: 5.00, period: day, appliesTo: { teams: [search] } }
`

test('monitoring: every metric of the rules and the dashboard exists', async () => {
  await using gateway = await start({
    env: { WORKERS: '2', AUTH_ADMIN: 'admin-canary-0123456789' },
    files: { 'headgate.yaml': BUDGET },
  })
  await post(`${gateway.base}/chat/completions`, { model: 'demo/chain', messages: [{ role: 'user', content: 'x' }] })
  const page = await (
    await fetch(`${gateway.url}/metrics`, { headers: { authorization: 'Bearer admin-canary-0123456789' } })
  ).text()
  const names = new Set([...page.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name))
  const named = [RULES, GRAFANA].flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(/\b(?:headgate|gen_ai|process|nodejs)_[a-z_]+/g)].map(([name]) => name),
  )
  const unknown = named.filter((name) => !names.has(name.replace(/_(?:bucket|sum|count)$/, '')) && !names.has(name))
  assert.deepEqual([...new Set(unknown)], [])
  assert.ok(named.length > 30)
})

test('monitoring: the panels of the dashboard have a title, a unit and distinct places', () => {
  const { panels } = JSON.parse(readFileSync(GRAFANA, 'utf8'))
  const places = new Set<string>()
  for (const { type, title, description, fieldConfig, gridPos, targets } of panels) {
    places.add(`${gridPos.x} ${gridPos.y}`)
    assert.ok(title)
    if (type === 'row') continue
    assert.ok(description && fieldConfig.defaults.unit && targets.length > 0, title)
  }
  assert.equal(places.size, panels.length)
})

test('monitoring: promtool accepts the rules, and they fire as described', {
  skip: spawnSync('promtool', ['--version']).error ? 'promtool is missing (Debian: prometheus)' : false,
}, () => {
  const test = join(DEPLOY, 'prometheus', 'headgate.rules.test.yaml')
  for (const words of [
    ['check', 'rules', RULES],
    ['test', 'rules', test],
  ]) {
    const { status, stdout, stderr } = spawnSync('promtool', words, { encoding: 'utf8', timeout: 60_000 })
    assert.equal(status, 0, stdout + stderr)
  }
})
