/**
 * The systemd unit is accepted and confined; the Dockerfile passes hadolint; compose files follow the schema of Compose, and the
 * one for production starts the image as its page says.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { parse } from 'yaml'
import { COMPOSE_SCHEMA, linterPath, skipWithoutFile, skipWithoutLinter } from './support/tools.ts'

const DEPLOY = join(import.meta.dirname, '..', '..', 'deploy')
const UNIT = join(DEPLOY, 'systemd', 'headgate.service')

test('systemd: the unit is valid and its exposure is low', {
  skip: spawnSync('systemd-analyze', ['--version']).error ? 'systemd-analyze is missing' : false,
}, () => {
  const verified = spawnSync('systemd-analyze', ['verify', UNIT], { encoding: 'utf8', timeout: 60_000 })
  // The program is not installed here.
  const complaints = verified.stderr.split('\n').filter((line) => line !== '' && !line.includes('is not executable'))
  assert.deepEqual(
    complaints.filter((line) => line.includes('headgate')),
    [],
  )
  const words = ['security', '--offline=yes', '--threshold=25', '--no-pager', UNIT]
  const { status, stdout } = spawnSync('systemd-analyze', words, { encoding: 'utf8', timeout: 60_000 })
  assert.equal(status, 0, stdout)
})

test('systemd: the time to stop is longer than the drain', () => {
  const stop = Number(/^TimeoutStopSec=(\d+)$/m.exec(readFileSync(UNIT, 'utf8'))?.[1])
  // In production the gateway serves for 5 s after SIGTERM, and then waits 30 s for requests in progress.
  assert.ok(stop > 35)
})

test('image: hadolint finds nothing in the Dockerfile', { skip: skipWithoutLinter('hadolint') }, () => {
  const lint = (input: string) => spawnSync(linterPath('hadolint'), ['-'], { input, encoding: 'utf8', timeout: 60_000 })
  const { status, stdout } = lint(readFileSync(join(DEPLOY, 'image', 'Dockerfile'), 'utf8'))
  assert.equal(status, 0, stdout)
  assert.equal(lint('FROM debian\n').status, 1)
})

test('compose: the files follow the schema of Compose', { skip: skipWithoutFile(COMPOSE_SCHEMA) }, () => {
  const { $schema: _, ...schema } = JSON.parse(readFileSync(COMPOSE_SCHEMA, 'utf8'))
  const check = new Ajv2020({ strict: false, validateFormats: false }).compile(schema)
  const files = [
    join(DEPLOY, 'compose', 'compose.yaml'),
    join(DEPLOY, 'compose', 'compose.replicas.yaml'),
    join(DEPLOY, '..', 'examples', 'compose', 'compose.yaml'),
  ]
  for (const file of files)
    assert.ok(check(parse(readFileSync(file, 'utf8'), { merge: true })), `${file}: ${JSON.stringify(check.errors)}`)
  assert.equal(check({ services: { headgate: { image: 'headgate', read_onli: true } } }), false)
})

test('compose: containers are read-only, without capabilities, and keep their data in volumes', () => {
  const config = './headgate.yaml:/etc/headgate/headgate.yaml:ro'
  const balancer = './haproxy.cfg:/usr/local/etc/haproxy/haproxy.cfg:ro'
  for (const [file, stores, expected] of [
    ['compose.yaml', ['data'], { headgate: ['data:/data'] }],
    [
      'compose.replicas.yaml',
      ['one', 'two'],
      { one: [config, 'one:/data'], two: [config, 'two:/data'], balancer: [balancer] },
    ],
  ] as const) {
    const { services, volumes } = parse(readFileSync(join(DEPLOY, 'compose', file), 'utf8'), { merge: true })
    assert.deepEqual(Object.keys(services), Object.keys(expected))
    assert.deepEqual(Object.keys(volumes), stores)
    for (const [name, mounted] of Object.entries(expected)) {
      const service = services[name]
      assert.deepEqual(service.cap_drop, ['ALL'])
      assert.equal(service.read_only, true)
      assert.deepEqual(service.security_opt, ['no-new-privileges:true'])
      assert.deepEqual(service.volumes, mounted)
      assert.ok(service.ports.every((port: string) => port.startsWith('127.0.0.1:')))
    }
  }
  assert.ok(existsSync(join(DEPLOY, 'compose', 'env.example')))
})
