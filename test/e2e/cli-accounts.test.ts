/** Keys, teams, budgets, audit log and backups of the command line, on the files of a data folder. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, test } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'
import { verb, verbProcess } from './support/verb.ts'

const KEY = /^hgk_[0-9A-Za-z]{38}$/

describe('keys, teams and budgets without a running gateway', { concurrency: false }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-accounts-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  const here = (...words: string[]) => verb(words, { cwd: folder, env: { PORT: '1' } })
  const done = async (...words: string[]) => {
    const result = await here(...words)
    assert.equal(result.code, 0, result.stdout + result.stderr)
    return result
  }
  const secrets: string[] = []

  test('a team and a key are created; the key alone is on stdout', async () => {
    assert.match(
      (await done('teams', 'create', 'search', '--models', 'openai/*,fast', '--tpm', '200000')).stdout,
      /^search +team_[a-z]{12} +active +openai\/\*, fast +– +200000/m,
    )
    const words = ['keys', 'create', 'prod', '--team', 'search', '--rpm', '600', '--expires', '90d', '--tag', 'app=a']
    const { stdout, stderr } = await verbProcess(words, { cwd: folder, env: { PORT: '1' } })
    assert.match(stdout.trim(), KEY)
    assert.match(stderr, /key_[a-z]{12} {2}prod {2}team search {2}expires \d{4}-\d\d-\d\d {2}600 requests\/min/)
    secrets.push(stdout.trim())
    const shown = (await done('keys', 'show', 'prod', '--json')).json()
    assert.deepEqual(
      [shown.limits.requestsPerMinute, shown.tags, shown.last4],
      [600, { app: 'a' }, secrets[0]?.slice(-4)],
    )
  })

  test('a key and a team are changed, and what no option names stays', async () => {
    const before = (await done('keys', 'show', 'prod', '--json')).json()
    const changed = await done(
      'keys',
      'update',
      'prod',
      '--tpm',
      '9000',
      '--models',
      'fast',
      '--tag',
      'stage=test',
      '--json',
    )
    const key = changed.json()
    assert.deepEqual(key.limits, { requestsPerMinute: 600, tokensPerMinute: 9000, concurrent: null })
    assert.deepEqual(
      [key.access.models, key.tags, key.expires_at],
      [['fast'], { app: 'a', stage: 'test' }, before.expires_at],
    )
    const taken = await done(
      'keys',
      'update',
      'prod',
      '--rpm',
      'unlimited',
      '--models',
      'any',
      '--tag',
      'stage=',
      '--expires',
      'never',
      '--json',
    )
    const { limits, access, tags, expires_at: end } = taken.json()
    assert.deepEqual(
      [limits.requestsPerMinute, limits.tokensPerMinute, access.models, tags, end],
      [null, 9000, null, { app: 'a' }, null],
    )
    assert.match(
      (await done('keys', 'update', 'prod', '--rpm', '600')).stdout,
      /^prod +key_.+ 600 requests\/min, 9000 tokens\/min /m,
    )
    assert.match((await done('teams', 'update', 'search', '--concurrent', '9')).stdout, /^search .+ 200000 +9 +api$/m)
    const nothing = await here('keys', 'update', 'prod')
    assert.deepEqual([nothing.code, /Name what is to be changed/.test(nothing.stderr)], [2, true])
    assert.equal((await here('teams', 'update', 'serch', '--rpm', '1')).code, 6)
  })

  test('a list filters by team, status and tag', async () => {
    const names = async (...words: string[]) =>
      (await done('keys', 'list', '--json', ...words)).json().data.map(({ name }: { name: string }) => name)
    assert.deepEqual(await names('--team', 'search'), ['prod'])
    assert.deepEqual(await names('--tag', 'app=a', '--status', 'active'), ['prod'])
    assert.deepEqual(await names('--tag', 'app=b'), [])
    assert.equal((await here('keys', 'list', '--team', 'none')).code, 6)
  })

  test('a key is rotated, blocked, unblocked and revoked by its name', async () => {
    const rotated = await done('keys', 'rotate', 'prod', '--overlap', '7d', '--json')
    assert.match(rotated.json().secret, KEY)
    assert.equal(rotated.json().secrets.length, 2)
    secrets.push(rotated.json().secret)
    assert.equal((await done('keys', 'block', 'prod')).stdout, 'prod is blocked\n')
    assert.equal((await done('keys', 'unblock', 'prod')).stdout, 'prod is active\n')
    await done('keys', 'create', 'old')
    assert.equal((await done('keys', 'revoke', 'old')).stdout, 'old is revoked\n')
    assert.equal((await here('keys', 'show', 'old')).code, 6)
    const typed = await here('keys', 'show', 'prdo')
    assert.deepEqual([typed.code, typed.stderr.includes('There is no key "prdo". Did you mean "prod"?')], [6, true])
    const revoked = await here('keys', 'show', 'odl')
    assert.match(revoked.stderr, /There is no key "odl"\. List them: headgate keys list/)
  })

  test('a budget is created and listed', async () => {
    await done(
      'budgets',
      'create',
      'month',
      '--amount',
      '2500',
      '--team',
      'search',
      '--tz',
      'Europe/Berlin',
      '--soft',
      '--alert',
      '80,100',
    )
    const [budget] = (await done('budgets', 'list', '--json')).json().data
    assert.deepEqual(
      [budget.name, budget.mode, budget.alerts, budget.timezone],
      ['month', 'soft', [80, 100], 'Europe/Berlin'],
    )
    assert.match((await done('budgets', 'list')).stdout, /^month +month Europe\/Berlin +– +– +\$2,500\.00/m)
    assert.equal((await here('budgets', 'reset', 'month', '--reason', 'x')).code, 4)
    const hard = await done('budgets', 'create', 'hard', '--amount', '1', '--period', 'day', '--hard', '--json')
    assert.equal(hard.json().mode, 'hard')
    assert.equal((await here('budgets', 'create', 'both', '--amount', '1', '--hard', '--soft')).code, 2)
    const week = ['--amount', '1', '--period', 'week', '--start-day', '7', '--reserve', 'max', '--on-overrun', 'cut']
    const { startDay, reserve, onOverrun } = (await done('budgets', 'create', 'week', ...week, '--json')).json()
    assert.deepEqual([startDay, reserve, onOverrun], [7, 'max', 'cut'])
  })

  test('invalid values are errors that state the member', async () => {
    assert.equal((await here('keys', 'create', 'x', '--rpm', 'many')).code, 2)
    assert.equal((await here('keys', 'create', 'x', '--expires', 'soon')).code, 2)
    assert.equal((await here('keys', 'create', 'x', '--team', 'team_none')).code, 2)
    const typed = await here('keys', 'create', 'x', '--team', 'serch')
    assert.equal(typed.code, 6)
    assert.match(typed.stderr, /no team "serch"\. Did you mean "search"\? To create it: headgate teams create serch/)
    assert.equal((await done('teams', 'list', '--json')).stdout.includes('serch'), false)
  })

  test('a key for a team that does not exist creates the team', async () => {
    const { stdout, stderr } = await done('keys', 'create', 'alice', '--team', 'marketing')
    assert.match(stdout.trim(), KEY)
    assert.match(stderr, /The team marketing did not exist and was created \(team_[a-z]{12}\)\./)
    const names = (await done('keys', 'list', '--team', 'marketing', '--json')).json().data
    assert.deepEqual(
      names.map(({ name }: { name: string }) => name),
      ['alice'],
    )
    await done('keys', 'revoke', 'alice')
  })

  test('other wrong values are refused', async () => {
    const { code, stderr } = await here('budgets', 'create', 'b', '--amount', 'lots')
    assert.deepEqual([code, stderr.split('\n').filter((line) => line.includes('amount')).length], [2, 1])
    assert.equal((await here('keys', 'create', 'prod', '--team', 'search')).code, 6)
  })

  test('keys of LiteLLM are imported with their digests', async () => {
    const token = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'
    writeFileSync(
      join(folder, 'litellm.json'),
      JSON.stringify({
        keys: [
          { token, key_alias: 'alias', key_name: 'sk-...ab3d', models: ['gpt-5'], rpm_limit: 10, tpm_limit: null },
          { token: 'short', key_alias: 'bad' },
          { token: token.replace('9f', 'af'), key_alias: 'all', models: ['all-team-models'], blocked: true },
          { token: token.replace('9f', 'bf'), key_alias: 'none', models: ['no-default-models'], expires: 'never' },
          {
            token: token.replace('9f', 'cf'),
            key_alias: 'its budget',
            models: ['no-default-models', 'a'],
            max_budget: 2.5,
            budget_duration: '30d',
            aliases: { a: 'b' },
          },
        ],
      }),
    )
    const { code, stdout, stderr } = await here('keys', 'import', '--litellm', 'litellm.json', '--team', 'imported')
    assert.equal(code, 1)
    assert.match(stderr, /The team imported did not exist and was created/)
    assert.match(stdout, /^bad: digest: .*\nnone: expires_at: .*$/m)
    const command =
      /its budget of 2\.5 dollars in 30d is not taken; create one: headgate (budgets create 'its budget' .*)$/m.exec(
        stdout,
      )
    assert.match(command?.[1] ?? '', /^budgets create 'its budget' --key key_[a-z]{12} --amount 2\.5 --period month$/)
    assert.match(stdout, /^its budget: aliases is not taken\n3 imported, 2 failed$/m)
    const shown = async (name: string) => {
      const { last4, access, limits, status } = (await done('keys', 'show', name, '--json')).json()
      return [last4, access.models, limits.requestsPerMinute, status]
    }
    assert.deepEqual(await shown('alias'), ['ab3d', ['gpt-5'], 10, 'active'])
    assert.deepEqual(await shown('all'), ['', null, null, 'blocked'])
    assert.deepEqual((await shown('its budget'))[1], ['a'])
  })

  test('scan finds keys in files and prints their end only', async () => {
    writeFileSync(join(folder, 'leak.txt'), `nothing\nTOKEN=${secrets[0]} and hgk_${'a'.repeat(38)}\n`)
    const { code, stdout } = await here('keys', 'scan', 'leak.txt')
    assert.deepEqual([code, stdout], [1, `leak.txt:2: hgk_…${secrets[0]?.slice(-4)}\n`])
  })

  test('--digest-only stores nothing and prints what belongs in headgate.yaml', async () => {
    const { stdout, stderr } = await done('keys', 'create', 'gitops', '--team', 'search', '--digest-only')
    assert.match(stdout.trim(), KEY)
    assert.match(stderr, /gitops: \{ team: search, digest: "s1:[0-9a-f]{64}" \}/)
    assert.ok(!stderr.includes(stdout.trim()))
    assert.equal((await here('keys', 'show', 'gitops')).code, 6)
  })

  test('the database is exported as YAML that a gateway accepts', async () => {
    const { stdout } = await done('export', '--yaml')
    assert.match(stdout, /^teams:\n {2}search:\n/)
    for (const secret of secrets) assert.ok(!stdout.includes(secret))
    const other = mkdtempSync(join(tmpdir(), 'headgate-export-'))
    try {
      writeFileSync(join(other, 'headgate.yaml'), stdout, { mode: 0o600 })
      const elsewhere = (...words: string[]) => verb(words, { cwd: other, env: { PORT: '1' } })
      assert.equal((await elsewhere('config', 'check')).code, 0)
      const of = async (run: typeof here) => {
        const { data } = (await run('keys', 'list', '--status', 'active', '--json')).json()
        return data.map(({ id, name }: { id: string; name: string }) => [id, name]).toSorted()
      }
      assert.deepEqual(await of(elsewhere), await of(here))
      assert.equal((await elsewhere('export', '--yaml')).code, 0)
      assert.equal(
        (await verb(['export', '--yaml'], { cwd: tmpdir(), env: { DATA_DIR: join(other, 'none') } })).code,
        6,
      )
    } finally {
      rmSync(other, { recursive: true, force: true })
    }
  })

  test('the audit log is verified, and a changed entry is found', async () => {
    assert.match((await done('audit', 'verify')).stdout, /^ok, \d+ entries checked\n$/)
    const copy = mkdtempSync(join(tmpdir(), 'headgate-audit-'))
    try {
      await done('backup', join(copy, 'b.tar.gz'))
      assert.equal((await verb(['restore', join(copy, 'b.tar.gz')], { cwd: copy, env: { PORT: '1' } })).code, 0)
      const database = new DatabaseSync(join(copy, '.headgate', 'control.db'))
      database.exec("UPDATE audit SET action = 'key.forged' WHERE seq = 2")
      database.close()
      assert.equal((await verb(['audit', 'verify'], { cwd: copy, env: { PORT: '1' } })).code, 1)
    } finally {
      rmSync(copy, { recursive: true, force: true })
    }
  })

  test('a backup contains no secret, and restores the same keys elsewhere', async () => {
    const { stdout } = await done('backup', 'all.tar.gz')
    assert.match(stdout, /^control\.db {2}[\d,]+ bytes\nwritten to /)
    assert.equal(statSync(join(folder, 'all.tar.gz')).mode & 0o777, 0o600)
    const bytes = gunzipSync(readFileSync(join(folder, 'all.tar.gz'))).toString('latin1')
    for (const secret of secrets) assert.ok(!bytes.includes(secret))
    assert.equal((await here('backup', 'all.tar.gz')).code, 6)

    const other = mkdtempSync(join(tmpdir(), 'headgate-restored-'))
    try {
      const elsewhere = (...words: string[]) => verb(words, { cwd: other, env: { PORT: '1' } })
      assert.equal((await elsewhere('restore', join(folder, 'all.tar.gz'))).code, 0)
      const listed = async (run: typeof here) => (await run('keys', 'list', '--json')).stdout
      assert.equal(await listed(elsewhere), await listed(here))
      assert.equal((await elsewhere('restore', join(folder, 'all.tar.gz'))).code, 6)
      assert.equal((await elsewhere('restore', '--replace', join(folder, 'all.tar.gz'))).code, 0)
      assert.equal(await listed(elsewhere), await listed(here))
    } finally {
      rmSync(other, { recursive: true, force: true })
    }
  })

  test('a damaged or foreign archive changes nothing', async () => {
    const good = gunzipSync(readFileSync(join(folder, 'all.tar.gz')))
    const changed = Buffer.from(good)
    changed[good.length - 2048] = (changed[good.length - 2048] ?? 0) ^ 1
    const renamed = Buffer.from(good)
    renamed.write('../../x.db\0', good.indexOf('control.db', 512 * 2), 'ascii')
    const other = mkdtempSync(join(tmpdir(), 'headgate-damaged-'))
    try {
      for (const [name, bytes] of [
        ['changed', gzipSync(changed)],
        ['renamed', gzipSync(renamed)],
        ['cut', gzipSync(good.subarray(0, good.length - 4096))],
        ['plain', Buffer.from('no archive')],
        ['empty', gzipSync(Buffer.alloc(1024))],
      ] as const) {
        writeFileSync(join(other, name), bytes)
        const { code, stderr } = await verb(['restore', name], { cwd: other, env: { PORT: '1' } })
        assert.equal(code, 1, `${name}: ${stderr}`)
        assert.match(stderr, /cannot be restored: .+ Nothing was changed\./)
        assert.deepEqual(readdirSync(join(other, '.headgate')), [], name)
      }
    } finally {
      rmSync(other, { recursive: true, force: true })
    }
  })

  test('an archive of a newer version is refused', async () => {
    const bytes = gunzipSync(readFileSync(join(folder, 'all.tar.gz'))).toString('latin1')
    const newer = bytes.replace(/"schema": \d/, '"schema": 9')
    writeFileSync(join(folder, 'newer.tar.gz'), gzipSync(Buffer.from(newer, 'latin1')))
    const { code, stderr } = await here('restore', '--replace', 'newer.tar.gz')
    assert.deepEqual([code, /schema version 9 \(supported: \d+\)/.test(stderr)], [6, true])
    assert.match((await done('db', 'status')).stdout, /^control\.db +\d+\.\d MiB +(\d+) of \1 +ok$/m)
  })
})

test('a running gateway is backed up, and its responses are served elsewhere', async () => {
  const place = mkdtempSync(join(tmpdir(), 'headgate-moved-'))
  const file = join(place, 'b.tar.gz')
  try {
    await using gateway = await start()
    const stored = await post(`${gateway.base}/responses`, { model: 'demo/echo', input: 'x', store: true })
    assert.equal(stored.json().store, true)
    assert.equal((await verb(['backup', file], { cwd: gateway.folder })).code, 0)
    const { code, stderr } = await verb(['restore', file], { cwd: gateway.folder })
    assert.deepEqual([code, /A gateway runs with this data folder .+ Stop it first\./.test(stderr)], [6, true])

    const env = { DATA_DIR: join(place, 'data') }
    assert.equal((await verb(['restore', file], { cwd: place, env: { ...env, PORT: '1' } })).code, 0)
    await using other = await start({ env })
    const found = await fetch(`${other.base}/responses/${stored.json().id}`)
    assert.equal(found.status, 200)
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
})

describe('keys, teams and budgets of a running gateway', () => {
  const ADMIN = 'admin-canary-0123456789'
  let gateway: Started
  before(async () => {
    gateway = await start({ env: { AUTH_ADMIN: ADMIN } })
  })
  after(() => gateway?.stop())
  const here = (...words: string[]) => verb(words, { cwd: gateway.folder, env: { AUTH_ADMIN: ADMIN } })
  const done = async (...words: string[]) => {
    const result = await here(...words)
    assert.equal(result.code, 0, result.stdout + result.stderr)
    assert.doesNotMatch(result.stderr, /No gateway is running/)
    return result
  }
  test('a key is created, rotated, blocked, unblocked and revoked', async () => {
    await done('teams', 'create', 'search')
    const created = await done('keys', 'create', 'prod', '--team', 'search', '--concurrent', '5')
    const key = created.stdout.trim()
    assert.match(key, KEY)
    assert.match(created.stderr, /^ {2}key_[a-z]{12} {2}prod {2}team search {2}5 concurrent$/m)
    const second = (await done('keys', 'rotate', 'prod', '--overlap', '1h')).stdout.trim()
    assert.match(second, KEY)
    assert.notEqual(second, key)
    assert.match(
      (await done('keys', 'list', '--team', 'search')).stdout,
      /^prod +key_[a-z]{12} +search +active +….{4} +5 concurrent/m,
    )
    const shown = (await done('keys', 'show', 'prod', '--json')).json()
    assert.deepEqual([shown.last4, shown.secrets.length], [second.slice(-4), 2])
    assert.equal((await done('keys', 'block', 'prod')).stdout, 'prod is blocked\n')
    assert.equal((await done('keys', 'unblock', 'prod')).stdout, 'prod is active\n')
    assert.equal((await done('keys', 'revoke', 'prod')).stdout, 'prod is revoked\n')
  })

  test('a budget has its figures, and a new key prints the budgets that count it', async () => {
    await done('budgets', 'create', 'everything', '--amount', '10.00', '--period', 'day')
    assert.match(
      (await done('budgets', 'list')).stdout,
      /^everything +day UTC +\$0\.00 +\$0\.00 +\$10\.00 +100 % +ok(?:, projected \$[\d.]+)?$/m,
    )
    assert.equal((await done('budgets', 'show', 'everything', '--json')).json().now.remaining, '10.000000000')
    const counted = await done('keys', 'create', 'counted')
    assert.doesNotMatch(counted.stderr, /warning/)
    assert.match(counted.stderr, /^ {2}budget everything: \$0\.00 of \$10\.00, resets \d{4}-\d\d-\d\d UTC$/m)
    await done('budgets', 'delete', 'everything')
  })

  test('a budget that is used up states the day of its next period in its zone; a soft one refuses nothing', async () => {
    // Where the first of a month begins on the day before in UTC.
    await done('budgets', 'create', 'nothing', '--amount', '0', '--tz', 'Pacific/Kiritimati', '--soft')
    const state = async () => (await done('budgets', 'list')).stdout
    assert.match(await state(), /^nothing .* 0 % +exceeded until \d{4}-\d\d-01$/m)
    await done('budgets', 'update', 'nothing', '--hard')
    assert.match(await state(), /^nothing .* 0 % +exhausted until \d{4}-\d\d-01$/m)
    assert.match((await here('status')).stdout, /^budget nothing: \$0\.00 of \$0\.00 left, resets \d{4}-\d\d-01$/m)
    await done('budgets', 'delete', 'nothing')
  })

  test('the audit log is verified', async () => {
    assert.match((await done('audit', 'verify')).stdout, /^ok, \d+ entries checked\n$/)
  })

  test('a request is in the log, the report and the export, and is explained by its attempts', async () => {
    const secret = (await done('keys', 'create', 'logged', '--tag', 'app=a')).stdout.trim()
    const body = { model: 'demo/chain', messages: [{ role: 'user', content: 'x' }] }
    const sent = await post(`${gateway.base}/chat/completions`, body, { authorization: `Bearer ${secret}` })
    assert.equal(sent.status, 200)
    const id = String(sent.headers.get('x-request-id'))
    // The bookkeeper writes rows within a second; a busy machine takes longer.
    let log = await here('logs')
    for (let tries = 0; tries < 20 && !log.stdout.includes(id); tries++) log = await here('logs')
    assert.match(
      log.stdout,
      new RegExp(`^\\d\\d:\\d\\d:\\d\\d 200  default/logged  demo/chain → demo/\\w+  \\d+ ms .+ ${id}$`, 'm'),
    )
    assert.equal((await done('logs', '--status', '5xx')).stdout, '')
    const explained = await done('explain', id)
    assert.match(explained.stdout, /^200 after \d fallbacks? · demo\/chain → demo\/\w+ · \d+ ms .+\n/)
    assert.match(explained.stdout, /^ {2}\d+ +demo\/down +#[0-9a-f]+ +\w+ after \d+/m)
    assert.match((await done('usage', '--by', 'provider', '--since', '1d')).stdout, /^demo +1 +/m)
    assert.match((await done('usage', 'export', '--level', 'request')).stdout, new RegExp(`^${id},`, 'm'))
    assert.equal((await here('explain', 'req_none')).code, 6)
    assert.equal((await done('cache', 'purge', '--key', 'logged')).stdout, '0 answers removed\n')
  })

  test('a plan is explained for a client key, with what refuses it', async () => {
    await done('keys', 'create', 'narrow', '--models', 'other/*')
    const refused = await here('explain', '-m', 'demo/echo', '--as', 'narrow')
    assert.deepEqual([refused.code, /model/.test(refused.stderr)], [5, true], refused.stdout + refused.stderr)
    await done('keys', 'create', 'planned', '--models', 'demo/*', '--rpm', '0')
    const plan = (await done('explain', '-m', 'demo/echo', '--as', 'planned', '--json')).json()
    assert.deepEqual([plan.as.name, plan.as.status, plan.targets[0].model], ['planned', 'active', 'echo'])
    assert.equal(plan.refused.code, 'rate_limit_exceeded')
    await done('keys', 'block', 'planned')
    assert.match((await done('explain', '-m', 'demo/echo', '--as', 'planned')).stdout, /^refused now: blocked: /m)
    assert.equal((await here('explain', '-m', 'demo/echo', '--as', 'none')).code, 6)
  })

  test('status shows budgets near their end and the ledger', async () => {
    await done('budgets', 'create', 'spent', '--amount', '1.00', '--period', 'day', '--soft')
    await done('budgets', 'adjust', 'spent', '0.90', '--reason', 'test')
    const status = (await done('status', '--json')).json()
    assert.deepEqual(status.budgets.map(({ name }: { name: string }) => name).includes('spent'), true)
    assert.equal(status.ledger.dropped, 0)
    assert.match((await done('status')).stdout, /^budget spent: \$0\.10 of \$1\.00 left, resets \d{4}-\d\d-\d\d$/m)
    await done('budgets', 'update', 'spent', '--amount', '100', '--hard')
    const [budget] = (await done('budgets', 'list', '--json'))
      .json()
      .data.filter((one: { name: string }) => one.name === 'spent')
    assert.deepEqual([budget.mode, budget.now.remaining], ['hard', '99.100000000'])
    assert.equal((await here('budgets', 'update', 'spent')).code, 2)
    assert.doesNotMatch((await done('status')).stdout, /budget spent/)
  })

  test('prices are set, replaced and removed', async () => {
    assert.match(
      (await done('prices', 'set', 'demo', 'echo*', '--input', '1.5', '--output', '6')).stdout,
      /^demo +echo\* +always +input \$1\.5, output \$6 +prc_[a-z]{12} +api$/m,
    )
    await done('prices', 'set', 'demo', 'echo*', '--factor', '0.5')
    const { data } = (await done('prices', 'list', '--json')).json()
    assert.deepEqual(
      data.map(({ model, prices }: { model: string; prices: object }) => [model, prices]),
      [['echo*', { factor: 0.5 }]],
    )
    assert.equal((await here('prices', 'set', 'demo', 'x')).code, 2)
    assert.equal((await here('prices', 'set', 'demo', 'x', '--input', '-1')).code, 2)
    assert.equal((await done('prices', 'remove', 'demo/echo*')).stdout, 'demo/echo* is removed\n')
    assert.equal((await here('prices', 'remove', 'demo/echo*')).code, 6)
  })

  test('a wrong token and a client key are not permitted, and an unknown key is not found', async () => {
    const run = (token: string) =>
      verb(['keys', 'list', '--url', gateway.url], { env: { HEADGATE_ADMIN_TOKEN: token } })
    assert.equal((await run('wrong')).code, 5)
    const client = (await done('keys', 'create', 'client')).stdout.trim()
    assert.equal((await run(client)).code, 5)
    assert.equal((await here('keys', 'show', 'none')).code, 6)
    assert.equal((await here('teams', 'delete', 'default')).code === 0, false)
    assert.equal((await here('keys', 'create', 'client')).code, 6)
  })

  test('a budget with a counter for each key shows them with the names of the keys', async () => {
    await done('budgets', 'create', 'each', '--amount', '10.00', '--period', 'day', '--per', 'key')
    const made = await done('keys', 'create', 'counter')
    assert.match(made.stderr, /^ {2}budget each: \$10\.00 for each key, resets/m)
    const sent = await post(
      `${gateway.base}/chat/completions`,
      { model: 'demo/echo', messages: [{ role: 'user', content: 'x' }] },
      { authorization: `Bearer ${made.stdout.trim()}` },
    )
    assert.equal(sent.status, 200)
    assert.match(
      (await done('budgets', 'show', 'each')).stdout,
      /^each .*\n\nKEY +SPENT +RESERVED +LEFT\ncounter +\$0\.00 +\$0\.00 +\$10\.00$/m,
    )
    await done('budgets', 'delete', 'each')
  })
})

describe('what the command line changes', () => {
  const ADMIN = 'admin-canary-0123456789'
  const PRICES = 'prices: [ { provider: openai, model: "*", perMillion: { input: 10, output: 40 } } ]\n'
  /** Of an answer with 100 tokens of input and 100 of output. */
  const COST = 0.005
  const body = { model: 'm', messages: [{ role: 'user', content: 'x' }] }
  const place = mkdtempSync(join(tmpdir(), 'headgate-acts-'))
  let upstream: Upstream
  before(async () => {
    upstream = await startUpstream((request) => answerWith(request, { text: 'x', input: 100, output: 100 }))
  })
  after(async () => {
    await upstream?.close()
    rmSync(place, { recursive: true, force: true })
  })
  const env = () => ({
    AUTH_ADMIN: ADMIN,
    AUTH_REQUIRED: 'auto',
    OPENAI_API_KEY: 'sk-0123456789',
    OPENAI_BASE_URL: `${upstream.url}/v1`,
    OPENAI_MODELS: 'm',
    DATA_DIR: join(place, 'data'),
  })
  const call = async ({ base }: Started, key: string | null, model = 'm') =>
    (await post(`${base}/chat/completions`, { ...body, model }, key === null ? {} : { authorization: `Bearer ${key}` }))
      .status

  test('acts on requests: keys made before the start, blocked ones, and usage as the provider bills it', async () => {
    writeFileSync(join(place, 'headgate.yaml'), PRICES, { mode: 0o600 })
    const offline = async (...words: string[]) => {
      const result = await verb(words, { cwd: place, env: { ...env(), PORT: '1' } })
      assert.equal(result.code, 0, result.stderr)
      assert.match(result.stderr, /No gateway is running/)
      return result.stdout.trim()
    }
    await offline('teams', 'create', 'search', '--models', 'openai/*,m')
    const first = await offline('keys', 'create', 'first', '--team', 'search')
    const second = await offline('keys', 'create', 'second', '--models', 'other')

    await using gateway = await start({ env: env(), files: { 'headgate.yaml': PRICES } })
    assert.deepEqual(
      [await call(gateway, first), await call(gateway, second), await call(gateway, null)],
      [200, 403, 401],
    )
    const online = async (...words: string[]) => {
      const result = await verb(['--url', gateway.url, ...words], { env: { HEADGATE_ADMIN_TOKEN: ADMIN } })
      assert.equal(result.code, 0, result.stderr)
      return result
    }
    const third = (await online('keys', 'create', 'third')).stdout.trim()
    assert.deepEqual([await call(gateway, third), await call(gateway, third)], [200, 200])
    await online('keys', 'block', 'third')
    assert.equal(await call(gateway, third), 401)
    await online('keys', 'unblock', 'third')
    assert.equal(await call(gateway, third), 200)
    await online('keys', 'revoke', 'third')
    assert.equal(await call(gateway, third), 401)

    const billed = upstream.requests.filter(({ path }) => path.endsWith('/chat/completions')).length * COST
    const report = (await online('usage', '--by', 'key', '--since', '1d', '--json')).json()
    assert.equal(Number(report.total.cost), billed)
    const costs = report.data.map(({ cost }: { cost: string }) => Number(cost)).toSorted()
    assert.deepEqual(
      costs.filter((cost: number) => cost > 0),
      [COST, 3 * COST],
    )
    assert.match((await online('usage', '--by', 'key', '--since', '1d')).stdout, /^first +1 +100 +100 +\$0\.005\d* /m)
  })

  test('a record is adopted by the file with its ID, and its key stays valid', async () => {
    const here = (...words: string[]) => verb(words, { cwd: place, env: { ...env(), PORT: '1' } })
    const secret = (await here('keys', 'create', 'adopted', '--team', 'search')).stdout.trim()
    const adopted = async (kind: string, name: string) => {
      const { code, stdout, stderr } = await here('adopt', kind, name)
      assert.equal(code, 0, stderr)
      assert.match(stderr, new RegExp(`Put the entry below \`${kind}s:\` in headgate\\.yaml`))
      return stdout
    }
    const [team, key] = [await adopted('team', 'search'), await adopted('key', 'adopted')]
    assert.match(team, /^teams:\n {2}search:\n {4}id: team_[a-z]{12}\n/)
    assert.match(key, /^keys:\n {2}adopted:\n {4}id: key_[a-z]{12}\n/)
    assert.ok(!key.includes(secret))
    assert.equal((await here('adopt', 'key', 'none')).code, 6)
    assert.match((await here('adopt', 'team', 'serch')).stderr, /has no team "serch"\. Did you mean "search"\?/)
    assert.equal((await here('adopt', 'thing', 'search')).code, 2)
    const yaml = PRICES + team + key
    await using gateway = await start({ env: env(), files: { 'headgate.yaml': yaml } })
    assert.equal(await call(gateway, secret), 200)
    const words = ['--url', gateway.url, 'keys', 'list', '--json']
    const { data } = (await verb(words, { env: { HEADGATE_ADMIN_TOKEN: ADMIN } })).json()
    const shown = data.filter(({ name }: { name: string }) => name === 'adopted')
    assert.deepEqual(
      shown.map(({ managed }: { managed: string }) => managed),
      ['file'],
    )
    writeFileSync(join(place, 'headgate.yaml'), yaml, { mode: 0o600 })
    assert.equal((await here('adopt', 'key', 'adopted')).code, 6)
  })
})
