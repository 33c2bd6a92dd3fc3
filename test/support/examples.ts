/**
 * Runs a folder of `examples/` as its README says: the first line of its `sh` block starts the gateway, the second runs the
 * example, whose output must be `expect.txt`. In place of `npm start` the sources are started on a free port, with what a compose
 * file or the rendered chart gives the container; every provider is an upstream on loopback, which answers `Hello from MODEL.`;
 * an ellipsis in the line is replaced by a value.
 */
import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { existsSync, globSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { parse, parseAllDocuments } from 'yaml'
import { isObject, object, text } from '../../src/core/json.ts'
import { start } from '../e2e/support/process.ts'
import { toolPath } from '../release/support/tools.ts'
import { answerWith } from './answers.ts'
import { freePorts } from './ports.ts'
import { startUpstream } from './upstream.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const FOLDER = join(ROOT, 'examples')

export const EXAMPLES = globSync('*/', { cwd: FOLDER })
  .map((path) => basename(path))
  .sort()

/** Two that need nothing and take little time: they are in the quick lane. */
export const QUICK: readonly string[] = ['fallback-demo', 'first-answer']

const PYTHON = join(ROOT, '.cache', 'python', 'bin', 'python')
const CLIENTS = join(ROOT, '.cache', 'clients', 'node_modules')

/** Programs that are installed without their scripts, so that they have no command in the path. */
const PROGRAMS: { readonly [command: string]: string } = {
  codex: join(CLIENTS, '@openai', 'codex', 'bin', 'codex.js'),
  claude: join(CLIENTS, '@anthropic-ai', 'claude-code', 'cli-wrapper.cjs'),
}

/** What an example needs beyond the repository's packages, and how to install it. */
const NEEDS: { readonly [example: string]: readonly [path: string | undefined, install: string] } = {
  'openai-sdk-python': [PYTHON, '.ci/run installs it'],
  kubernetes: [toolPath('helm'), '.ci/tools builds Helm'],
  codex: [PROGRAMS.codex, 'npm run clients installs it'],
  'claude-code': [PROGRAMS.claude, 'npm run clients installs it'],
}

/** Writes the commands of the programs to a folder. */
const writeCommands = async (folder: string): Promise<void> => {
  await mkdir(folder)
  for (const [command, program] of Object.entries(PROGRAMS))
    await writeFile(join(folder, command), `#!/bin/sh\nexec node '${program}' "$@"\n`, { mode: 0o755 })
}

/** Why an example cannot run here; false if it can. */
export const skipExample = (name: string): string | false => {
  const [path, install] = NEEDS[name] ?? []
  return path !== undefined && !existsSync(path) ? `not installed; ${install}` : false
}

/** The two commands of the README. */
const commandsIn = async (folder: string): Promise<readonly [start: string, run: string]> => {
  const readme = await readFile(join(folder, 'README.md'), 'utf8')
  const [first, second, ...more] = (/```sh\n([\s\S]*?)```/.exec(readme)?.[1] ?? '').trim().split('\n')
  assert.ok(first && second && more.length === 0, 'the README has a block with two commands')
  return [first, second]
}

const ASSIGNMENT = /^([A-Z0-9_]+)=(.*)$/

/** The variables of the container in a compose file, with values in place of those of the shell. */
const composeVariables = async (file: string, shell: Readonly<Record<string, string>>) => {
  const service = object(object(object(parse(await readFile(file, 'utf8')))?.services)?.headgate)
  const environment = Object.entries(object(service?.environment) ?? {}).map(([name, value]) => [
    name,
    String(value).replace(/\$\{(\w+)[^}]*\}/, (_, variable: string) => shell[variable] ?? ''),
  ])
  return { ...Object.fromEntries(environment), HEADGATE_CONFIG: join(file, '..', 'headgate.yaml') }
}

type Environment = Readonly<Record<string, string>>
/** What the first command gives the gateway: its environment, and perhaps the text of its configuration. */
type Given = { readonly env: Environment; readonly config?: string }

/** What a pod of the chart has: its configuration, and variables for the entries of its Secret that this refers to. */
const chartVariables = (chart: string, values: string): Given => {
  // Without a cluster, Helm assumes an older one than the chart accepts.
  const words = ['template', 'headgate', chart, '--values', values, '--kube-version', 'v1.31.0']
  const rendered = execFileSync(toolPath('helm'), words, {
    cwd: ROOT,
    encoding: 'utf8',
  })
  const documents = parseAllDocuments(rendered).map((document) => object(document.toJS()) ?? {})
  const config = text(object(documents.find(({ kind }) => kind === 'ConfigMap')?.data)?.['headgate.yaml']) ?? ''
  const names = [...config.matchAll(/\$\{(\w+)\}/g)].map(([, name = '']) => name)
  return { env: Object.fromEntries(names.map((name) => [name, `key-of-${name}`])), config }
}

