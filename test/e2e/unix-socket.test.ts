/** A gateway on a Unix socket, called by curl and by nginx, and one on IPv6 and IPv4. */
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { selfSigned } from '../support/certificate.ts'
import { freePorts } from '../support/ports.ts'
import { nginxConf, skipFront, startFront } from './support/front.ts'
import { post, run, type StartOptions, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const folder = await mkdtemp(join(tmpdir(), 'hg-'))
const closers: (() => unknown)[] = [() => rm(folder, { recursive: true, force: true })]
after(async () => {
  for (const close of closers.reverse()) await close()
})

let sockets = 0
const newPath = () => join(folder, `${++sockets}.sock`)

const KEY = 'key-0123456789abcdef0123456789abcdef'
const BODY = { model: 'demo/echo', messages: [{ role: 'user', content: 'hello' }] }
const on = (path: string, { env, files }: StartOptions = {}): StartOptions => ({
  env: { HOST: `unix:${path}`, HTTP_SERVER: 'own', ...env },
  ...(files && { files }),
})

const curl = async (path: string, ...args: readonly string[]) => {
  const all = ['-s', '--max-time', '30', '-w', '\n%{http_code}', '--unix-socket', path, ...args]
  const { stdout } = await promisify(execFile)('curl', all)
  const at = stdout.lastIndexOf('\n')
  return { status: Number(stdout.slice(at + 1)), text: stdout.slice(0, at) }
}
const JSON_BODY = ['-H', 'content-type: application/json', '-d', JSON.stringify(BODY)] as const

const refused = async (options: StartOptions): Promise<string> => {
  const { exited, output } = await run(options)
  assert.equal(await exited, 1, output())
  return output()
}

test('Unix socket: serves curl, with its mode, and is removed at the end', async () => {
  const path = newPath()
  const gateway = await start(on(path))
  closers.push(gateway.stop)
  assert.equal((await stat(path)).mode & 0o777, 0o660)
  const whole = await curl(path, 'http://localhost/v1/chat/completions', ...JSON_BODY)
  assert.deepEqual([whole.status, whole.text.includes('hello')], [200, true], whole.text)
  const streamed = JSON.stringify({ ...BODY, stream: true })
  const stream = await curl(path, '-N', 'http://localhost/v1/chat/completions', ...JSON_BODY.slice(0, 3), streamed)
  assert.match(stream.text, /data: \[DONE\]/)
  const ready = await gateway.line(({ event }) => event === 'ready')
  assert.equal(ready.url, `http://unix:${path}:`)
  assert.equal(await gateway.stop(), 0)
  await assert.rejects(stat(path), { code: 'ENOENT' })
})

test('Unix socket: SOCKET_MODE states the mode', async () => {
  const path = newPath()
  await using _ = await start(on(path, { env: { SOCKET_MODE: '0600' } }))
  assert.equal((await stat(path)).mode & 0o777, 0o600)
})

test('Unix socket: its peers are no operators of this machine', async () => {
  const path = newPath()
  const [port = 0] = await freePorts(1)
  await using local = await start({ env: { PORT: `${port}` } })
  await using _ = await start(on(path))
  // What a caller of this machine may do on a port.
  assert.equal((await fetch(`${local.url}/admin/api/v1/teams`)).status, 200)
  assert.equal((await curl(path, 'http://localhost/admin/api/v1/teams')).status, 401)
})

test('Unix socket: commands reach it, by its folder and by its path', async () => {
  const path = newPath()
  const admin = 'admin-token-0123456789abcdef'
  const gateway = await start(on(path, { env: { AUTH_ADMIN: admin, BASE_PATH: '/below' } }))
  closers.push(gateway.stop)
  const env = { HEADGATE_ADMIN_TOKEN: admin }
  const here = await verb(['status', '--json'], { cwd: gateway.folder, env })
  assert.deepEqual([here.code, here.json().url], [0, `http://unix:${path}:/below`], here.stderr)
  const there = await verb(['teams', 'create', 'one', '--json'], { env: { ...env, HEADGATE_URL: gateway.url } })
  assert.equal(there.code, 0, there.stderr)
  // A command of another folder has no token.
  const none = await verb(['teams', 'list'], { env: { HEADGATE_URL: gateway.url } })
  assert.notEqual(none.code, 0)
  assert.match(none.stderr, /token/i)
  const answer = await verb(['try', 'hello'], { cwd: gateway.folder, env: { ...env, HEADGATE_API_KEY: 'any' } })
  assert.equal(answer.code, 0, answer.stderr)
  await gateway.stop()
  const gone = await verb(['health'], { env: { HEADGATE_URL: `unix:${path}` } })
  assert.match(gone.stderr, new RegExp(`http://unix:${path} cannot be reached: ENOENT`))
})

test('Unix socket: a left over one is replaced, one in use is not', async () => {
  const path = newPath()
  const first = await start(on(path))
  closers.push(first.stop)
  const taken = await refused(on(path))
  assert.match(taken, new RegExp(`HOST=unix:${path}: ${path} is in use by another process\\.`))
  assert.equal((await curl(path, 'http://localhost/health')).status, 200, 'the first one still serves')
  const killed = once(first.child, 'close')
  first.child.kill('SIGKILL')
  await killed
  assert.ok((await stat(path)).isSocket(), 'a killed process leaves its socket')
  await using _ = await start(on(path))
  assert.equal((await curl(path, 'http://localhost/health')).status, 200)
})

test('Unix socket: a process that accepts nothing, with a full queue, keeps it', async () => {
  const path = newPath()
  const program = `const s = require('net').createServer(); s.listen({ path: ${JSON.stringify(path)}, backlog: 1 }, () => console.log('ready'))`
  const holder = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  closers.push(() => holder.kill('SIGKILL'))
  await once(holder.stdout, 'data')
  holder.kill('SIGSTOP')
  const clients = Array.from({ length: 8 }, () => connect({ path }))
  const outcomes = await Promise.all(
    clients.map(
      (client) =>
        new Promise<string>((resolve) => {
          client.once('connect', () => resolve('connected'))
          client.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''))
        }),
    ),
  )
  assert.ok(
    outcomes.some((outcome) => outcome !== 'connected'),
    'the queue is full',
  )
  assert.match(await refused(on(path)), /is in use by another process/)
  assert.ok((await stat(path)).isSocket())
  for (const client of clients) client.destroy()
})

