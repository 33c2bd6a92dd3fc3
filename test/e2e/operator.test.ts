/** The questions of an operator, each answered by one command and compared with the figures of the providers themselves. */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import {
  ADMIN,
  ANSWER,
  billedBy,
  nanoOf,
  type Operated,
  OUTAGE,
  SLOW,
  startOperated,
  sumOf,
} from './support/operated.ts'
import { verb } from './support/verb.ts'

// biome-ignore lint/suspicious/noExplicitAny: the rows have every shape
type Row = any
type Question = readonly [about: string, command: string, check: (output: string, operated: Operated) => void]

const rowsOf = (output: string): readonly Row[] => JSON.parse(output).data
const linesOf = (output: string): readonly Row[] =>
  output
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
/** The cost of each row by one of its members, in nano-dollars. */
const costBy = (output: string, member: string): Record<string, number> =>
  Object.fromEntries(
    rowsOf(output)
      .map((row) => [row[member] ?? '', nanoOf(row.cost)] as const)
      .filter(([, nano]) => nano > 0),
  )
const idsOf = (rows: readonly Row[]) => rows.map((row) => row.client_request_id ?? row.id).toSorted()
/** The requests that another provider answered: all of the outage, and the one after it, while the circuit was open. */
const REROUTED = 21

const QUESTIONS: readonly Question[] = [
  [
    'Who spent most?',
    'usage --by team --since 1d --json',
    (output, { bills }) => {
      const byTeam = billedBy(bills, 'team')
      assert.deepEqual(costBy(output, 'team_name'), byTeam)
      assert.equal(rowsOf(output)[0].team_name, 'search', 'the dearest first')
      assert.equal(nanoOf(JSON.parse(output).total.cost), sumOf(bills))
    },
  ],
  [
    'What does each key cost?',
    'usage --by key --json',
    (output, { bills }) => {
      const { search = 0, shop = 0 } = billedBy(bills, 'team')
      const limited = sumOf(bills.filter(({ id }) => id === 'limited-first'))
      assert.deepEqual(costBy(output, 'key_name'), { 'search-prod': search - limited, 'shop-prod': shop, limited })
    },
  ],
  [
    'What does each provider and model cost?',
    'usage --by provider,model --json',
    (output, { bills }) => {
      for (const provider of ['alpha', 'beta'] as const) {
        const own = bills.filter((bill) => bill.provider === provider)
        const rows = rowsOf(output).filter((row) => row.provider === provider)
        assert.deepEqual(
          Object.fromEntries(rows.map((row) => [row.model, [row.requests, row.input, row.output, nanoOf(row.cost)]])),
          Object.fromEntries(
            [...Map.groupBy(own, ({ model }) => model)].map(([model, some]) => [
              model,
              [some.length, some.length * ANSWER.input, some.length * ANSWER.output, sumOf(some)],
            ]),
          ),
        )
      }
    },
  ],
  [
    'What does each tag cost?',
    'usage --by tag --json',
    (output, { bills }) => assert.deepEqual(costBy(output, 'tag'), billedBy(bills, 'app')),
  ],
  [
    'Which budget is near its end?',
    'status --json',
    (output, { bills }) => {
      const { budgets } = JSON.parse(output)
      const { shop = 0 } = billedBy(bills, 'team')
      assert.deepEqual(
        budgets.map((one: Row) => [one.name, nanoOf(one.now.spent), nanoOf(one.now.remaining)]),
        [['shop-month', shop, 1_000_000_000 - shop]],
      )
    },
  ],
  [
    'What will a budget have spent?',
    'budgets list --json',
    (output, { bills }) => {
      const [{ now, forecast }] = rowsOf(output)
      assert.equal(nanoOf(now.spent), billedBy(bills, 'team').shop)
      assert.ok(nanoOf(forecast.projected) >= nanoOf(now.spent), output)
    },
  ],
  [
    'Why was this request slow?',
    'explain slow-1 --json',
    (output) => {
      const { attempts, total_ms, usage } = JSON.parse(output)
      assert.equal(attempts.length, 1)
      assert.deepEqual([attempts[0].provider, attempts[0].model], ['alpha', 'slow'])
      // The provider began to answer after this time.
      assert.ok(attempts[0].first_content_ms >= SLOW - 5 && total_ms >= attempts[0].first_content_ms, output)
      assert.deepEqual([usage.input, usage.output], [ANSWER.input, ANSWER.output])
    },
  ],
  [
    'Which requests were slow?',
    `logs --slow ${SLOW - 50}ms --model slow --json`,
    (output) => assert.deepEqual(idsOf(linesOf(output)), ['slow-1']),
  ],
  [
    'Why did another provider answer?',
    'explain outage-0',
    (output) => {
      assert.match(output, /^200 after 1 fallback · fast → beta\/small · .+ · \$0\.03 · key search-prod\n/)
      assert.match(output, /alpha\/small +#[0-9a-f]+ +overloaded after \d+ +\$0\.00\n/)
      assert.match(output, new RegExp(`attempt 1: ${OUTAGE}\n`))
    },
  ],
  [
    'Why was a provider not tried?',
    'explain outage-19',
    (output) => assert.match(output, /skipped: alpha\/small#[0-9a-f]+ \(circuit\)\n/),
  ],
  [
    'Why was a request refused with 402?',
    'explain refused-402',
    (output) =>
      assert.match(
        output,
        /^402 · fast → no target · [\s\S]+ {2}limit: shop-month, budget; id=bud_\w+; resets=20[-0-9]+\n/,
      ),
  ],
  [
    'Why was a request refused with 429?',
    'explain refused-429',
    (output) => assert.match(output, /^429 · [\s\S]+ {2}limit: limited, requests; id=key_\w+\n/),
  ],
  [
    'Why was a request refused with 401?',
    'explain refused-401',
    (output) =>
      assert.match(output, /^401 · no target · [\s\S]+failed because: POST \/v1\/chat\/completions: The API key/),
  ],
  [
    'Why was a request refused with 404?',
    'explain refused-404',
    (output) => assert.match(output, /^404 · none → no target · [\s\S]+The model "none" is not known/),
  ],
  [
    'Which requests were refused?',
    'logs --status 4xx --json',
    (output, { statuses }) => {
      const refused = [...statuses].filter(([, status]) => status >= 400).map(([id]) => id)
      assert.deepEqual(idsOf(linesOf(output)), refused.toSorted())
    },
  ],
  [
    'When was a provider down, why, and whom did it concern?',
    'incidents --provider alpha --json',
    (output, { failed }) => {
      const [incident, ...others] = rowsOf(output)
      assert.equal(others.length, 0)
      const { providers, models, cause, failures, rerouted, lost, end, request } = incident
      assert.deepEqual(
        { providers, models, cause, failures, rerouted, lost, end, request },
        {
          providers: ['alpha'],
          models: ['small'],
          cause: 'overloaded',
          failures: failed.length,
          rerouted: REROUTED,
          lost: 0,
          end: null,
          request: failed.at(-1),
        },
      )
    },
  ],
  [
    'What is the state of each provider, why, and until when?',
    'providers',
    (output) => {
      assert.match(output, /^alpha +degraded +closed +1\/1 /m)
      assert.match(output, /^alpha: small circuit open until 20[-0-9T:]+Z: overloaded$/m)
      assert.match(output, /^beta +available +closed +1\/1 /m)
    },
  ],
  [
    'Which requests met an error with this text?',
    'logs --text eu-2 --json',
    (output, { failed }) => assert.deepEqual(idsOf(linesOf(output)), failed.toSorted()),
  ],
  [
    'What if a provider fails?',
    'what-if alpha --json',
    (output, { bills }) => {
      const { data } = JSON.parse(output)
      assert.deepEqual(
        data.map(({ name, direct, answers }: Row) => [name, direct, answers.provider, answers.model]),
        [
          ['fast', false, 'beta', 'small'],
          ['trial', false, 'beta', 'small'],
          ['auto', false, 'beta', 'small'],
          ['alpha/slow', true, 'beta', 'small'],
        ],
      )
      const { requests, affected, cost_per_hour: cost, substitute_per_hour: other, extra_per_hour: extra } = data[3]
      const slow = bills.filter(({ model }) => model === 'slow').length
      assert.deepEqual([requests, affected], [slow, slow])
      assert.equal(nanoOf(extra), nanoOf(other) - nanoOf(cost))
    },
  ],
  [
    'What would the substitutes cost?',
    'what-if alpha',
    (output) => {
      assert.match(output, /^MODEL +NAMED BY +REQUESTS +NOW +THEN +EXTRA\/HOUR +LOSES$/m)
      assert.match(output, /^alpha\/slow +clients +\d+ +alpha\/slow +beta\/small +-?\$\d/m)
    },
  ],
  [
    'How is the traffic of a route shared?',
    'explain -m trial --json',
    (output) =>
      assert.deepEqual(
        JSON.parse(output).targets.map(({ provider, share }: Row) => [provider, share]),
        [
          ['alpha', 0.9],
          ['beta', 0.1],
        ],
      ),
  ],
  [
    'What did a route cost?',
    'usage --by route,provider --json',
    (output, { bills }) => {
      const rows = rowsOf(output).filter(({ route }) => route === 'fast')
      const own = bills.filter(({ model }) => model === 'small')
      assert.deepEqual(
        Object.fromEntries(rows.filter(({ provider }) => provider).map((row) => [row.provider, nanoOf(row.cost)])),
        billedBy(own, 'provider'),
      )
    },
  ],
  [
    'What did an end user send?',
    'logs --end-user user-1 --limit 200 --json',
    (output, { bills }) => {
      const own = bills.filter(({ user }) => user === 'user-1')
      const rows = linesOf(output).filter(({ status }) => status === 200)
      assert.deepEqual(idsOf(rows), own.map(({ id }) => id).toSorted())
      assert.equal(
        rows.reduce((sum, { cost }) => sum + nanoOf(cost), 0),
        sumOf(own),
      )
    },
  ],
  [
    'What is exported for the accounts?',
    'usage export --since 1d --format jsonl',
    (output, { bills }) => {
      const rows = linesOf(output)
      assert.equal(
        rows.reduce((sum, { cost }) => sum + nanoOf(cost), 0),
        sumOf(bills),
      )
      assert.deepEqual(
        new Set(rows.map(({ team_name, key_name }) => `${team_name}/${key_name}`)),
        new Set(['search/search-prod', 'search/limited', 'shop/shop-prod', 'null/null']),
      )
    },
  ],
]

describe('questions of an operator', { concurrency: false }, () => {
  let operated: Operated
  /** Runs a verb, which must succeed. */
  const headgate = async (...words: string[]): Promise<string> => {
    const env = { DATA_DIR: operated.data, AUTH_ADMIN: ADMIN }
    const { code, stdout, stderr } = await verb(words, { cwd: operated.gateway.folder, env })
    assert.equal(code, 0, `headgate ${words.join(' ')}: ${stdout}${stderr}`)
    return stdout
  }
  before(async () => {
    operated = await startOperated()
  })
  after(() => operated?.close())

  // All of them only read.
  describe('by one command', () => {
    for (const [about, command, check] of QUESTIONS)
      test(`${about} headgate ${command}`, async () => check(await headgate(...command.split(' ')), operated))
  })

  const status = (key: string, id: string, more: object = {}) =>
    operated.ask(id, { key, team: 'search', app: 'web', ...more })

  test('a change of weights is one line in the file, and so is its way back', async () => {
    const file = join(operated.gateway.folder, 'headgate.yaml')
    const before = readFileSync(file, 'utf8')
    const shares = async () =>
      JSON.parse(await headgate('explain', '-m', 'trial', '--json')).targets.map(({ share }: Row) => share)
    for (const [text, wanted] of [
      [before.replace('weight: 9', 'weight: 1'), [0.5, 0.5]],
      [before, [0.9, 0.1]],
    ] as const) {
      const reloads = operated.gateway.lines().filter(({ event }) => event === 'config_changed').length
      writeFileSync(file, text)
      await operated.gateway.line(
        () => operated.gateway.lines().filter(({ event }) => event === 'config_changed').length > reloads,
      )
      assert.deepEqual(await shares(), wanted)
    }
  })

  test('a budget is raised, and its team is served again', async () => {
    await headgate('budgets', 'update', 'shop-month', '--amount', '2.00')
    assert.equal(await status(operated.keys.shop ?? '', 'raised', { team: 'shop', app: 'batch' }), 200)
  })

  test('an end user is blocked and unblocked', async () => {
    const key = operated.keys.search ?? ''
    const as = (user: string, id: string) => status(key, id, { user })
    await headgate('end-users', 'block', 'user-1', '--reason', 'abuse')
    assert.deepEqual([await as('user-1', 'blocked-1'), await as('user-2', 'blocked-2')], [403, 200])
    await headgate('end-users', 'unblock', 'user-1')
    assert.equal(await as('user-1', 'unblocked-1'), 200)
  })

  test('a leaked key is rotated, and the old secret is refused at once', async () => {
    const old = operated.keys.search ?? ''
    const secret = (await headgate('keys', 'rotate', 'search-prod', '--overlap', '0s')).trim()
    operated.keys.search = secret
    assert.deepEqual([await status(old, 'rotated-old'), await status(secret, 'rotated-new')], [401, 200])
  })

  test('a provider is taken out for a time and put back', async () => {
    await headgate('providers', 'rest', 'beta', '--for', '10m', '--reason', 'invoice unpaid')
    assert.match(await headgate('providers'), /^beta: rests until 20[-0-9T:]+Z: invoice unpaid$/m)
    await headgate('providers', 'resume', 'beta')
    await headgate('providers', 'resume', 'alpha')
    assert.doesNotMatch(await headgate('providers'), /until/)
    const [incident] = JSON.parse(await headgate('incidents', '--json')).data
    assert.equal(incident.ended_by, 'operator')
  })

  test('a backup has the same keys and sums elsewhere', async () => {
    const archive = join(operated.gateway.folder, 'backup.tar.gz')
    const { files } = JSON.parse(await headgate('backup', archive, '--json'))
    assert.ok(
      files.some(({ name }: Row) => name === 'usage.db'),
      JSON.stringify(files),
    )
    const env = { DATA_DIR: join(operated.gateway.folder, 'restored') }
    const restored = await verb(['restore', archive], { cwd: operated.gateway.folder, env })
    assert.equal(restored.code, 0, restored.stderr)
    const keys = await verb(['keys', 'list', '--json'], { cwd: operated.gateway.folder, env })
    assert.deepEqual(
      keys
        .json()
        .data.map(({ name }: Row) => name)
        .toSorted(),
      ['limited', 'search-prod', 'shop-prod'],
    )
  })
})
