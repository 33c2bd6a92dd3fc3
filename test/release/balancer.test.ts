/** The configurations of docs/deploy/behind-a-balancer.md: each answers over TLS, streamed, for a gateway. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { blocksOf } from '../docs/support.ts'
import { type Started, start } from '../e2e/support/process.ts'
import { selfSigned } from '../support/certificate.ts'
import { freePorts } from '../support/ports.ts'

/** Debian installs them in a folder that only root's PATH contains. */
const env = { PATH: `${process.env.PATH ?? ''}:/usr/sbin:/usr/local/sbin` }
const PAGE = 'docs/deploy/behind-a-balancer.md'
const { cert, key } = selfSigned()
const agent = new Agent({ ca: cert, servername: 'localhost' })

/** Sends a streamed call; resolves to the answer, or to a text that says why there is none. */
const ask = (port: number): Promise<string> =>
  new Promise((resolve) => {
    const call = request(
      { port, host: '127.0.0.1', path: '/v1/chat/completions', method: 'POST', agent, timeout: 10_000 },
      async (response) => {
        let text = ''
        for await (const piece of response.setEncoding('utf8')) text += piece
        resolve(`${response.statusCode} ${text}`)
      },
    )
    call.on('error', (error) => resolve(error.message))
    call.setHeader('content-type', 'application/json')
    call.end('{"model":"demo/echo","stream":true,"messages":[{"role":"user","content":"hello"}]}')
  })

describe(PAGE, () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-behind-'))
  let gateway: Started
  before(async () => {
    writeFileSync(join(folder, 'headgate.pem'), cert + key)
    writeFileSync(join(folder, 'headgate.key'), key)
    gateway = await start()
  })
  after(async () => {
    await gateway?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  const programs = {
    haproxy: { words: (file: string) => ['-db', '-f', file], around: (text: string) => text },
    nginx: {
      words: (file: string) => ['-p', folder, '-c', file, '-e', 'stderr'],
      around: (text: string) =>
        `daemon off;\nworker_processes 1;\npid ${join(folder, 'nginx.pid')};\nevents {}\nhttp {\naccess_log off;\n${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${join(folder, name)};\n`).join('')}${text}}\n`,
    },
  } as const

  for (const [name, { words, around }] of Object.entries(programs)) {
    const isMissing = spawnSync(name, ['-v'], { env }).error && process.env.HEADGATE_CI !== '1'
    test(name, { skip: isMissing ? `${name} is missing` : false }, async () => {
      const block = blocksOf(name).find(({ page }) => page === PAGE) ?? assert.fail(`${PAGE} has no block for ${name}`)
      const [port = 0] = await freePorts(1)
      const upstream = new URL(gateway.url).host
      const text = block.text
        .replaceAll(/10\.0\.0\.\d:3000/g, upstream)
        .replace('bind :443', `bind 127.0.0.1:${port}`)
        .replace('listen 443', `listen 127.0.0.1:${port}`)
        .replaceAll(/\/etc\/(?:haproxy|nginx)/g, folder)
      const file = join(folder, `${name}.conf`)
      writeFileSync(file, around(text))
      const child: ChildProcess = spawn(name, words(file), { env, stdio: ['ignore', 'ignore', 'pipe'] })
      let output = ''
      child.stderr?.on('data', (piece) => (output += piece))
      const closed = once(child, 'close')
      try {
        let answer = ''
        const end = performance.now() + 30_000
        for (; !answer.startsWith('200 ') && child.exitCode === null && performance.now() < end; await sleep(50))
          answer = await ask(port)
        assert.ok(answer.endsWith('data: [DONE]\n\n'), `${answer}\n${output}`)
      } finally {
        child.kill('SIGTERM')
        await closed
      }
    })
  }
})
