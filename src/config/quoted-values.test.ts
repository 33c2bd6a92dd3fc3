// biome-ignore-all lint/suspicious/noTemplateCurlyInString: a reference to a variable is under test
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lines, loaded } from '../../test/support/config.ts'
import { effectiveConfig } from './effective.ts'
import { withoutQuotes } from './without-quotes.ts'
import { workerCount } from './worker-count.ts'

const values = [
  ['abc', 'abc'],
  ['"abc"', 'abc'],
  ["'abc'", 'abc'],
  [' "abc" ', 'abc'],
  ['""', ''],
  ['"', '"'],
  ['"abc', '"abc'],
  ['abc"', 'abc"'],
  [`"abc'`, `"abc'`],
  [`"it's"`, "it's"],
  [`'say "x"'`, 'say "x"'],
  ['"a","b"', 'a,b'],
  ['"a", \'b\'', 'a,b'],
  ['"a,b"', 'a,b'],
  ['"a",b', '"a",b'],
  ['"a" "b"', '"a" "b"'],
  ['""abc""', '""abc""'],
  ['`abc`', '`abc`'],
  ['{"a":"b"}', '{"a":"b"}'],
] as const
for (const [value, expected] of values)
  test(`quoted values: ${value} is ${expected}`, () => assert.equal(withoutQuotes(value), expected))

test('quoted values: every kind of variable of docker --env-file is read without its marks, with a warning each', () => {
  const env = {
    OPENAI_API_KEY: '"sk-one"',
    OPENAI_API_KEY_2: "'sk-two'",
    OPENAI_BASE_URL: '"https://llm.example/v1"',
    OPENAI_MODELS: '"m1,m2"',
    AUTH_KEYS: '"client-one","client-two"',
    AUTH_ADMIN: "'an-admin-token-of-24-chars'",
    AUTH_PEPPER: '"a-pepper-of-thirty-two-characters"',
    HOSTS: '"gateway.example"',
    DATABASE_URL: '"postgres://db.example/headgate"',
    REDIS_URL: "'redis://redis.example:6379'",
    DATA_DIR: '"/var/lib/headgate"',
    STRATEGY: '"priority"',
    RETRY_MAX_ATTEMPTS: '"3"',
    PORT: '"8080"',
    NODE_ENV: '"production"',
    HTTPS_PROXY: '"http://user:pw@proxy.example:3128"',
    NO_PROXY: '"a.example,b.example"',
    OWN_KEY: '"sk-own"',
    // Other programs read this one.
    PS1: '"> "',
  }
  const yaml =
    'providers: { own: { kind: openai-compatible, baseUrl: "https://own.example/v1", keys: [ "${OWN_KEY}" ] } }\n'
  const { config, launch, warnings } = loaded({ env, yaml })
  const [own, openai] = config.instances
  assert.deepEqual(
    own?.keys.map(({ secret }) => secret?.reveal()),
    ['sk-own'],
  )
  assert.deepEqual(
    openai?.keys.map(({ secret }) => secret?.reveal()),
    ['sk-one', 'sk-two'],
  )
  assert.equal(openai?.baseUrl, 'https://llm.example/v1')
  assert.deepEqual(openai.models, ['m1', 'm2'])
  const { auth, hosts, database, redis, data, strategy, retry } = config.settings
  assert.deepEqual(auth.keys, ['client-one', 'client-two'])
  assert.deepEqual(
    [auth.admin, auth.pepper, hosts, database.url, redis.url, data.dir, strategy, retry.maxAttempts],
    [
      'an-admin-token-of-24-chars',
      'a-pepper-of-thirty-two-characters',
      ['gateway.example'],
      'postgres://db.example/headgate',
      'redis://redis.example:6379',
      '/var/lib/headgate',
      'priority',
      3,
    ],
  )
  assert.deepEqual(
    [launch.port, launch.production, config.network.proxies[0]?.name],
    [8080, true, 'proxy.example:3128'],
  )
  assert.equal(workerCount({ WORKERS: '"4"' }, '/nonexistent'), 4)
  const named = warnings.flatMap((warning) => /^([A-Z0-9_]+): the quotation marks/.exec(warning)?.[1] ?? [])
  assert.deepEqual(
    named.toSorted(),
    Object.keys(env)
      .filter((name) => name !== 'PS1')
      .toSorted(),
  )
  assert.doesNotMatch(warnings.join(), /sk-one|client-one|a-pepper|pw@/)
  const shown = effectiveConfig({ config }, { dotenv: undefined, file: undefined, problems: [], warnings: [] }, env)
  assert.equal(shown.settings.find(({ name }) => name === 'strategy')?.origin, 'env')
})

test('quoted values: .env has its own rule, so further marks are part of the value', () => {
  const { config, warnings } = loaded({ env: {}, dotenv: `OPENAI_API_KEY=k\nHOSTS="a.example"\nDATA_DIR='"quoted"'\n` })
  assert.deepEqual([config.settings.hosts, config.settings.data.dir], [['a.example'], '"quoted"'])
  assert.deepEqual(warnings, [])
})

test('quoted values: marks in the file and in .env around a key of a provider are a mistake', () => {
  assert.match(
    lines({ env: {}, dotenv: `OPENAI_API_KEY='"canary"'` }).join(),
    /OPENAI_API_KEY: found a key in quotation marks/,
  )
  assert.match(
    lines({ env: {}, yaml: `providers: { openai: { keys: [ "'canary'" ] } }\n` }).join(),
    /found a key in quotation marks/,
  )
})
