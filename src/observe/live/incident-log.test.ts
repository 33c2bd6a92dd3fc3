import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fail } from '../../core/failure.ts'
import type { Incident, NodeIncident } from '../../core/incident.ts'
import type { Trace } from '../../core/trace.ts'
import { mergeIncidents } from './incident.ts'
import { IncidentLog } from './incident-log.ts'

const given = () => {
  let now = 1_000_000
  let timers: { at: number; run: () => void }[] = []
  const reported: string[] = []
  const stored: Incident[] = []
  let letters = 0
  const log = new IncidentLog({
    date: () => now,
    later(ms, run) {
      timers.push({ at: now + ms, run })
      return () => {}
    },
    providers: () => ['groq', 'house', 'other'],
    sharing: (place) => (place === 'https://shared.test/v1' ? ['house', 'other'] : []),
    report: ({ providers, end }) => reported.push(`${providers.join('+')} ${end === null ? 'begin' : 'end'}`),
    store: (incident) => stored.push(incident),
    letters: () => String(letters++),
  })
  const circuit = (what: 'model' | 'deployment' | 'endpoint' | 'provider', name: string, to: string, why = 'status') =>
    log.observe({ event: 'circuit', what, name, from: 'closed', to, why, request: 'req_1' })
  const request = (trace: Trace) => log.observe({ event: 'request', trace })
  const pass = (ms: number) => {
    now += ms
    const due = timers.filter(({ at }) => at <= now)
    timers = timers.filter(({ at }) => at > now)
    for (const { run } of due) run()
  }
  return { log, circuit, request, pass, reported, stored }
}

const received = {
  type: 'received',
  at: 0,
  date: 0,
  family: '',
  id: 'r',
  style: '',
  model: 'x',
  stream: false,
} as const
const attempt = (provider: string, model: string) => ({ type: 'attempt', at: 1, provider, model, key: 'k' }) as const
const failed = (number: number) =>
  ({ type: 'failed', at: 2, attempt: number, failure: fail('status', 'x', { status: 503 }) }) as const
const committed = (number: number) => ({ type: 'committed', at: 2, attempt: number, status: 200 }) as const
const ended = (how: 'answered' | 'refused' | 'interrupted', status: number) =>
  ({ type: 'ended', at: 3, how, status }) as const
const skipped = (provider: string, model: string, why: string) =>
  ({ type: 'skipped', targets: [{ provider, model, key: 'k', why }], more: 0 }) as const

const figures = ({ failures, rerouted, lost }: Incident) => [failures, rerouted, lost]

test('incidents: an outage with many probes and several models is one incident', () => {
  const { log, circuit, pass, reported } = given()
  circuit('deployment', 'groq k llama', 'open')
  circuit('model', 'groq qwen', 'open', 'overloaded')
  for (let probe = 0; probe < 10; probe++) {
    pass(10_000)
    circuit('deployment', 'groq k llama', 'half_open', 'time to probe')
    circuit('deployment', 'groq k llama', 'open', 'status')
  }
  circuit('deployment', 'groq k llama', 'closed', 'an answer came')
  pass(5_000)
  circuit('model', 'groq qwen', 'closed', 'an answer came')
  const [incident, ...others] = log.all()
  assert.deepEqual(others, [])
  assert.deepEqual(
    [incident?.providers, incident?.models, incident?.cause, incident?.request, incident?.ended_by],
    [['groq'], ['llama', 'qwen'], 'status', 'req_1', 'recovered'],
  )
  assert.equal((incident?.end ?? 0) - (incident?.begin ?? 0), 105_000)
  assert.deepEqual(reported, ['groq begin'])
  pass(60_000)
  assert.deepEqual(reported, ['groq begin', 'groq end'])
})

test('incidents: one that opens again within a minute goes on, later is another', () => {
  const { log, circuit, pass, reported } = given()
  for (const wait of [30_000, 59_000, 61_000, 61_000]) {
    circuit('model', 'groq llama', 'open')
    circuit('model', 'groq llama', 'closed')
    pass(wait)
  }
  assert.deepEqual(reported, ['groq begin', 'groq end', 'groq begin', 'groq end'])
  assert.deepEqual(log.all(), [], 'those that are over are stored')
})

