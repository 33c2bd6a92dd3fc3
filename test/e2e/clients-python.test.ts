/**
 * Client libraries for Python as they are, as in clients.test.ts. Each runs in the environment that has its versions: one
 * process runs every case and tells each result as a line.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { CALLS, CITY, type Formats, PROVIDERS, startFormats, TEXT } from './support/formats.ts'

const CACHE = join(import.meta.dirname, '..', '..', '.cache')

/** `environment`: below `.cache`; `.ci/run` makes it of the requirements. */
const LIBRARIES = [
  { module: 'client_anthropic', environment: 'python', requirements: 'requirements.txt', name: 'anthropic' },
  {
    module: 'client_llamaindex',
    environment: 'llamaindex',
    requirements: 'requirements.llamaindex.txt',
    name: 'llama-index-llms-openai-like',
  },
] as const

type Told = { name: string; ok: boolean; error?: string } | { done: true; version: string }

let formats: Formats
before(async () => {
  formats = await startFormats()
})
after(() => formats?.stop())

for (const { module, environment, requirements, name } of LIBRARIES) {
  const python = join(CACHE, environment, 'bin', 'python')
  const here = join('test', 'e2e', requirements)
  const absent = existsSync(python)
    ? false
    : `not here; .ci/run installs it, or: python3 -m venv .cache/${environment} && .cache/${environment}/bin/pip install -r ${here}`

  test(`${name} for Python`, { skip: process.env.HEADGATE_CI === '1' ? false : absent }, async (t) => {
    if (absent) assert.fail(absent)
    const given = {
      module,
      url: formats.gateway.url,
      providers: Object.values(PROVIDERS),
      text: TEXT,
      calls: CALLS,
      city: CITY,
    }
    const { stdout } = await promisify(execFile)(
      python,
      [join(import.meta.dirname, 'python', 'clients.py'), JSON.stringify(given)],
      {
        env: { PATH: process.env.PATH ?? '', HOME: formats.gateway.folder, PYTHONDONTWRITEBYTECODE: '1' },
        timeout: 120_000,
      },
    )
    const told: Told[] = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    const last = told.at(-1)
    assert.ok(last && 'done' in last, 'the Python process did not come to its end')
    const wanted = readFileSync(join(import.meta.dirname, requirements), 'utf8').split('\n')
    assert.ok(wanted.includes(`${name}==${last.version}`), `${name} ${last.version} is not the one wanted`)
    for (const one of told) if ('name' in one) await t.test(`${name}: ${one.name}`, () => assert.ok(one.ok, one.error))
    assert.equal(told.length, 6 * Object.keys(PROVIDERS).length + 1)
  })
}
