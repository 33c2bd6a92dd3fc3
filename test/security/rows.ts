/**
 * Every attack of the security checklist, with its test files or the reason why there is none. `rows.test.ts` checks
 * the files.
 */
export type Row = {
  readonly id: string
  readonly attack: string
  readonly tests?: readonly string[]
  /** Why there is no test, or what the tests do not cover. */
  readonly not?: string
}

const here = (...names: readonly string[]) => names.map((name) => `test/security/${name}.test.ts`)

export const ROWS: readonly Row[] = [
  {
    id: 'SEC-01',
    attack: 'started without client keys',
    tests: ['test/e2e/start.test.ts', 'src/observe/banner.test.ts', 'src/server/server-access.test.ts'],
  },
  {
    id: 'SEC-02',
    attack: 'an upstream echoes the gateway’s key',
    tests: [
      ...here('echo'),
      'src/gateway/upstream/redact.test.ts',
      'test/e2e/bad-input.test.ts',
      'src/transport/identity/mask.test.ts',
    ],
  },
  { id: 'SEC-03', attack: 'exceptions, DEBUG=*, inspect, debug routes', tests: here('privacy', 'built') },
  { id: 'SEC-04', attack: 'keys in URLs', tests: here('destinations', 'echo') },
  { id: 'SEC-05', attack: 'keys on pages', tests: here('echo', 'privacy') },
  { id: 'SEC-06', attack: 'client headers are sent upstream', tests: here('destinations') },
  {
    id: 'SEC-07',
    attack: 'ambiguous request targets and Hosts',
    tests: ['src/server/server-malformed.test.ts', 'src/policy/access.test.ts', ...here('smuggling')],
  },
  {
    id: 'SEC-08',
    attack: 'client keys on admin routes',
    tests: [
      ...here('doors'),
      ...['test/e2e/admin.test.ts', 'src/server/admin/validation.test.ts', 'src/server/admin/authentication.test.ts'],
    ],
  },
  { id: 'SEC-09', attack: 'headers that resemble control headers', tests: here('destinations') },
  { id: 'SEC-10', attack: 'members that name a destination', tests: here('destinations') },
  { id: 'SEC-11', attack: 'URLs of images and files', tests: here('destinations', 'built') },
  {
    id: 'SEC-12',
    attack: 'a base URL set over HTTP',
    tests: here('destinations'),
    not: 'only the configuration file and the environment set one; the admin API has no member for it',
  },
  {
    id: 'SEC-13',
    attack: 'request smuggling',
    tests: [...here('smuggling'), 'src/server/server-malformed.test.ts'],
  },
  {
    id: 'SEC-14',
    attack: 'response smuggling',
    tests: [...here('hostile-upstream'), 'src/transport/client/dial.test.ts'],
  },
  {
    id: 'SEC-15',
    attack: 'scripts in the dashboard',
    tests: ['test/e2e/dashboard.test.ts', 'test/dashboard/playground.test.ts', 'test/e2e/docs.test.ts'],
  },
  {
    id: 'SEC-16',
    attack: 'static files',
    tests: [...here('privacy'), 'test/e2e/dashboard.test.ts', 'test/e2e/docs.test.ts'],
    not: 'only files of the dashboard and of the documentation, by their names in a list, are served',
  },
  {
    id: 'SEC-17',
    attack: 'CSRF, DNS rebinding',
    tests: [
      ...here('doors'),
      'src/policy/access.test.ts',
      'src/server/server-access.test.ts',
      'test/e2e/bad-input.test.ts',
    ],
  },
  {
    id: 'SEC-18',
    attack: 'CORS from anywhere',
    tests: ['src/policy/access.test.ts', 'src/server/server-access.test.ts'],
  },
  {
    id: 'SEC-19',
    attack: 'timing of key checks',
    tests: [...here('built', 'privacy'), 'src/server/key-index.test.ts', 'src/server/access-rules.test.ts'],
    not: 'times are too noisy to assert: a look-up computes one digest and compares no key',
  },
  {
    id: 'SEC-20',
    attack: 'another tenant’s cached answer',
    tests: [
      ...here('tenants'),
      ...['test/e2e/coalescing.test.ts', 'test/e2e/idempotency.test.ts', 'test/e2e/stored-responses.test.ts'],
      ...['src/gateway/sharing/cached-call.test.ts', 'test/e2e/response-cache.test.ts'],
    ],
  },
  {
    id: 'SEC-21',
    attack: 'a poisoned cache',
    tests: ['src/gateway/sharing/cached-call.test.ts', 'src/policy/response-cache.test.ts'],
  },
  { id: 'SEC-22', attack: 'prototype member names', tests: [...here('bombs'), 'test/e2e/bad-input.test.ts'] },
  {
    id: 'SEC-23',
    attack: 'bodies that are expensive to parse',
    tests: [...here('bombs'), 'src/server/json-limits.test.ts'],
  },
  {
    id: 'SEC-24',
    attack: 'absurd numbers',
    tests: [...here('bombs'), 'src/policy/accounts/attempt-admission.test.ts', 'src/core/money.test.ts'],
    not: 'a number that an upstream can check is passed on',
  },
  { id: 'SEC-25', attack: 'large integers', tests: [...here('bombs'), 'test/e2e/bad-input.test.ts'] },
  { id: 'SEC-26', attack: 'a duplicate model', tests: here('bombs') },
  {
    id: 'SEC-27',
    attack: 'characters that break parsers',
    tests: [...here('bombs', 'destinations'), 'test/e2e/bad-input.test.ts', 'src/core/path-segment.test.ts'],
  },
  {
    id: 'SEC-28',
    attack: 'regular expressions',
    tests: here('regexes'),
    not: 'those for the operator’s own configuration are not checked',
  },
  { id: 'SEC-29', attack: 'forged log lines', tests: [...here('privacy'), 'src/observe/log.test.ts'] },
  {
    id: 'SEC-30',
    attack: 'Redis injection',
    tests: ['src/limits/counter-keys.test.ts'],
    not: 'keys contain IDs and digests only, and scripts get values as arguments',
  },
  {
    id: 'SEC-31',
    attack: 'SQL injection',
    tests: ['src/storage/responses/database.test.ts', 'src/usage/bookkeeper/bookkeeper.test.ts'],
    not: 'the response store and the ledger use SQL with parameters',
  },
  { id: 'SEC-32', attack: 'prompts in the log', tests: here('privacy') },
  {
    id: 'SEC-33',
    attack: 'the cache of key checks',
    tests: ['src/server/access-rules.test.ts', 'src/server/key-index.test.ts', 'test/e2e/control.test.ts'],
  },
  {
    id: 'SEC-34',
    attack: 'keys at rest',
    tests: [...here('keys-at-rest'), 'src/records/store/control-database.test.ts', 'test/e2e/admin.test.ts'],
  },
  {
    id: 'SEC-35',
    attack: 'slow clients',
    tests: ['src/server/server-limits.test.ts', 'test/e2e/timers.test.ts'],
  },
  { id: 'SEC-36', attack: 'compression bombs', tests: here('bombs', 'hostile-upstream') },
  {
    id: 'SEC-37',
    attack: 'unbounded consumption',
    tests: [...here('bombs'), 'src/server/exhausted-clients.test.ts', 'test/e2e/account-limits.test.ts'],
  },
  {
    id: 'SEC-38',
    attack: 'a race for a budget',
    tests: ['test/e2e/account-limits.test.ts', 'test/e2e/shared-budgets.test.ts'],
  },
  {
    id: 'SEC-39',
    attack: 'errors that distinguish keys',
    tests: [...here('privacy', 'refusals'), 'src/server/access-rules.test.ts'],
  },
  {
    id: 'SEC-40',
    attack: 'the configuration’s file',
    tests: ['test/e2e/reload.test.ts', 'src/config/watch.test.ts', ...here('config')],
  },
  { id: 'SEC-41', attack: 'child processes', tests: here('built', 'destinations') },
  { id: 'SEC-50', attack: 'dependencies and their scripts', tests: here('supply') },
  { id: 'SEC-51', attack: 'the lockfile', tests: here('supply') },
  {
    id: 'SEC-52',
    attack: 'known vulnerabilities, signatures',
    tests: ['scripts/audit.test.ts'],
    not: 'releases need no minimum age: versions are exact and changed manually',
  },
  {
    id: 'SEC-53',
    attack: 'publishing',
    tests: here('supply'),
    not: 'nothing is published yet; the list of files is checked',
  },
  { id: 'SEC-54', attack: 'the CI run', tests: here('supply') },
]
