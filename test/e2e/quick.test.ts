/** A process started without configuration: one request in every client style, whole and streamed. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { MAIN, post, type Started, start } from './support/process.ts'

const DEMO = /\[demo\] No model was called\./
const messages = [{ role: 'user', content: 'hello' }]

type Style = {
  readonly name: string
  readonly path: string
  readonly body: object
  /** The text of a whole answer. */
  // biome-ignore lint/suspicious/noExplicitAny: the tests read bodies of every shape
  readonly textOf: (body: any) => unknown
  /** The end of a complete stream. */
  readonly end: RegExp
}

const STYLES: readonly Style[] = [
  {
    name: 'chat completions',
    path: '/chat/completions',
    body: { messages },
    textOf: (body) => body.choices[0].message.content,
    end: /"finish_reason":"stop"[\s\S]*data: \[DONE\]\n\n$/,
  },
  {
    name: 'responses',
    path: '/responses',
    body: { input: 'hello' },
    textOf: (body) => body.output[0].content[0].text,
    end: /event: response\.completed\n[\s\S]*data: \[DONE\]\n\n$/,
  },
  {
    name: 'messages',
    path: '/messages',
    body: { messages, max_tokens: 100 },
    textOf: (body) => body.content[0].text,
    end: /event: message_stop\n[\s\S]*\n\n$/,
  },
  {
    name: 'completions',
    path: '/completions',
    body: { prompt: 'hello' },
    textOf: (body) => body.choices[0].text,
    end: /"finish_reason":"stop"[\s\S]*data: \[DONE\]\n\n$/,
  },
]

describe('quick: a started gateway answers in every style', () => {
  let gateway: Started
  before(async () => {
    gateway = await start()
  })
  after(() => gateway.stop())

  for (const { name, path, body, textOf, end } of STYLES) {
    test(name, async () => {
      const answer = await post(gateway.base + path, { model: 'demo/echo', ...body })
      assert.equal(answer.status, 200, answer.text)
      assert.match(String(textOf(answer.json())), DEMO)
    })
    test(`${name}, streamed`, async () => {
      const answer = await post(gateway.base + path, { model: 'demo/echo', stream: true, ...body })
      assert.equal(answer.status, 200, answer.text)
      assert.match(answer.headers.get('content-type') ?? '', /^text\/event-stream/)
      assert.match(answer.text, end)
    })
  }

  test('models, health and the reference are served', async () => {
    for (const path of ['/v1/models', '/health', '/openapi.json', '/providers/status'])
      assert.equal((await fetch(gateway.url + path)).status, 200, path)
  })
})

/** Node with another version number but the same features. */
const OLDER = [
  '--import',
  'data:text/javascript,Object.defineProperty(process,"versions",{value:{...process.versions,node:"22.21.1"}})',
]

/** The first Node on the path that is older than 24. */
const oldNode = (): { readonly program: string; readonly version: string } | null => {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const program = join(folder, 'node')
    const { stdout } = spawnSync(program, ['--version'], { encoding: 'utf8', timeout: 10_000 })
    const version = stdout?.trim().slice(1) ?? ''
    if (/^\d+\./.test(version) && Number.parseInt(version, 10) < 24) return { program, version }
  }
  return null
}

describe('quick: Node older than 24', () => {
  const end = (program: string, args: readonly string[]) => {
    const { status, stderr, stdout } = spawnSync(program, args, { encoding: 'utf8', timeout: 30_000 })
    assert.deepEqual([status, stdout], [1, ''], stderr)
    // The package is not published: `npx headgate` would run another package.
    assert.doesNotMatch(stderr, /npx|^ +at /m)
    return stderr
  }
  const message = (version: string) =>
    new RegExp(`^headgate needs Node 24 or newer; this is Node ${version}\\.\n +Run \`npm start\` in /`)

  test('bin/headgate.mjs exits with instructions', () => {
    assert.match(end(process.execPath, [...OLDER, MAIN]), message('22.21.1'))
  })

  test('an installed package, without sources, mentions Node only', () => {
    const folder = mkdtempSync(join(tmpdir(), 'headgate-quick-'))
    try {
      cpSync(MAIN, join(folder, 'bin', 'headgate.mjs'))
      const error = end(process.execPath, [...OLDER, join(folder, 'bin', 'headgate.mjs')])
      assert.match(error, /this is Node 22\.21\.1\.\n {2}Install Node 24 from https:\/\/nodejs\.org\.\n$/)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  const old = oldNode()
  test('bin/headgate.mjs with an installed older Node', { skip: old ? false : 'no older Node on the path' }, () => {
    assert.match(end(old?.program ?? '', [MAIN]), message(old?.version ?? ''))
  })
})
