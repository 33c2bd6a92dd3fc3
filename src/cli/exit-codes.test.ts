import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import type { Command } from 'commander'
import { type CliHost, EXIT } from './cli.ts'
import { buildProgram, runCli } from './run.ts'

const hostOf = (): CliHost => ({
  env: { DATA_DIR: '/nonexistent/data', HOME: '/nonexistent' },
  folder: '/nonexistent',
  home: new URL('file:///nonexistent/'),
  version: '0',
  stdout: { write: () => true },
  stderr: { write: () => true },
})

/** Values of arguments and options that some verbs check before they call the gateway. */
const VALUES: Readonly<Record<string, string>> = { amount: '1.00', kind: 'team', time: '1d', price: 'openai/m' }
/** Words that a verb needs as well. */
const MORE: Readonly<Record<string, string>> = {
  explain: '-m m',
  'keys update': '--rpm 1',
  'teams update': '--rpm 1',
  'budgets create': '--amount 1.00',
  'budgets update': '--amount 2.00',
  'prices set': '--input 1 --output 2',
  'tokens create': '--role viewer',
  'providers disable': '--reason test',
  'budgets adjust': '--reason test',
  'budgets reset': '--reason test',
  'usage reprice': '--from 1d',
  'routes edit': '--name y',
}
/** Verbs that need no gateway, read a file or a database first, or have credentials of their own. */
const LOCAL = new Set(
  'start doctor prove torture login logout token adopt export completion backup restore db/status db/migrate db/move config/check config/show import/litellm import/portkey import/openrouter providers/test keys/import keys/scan routes/create routes/test jwt/check guards/test usage/reconcile connect tape/run tape/check tape/prune tape/show tape/scan'.split(
    ' ',
  ),
)

type Leaf = { readonly name: string; readonly words: readonly string[] }

const leavesOf = (command: Command, place: readonly string[]): readonly Leaf[] => {
  const inner = command.commands.flatMap((one) => leavesOf(one, [...place, one.name()]))
  // A verb whose subcommands are all it has cannot be called alone.
  const isGroup = command.commands.length > 0 && command.options.length === 0
  if (place.length === 0 || isGroup) return inner
  const values = command.registeredArguments.filter(({ required }) => required).map((one) => VALUES[one.name()] ?? 'x')
  const name = place.join(' ')
  return [{ name, words: [...place, ...values, ...(MORE[name]?.split(' ') ?? [])] }, ...inner]
}

const program = await buildProgram(
  hostOf(),
  () => assert.fail('no verb runs'),
  () => true,
)
const LEAVES = leavesOf(program, [])

describe('exit codes', () => {
  const server = createServer((_request, response) => {
    response.writeHead(401, { 'content-type': 'application/json' })
    response.end('{"error":{"message":"No.","code":"invalid_admin_token"}}')
  })
  let url = ''
  before(
    () =>
      new Promise<void>((resolve) =>
        server.listen(0, '127.0.0.1', () => {
          // An AddressInfo: it listens at a port.
          url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
          resolve()
        }),
      ),
  )
  after(() => server.close())

  for (const { name, words } of LEAVES) {
    if (name !== 'start')
      test(`${name}: an unknown option is ${EXIT.usage}`, async () =>
        assert.equal(await runCli([...words, '--unknown-option'], hostOf()), EXIT.usage))
    if (LOCAL.has(name.replace(' ', '/'))) continue
    test(`${name}: a wrong token or key is ${EXIT.notPermitted}, no gateway ${EXIT.unreachable}`, async () => {
      const at = async (address: string) => await runCli([...words, '--url', address, '--token', 'wrong'], hostOf())
      // Readiness has no credential: a gateway that answers with an error is not ready.
      assert.equal(await at(url), name === 'health' ? EXIT.failed : EXIT.notPermitted)
      assert.equal(await at('http://127.0.0.1:1'), EXIT.unreachable)
    })
  }
})