const givenBy = async (command: string): Promise<Given> => {
  const words = command.split(' ')
  const assigned = words.flatMap((word) => {
    const [, name, value = ''] = ASSIGNMENT.exec(word) ?? []
    return name === undefined ? [] : [[name, value === '…' ? `key-of-${name}` : value] as const]
  })
  const env: Record<string, string> = Object.fromEntries(assigned)
  const rest = words.slice(assigned.length).join(' ')
  if (env.HEADGATE_CONFIG !== undefined) env.HEADGATE_CONFIG = join(ROOT, env.HEADGATE_CONFIG)
  const compose = /^docker compose -f (\S+) up --detach --wait$/.exec(rest)?.[1]
  if (compose !== undefined) return { env: await composeVariables(join(ROOT, compose), env) }
  const [, chart, values] =
    /^helm install headgate (\S+) --values (\S+) --wait && kubectl port-forward service\/headgate 3000:80$/.exec(
      rest,
    ) ?? []
  if (chart !== undefined && values !== undefined) return chartVariables(chart, values)
  assert.equal(rest, 'npm start')
  return { env }
}

/** The names of providers that a configuration or environment uses, in capitals. */
const providersOf = async ({ env: { HEADGATE_CONFIG: file, ...env }, config: written }: Given) => {
  const config: unknown = file === undefined ? parse(written ?? '{}') : parse(await readFile(file, 'utf8'))
  const listed = isObject(config) ? Object.keys(object(config.providers) ?? {}) : []
  const named = Object.keys(env).flatMap((name) => /^([A-Z]+)_API_KEY$/.exec(name)?.[1] ?? [])
  return new Set([...listed.map((name) => name.toUpperCase()).filter((name) => name !== 'DEMO'), ...named])
}

/** A provider that accepts every key and lists no models. */
const startVendor = () =>
  startUpstream((request) =>
    request.method === 'GET'
      ? { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
      : answerWith(request, { text: `Hello from ${request.model}.`, input: 1_000, output: 100 }),
  )

/** Runs the example and returns its output. */
const outputOf = async (name: string): Promise<string> => {
  const [begin, run] = await commandsIn(join(FOLDER, name))
  const given = await givenBy(begin)
  const vendor = await startVendor()
  const [closed = 0] = await freePorts(1)
  const nowhere = `http://127.0.0.1:${closed}`
  // The house of one example is down; every other provider is the upstream.
  const addresses = [...(await providersOf(given))].map((provider) => [
    `${provider}_BASE_URL`,
    `${provider === 'HOUSE' ? nowhere : vendor.url}/v1`,
  ])
  try {
    await using gateway = await start({
      env: { ...given.env, ...Object.fromEntries(addresses) },
      ...(given.config !== undefined && { files: { 'headgate.yaml': given.config } }),
    })
    const commands = join(gateway.folder, 'commands')
    await writeCommands(commands)
    const env = {
      PATH: `${commands}:${join(process.execPath, '..')}:${process.env.PATH ?? ''}`,
      HOME: gateway.folder,
      HEADGATE_URL: gateway.url,
      PYTHON,
      // A client reaches nothing but this machine.
      HTTP_PROXY: nowhere,
      HTTPS_PROXY: nowhere,
      http_proxy: nowhere,
      https_proxy: nowhere,
      NO_PROXY: '127.0.0.1,localhost',
      no_proxy: '127.0.0.1,localhost',
    }
    const { stdout } = await promisify(execFile)(join(ROOT, run), { env, cwd: ROOT, timeout: 120_000 })
    return stdout
  } finally {
    await vendor.close()
  }
}

/** `UPDATE_EXAMPLES=1` writes the output instead. */
export const testExample = (name: string): void => {
  test(`example ${name}`, { skip: skipExample(name) }, async () => {
    const file = join(FOLDER, name, 'expect.txt')
    const output = await outputOf(name)
    if (process.env.UPDATE_EXAMPLES === '1') await writeFile(file, output)
    assert.equal(output, await readFile(file, 'utf8'))
    assert.ok(text(output)?.trim(), 'it prints something')
  })
}
