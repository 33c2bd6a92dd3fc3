/**
 * The systemd unit is accepted and confined; the Dockerfile passes hadolint; compose files follow the schema of Compose, and the
 * one for production starts the image as its page says.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { parse } from 'yaml'
import { PAGES } from '../docs/support.ts'
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

test('systemd: the service is closed by default, and its variables may open it', () => {
  const unit = readFileSync(UNIT, 'utf8')
  const set = [...unit.matchAll(/^Environment=(.*)$/gm)].flatMap(([, list = '']) => list.split(' '))
  for (const closed of ['NODE_ENV=production', 'HOST=127.0.0.1', 'AUTH_REQUIRED=true']) assert.ok(set.includes(closed))
  const example = readFileSync(join(DEPLOY, 'systemd', 'headgate.env.example'), 'utf8')
  assert.doesNotMatch(example, /^(?:HOST|AUTH_REQUIRED)=/m)
})

test('compose: every call needs a client key by default', () => {
  assert.match(readFileSync(join(DEPLOY, 'compose', 'env.example'), 'utf8'), /^AUTH_REQUIRED=true$/m)
})

for (const page of PAGES.filter(({ path }) => path.startsWith('docs/deploy/')))
  test(`${page.path}: a command that uses the admin token comes after one that sets it`, () => {
    const commands = page.blocks.filter(({ info }) => info[0] === 'sh').map(({ text }) => text)
    const used = commands.findIndex((text) => /\$AUTH_ADMIN\b/.test(text))
    const set = commands.findIndex((text) => /^export (?:.* )?AUTH_ADMIN=/m.test(text))
    assert.ok(used === -1 || (set !== -1 && set <= used))
  })

test('systemd: the time to stop is that of the drain, and to close what there is, also with workers', () => {
  const stop = Number(/^TimeoutStopSec=(\d+)$/m.exec(readFileSync(UNIT, 'utf8'))?.[1])
  // In production the gateway serves for 5 s after SIGTERM, and then waits 30 s for requests in progress.
  assert.ok(stop >= 35 + 15)
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
    join(DEPLOY, 'compose', 'compose.scale.yaml'),
    join(DEPLOY, '..', 'examples', 'compose', 'compose.yaml'),
  ]
  for (const file of files)
    assert.ok(check(parse(readFileSync(file, 'utf8'), { merge: true })), `${file}: ${JSON.stringify(check.errors)}`)
  assert.equal(check({ services: { headgate: { image: 'headgate', read_onli: true } } }), false)
})

test('haproxy: events of a stream are not held back', () => {
  for (const file of [
    join(DEPLOY, 'compose', 'haproxy.cfg'),
    join(DEPLOY, '..', 'docs', 'deploy', 'behind-a-balancer.md'),
  ]) {
    const text = readFileSync(file, 'utf8')
    assert.match(
      text.slice(text.indexOf('defaults\n'), text.indexOf('\nfrontend ')),
      /^ {2}option http-no-delay\b/m,
      file,
    )
  }
})

test('compose: containers are read-only, without capabilities, and keep their data in volumes', () => {
  const config = './headgate.yaml:/etc/headgate/headgate.yaml:ro'
  const balancer = './haproxy.cfg:/usr/local/etc/haproxy/haproxy.cfg:ro'
  for (const [file, stores, expected] of [
    ['compose.yaml', ['data'], { headgate: ['data:/data'] }],
    [
      'compose.scale.yaml',
      ['one', 'two', 'three', 'postgres'],
      {
        one: [config, 'one:/data'],
        two: [config, 'two:/data'],
        three: [config, 'three:/data'],
        migrate: [],
        postgres: ['postgres:/var/lib/postgresql/data'],
        valkey: [],
        balancer: [balancer],
      },
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
      assert.deepEqual(service.volumes ?? [], mounted)
      for (const port of service.ports ?? []) assert.match(port, /^127\.0\.0\.1:/)
    }
  }
})

test('compose: three gateways start after their stores and the migration, and only the balancer has a port', () => {
  const text = readFileSync(join(DEPLOY, 'compose', 'compose.scale.yaml'), 'utf8')
  const { services, networks } = parse(text, { merge: true })
  const completed = { condition: 'service_completed_successfully' }
  const healthy = { condition: 'service_healthy' }
  for (const name of ['one', 'two', 'three']) {
    assert.deepEqual(services[name].depends_on, { postgres: healthy, valkey: healthy, migrate: completed })
    assert.equal(services[name].environment.DATABASE_MIGRATE, 'never')
    assert.equal(services.balancer.depends_on[name].condition, 'service_healthy')
  }
  assert.deepEqual(services.migrate.depends_on, { postgres: healthy })
  assert.deepEqual(services.migrate.command.slice(0, 2), ['db', 'migrate'])
  assert.equal(services.migrate.restart, 'no')
  const open = Object.entries<{ ports?: unknown }>(services).filter(([, { ports }]) => ports !== undefined)
  assert.deepEqual(
    open.map(([name]) => name),
    ['balancer'],
  )
  // The images of the stores begin as root otherwise.
  assert.deepEqual([services.postgres.user, services.valkey.user], ['postgres', 'valkey'])
  assert.equal(networks.stores.internal, true)
  for (const name of ['postgres', 'valkey', 'migrate']) assert.deepEqual(services[name].networks, ['stores'])
})

test('compose: every password is a variable without a default, and the example names it', () => {
  const text = readFileSync(join(DEPLOY, 'compose', 'compose.scale.yaml'), 'utf8')
  const example = readFileSync(join(DEPLOY, 'compose', 'env.example'), 'utf8')
  const variables = [...text.matchAll(/\$\{([^}]*)\}/g)].map(([, variable = '']) => variable)
  assert.ok(variables.length >= 4)
  for (const variable of variables) {
    const [, name] = /^([A-Z_]+):\?set it in \.env$/.exec(variable) ?? assert.fail(variable)
    assert.match(example, new RegExp(`^#?${name}=$`, 'm'))
  }
  const { services } = parse(text, { merge: true })
  const secrets = [
    services.postgres.environment.POSTGRES_PASSWORD,
    services.valkey.command[services.valkey.command.indexOf('--requirepass') + 1],
    ...['one', 'migrate'].map((name) => /:(\$\{.*\})@/.exec(services[name].environment.DATABASE_URL)?.[1]),
    /:(\$\{.*\})@/.exec(services.one.environment.REDIS_URL)?.[1],
  ]
  for (const secret of secrets) assert.match(String(secret), /^\$\{\w+:\?/)
})