test('incidents: providers at one base URL have one incident, and a rest of an operator has none', () => {
  const { log, circuit } = given()
  circuit('endpoint', 'https://shared.test/v1', 'open', 'refused')
  circuit('model', 'other m', 'open')
  circuit('provider', 'groq', 'open', 'operator')
  assert.deepEqual(
    log.all().map(({ providers, base_url, models }) => [providers, base_url, models]),
    [[['house', 'other'], 'https://shared.test/v1', ['m']]],
  )
})

test('incidents: requests are counted by what became of them', () => {
  const { log, circuit, request } = given()
  const other = [attempt('house', 'm'), committed(0), ended('answered', 200)] as const
  request([received, skipped('groq', 'llama', 'circuit'), ...other])
  circuit('model', 'groq llama', 'open')
  request([received, skipped('groq', 'llama', 'circuit'), ...other])
  request([received, skipped('groq', 'llama', 'warming'), ...other])
  request([received, skipped('groq', 'llama', 'budget'), ...other])
  request([received, skipped('groq', 'qwen', 'circuit'), ...other])
  request([received, attempt('groq', 'llama'), failed(0), attempt('house', 'm'), committed(1), ended('answered', 200)])
  request([
    received,
    attempt('groq', 'llama'),
    failed(0),
    attempt('groq', 'llama'),
    committed(1),
    ended('answered', 200),
  ])
  request([received, attempt('groq', 'llama'), failed(0), ended('refused', 503)])
  request([received, skipped('groq', 'llama', 'circuit'), ended('refused', 503)])
  request([received, skipped('groq', 'llama', 'circuit'), ended('refused', 402)])
  const [incident] = log.all()
  assert.deepEqual(incident && figures(incident), [3, 3, 2])
})

test('incidents: each is stored when it begins and ends, and with changed figures after ten seconds', () => {
  const { log, circuit, request, pass, stored } = given()
  const shown = () => stored.splice(0).map(({ id, end, ended_by, failures }) => [id.slice(-1), end, ended_by, failures])
  circuit('model', 'groq llama', 'open')
  assert.deepEqual(shown(), [['0', null, null, 0]])
  for (let n = 0; n < 50; n++) request([received, attempt('groq', 'llama'), failed(0), ended('refused', 503)])
  assert.deepEqual(shown(), [])
  pass(10_000)
  assert.deepEqual(shown(), [['0', null, null, 50]])
  circuit('model', 'groq llama', 'closed')
  assert.deepEqual(shown(), [['0', 1_010_000, 'recovered', 50]])
  pass(120_000)
  circuit('model', 'house m', 'open')
  log.stop()
  assert.deepEqual(shown(), [
    ['1', null, null, 0],
    ['1', 1_130_000, 'restart', 0],
  ])
})

test('incidents: the same outage in several processes is one', () => {
  const one: NodeIncident = {
    nodes: ['n1'],
    ...{
      id: 'a',
      providers: ['groq'],
      models: ['a'],
      base_url: null,
      begin: 1_000,
      end: 90_000,
      ended_by: 'recovered',
    },
    ...{ cause: 'status', request: null, failures: 1, rerouted: 2, lost: 3 },
  }
  const merged = mergeIncidents([
    one,
    { ...one, begin: 500_000, end: 510_000 },
    { ...one, models: ['b'], nodes: ['n2'], begin: 2_000, end: 95_000 },
    { ...one, providers: ['house'] },
  ])
  assert.deepEqual(
    merged.map((two) => [two.providers[0], two.models.join(), two.nodes.join(), two.begin, two.end, two.lost]),
    [
      ['groq', 'a', 'n1', 500_000, 510_000, 3],
      ['groq', 'a,b', 'n1,n2', 1_000, 95_000, 6],
      ['house', 'a', 'n1', 1_000, 90_000, 3],
    ],
  )
})

test('incidents: the failures that opened the circuit are part of it, older ones and those elsewhere are not', () => {
  const { log, circuit, request, pass } = given()
  const failure = [received, attempt('groq', 'llama'), failed(0)]
  request([...failure, ended('refused', 502)])
  pass(61_000)
  const [other] = [[received, attempt('other', 'm'), failed(0), ended('refused', 502)]]
  request(other)
  request([...failure, attempt('house', 'm'), committed(1), ended('answered', 200)])
  pass(2_000)
  request([...failure, ended('refused', 502)])
  circuit('model', 'groq llama', 'open')
  const [incident] = log.all()
  assert.ok(incident)
  assert.deepEqual(figures(incident), [2, 1, 1])
  assert.equal(incident.begin, 1_061_000)
})
