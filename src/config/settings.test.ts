import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lines, load, loaded } from '../../test/support/config.ts'
import { defaultSettings } from '../../test/support/settings.ts'
import { POLLING_TOOLS } from '../core/loops.ts'
import { allowedBy, envName, type SettingRow } from './definition.ts'
import { misspelledSettings } from './environment.ts'
import { launchRows, settingRows } from './rows.ts'

const at = (root: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>((value, step) => Object.entries(value ?? {}).find(([name]) => name === step)?.[1], root)

const yamlOf = ({ path }: SettingRow, value: string): string =>
  `${path.map((step, depth) => `${'  '.repeat(depth)}${step}:`).join('\n')} ${value}\n`

const setBy = (row: SettingRow, env: string): unknown =>
  at(loaded({ env: { [row.env]: env } }).config.settings, row.path)

/** The hint for `30s` at a setting in milliseconds, the only duration in these tests. */
const hint = ({ schema }: SettingRow, text: string): string =>
  text === '30s' && schema.description?.includes('(ms)') ? '; times are in milliseconds, write 30000' : ''

/** Two values for a setting of text or of a list. */
const examples = ({ name }: SettingRow): readonly [string, string] => {
  switch (name) {
    case 'basePath':
      return ['/gateway', '/team/llm']
    case 'cors.origins':
      return ['https://a.example', 'app://b']
    case 'trustedProxies':
      return ['10.0.0.0/8', '::1']
    case 'bodies.redact':
      return ['email', 'iban']
    case 'network.proxy':
      return ['none', 'http://user:pw@proxy.example:3128']
    case 'usage.timezone':
      return ['Europe/Berlin', 'Asia/Kathmandu']
    case 'auth.pepper':
      return ['sixteen letters.', 'more than sixteen letters']
    case 'drill.budget':
      return ['0.25', '12']
    case 'drill.at':
      return ['never', '03:30']
    case 'export.s3.bucket':
      return ['acme-llm-usage', 'acme.usage']
    case 'export.s3.prefix':
      return ['usage', 'headgate/prod=1']
    case 'export.s3.region':
      return ['eu-central-1', 'auto']
    case 'export.s3.endpoint':
      return ['https://minio.example:9000', 'http://10.0.0.1/s3']
    case 'otel.endpoint':
    case 'otel.traces.endpoint':
    case 'otel.metrics.endpoint':
      return ['http://localhost:4318', 'https://otlp.example/base']
    case 'otel.headers':
    case 'otel.resourceAttributes':
    case 'otel.traces.headers':
    case 'otel.metrics.headers':
      return ['a=1', 'b=2']
    case 'otel.traceUrl':
      return ['https://traces.example/{trace}', 'http://tempo/t?id={trace}']
    case 'database.url':
    case 'database.readUrl':
      return ['postgres://one/headgate', 'postgresql://two/headgate']
    case 'redis.url':
      return ['redis://one:6379', 'rediss://two:6379']
    default:
      return ['a', 'b c']
  }
}

/** A value for the file, another one for the environment, and the latter as it is read. */
const precedence = (row: SettingRow, fallback: unknown): readonly [string, string, unknown] => {
  const { schema } = row
  const least = schema.minimum ?? 0
  const [a, b] = examples(row)
  if (schema.anyOf) return ['true', 'false', false]
  if (schema.enum) return [schema.enum[0] ?? '', schema.enum[1] ?? '', schema.enum[1]]
  switch (schema.type) {
    case 'integer':
    case 'number':
      return [String(least), String(least + 1), least + 1]
    case 'array':
      return [`["${a}"]`, `${a},${b}`, [a, b]]
    case 'boolean':
      return [String(fallback), String(!fallback), !fallback]
    default:
      return [`"${a}"`, b, b]
  }
}

test('every documented setting exists with its name and default', () => {
  const documented = [
    ['circuit.timeout', 'CIRCUIT_TIMEOUT', 30000],
    ['circuit.errorThreshold', 'CIRCUIT_ERROR_THRESHOLD', 50],
    ['circuit.firstProbe', 'CIRCUIT_FIRST_PROBE', 10_000],
    ['circuit.resetTimeout', 'CIRCUIT_RESET_TIMEOUT', 300000],
    ['circuit.window', 'CIRCUIT_WINDOW', 60000],
    ['circuit.minRequests', 'CIRCUIT_MIN_REQUESTS', 5],
    ['circuit.consecutiveFailures', 'CIRCUIT_CONSECUTIVE_FAILURES', 5],
    ['circuit.probes', 'CIRCUIT_PROBES', 1],
    ['circuit.slowStart', 'CIRCUIT_SLOW_START', 10000],
    ['circuit.whenAllOpen', 'CIRCUIT_WHEN_ALL_OPEN', 'probe'],
    ['retry.sameModelWait', 'RETRY_SAME_MODEL_WAIT', 2_000],
    ['retry.maxAttempts', 'RETRY_MAX_ATTEMPTS', 6],
    ['retry.budgetPercent', 'RETRY_BUDGET_PERCENT', 20],
    ['retry.budgetFloor', 'RETRY_BUDGET_FLOOR', 3],
    ['hedge.percent', 'HEDGE_PERCENT', 0],
    ['hedge.delay', 'HEDGE_DELAY', 1_000],
    ['timeout.connect', 'TIMEOUT_CONNECT', 5000],
    ['timeout.firstContent', 'TIMEOUT_FIRST_CONTENT', 120000],
    ['timeout.idle', 'TIMEOUT_IDLE', 60000],
    ['timeout.contentIdle', 'TIMEOUT_CONTENT_IDLE', 180000],
    ['timeout.request', 'TIMEOUT_REQUEST', 600000],
    ['timeout.clientWrite', 'TIMEOUT_CLIENT_WRITE', 120000],
    ['stream.holdback', 'STREAM_HOLDBACK', 0],
    ['stream.continue', 'STREAM_CONTINUE', false],
    ['keepAlive.interval', 'KEEP_ALIVE_INTERVAL', 15000],
    ['fallback', 'FALLBACK', 'any'],
    ['unknownModel', 'UNKNOWN_MODEL', 'route'],
    ['routing.requestMembers', 'ROUTING_REQUEST_MEMBERS', true],
    ['strategy', 'STRATEGY', 'priority'],
    ['keyStrategy', 'KEY_STRATEGY', 'spread'],
    ['drain.delay', 'DRAIN_DELAY', 0],
    ['drain.timeout', 'DRAIN_TIMEOUT', 30000],
    ['limit.body', 'LIMIT_BODY', 33554432],
    ['limit.upload', 'LIMIT_UPLOAD', 104857600],
    ['limit.spoolMemory', 'LIMIT_SPOOL_MEMORY', 1048576],
    ['limit.spoolMegabytes', 'LIMIT_SPOOL_MEGABYTES', 4096],
    ['limit.messages', 'LIMIT_MESSAGES', 10000],
    ['limit.parts', 'LIMIT_PARTS', 20000],
    ['limit.tools', 'LIMIT_TOOLS', 2000],
    ['limit.concurrent', 'LIMIT_CONCURRENT', 10000],
    ['limit.connections', 'LIMIT_CONNECTIONS', 10000],
    ['limit.connectionsPerAddress', 'LIMIT_CONNECTIONS_PER_ADDRESS', 0],
    ['limit.bufferedMegabytes', 'LIMIT_BUFFERED_MEGABYTES', 512],
    ['limit.eventLoopDelay', 'LIMIT_EVENT_LOOP_DELAY', 1000],
    ['auth.keys', 'AUTH_KEYS', []],
    ['auth.admin', 'AUTH_ADMIN', undefined],
    ['auth.required', 'AUTH_REQUIRED', 'auto'],
    ['auth.pepper', 'AUTH_PEPPER', undefined],
    ['usage.ledger', 'USAGE_LEDGER', true],
    ['usage.keepDays', 'USAGE_KEEP_DAYS', 30],
    ['usage.keepHours', 'USAGE_KEEP_HOURS', 90],
    ['usage.maxMegabytes', 'USAGE_MAX_MEGABYTES', 10240],
    ['usage.timezone', 'USAGE_TIMEZONE', 'UTC'],
    ['usage.rollupTag', 'USAGE_ROLLUP_TAG', undefined],
    ['usage.endUser', 'USAGE_END_USER', false],
    ['sessions.guess', 'SESSIONS_GUESS', false],
    ['switch.act', 'SWITCH_ACT', 'off'],
    ['loops.action', 'LOOPS_ACTION', 'off'],
    ['loops.polling', 'LOOPS_POLLING', POLLING_TOOLS],
    ['drill.shapes', 'DRILL_SHAPES', false],
    ['drill.live', 'DRILL_LIVE', false],
    ['drill.budget', 'DRILL_BUDGET', '0.50'],
    ['drill.at', 'DRILL_AT', 'quiet'],
    ['drill.days', 'DRILL_DAYS', 7],
    ['drill.depth', 'DRILL_DEPTH', 2],
    ['usage.drainOnAbort', 'USAGE_DRAIN_ON_ABORT', false],
    ['export.s3.bucket', 'EXPORT_S3_BUCKET', undefined],
    ['export.s3.prefix', 'EXPORT_S3_PREFIX', 'headgate'],
    ['export.s3.region', 'EXPORT_S3_REGION', 'us-east-1'],
    ['export.s3.endpoint', 'EXPORT_S3_ENDPOINT', undefined],
    ['lease.interval', 'LEASE_INTERVAL', 500],
    ['lease.wait', 'LEASE_WAIT', 2_500],
    ['lease.timeout', 'LEASE_TIMEOUT', 1_000],
    ['lease.overdraft', 'LEASE_OVERDRAFT', 1],
    ['ledger.folder', 'LEDGER_FOLDER', undefined],
    ['ledger.sync', 'LEDGER_SYNC', 'interval'],
    ['ledger.interval', 'LEDGER_INTERVAL', 250],
    ['ledger.whenUnwritable', 'LEDGER_WHEN_UNWRITABLE', 'serve'],
    ['ledger.spoolMegabytes', 'LEDGER_SPOOL_MEGABYTES', 2048],
    ['budget.maxOutput', 'BUDGET_MAX_OUTPUT', 32768],
    ['budget.unknownPrice', 'BUDGET_UNKNOWN_PRICE', 'dearest'],
    ['budget.whenUnknown', 'BUDGET_WHEN_UNKNOWN', 'refuse'],
    ['cache.maxMegabytes', 'CACHE_MAX_MEGABYTES', 64],
    ['cache.shared', 'CACHE_SHARED', false],
    ['bodies.sample', 'BODIES_SAMPLE', 0],
    ['batches.interval', 'BATCHES_INTERVAL', 600_000],
    ['bodies.keepDays', 'BODIES_KEEP_DAYS', 7],
    ['bodies.maxMegabytes', 'BODIES_MAX_MEGABYTES', 1024],
    ['bodies.maxBytes', 'BODIES_MAX_BYTES', 65536],
    ['bodies.redact', 'BODIES_REDACT', ['email', 'phone', 'card', 'iban', 'apiKey']],
    ['bodies.patterns', 'BODIES_PATTERNS', []],
    ['bodies.words', 'BODIES_WORDS', []],
    ['dashboard.enabled', 'DASHBOARD_ENABLED', true],
    ['metrics.perKey', 'METRICS_PER_KEY', false],
    ['network.proxy', 'NETWORK_PROXY', 'env'],
    ['network.noProxy', 'NETWORK_NO_PROXY', []],
    ['network.ca', 'NETWORK_CA', []],
    ['network.caOnly', 'NETWORK_CA_ONLY', false],
    ['network.addresses', 'NETWORK_ADDRESSES', 'auto'],
    ['network.dns.keep', 'NETWORK_DNS_KEEP', 30_000],
    ['network.dns.stale', 'NETWORK_DNS_STALE', 600_000],
    ['network.maxConnectionAge', 'NETWORK_MAX_CONNECTION_AGE', 600_000],
    ['audit.keepDays', 'AUDIT_KEEP_DAYS', 365],
    ['trustedProxies', 'TRUSTED_PROXIES', []],
    ['proxyProtocol', 'PROXY_PROTOCOL', 'off'],
    ['cors.origins', 'CORS_ORIGINS', []],
    ['database.url', 'DATABASE_URL', undefined],
    ['database.readUrl', 'DATABASE_READ_URL', undefined],
    ['database.migrate', 'DATABASE_MIGRATE', 'auto'],
    ['redis.url', 'REDIS_URL', undefined],
    ['prove.onFailure', 'PROVE_ON_FAILURE', 'warn'],
    ['hosts', 'HOSTS', []],
    ['tls.cert', 'TLS_CERT', []],
    ['tls.key', 'TLS_KEY', []],
    ['tls.clientCa', 'TLS_CLIENT_CA', undefined],
    ['tls.clientAuth', 'TLS_CLIENT_AUTH', 'none'],
    ['tls.healthPort', 'TLS_HEALTH_PORT', 0],
    ['basePath', 'BASE_PATH', ''],
    ['data.dir', 'DATA_DIR', '.headgate'],
    ['responses.keepDays', 'RESPONSES_KEEP_DAYS', 30],
    ['responses.maxMegabytes', 'RESPONSES_MAX_MEGABYTES', 1024],
    ['responses.timeout', 'RESPONSES_TIMEOUT', 4000],
    ['realtime.maxSession', 'REALTIME_MAX_SESSION', 3_600_000],
    ['realtime.idle', 'REALTIME_IDLE', 600_000],
    ['realtime.guarded', 'REALTIME_GUARDED', 'refuse'],
    ['idempotency.keep', 'IDEMPOTENCY_KEEP', 600_000],
    ['idempotency.finish', 'IDEMPOTENCY_FINISH', 60_000],
    ['idempotency.maxMegabytes', 'IDEMPOTENCY_MAX_MEGABYTES', 64],
    ['coalesce', 'COALESCE', false],
    ['otel.endpoint', 'OTEL_EXPORTER_OTLP_ENDPOINT', undefined],
    ['otel.headers', 'OTEL_EXPORTER_OTLP_HEADERS', []],
    ['otel.protocol', 'OTEL_EXPORTER_OTLP_PROTOCOL', 'http/protobuf'],
    ['otel.timeout', 'OTEL_EXPORTER_OTLP_TIMEOUT', 10_000],
    ['otel.compression', 'OTEL_EXPORTER_OTLP_COMPRESSION', 'none'],
    ['otel.certificate', 'OTEL_EXPORTER_OTLP_CERTIFICATE', undefined],
    ['otel.disabled', 'OTEL_SDK_DISABLED', false],
    ['otel.serviceName', 'OTEL_SERVICE_NAME', 'headgate'],
    ['otel.resourceAttributes', 'OTEL_RESOURCE_ATTRIBUTES', []],
    ['otel.traces.exporter', 'OTEL_TRACES_EXPORTER', 'otlp'],
    ['otel.traces.endpoint', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', undefined],
    ['otel.traces.headers', 'OTEL_EXPORTER_OTLP_TRACES_HEADERS', []],
    ['otel.traces.sampler', 'OTEL_TRACES_SAMPLER', 'parentbased_always_on'],
    ['otel.traces.samplerArg', 'OTEL_TRACES_SAMPLER_ARG', 1],
    ['otel.metrics.exporter', 'OTEL_METRICS_EXPORTER', 'otlp'],
    ['otel.metrics.endpoint', 'OTEL_EXPORTER_OTLP_METRICS_ENDPOINT', undefined],
    ['otel.metrics.headers', 'OTEL_EXPORTER_OTLP_METRICS_HEADERS', []],
    ['otel.metrics.interval', 'OTEL_METRIC_EXPORT_INTERVAL', 60_000],
    ['otel.keepErrors', 'OTEL_KEEP_ERRORS', true],
    ['otel.legacyNames', 'OTEL_LEGACY_NAMES', false],
    ['otel.traceUrl', 'OTEL_TRACE_URL', undefined],
    ['otel.propagate', 'OTEL_PROPAGATE', []],
  ] as const
  const { settings } = loaded({ env: {} }).config
  for (const [name, env, value] of documented) {
    const row = settingRows.find((one) => one.name === name)
    assert.equal(row?.env, env)
    assert.deepEqual(at(settings, row?.path ?? []), value, name)
  }
  assert.deepEqual(settingRows.map((row) => row.name).sort(), documented.map(([name]) => name).sort())
})

for (const row of settingRows) {
  const { schema, env, path, name } = row
  const fallback = at(defaultSettings, path)

  test(`${env}: an empty or blank variable is not set`, () => {
    for (const empty of ['', '  ', '\t']) assert.deepEqual(setBy(row, empty), name === 'drain.delay' ? 0 : fallback)
  })

  if (schema.type === 'integer') {
    const { minimum = 0, maximum = 0 } = schema
    test(`${env}: accepts whole numbers from ${minimum} to ${maximum}`, () => {
      for (const good of [minimum, minimum + 1, maximum]) {
        assert.equal(setBy(row, String(good)), good)
        assert.equal(setBy(row, ` ${good} `), good)
        assert.equal(at(loaded({ env: {}, yaml: yamlOf(row, String(good)) }).config.settings, path), good)
      }
    })
    test(`${env}: refuses other values by name`, () => {
      const bad = [
        '30s',
        '-1',
        '1.5',
        'NaN',
        'Infinity',
        '2147483648',
        '99999999999999999999',
        '1e3',
        '0x10',
        '1_000',
        '1,000',
        'true',
        `${maximum + 1}`,
      ]
      if (minimum > 0) bad.push(String(minimum - 1))
      for (const text of bad)
        assert.deepEqual(
          lines({ env: { [env]: text } }),
          [`${env}: found "${text}"; allowed: a whole number from ${minimum} to ${maximum}${hint(row, text)}`],
          text,
        )
    })
    test(`${name} in the file: refuses other values with their location`, () => {
      const depth = path.length
      const column = (depth - 1) * 2 + (path.at(-1) ?? '').length + 3
      for (const text of ['30s', '-1', '1.5', '.nan', '2147483648', 'true', 'a text', `${maximum + 1}`])
        assert.deepEqual(
          lines({ env: {}, yaml: yamlOf(row, text) }),
          [
            `headgate.yaml:${depth}:${column}: ${name}: found "${text}"; allowed: a whole number from ${minimum} to ${maximum}${hint(row, text)}`,
          ],
          text,
        )
    })
  } else if (schema.enum) {
    const values = schema.enum
    test(`${env}: accepts ${values.join(', ')}`, () => {
      for (const value of values) {
        assert.equal(setBy(row, value), value)
        assert.equal(at(loaded({ env: {}, yaml: yamlOf(row, value) }).config.settings, path), value)
      }
      assert.deepEqual(lines({ env: { [env]: 'sometimes' } }), [
        `${env}: found "sometimes"; allowed: one of ${values.join(', ')}`,
      ])
      assert.match(
        lines({ env: {}, yaml: yamlOf(row, 'sometimes') }).join(),
        /^headgate\.yaml:\d:\d+: .*found "sometimes"; allowed: one of /,
      )
    })
  } else if (schema.type === 'array') {
    const [a, b] = examples(row)
    test(`${env}: accepts a comma-separated list`, () => {
      assert.deepEqual(setBy(row, ` ${a}, ${b} ,,${a},`), [a, b])
      assert.deepEqual(at(loaded({ env: {}, yaml: yamlOf(row, `["${a}", "${b}"]`) }).config.settings, path), [a, b])
      assert.match(lines({ env: {}, yaml: yamlOf(row, a) }).join(), /allowed: a list of /)
    })
    test(`${env}: refuses commas without values`, () => {
      const allowed = /^[^\n]*: found [^\n]+; allowed: a list of [^\n]+$/
      assert.match(lines({ env: { [env]: ', ,' } }).join('\n'), allowed)
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference to a variable
      assert.match(lines({ env: { NONE: ',' }, yaml: yamlOf(row, '"${NONE}"') }).join('\n'), allowed)
    })
  } else if (schema.type === 'boolean')
    test(`${env}: accepts true and false`, () => {
      for (const value of [true, false]) {
        assert.equal(setBy(row, ` ${value} `), value)
        assert.equal(at(loaded({ env: {}, yaml: yamlOf(row, String(value)) }).config.settings, path), value)
      }
      for (const text of ['1', 'yes', 'a text'])
        assert.deepEqual(lines({ env: { [env]: text } }), [`${env}: found "${text}"; allowed: true or false`])
      assert.match(lines({ env: {}, yaml: yamlOf(row, '"true"') }).join(), /allowed: true or false/)
    })
  else if (schema.anyOf)
    test(`${env}: accepts auto, true and false`, () => {
      for (const [text, value] of [
        ['auto', 'auto'],
        ['TRUE', true],
        ['false', false],
      ] as const) {
        assert.equal(setBy(row, ` ${text} `), value)
        assert.equal(at(loaded({ env: {}, yaml: yamlOf(row, text.toLowerCase()) }).config.settings, path), value)
        // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference to a variable
        const filled = loaded({ env: { GIVEN: text.toLowerCase() }, yaml: yamlOf(row, '"${GIVEN}"') })
        assert.equal(at(filled.config.settings, path), value)
      }
      assert.deepEqual(lines({ env: { [env]: 'yes' } }), [`${env}: found "yes"; allowed: auto, true or false`])
      assert.match(lines({ env: {}, yaml: yamlOf(row, 'yes') }).join(), /found "yes"; allowed: auto, true or false$/)
    })
  else if (schema.type === 'number')
    test(`${env}: accepts numbers from ${schema.minimum} to ${schema.maximum}`, () => {
      for (const text of ['0', '1', '0.25', '0.010']) {
        assert.equal(setBy(row, ` ${text} `), Number(text))
        assert.equal(at(loaded({ env: {}, yaml: yamlOf(row, text) }).config.settings, path), Number(text))
      }
      const above = String((schema.maximum ?? 1) + 0.01)
      for (const text of [above, '-1', '50%', '1e-3', 'NaN', '.5']) {
        const problem = `found "${text}"; allowed: a number from ${schema.minimum} to ${schema.maximum}`
        assert.deepEqual(lines({ env: { [env]: text } }), [`${env}: ${problem}`])
      }
      const inFile = lines({ env: {}, yaml: yamlOf(row, above) }).join()
      assert.ok(
        inFile.endsWith(`found "${above}"; allowed: a number from ${schema.minimum} to ${schema.maximum}`),
        inFile,
      )
    })
  else
    test(`${env}: accepts text`, () => {
      const [a, b] = examples(row)
      assert.equal(setBy(row, ` ${a} `), a)
      assert.equal(at(loaded({ env: {}, yaml: yamlOf(row, `"${b}"`) }).config.settings, path), b)
      assert.match(
        lines({ env: {}, yaml: yamlOf(row, '[a]') }).join(),
        new RegExp(`allowed: ${RegExp.escape(allowedBy(schema))}`),
      )
    })

  test(`${env}: takes precedence over the file`, () => {
    const [inFile, inEnv, expected] = precedence(row, fallback)
    const { config } = loaded({ env: { [env]: inEnv }, yaml: yamlOf(row, inFile) })
    assert.deepEqual(at(config.settings, path), expected)
    const { config: other } = loaded({ env: { [env]: '' }, yaml: yamlOf(row, inFile) })
    assert.notDeepEqual(at(other.settings, path), expected)
  })
}

test('an origin that no page can have is refused', () => {
  const allowed = 'scheme://name or scheme://name:port'
  for (const origin of ['*', 'app.example', 'https://*.app.example', 'https://app.example/path', 'null'])
    assert.deepEqual(
      [lines({ env: { CORS_ORIGINS: origin } }), lines({ env: {}, yaml: `cors: { origins: [ "${origin}" ] }` })],
      [
        [`CORS_ORIGINS: found "${origin}"; allowed: a list of ${allowed}`],
        [`headgate.yaml:1:20: cors.origins.0: found "${origin}"; allowed: ${allowed}`],
      ],
    )
})

for (const zone of ['Europe/Berln', 'CET+1', '+01:00', 'Europe'])
  test(`the time zone ${zone} is refused`, () => {
    const problem = `found "${zone}"; allowed: an IANA time zone, such as Europe/Berlin`
    assert.deepEqual(
      [lines({ env: { USAGE_TIMEZONE: zone } }), lines({ env: {}, yaml: `usage: { timezone: "${zone}" }` })],
      [[`USAGE_TIMEZONE: ${problem}`], [`headgate.yaml:1:20: usage.timezone: ${problem}`]],
    )
  })

for (const range of ['10.0.0.0/33', 'proxy.example', '010.0.0.1', '*'])
  test(`the trusted proxy ${range} is refused`, () => {
    const problem = `found "${range}"; allowed: an IP address or a CIDR range, such as 10.0.0.0/8, or unix`
    assert.deepEqual(
      [lines({ env: { TRUSTED_PROXIES: `::1,${range}` } }), lines({ env: {}, yaml: `trustedProxies: ["${range}"]` })],
      [[`TRUSTED_PROXIES: ${problem}`], [`headgate.yaml:1:18: trustedProxies.0: ${problem}`]],
    )
  })

test('a problem in the file is reported even if the environment overrides the setting', () => {
  assert.equal(lines({ env: { CIRCUIT_TIMEOUT: '1' }, yaml: 'circuit: { timeout: 30s }\n' }).length, 1)
})

test('the value of a secret setting is never shown', () => {
  for (const yaml of [
    'auth: { keys: canary-secret }',
    'auth: { keys: [{a: canary-secret}] }',
    'auth: { admin: [canary-secret] }',
    'auth: { pepper: canary-secret }',
  ]) {
    const problems = lines({ env: {}, yaml }).join('\n')
    assert.match(problems, /^headgate\.yaml:1:/)
    assert.doesNotMatch(problems, /canary/)
  }
})

const launches = [
  [{}, { port: 3000, host: '127.0.0.1', production: false, logLevel: 'info', logFormat: undefined, heapTuning: 'on' }],
  [{ PORT: '0' }, { port: 0 }],
  [
    { PORT: '65535', HOST: '::1' },
    { port: 65535, host: '::1' },
  ],
  [
    { PORT: '4000', HOST: 'unix:/run/a.sock', SOCKET_MODE: '600' },
    { port: 0, host: 'unix:/run/a.sock', socket: { path: '/run/a.sock', mode: 0o600 } },
  ],
  [{ NODE_ENV: 'production' }, { production: true, host: undefined, logFormat: 'json' }],
  [
    { NODE_ENV: 'production', HOST: '127.0.0.1', LOG_FORMAT: 'pretty' },
    { host: '127.0.0.1', logFormat: 'pretty' },
  ],
  [{ NODE_ENV: 'development' }, { production: false }],
  [
    { LOG_LEVEL: 'DEBUG', LOG_FORMAT: 'json' },
    { logLevel: 'debug', logFormat: 'json' },
  ],
  [{ HEADGATE_CONFIG: 'a.yaml' }, { configPath: 'a.yaml' }],
  [{ WORKERS: '4' }, { workers: 4 }],
  [{ HEAP_TUNING: 'off' }, { heapTuning: 'off' }],
  [{ WORKERS: '' }, { workers: 1 }],
] as const
for (const [env, expected] of launches)
  test(`launch: ${JSON.stringify(env)}`, () => {
    const { launch } = loaded({ env })
    assert.deepEqual({ ...launch, ...expected }, launch)
  })

const HOST = 'a host name or an address, without port, or unix:/path of at most 100 bytes'
const refusedLaunches = [
  ['PORT', '65536', 'a whole number from 0 to 65535'],
  ['PORT', '-1', 'a whole number from 0 to 65535'],
  ['PORT', 'tcp://10.0.0.1:3000', 'a whole number from 0 to 65535'],
  ['PORT', '3000.5', 'a whole number from 0 to 65535'],
  ['HOST', 'http://x', HOST],
  ['HOST', 'a b', HOST],
  ['HOST', 'unix:a.sock:b/c', HOST],
  ['HOST', 'unix:/with"quote', HOST],
  ['SOCKET_MODE', '0668', 'three octal digits, such as 0660'],
  ['WORKERS', '0', 'a whole number from 1 to 64'],
  ['WORKERS', '65', 'a whole number from 1 to 64'],
  ['WORKERS', 'auto', 'a whole number from 1 to 64'],
  ['LOG_LEVEL', 'loud', 'one of debug, info, warn, error'],
  ['LOG_FORMAT', 'xml', 'one of pretty, json'],
] as const
for (const [name, text, allowed] of refusedLaunches)
  test(`launch: ${name}=${text} is refused`, () =>
    assert.deepEqual(lines({ env: { [name]: text } }), [`${name}: found "${text}"; allowed: ${allowed}`]))

test('launch: the log settings are known even if something else is invalid', () => {
  const result = load({ env: { LOG_FORMAT: 'json', CIRCUIT_TIMEOUT: 'x' } })
  assert.equal(result.ok, false)
  assert.equal(result.launch?.logFormat, 'json')
})

test('draining waits in production by default', () => {
  const delay = (env: Record<string, string>) => loaded({ env }).config.settings.drain.delay
  assert.equal(delay({}), 0)
  assert.equal(delay({ NODE_ENV: 'production' }), 5000)
  assert.equal(delay({ NODE_ENV: 'production', DRAIN_DELAY: '0' }), 0)
  assert.equal(delay({ DRAIN_DELAY: '7' }), 7)
})

test('no two settings share a name', () => {
  const names = [...settingRows, ...launchRows].map(({ env }) => env)
  assert.equal(new Set(names).size, names.length)
  for (const { schema, env } of [...settingRows, ...launchRows]) {
    assert.ok(schema.description, `${env} says what it is`)
    assert.notEqual(allowedBy(schema), 'another value')
  }
  assert.equal(envName(['keepAlive', 'interval']), 'KEEP_ALIVE_INTERVAL')
})

const misspellings = [
  [{ CIRCUIT_TIMOUT: '1' }, ['CIRCUIT_TIMOUT is set, but is not a known setting; did you mean CIRCUIT_TIMEOUT?']],
  [{ CIRCUIT_TIMOUT: '1', CIRCUIT_TIMEOUT: '1' }, []],
  [{ AUTH_SOMETHING_ELSE: '1', DATA_LAKE: '1', LIMIT_X: '' }, []],
] as const
for (const [env, expected] of misspellings)
  test(`misspelled settings: ${Object.keys(env).join(' ')}`, () => assert.deepEqual(misspelledSettings(env), expected))

test('dotenv: is merged with the environment, which takes precedence even where it is empty', () => {
  const dotenv =
    '\ufeffCIRCUIT_TIMEOUT=1\r\nexport CIRCUIT_WINDOW="200"\r\n# comment\r\nRETRY_MAX_ATTEMPTS=3\nCIRCUIT_PROBES=\nHOSTS=\'a,b\'\n'
  const { config, sources } = loaded({ env: { CIRCUIT_TIMEOUT: '5', RETRY_MAX_ATTEMPTS: '' }, dotenv })
  const { circuit, retry, hosts } = config.settings
  assert.deepEqual([circuit.timeout, circuit.window, circuit.probes, retry.maxAttempts], [5, 200, 1, 6])
  assert.deepEqual(hosts, ['a', 'b'])
  assert.equal(sources.dotenv, '.env')
})

test('a configuration is immutable', () => {
  const { config } = loaded({ env: { OPENAI_API_KEY: 'k', HOSTS: 'a' } })
  assert.throws(() => Object.assign(config.settings.circuit, { timeout: 1 }), TypeError)
  assert.throws(() => Object.assign(config, { instances: [] }), TypeError)
  assert.throws(() => Object.assign(config.instances[0] ?? {}, { baseUrl: 'x' }), TypeError)
  assert.ok(Object.isFrozen(config.instances[0]?.keys))
})

for (const [written, hinted] of [
  ['30s', '30000'],
  ['1.5 s', '1500'],
  ['2m', '120000'],
  ['500ms', '500'],
  ['99h', '356400000'],
  ['999h', null],
  ['30x', null],
  ['s', null],
] as const)
  test(`a duration written as ${written} ${hinted ? `has the hint ${hinted}` : 'has no hint'}`, () => {
    const [line = ''] = lines({ env: { CIRCUIT_TIMEOUT: written } })
    assert.equal(/write (\d+)$/.exec(line)?.[1] ?? null, hinted)
  })
