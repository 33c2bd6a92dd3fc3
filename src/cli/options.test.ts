/** The options of all verbs: each reaches its own command, whatever the options of the commands above it. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { Command, Option } from 'commander'
import type { Shown } from '../records/entities/shown.ts'
import type { USAGE_REPORT } from '../server/answers/usage.ts'
import { timeOf } from './arguments.ts'
import { CliError, type CliHost } from './cli.ts'
import { buildProgram, runCli } from './run.ts'

type Output = { readonly host: CliHost; readonly stdout: () => string; readonly stderr: () => string }

/** A host whose terminal has `columns` characters. */
const hostOf = (columns?: number): Output => {
  const written = { stdout: '', stderr: '' }
  const write = (name: 'stdout' | 'stderr') => (text: string) => {
    written[name] += text
    return true
  }
  return {
    host: {
      env: {},
      folder: '/nonexistent',
      home: new URL('../../..', import.meta.url),
      version: '0.0.0',
      stdout: { write: write('stdout'), ...(columns !== undefined && { columns }) },
      stderr: { write: write('stderr') },
    },
    stdout: () => written.stdout,
    stderr: () => written.stderr,
  }
}

const build = () =>
  buildProgram(
    hostOf().host,
    () => {
      throw new Error('no action runs')
    },
    () => true,
  )

/** The commands that run something, with the words that lead to them. */
const leavesOf = (
  command: Command,
  words: readonly string[] = [],
): readonly (readonly [readonly string[], Command])[] => [
  [words, command] as const,
  ...command.commands.flatMap((sub) => leavesOf(sub, [...words, sub.name()])),
]

const VALUE = 'a-value'
const exampleOf = ({ argChoices }: { readonly argChoices?: readonly string[] | undefined }): string =>
  argChoices?.[0] ?? VALUE
const wordsOf = (option: Option): readonly string[] => {
  const flag = option.long ?? option.short ?? ''
  return option.required || option.optional ? [flag, exampleOf(option)] : [flag]
}

test('every option of every verb reaches its own command', async () => {
  const program = await build()
  const names = new Map<string, string>()
  let checked = 0
  for (const [words, command] of leavesOf(program)) {
    const path = words.join(' ')
    if (words.length === 0) continue
    for (const option of command.options)
      for (const flag of [option.long, option.short].filter((one) => one !== undefined)) {
        assert.ok(!program.options.some(({ long, short }) => long === flag || short === flag), `${path} ${flag}`)
        names.set(flag, path)
      }
    // A fresh program for each: values stay in a command that was parsed.
    for (const at of command.options.keys()) {
      const fresh = await build()
      const leaf = words.reduce((found, name) => found.commands.find((sub) => sub.name() === name) ?? found, fresh)
      let opts: Record<string, unknown> | undefined
      leaf.action(() => {
        opts = leaf.opts()
      })
      const option = leaf.options[at]
      assert.ok(option)
      const others = leaf.options.filter((other) => other.mandatory && other !== option).flatMap(wordsOf)
      const operands = leaf.registeredArguments.filter(({ required }) => required).map(exampleOf)
      await fresh.parseAsync([...words, ...operands, ...others, ...wordsOf(option)], { from: 'user' })
      assert.ok(opts, path)
      const name = option.attributeName()
      assert.equal(leaf.getOptionValueSource(name), 'cli', `${path} ${option.long}`)
      const value = opts[name]
      const expected = option.required || option.optional ? exampleOf(option) : !option.negate
      assert.deepEqual(Array.isArray(value) ? value[0] : value, expected, `${path} ${option.long}`)
      checked++
    }
  }
  assert.ok(checked > 100, String(checked))
})