test('Unix socket: another file is not removed, and a folder is needed', async () => {
  const path = newPath()
  await writeFile(path, 'a file of its own')
  assert.match(await refused(on(path)), /exists and is no socket/)
  assert.equal((await stat(path)).size, 17)
  assert.match(await refused(on(join(folder, 'missing', 'a.sock'))), /HOST=unix:.*(?:EACCES|ENOENT)/)
})

test('Unix socket: settings that need a port are refused', async () => {
  const path = newPath()
  assert.match(await refused(on(path, { env: { WORKERS: '2' } })), /WORKERS: found 2; allowed: 1, because .* socket/)
  const proxied = { PROXY_PROTOCOL: 'required', TRUSTED_PROXIES: '10.0.0.1' }
  assert.match(await refused(on(path, { env: proxied })), /PROXY_PROTOCOL\) is not read on a Unix socket/)
  assert.match(await refused(on(path, { env: { SOCKET_MODE: '999' } })), /SOCKET_MODE: found "999"/)
})

test('Unix socket: with TLS, and probes on a port', async () => {
  const path = newPath()
  const [port = 0] = await freePorts(1)
  const { cert, key } = selfSigned()
  const env = { TLS_CERT: 'cert.pem', TLS_KEY: 'key.pem', TLS_HEALTH_PORT: `${port}` }
  await using _ = await start(on(path, { env, files: { 'cert.pem': cert, 'key.pem': key } }))
  assert.equal((await curl(path, '-k', 'https://localhost/v1/chat/completions', ...JSON_BODY)).status, 200)
  assert.equal((await fetch(`http://127.0.0.1:${port}/health/ready`)).status, 200)
})

test('Unix socket: nginx, which states its clients', { skip: skipFront('nginx') }, async () => {
  const path = newPath()
  const yaml = (ip: string) => JSON.stringify({ keys: { one: { secret: KEY, access: { ips: [ip] } } } })
  const server = `location / {\nproxy_pass http://unix:${path}:/;\nproxy_http_version 1.1;\nproxy_set_header Host $host;\nproxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\nproxy_buffering off;\n}`
  const front = await startFront('nginx', (port) => nginxConf(port, server))
  closers.push(front.stop)
  const ask = (headers: Readonly<Record<string, string>> = {}) =>
    post(`${front.url}/v1/chat/completions`, BODY, { authorization: `Bearer ${KEY}`, ...headers })
  for (const [ip, trusted, status] of [
    ['127.0.0.1', 'unix', 200],
    ['198.51.100.1', 'unix', 403],
    ['127.0.0.1', '10.0.0.1', 403],
  ] as const) {
    await using _ = await start(on(path, { env: { TRUSTED_PROXIES: trusted }, files: { 'headgate.yaml': yaml(ip) } }))
    // Workers of nginx run as another user where it is started by root.
    await chmod(path, 0o666)
    await chmod(folder, 0o755)
    assert.equal((await ask()).status, status, `${ip} through ${trusted}`)
    // Before the address that nginx appends, a client writes what it likes.
    if (status === 403) {
      assert.equal((await ask({ 'x-forwarded-for': ip })).status, 403)
      assert.equal((await ask({ 'x-forwarded-for': `${ip}, unix` })).status, 403)
    }
    assert.equal((await fetch(`${front.url}/admin/api/v1/teams`)).status, 401, 'no operator of this machine')
  }
})

const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ family }) => family === 'IPv6'))

test('HOST=:: serves IPv6 and IPv4', { skip: hasIpv6 ? false : 'no IPv6' }, async () => {
  const files = {
    'headgate.yaml': JSON.stringify({ keys: { one: { secret: KEY, access: { ips: ['127.0.0.0/8'] } } } }),
  }
  const [port = 0] = await freePorts(1)
  await using _ = await start({ env: { HOST: '::', PORT: `${port}` }, files })
  const ask = (host: string) =>
    post(`http://${host}:${port}/v1/chat/completions`, BODY, { authorization: `Bearer ${KEY}` })
  // An IPv4 client is matched by its IPv4 address, not by its mapped one.
  assert.equal((await ask('127.0.0.1')).status, 200)
  assert.match((await ask('[::1]')).text, /address_not_allowed/)
  const other = createServer()
  const error = once(other, 'error')
  other.listen(port, '0.0.0.0')
  assert.match(String(await error), /EADDRINUSE/, 'both families have the port')
})
