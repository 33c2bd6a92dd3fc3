/**
 * Follows a page word for word: its blocks marked `sh walk`, in their order, in a folder. A block marked `sh walk start` is a
 * program that runs until the end. After `restart` it is started again, and `stopped` runs while it is not running. The port in the
 * text is replaced by a free one.
 */
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Block, PAGES, placeOf } from '../../docs/support.ts'
import { built } from '../../e2e/support/built.ts'
import { freePorts } from '../../support/ports.ts'

/** ms in which packages are installed and a gateway starts. */
const START_LIMIT = 300_000

type Place = { readonly cwd: string; readonly env: Readonly<Record<string, string>> }

/** `replace`: commands of a page that cannot run here, and those that do the same. */
type Walk = Place & { readonly replace?: Readonly<Record<string, string>> }

const execute = (text: string, { cwd, env }: Place): Promise<string> =>
  new Promise((resolve, reject) => {
    execFile('bash', ['-eo', 'pipefail', '-c', text], { cwd, env, timeout: START_LIMIT }, (error, stdout, stderr) =>
      error ? reject(new Error(`${text}\n${error.message}\n${stdout}\n${stderr}`)) : resolve(stdout),
    )
  })

/** Starts a program, and waits until the gateway answers. */
const begin = async (text: string, { cwd, env }: Place, url: string) => {
  const child = spawn('bash', ['-c', text], { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece) => (output += piece))
  const closed = once(child, 'close')
  const signal = (name: NodeJS.Signals) => {
    // The group: a shell and npm may be between.
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, name)
  }
  const isLive = () =>
    fetch(`${url}/health/live`).then(
      ({ status }) => status === 200,
      () => false,
    )
  for (const end = performance.now() + START_LIMIT; !(await isLive()); await sleep(100))
    if (child.exitCode !== null || performance.now() > end) {
      signal('SIGKILL')
      assert.fail(`${text}\n${output}`)
    }
  return {
    async stop() {
      signal('SIGTERM')
      await closed
    },
    kill: () => signal('SIGKILL'),
  }
}

/** What a page promises beside its commands: both API styles, the dashboard with its program, and the documentation. */
const checkPages = async (url: string): Promise<void> => {
  const dashboard = await built(`${url}/dashboard/`)
  const page = await dashboard.text()
  assert.match(page, /<title>Headgate<\/title>/)
  const script = /<script type="module" src="([^"]+)">/.exec(page)?.[1] ?? assert.fail(page)
  assert.equal((await fetch(new URL(script, `${url}/dashboard/`))).status, 200)
  const docs = await built(`${url}/docs/`)
  assert.match(await docs.text(), /<h1 id="headgate">/)
  assert.match(await (await fetch(`${url}/docs/errors`)).text(), /<tr id="model_not_found">/)
}

/** Follows a page, and returns what its commands printed. */
export const walk = async (path: string, { cwd, env, replace = {} }: Walk): Promise<string> => {
  const blocks: readonly Block[] = PAGES.find((page) => page.path === path)?.blocks ?? []
  const steps = blocks.filter(({ info }) => info[0] === 'sh' && info.includes('walk'))
  assert.ok(steps.length > 1, `${path} has no commands`)
  const [port = 0] = await freePorts(1)
  const url = `http://localhost:${port}`
  const tools = mkdtempSync(join(tmpdir(), 'headgate-walk-'))
  // An error status fails the command.
  writeFileSync(join(tools, '.curlrc'), 'fail-with-body\nsilent\nmax-time = 60\n')
  const place = { cwd, env: { CURL_HOME: tools, PORT: String(port), ...env } }
  const adapted = (text: string): string =>
    Object.entries({ ...replace, 'http://localhost:3000': url }).reduce(
      (whole, [from, to]) => whole.replaceAll(from, to),
      text,
    )
  let running: Awaited<ReturnType<typeof begin>> | undefined
  let program = ''
  let printed = ''
  try {
    for (const step of steps) {
      const text = adapted(step.text)
      const is = (word: string): boolean => step.info.includes(word)
      if (is('start')) program = text
      if (is('stopped')) await running?.stop()
      if (!is('start')) printed += await execute(text, place)
      if (is('restart') && !is('stopped')) await running?.stop()
      if (is('start') || is('restart')) running = await begin(program, place, url)
    }
    assert.ok(running, `${placeOf(steps[0] ?? assert.fail())}: no command starts the gateway`)
    await checkPages(url)
    await running.stop()
  } finally {
    running?.kill()
    rmSync(tools, { recursive: true, force: true })
  }
  return printed
}