test('an option of the verb before its subcommand is refused', async () => {
  for (const [words, message] of [
    ['usage --since 1h export', /Write --since after the subcommand: headgate usage export --since <time>/],
    ['usage --by team export', /--by is an option of headgate usage and has no effect on usage export/],
    ['providers --all test openai', /--all is an option of headgate providers/],
  ] as const) {
    const out = hostOf()
    assert.equal(await runCli(words.split(' '), out.host), 2, words)
    assert.match(out.stderr(), message)
  }
})

test('the help of a subcommand lists no options of its verb as global ones', async () => {
  const out = hostOf()
  assert.equal(await runCli(['usage', 'export', '--help'], out.host), 0)
  assert.doesNotMatch(out.stdout(), /--by|--sort/)
  assert.match(out.stdout(), /Global Options:[\s\S]+--token/)
})

/** A gateway that records the paths of requests and answers with `body`. */
const withGateway = async (
  answers: (path: string) => readonly [status: number, body: unknown],
  run: (url: string, paths: readonly string[]) => Promise<void>,
): Promise<void> => {
  const paths: string[] = []
  const server = createServer((request, response) => {
    paths.push(request.url ?? '')
    const [status, body] = answers(request.url ?? '')
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    // The address of a listening TCP server.
    await run(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, paths)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

const NO_ROWS = [200, { object: 'list', data: [], total: {}, names: {} }] as const

test('usage export sends its own range', () =>
  withGateway(
    () => NO_ROWS,
    async (url, paths) => {
      for (const words of [
        ['usage', 'export', '--since', '2026-11-20', '--until', '2026-11-21'],
        ['usage', 'export', '--since=2026-11-20', '--until=2026-11-21', '--level', 'day'],
        ['--quiet', 'usage', 'export', '--until', '2026-11-21', '--since', '2026-11-20'],
      ])
        assert.equal(await runCli([...words, '--url', url], hostOf().host), 0)
      assert.equal(paths.length, 3)
      for (const path of paths) {
        const query = new URL(path, url).searchParams
        assert.equal(query.get('from'), '2026-11-20T00:00:00.000Z')
        assert.equal(query.get('to'), '2026-11-21T00:00:00.000Z')
      }
    },
  ))

const HEALTH = {
  status: 'ok',
  version: '0.0.0',
  uptime_ms: 1,
  auth: 'open',
  providers: { configured: 1, available: 1 },
}

test('a value that the gateway refuses is a usage error, a refused token is not permitted', () =>
  withGateway(
    (path) =>
      path === '/health' ? [200, HEALTH] : [path.startsWith('/admin') ? 400 : 401, { error: { message: 'no' } }],
    async (url) => {
      const codes = []
      for (const words of [
        'logs --status 9xx',
        'usage --by tteam',
        'keys list --status x',
        'budgets create b --amount abc',
        'status --token wrong',
      ])
        codes.push(await runCli([...words.split(' '), '--url', url], hostOf().host))
      assert.deepEqual(codes, [2, 2, 2, 2, 5])
    },
  ))

const SUMS = {
  requests: 0,
  failed: 0,
  refused: 0,
  attempts: 0,
  input: 1,
  output: 1,
  cache_read: 0,
  cache_write: 0,
  reasoning: 0,
  cost: '0.000000000',
  saved: '0.000000000',
  lost: '0.000000000',
  estimated: 0,
  unpriced: 0,
  first_content_ms: null,
  total_ms: null,
}
const USAGE: Shown<typeof USAGE_REPORT> = {
  object: 'list',
  data: [
    { ...SUMS, team: 'team_a', requests: 1_200, cost: '0.500000000' },
    { ...SUMS, team: 'team_b', requests: 9, cost: '12.000000000' },
    { ...SUMS, team: 'team_c', requests: 90, cost: '2.000000000' },
  ],
  total: { ...SUMS, requests: 1_299, cost: '14.500000000' },
  names: { team_a: 'alpha', team_b: 'beta', team_c: 'a team with a long name of its own' },
  from: '2026-11-20T00:00:00.000Z',
  to: '2026-11-27T00:00:00.000Z',
  searched_until: null,
  has_more: false,
  next: null,
}

test('a report that is added up in parts is read to its end, with its progress on a terminal alone', async () => {
  for (const isTTY of [true, false]) {
    const parts = ['2026-11-25T10:30:00.000Z', '2026-11-21T08:00:00.000Z'].map((searched_until) => ({
      ...USAGE,
      data: [],
      has_more: true,
      next: 'W10',
      searched_until,
    }))
    await withGateway(
      () => [200, parts.shift() ?? USAGE],
      async (url, paths) => {
        const out = hostOf()
        const host = { ...out.host, stderr: { ...out.host.stderr, isTTY } }
        assert.equal(await runCli(['usage', '--url', url], host), 0)
        assert.match(out.stdout(), /beta.*\n.*team with a long name.*\n.*alpha/)
        assert.deepEqual(
          paths.map((path) => new URL(path, url).searchParams.get('after')),
          [null, 'W10', 'W10'],
        )
        const lines = ['2026-11-25 10:30', '2026-11-21 08:00'].map((time) => `Added up back to ${time} UTC …`)
        const shown = [...lines, ''].map((line) => `\r\u001b[K${line}`).join('')
        assert.equal(out.stderr(), isTTY ? shown : '')
      },
    )
  }
})

test('a report that does not come further is given up', () =>
  withGateway(
    () => [200, { ...USAGE, data: [], has_more: true, next: 'W10', searched_until: '2026-11-25T10:30:00.000Z' }],
    async (url) => {
      const out = hostOf()
      assert.equal(await runCli(['usage', '--url', url], out.host), 1)
      assert.match(out.stderr(), /did not add up usage before 2026-11-25T10:30:00\.000Z/)
    },
  ))

test('a report is in the order of cost, and --sort and --columns choose others', () =>
  withGateway(
    () => [200, USAGE],
    async (url) => {
      const run = async (...words: string[]) => {
        const out = hostOf()
        const code = await runCli(['usage', ...words, '--url', url], out.host)
        return { code, out: out.stdout(), err: out.stderr() }
      }
      const firsts = (text: string) =>
        text
          .trimEnd()
          .split('\n')
          .map((line) => line.split(/ {2,}/)[0]?.split(' ')[0])
      assert.deepEqual(firsts((await run()).out), ['TEAM', 'beta', 'a', 'alpha', 'total'])
      assert.deepEqual(firsts((await run('--sort', 'requests')).out), ['TEAM', 'alpha', 'a', 'beta', 'total'])
      assert.deepEqual(firsts((await run('--sort', '-requests')).out), ['TEAM', 'beta', 'a', 'alpha', 'total'])
      assert.equal(
        (await run('--columns', 'cost,team', '--sort', 'team')).out,
        'COST    TEAM\n$2.00   a team with a long name of its own\n$0.50   alpha\n$12.00  beta\n$14.50  total\n',
      )
      const wrong = await run('--sort', 'costs')
      assert.deepEqual([wrong.code, /Did you mean cost\?/.test(wrong.err)], [2, true])
      const json = JSON.parse((await run('--json')).out)
      assert.deepEqual(
        json.data.map((row: { team_name: string }) => row.team_name),
        ['beta', 'a team with a long name of its own', 'alpha'],
      )
    },
  ))

test('tables and help keep to the width of the terminal', () =>
  withGateway(
    () => [200, USAGE],
    async (url) => {
      for (const columns of [48, 60, 80]) {
        for (const words of [
          ['usage', '--url', url],
          ['--help'],
          ['usage', 'export', '--help'],
          ['db', 'move', '--help'],
        ]) {
          const out = hostOf(columns)
          await runCli(words, out.host)
          const long = out
            .stdout()
            .split('\n')
            .filter((line) => line.length > columns)
          assert.deepEqual(long, [], words.join(' '))
        }
      }
      const wide = hostOf(400)
      await runCli(['db', 'move', '--help'], wide.host)
      assert.ok(
        wide
          .stdout()
          .split('\n')
          .every((line) => line.length <= 100),
      )
    },
  ))

test('words name the beginning of a day, week, month or year', () => {
  const at = (word: string, zone?: string) => timeOf('--since', word, -1, zone)
  const today = new Date().toISOString().slice(0, 10)
  assert.equal(at('today'), `${today}T00:00:00.000Z`)
  assert.equal(Date.parse(at('today')) - Date.parse(at('Yesterday')), 86_400_000)
  for (const word of ['this month', 'this-month', 'This  Month'])
    assert.equal(at(word), `${today.slice(0, 7)}-01T00:00:00.000Z`)
  assert.equal(new Date(at('last week')).getUTCDay(), 1)
  assert.equal(at('2026-11-25', 'Asia/Tokyo'), '2026-11-24T15:00:00.000Z')
  assert.equal(at('2026-03-29', 'Europe/Berlin'), '2026-03-28T23:00:00.000Z')
  assert.equal(at('2026-11-25T10:00:00Z', 'Asia/Tokyo'), '2026-11-25T10:00:00.000Z')
  for (const wrong of ['tomorow', '2026-13-01', '', 'month'])
    assert.throws(
      () => at(wrong),
      (error) => error instanceof CliError && error.code === 2,
      wrong,
    )
  assert.throws(() => at('today', 'Nowhere/Here'), /--tz needs/)
})

const HAS_BASH = spawnSync('bash', ['--version']).status === 0

test('completion of bash offers verbs, subcommands and their own options', {
  skip: !HAS_BASH && 'no bash',
}, async () => {
  const out = hostOf()
  assert.equal(await runCli(['completion', 'bash'], out.host), 0)
  const cases: readonly (readonly [words: string, offered: RegExp])[] = [
    ['wha', /^what-if$/],
    ['keys cr', /^create$/],
    ['usage export --s', /^--since$/],
    ['usage --json --so', /^--sort$/],
    ['keys create x --exp', /^--expires$/],
    ['providers --to', /^--token$/],
  ]
  const calls = cases.map(([words]) => {
    const list = words.split(' ')
    return `COMP_WORDS=(headgate ${words}); COMP_CWORD=${list.length}; _headgate; echo "\${COMPREPLY[@]}"`
  })
  const { stdout, stderr } = spawnSync('bash', ['-c', `${out.stdout()}\n${calls.join('\n')}`], { encoding: 'utf8' })
  assert.equal(stderr, '')
  const lines = stdout.trimEnd().split('\n')
  for (const [at, [words, offered]] of cases.entries()) assert.match(lines[at] ?? '', offered, words)
})

test('a newer gateway may send more: unknown members stay in --json, unknown values are printed', () => {
  const [first] = USAGE.data
  const newer = { ...USAGE, data: [{ ...first, mood: 'calm' }], total: { ...USAGE.total, mood: 'calm' }, plan: ['x'] }
  return withGateway(
    (path) => (path === '/health' ? [200, { ...HEALTH, status: 'asleep', since: 'noon' }] : [200, newer]),
    async (url) => {
      const text = hostOf()
      assert.equal(await runCli(['usage', '--url', url], text.host), 0, text.stderr())
      assert.match(text.stdout(), /^alpha +1,200 /m)
      const json = hostOf()
      assert.equal(await runCli(['usage', '--json', '--url', url], json.host), 0, json.stderr())
      const { plan, data } = JSON.parse(json.stdout())
      assert.deepEqual([plan, data[0].mood], [['x'], 'calm'])
    },
  )
})

test('an answer that lacks a member is an error with the member and both versions', async () => {
  const { cost: _, ...incomplete } = SUMS
  const cases = [
    [
      { ...USAGE, data: [{ ...incomplete, team: 'team_a' }] },
      /GET \/admin\/api\/v1\/usage: data\[0\]\.cost is missing/,
    ],
    [{ ...USAGE, names: ['alpha'] }, /names is no record/],
    ['hello', /: it is no object/],
  ] as const
  for (const [body, message] of cases)
    await withGateway(
      (path) => (path === '/health' ? [200, { ...HEALTH, version: '0.9.0' }] : [200, body]),
      async (url) => {
        const out = hostOf()
        assert.equal(await runCli(['usage', '--url', url], out.host), 1)
        assert.equal(out.stdout(), '')
        assert.match(out.stderr(), message)
        assert.match(out.stderr(), /The gateway has version 0\.9\.0, this command 0\.0\.0: use the same\.\n$/)
      },
    )
  await withGateway(
    () => [200, '<html>'],
    async (url) => {
      const out = hostOf()
      assert.equal(await runCli(['keys', 'list', '--url', url], out.host), 1)
      assert.match(out.stderr(), /Is this the address of a Headgate\?\n$/)
    },
  )
})

test('a key is printed even if another version states less about it', () =>
  withGateway(
    (path) =>
      path.includes('/teams')
        ? [200, { object: 'list', data: [], has_more: false, next: null }]
        : [201, { object: 'key', id: 'key_a', name: 'a', team: 'team_a', secret: 'hgk_once' }],
    async (url) => {
      const out = hostOf()
      await runCli(['keys', 'create', 'a', '--team', 'team_a', '--url', url], out.host)
      assert.equal(out.stdout(), 'hgk_once\n', out.stderr())
    },
  ))

test('a gateway of another version that does not know a path or a parameter states both versions', async () => {
  const unknown = { error: { message: 'This path does not exist.', code: 'unknown_url' } }
  for (const [version, status, body, isStated] of [
    ['0.9.0', 404, unknown, true],
    ['0.9.0', 400, { error: { message: 'No such parameter.' } }, true],
    ['0.9.0', 404, { error: { message: 'No such key.', code: 'not_found' } }, false],
    ['0.0.0', 404, unknown, false],
  ] as const)
    await withGateway(
      (path) => (path === '/health' ? [200, { ...HEALTH, version }] : [status, body]),
      async (url) => {
        const out = hostOf()
        await runCli(['incidents', '--url', url], out.host)
        const message = `${body.error.message}${isStated ? ' The gateway has version 0.9.0, this command 0.0.0: use the same.' : ''}`
        assert.equal(out.stderr(), `headgate: ${message}\n`)
      },
    )
})

test('a write whose answer cannot be read was carried out', () =>
  withGateway(
    (path) => (path === '/health' ? [200, HEALTH] : [200, { object: 'cache.purged' }]),
    async (url) => {
      const out = hostOf()
      assert.equal(await runCli(['cache', 'purge', '--url', url], out.host), 1)
      assert.match(
        out.stderr(),
        /removed is missing\)\. The request was carried out\. Both have version 0\.0\.0: please/,
      )
    },
  ))

test('with --json a wrong use is an object on stderr, too', async () => {
  for (const [words, message] of [
    ['statsu', /^unknown command 'statsu'\n\(Did you mean status\?\)$/],
    ['keys list --bogus', /^unknown option '--bogus'$/],
    ['keys list --jsn', /^unknown option '--jsn'\n\(Did you mean --json\?\)$/],
    ['keys show', /^missing required argument 'key'$/],
    ['usage export --format cvs', /'cvs' is invalid\. Allowed choices are csv, jsonl\.\n\(Did you mean csv\?\)$/],
    ['connect clade', /Allowed choices are claude, .+\n\(Did you mean claude\?\)$/],
  ] as const) {
    const out = hostOf()
    assert.equal(await runCli(['--json', ...words.split(' ')], out.host), 2, words)
    const { error } = JSON.parse(out.stderr())
    assert.deepEqual([error.exit, out.stdout()], [2, ''])
    assert.match(error.message, message)
  }
})
