import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRegistry } from '../../observe/registry.ts'
import { mergeMetrics } from './merge-metrics.ts'

/** A page as a process makes it: one request for each duration in ms, and these gauges. */
const pageOf = (times: readonly number[], gauges: { readonly [name: string]: number } = {}, style = 'chat "a b"') => {
  const registry = createRegistry()
  const requests = registry.counter('requests_total', 'Requests.', ['style'])
  const seconds = registry.histogram('seconds', 'Times.', [], [0.1, 1])
  for (const ms of times) {
    requests.add({ style })
    seconds.record({}, ms / 1000)
  }
  for (const [name, value] of Object.entries(gauges)) registry.gauge(name, 'A state.', ['of']).set({ of: 'x' }, value)
  return registry.text()
}

const lines = (page: string) => page.split('\n').filter((line) => line !== '' && !line.startsWith('#'))

test('merge: one page is unchanged', () => {
  const page = pageOf([5, 500], { headgate_in_flight: 3 })
  assert.equal(mergeMetrics([page]), page)
})

test('merge: counters and buckets are added', () =>
  assert.deepEqual(lines(mergeMetrics([pageOf([5, 500]), pageOf([50, 5_000])])), [
    'requests_total{style="chat \\"a b\\""} 4',
    'seconds_bucket{le="0.1"} 2',
    'seconds_bucket{le="1"} 3',
    'seconds_bucket{le="+Inf"} 4',
    'seconds_sum 5.555',
    'seconds_count 4',
  ]))

test('merge: series of one page only are kept, in their family', () => {
  const page = mergeMetrics([pageOf([5]), pageOf([5], { headgate_in_flight: 1 }, 'responses')])
  assert.deepEqual(lines(page).slice(0, 2), [
    'requests_total{style="chat \\"a b\\""} 1',
    'requests_total{style="responses"} 1',
  ])
  assert.equal(page.match(/# TYPE requests_total counter/g)?.length, 1)
  assert.match(page, /^# TYPE headgate_in_flight gauge\nheadgate_in_flight\{of="x"\} 1$/m)
})

const states = [
  ['headgate_in_flight', 2, 3, 5],
  ['headgate_buffered_bytes', 10, 0, 10],
  ['headgate_info', 1, 1, 1],
  ['process_start_time_seconds', 100, 50, 50],
  ['headgate_circuit_state', 2, 0, 2],
  ['headgate_key_active', 1, 0, 0],
  ['headgate_event_loop_delay_seconds', 0.1, 0.3, 0.3],
] as const
for (const [name, one, other, both] of states)
  test(`merge: ${name} of ${one} and ${other} is ${both}`, () =>
    assert.ok(
      lines(mergeMetrics([pageOf([], { [name]: one }), pageOf([], { [name]: other })])).includes(
        `${name}{of="x"} ${both}`,
      ),
    ))

test('merge: counts of an ended process stay, its gauges do not', () => {
  const gone = pageOf([5, 5], { headgate_in_flight: 7 })
  const now = pageOf([5], { headgate_in_flight: 1 })
  const page = mergeMetrics([now], [gone])
  assert.match(page, /^requests_total\{.*\} 3$/m)
  assert.match(page, /^headgate_in_flight\{of="x"\} 1$/m)
  // And again, for the next one that ends.
  assert.match(mergeMetrics([], [page, now]), /^requests_total\{.*\} 4$/m)
  assert.doesNotMatch(mergeMetrics([], [page]), /headgate_in_flight/)
})

test('merge: the number of series kept for ended processes is limited', () => {
  const page = (life: number) => {
    const named = Array.from({ length: 20_000 }, (_, at) => `named_total{model="${life}-${at}"} 1`)
    return `# HELP named_total N.\n# TYPE named_total counter\n${named.join('\n')}\nnamed_total{model="all"} 1\n`
  }
  let past = ''
  for (let life = 0; life < 8; life++) past = mergeMetrics([], [past, page(life)])
  assert.ok(lines(past).length <= 70_000, `${lines(past).length} lines`)
  // Known series never decrease.
  assert.match(past, /^named_total\{model="all"\} 8$/m)
  assert.match(past, /^named_total\{model="0-0"\} 1$/m)
})
