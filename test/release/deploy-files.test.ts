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
  const files = [join(DEPLOY, 'compose', 'compose.yaml'), join(DEPLOY, '..', 'examples', 'compose', 'compose.yaml')]
  for (const file of files)
    assert.ok(check(parse(readFileSync(file, 'utf8'))), `${file}: ${JSON.stringify(check.errors)}`)
  assert.equal(check({ services: { headgate: { image: 'headgate', read_onli: true } } }), false)
})

test('compose: the container is read-only, without capabilities, and keeps its data in a volume', () => {
  const { services, volumes } = parse(readFileSync(join(DEPLOY, 'compose', 'compose.yaml'), 'utf8'))
  const { headgate } = services
  assert.deepEqual(headgate.cap_drop, ['ALL'])
  assert.equal(headgate.read_only, true)
  assert.deepEqual(headgate.security_opt, ['no-new-privileges:true'])
  assert.deepEqual(Object.keys(volumes), ['data'])
  assert.deepEqual(headgate.volumes, ['data:/data'])
  assert.ok(headgate.ports.every((port: string) => port.startsWith('127.0.0.1:')))
  assert.ok(existsSync(join(DEPLOY, 'compose', 'env.example')))
})
