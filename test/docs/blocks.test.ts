/**
 * The code blocks of the pages. Blocks marked `sh run` are executed in the order of their page, in a scratch folder, against a
 * gateway with the demo provider in place of http://localhost:3000; a page with a block `yaml run` has a second gateway with this
 * file, in place of http://localhost:3001. Those marked `walk` are followed in test/release. Other YAML is read as headgate.yaml, unless its mark names another program.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { loadProviders } from '../../src/config/catalogue/load-providers.ts'
import { configure } from '../../src/config/configure.ts'
import { fileReader } from '../../src/config/file-reader.ts'
import { type Started, start } from '../e2e/support/process.ts'
import { type Block, blocksOf, PAGES, placeOf, ROOT } from './support.ts'

const isRun = ({ info }: Block): boolean => info[1] === 'run'

describe('commands', () => {
  const tools = mkdtempSync(join(tmpdir(), 'headgate-docs-'))
  let demo: Started
  before(async () => {
    // An error status fails the command.
    writeFileSync(join(tools, '.curlrc'), 'fail-with-body\nmax-time = 60\n')
    mkdirSync(join(tools, 'bin'))
    const program = join(tools, 'bin', 'headgate')
    writeFileSync(program, `#!/bin/sh\nexec "${process.execPath}" "${join(ROOT, 'bin', 'headgate.mjs')}" "$@"\n`)
    chmodSync(program, 0o755)
    demo = await start()
  })
  after(async () => {
    await demo?.stop()
    rmSync(tools, { recursive: true, force: true })
  })

  const TOKEN = 'admin-token-0123456789abcdef'

  const run = (text: string, cwd: string, more: Readonly<Record<string, string>> = {}): Promise<string | null> =>
    new Promise((resolve) => {
      const env = {
        ...more,
        PATH: [join(tools, 'bin'), process.env.PATH].join(delimiter),
        CURL_HOME: tools,
        HOME: tools,
      }
      execFile('bash', ['-eo', 'pipefail', '-c', text], { cwd, env, timeout: 120_000 }, (error, stdout, stderr) =>
        resolve(error ? `${error.message}\n${stdout}\n${stderr}` : null),
      )
    })
  const portOf = (gateway: Started): string => new URL(gateway.url).port

  for (const { path, blocks } of PAGES) {
    const commands = blocks.filter((block) => block.info[0] === 'sh' && isRun(block))
    if (commands.length === 0) continue
    const file = blocks.find((block) => block.info[0] === 'yaml' && isRun(block))
    test(`${path}: each command succeeds`, async () => {
      const placed = (text: string, second?: Started) =>
        text
          .replaceAll(/(?<=(?:localhost|127\.0\.0\.1):)3000/g, portOf(demo))
          .replaceAll(/(?<=localhost:)3001/g, second ? portOf(second) : '3001')
      const runAll = async (gateway: Started) => {
        for (const block of commands)
          assert.equal(await run(placed(block.text, gateway), gateway.folder), null, `${placeOf(block)}\n${block.text}`)
      }
      if (file) {
        await using second = await start({ files: { 'headgate.yaml': placed(file.text) } })
        await runAll(second)
      } else if (commands.some(({ text }) => /headgate (?:keys|teams|budgets) create|\$AUTH_ADMIN/.test(text))) {
        // From the first key on, every call needs one.
        const env = commands.some(({ text }) => text.includes('$AUTH_ADMIN')) ? { AUTH_ADMIN: TOKEN } : {}
        await using own = await start({ env })
        for (const block of commands) {
          const text = block.text.replaceAll('localhost:3000', `localhost:${portOf(own)}`)
          assert.equal(await run(text, own.folder, env), null, `${placeOf(block)}\n${text}`)
        }
      } else await runAll(demo)
    })
  }
})

test('there are commands to run', () => assert.ok(blocksOf('sh').filter(isRun).length > 20))

describe('YAML', async () => {
  const providers = await loadProviders()
  const value = (name: string): string => (/URL$/.test(name) ? 'https://hook.example' : `value-of-${name}-0123456789`)
  for (const block of blocksOf('yaml')) {
    const [, mark] = block.info
    if (mark !== undefined && mark !== 'run') continue
    test(`${placeOf(block)} is a valid headgate.yaml`, () => {
      const named = [...block.text.matchAll(/\$\{(\w+)\}/g)].map(([, name = '']) => name)
      const keys = ['OPENAI_API_KEY', 'ANTHROPIC_API_KEY', 'BEDROCK_API_KEY', ...named].map((name) => [
        name,
        value(name),
      ])
      // A page with a second gateway has it on this port.
      const env = { ...Object.fromEntries(keys), PORT: '3001', BEDROCK_REGION: 'us-east-1' }
      const file = { name: 'headgate.yaml', text: block.text, reader: fileReader }
      const result = configure({ env, file, providers })
      assert.ok(result.ok, result.ok ? '' : JSON.stringify(result.problems))
    })
  }
})

describe('JSON', () => {
  // An answer may be shortened; docs/admin-api.md is made from examples that have tests.
  for (const block of blocksOf('json'))
    if (!block.text.includes('…') && block.page !== 'docs/admin-api.md')
      test(`${placeOf(block)} is JSON`, () => assert.ok(JSON.parse(block.text)))
})

describe('bodies of calls', () => {
  let demo: Started
  before(async () => {
    demo = await start()
  })
  after(() => demo?.stop())
  // Those of `sh run` are sent by the command itself.
  const calls = blocksOf('sh')
    .filter((block) => !isRun(block))
    .flatMap((block) =>
      [...block.text.matchAll(/http:\/\/localhost:300\d(\/\S+)[^']*(?:'[^']*'[^']*?)*? -d '(\{[^']+\})'/g)].map(
        ([, path = '', body = '']) => ({ block, path, body }),
      ),
    )
  for (const { block, path, body } of calls)
    test(`${placeOf(block)}: ${path} accepts the body`, async () => {
      const response = await fetch(demo.url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
      })
      assert.equal(response.status, 200, await response.text())
    })
  test('there are bodies', () => assert.ok(calls.length > 0))
})
