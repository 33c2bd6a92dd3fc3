/** Every outgoing connection of a gateway behind a company's proxy, and Debian's squid as that proxy. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { selfSigned } from '../support/certificate.ts'
import { accepts, freePorts } from '../support/ports.ts'
import { startProxy } from '../support/proxy.ts'
import { type Script, startUpstream } from '../support/upstream.ts'
import { post, run, start } from './support/process.ts'

const HOST = 'somewhere.else.test'
const ADMIN = 'admin-0123456789abcdef'
const PASSWORD = 'hunter2hunter2'

const folders: string[] = []
const closers: (() => Promise<void>)[] = []
after(async () => {
  for (const close of closers) await close()
  for (const folder of folders) await rm(folder, { recursive: true, force: true })
})
const folderWith = async (files: { readonly [name: string]: string }): Promise<string> => {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-proxy-'))
  folders.push(folder)
  await chmod(folder, 0o777)
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  return folder
}

const answering: Script = (call) => answerWith(call, { text: 'through the proxy' })

const STS = `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIAEXAMPLE</AccessKeyId><SecretAccessKey>secret-of-the-role</SecretAccessKey><SessionToken>session</SessionToken><Expiration>${new Date(Date.now() + 3_600_000).toISOString()}</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`

const ask = (base: string, model: string) => post(`${base}/chat/completions`, chat(model))
const chat = (model: string) => ({ model, messages: [{ role: 'user', content: 'hello' }] })

test('proxy: calls, model lists, token servers and webhooks use it; this machine and NO_PROXY do not', async () => {
  const target = selfSigned('another host')
  const far = await startUpstream(answering, { tls: target })
  const plain = await startUpstream((call) =>
    call.path.includes('/sts') || call.body.includes('AssumeRoleWithWebIdentity')
      ? { do: 'answer', headers: { 'content-type': 'text/xml' }, body: STS }
      : answering(call),
  )
  const proxy = await startProxy({
    ports: { [HOST]: far.port, 'plain.test': plain.port, 'sts.test': plain.port, 'hooks.test': plain.port },
  })
  closers.push(far.close, plain.close, proxy.close)
  const folder = await folderWith({ 'ca.pem': target.cert, token: 'federated' })
  const options = {
    env: {
      HTTPS_PROXY: `http://user:${PASSWORD}@127.0.0.1:${proxy.port}`,
      http_proxy: `http://user:${PASSWORD}@127.0.0.1:${proxy.port}`,
      NO_PROXY: 'refused.test,10.0.0.0/8',
      NODE_EXTRA_CA_CERTS: join(folder, 'ca.pem'),
      AUTH_ADMIN: ADMIN,
      AWS_ROLE_ARN: 'arn:aws:iam::123456789012:role/gateway',
      AWS_WEB_IDENTITY_TOKEN_FILE: join(folder, 'token'),
      AWS_REGION: 'eu-west-1',
      AWS_ENDPOINT_URL_STS: 'http://sts.test/',
      BEDROCK_BASE_URL: 'http://plain.test',
      PROVIDERS: 'far,plain,house,named,bedrock',
    },
    files: {
      'headgate.yaml': JSON.stringify({
        providers: {
          far: { kind: 'openai-compatible', baseUrl: `https://${HOST}/v1`, keys: ['k'], models: ['m1'] },
          plain: { kind: 'openai-compatible', baseUrl: 'http://plain.test/v1', keys: ['k'], models: ['m2'] },
          house: { kind: 'openai-compatible', baseUrl: `${plain.url}/v1`, keys: ['k'], models: ['m3'] },
          named: { kind: 'openai-compatible', baseUrl: 'http://llm.refused.test/v1', keys: ['k'], models: ['m4'] },
        },
        alerts: { url: 'http://hooks.test/alerts' },
      }),
    },
  }
  await using gateway = await start(options)
  const ready = await gateway.line(({ event }) => event === 'ready')
  assert.deepEqual(ready.proxies, [`127.0.0.1:${proxy.port} (HTTPS_PROXY, http_proxy), for far, plain, bedrock`])

  for (const model of ['far/m1', 'plain/m2', 'house/m3']) {
    const answer = await ask(gateway.base, model)
    assert.equal(answer.status, 200, answer.text)
    assert.match(answer.text, /through the proxy/)
  }
  const direct = await ask(gateway.base, 'named/m4')
  assert.match(String(direct.headers.get('x-headgate-trail')), /named#\w+:dns/)
  await ask(gateway.base, 'bedrock/some.model-v1:0')
  const tested = await fetch(`${gateway.url}/admin/api/v1/alerts/test`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ADMIN}` },
  })
  assert.match(await tested.text(), /"delivered":true/)

  const seen = [
    ...new Set(proxy.seen.map((line) => line.replace(/(\.test)(?::80)?\/.*$/, '$1').replace(/ HTTP.*$/, ''))),
  ]
  for (const wanted of [
    `CONNECT ${HOST}:443`,
    'POST http://plain.test',
    'POST http://sts.test',
    'POST http://hooks.test',
  ])
    assert.ok(seen.includes(wanted), `${wanted} is not in ${seen.join(', ')}`)
  assert.ok(
    proxy.seen.some((line) => line.startsWith('GET http://plain.test/v1/models')) ||
      far.requests.some(({ path }) => path === '/v1/models'),
  )
  assert.ok(!proxy.seen.some((line) => /127\.0\.0\.1|refused/.test(line)))
  assert.ok(proxy.credentials.every((value) => value === `Basic ${btoa(`user:${PASSWORD}`)}`))

  // The proxy refuses: a target that needs no proxy answers, and no other one that uses it is tried.
  proxy.play({ do: 'answer', bytes: 'HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\n\r\n' })
  for (const socket of [far]) socket.closeIdle()
  const refused = await ask(gateway.base, 'far/m1')
  assert.match(String(refused.headers.get('x-headgate-trail')), /^far#\w+:proxy_failed, house#\w+:200$/)

  const doctor = await run({ ...options, args: ['doctor', '--json'] })
  await doctor.exited
  const output = doctor.output()
  assert.match(output, /does not accept the credentials in HTTPS_PROXY \(407\)/)
  assert.match(output, /reached directly, by NO_PROXY or as this machine: house, named/)
  assert.doesNotMatch(gateway.output() + output + refused.text, new RegExp(`${PASSWORD}|${btoa(`user:${PASSWORD}`)}`))
})

test('proxy: a SOCKS proxy refuses the start, with a remedy', async () => {
  const { exited, output } = await run({
    env: { ALL_PROXY: 'socks5://user:hunter2@127.0.0.1:1080', OPENAI_API_KEY: 'k' },
  })
  assert.notEqual(await exited, 0)
  assert.match(output(), /ALL_PROXY: found the address of a SOCKS proxy; allowed: .*privoxy/)
  assert.doesNotMatch(output(), /hunter2/)
})

const SQUID = '/usr/sbin/squid'

/** Squid with names of its own, credentials and a denied host. */
const squidConfig = (folder: string, port: number) => `
http_port 127.0.0.1:${port}
hosts_file ${folder}/hosts
pid_filename none
cache_log ${folder}/cache.log
access_log stdio:${folder}/access.log
coredump_dir ${folder}
cache deny all
auth_param basic program /usr/lib/squid/basic_ncsa_auth ${folder}/passwords
acl signed_in proxy_auth REQUIRED
acl denied dstdomain denied.test
http_access deny denied
http_access allow signed_in
http_access deny all
shutdown_lifetime 0 seconds
pinger_enable off
`

const listening = async (port: number, child: ChildProcess): Promise<void> => {
  while (!(await accepts(port))) {
    assert.equal(child.exitCode, null, 'squid has ended')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

test('proxy: squid with credentials and a denied host', {
  skip: !existsSync(SQUID) && 'squid is not installed',
}, async () => {
  const target = selfSigned('another host')
  const upstream = await startUpstream(answering, { tls: target })
  closers.push(upstream.close)
  const [port = 0] = await freePorts(1)
  const folder = await folderWith({
    'ca.pem': target.cert,
    hosts: `127.0.0.1 ${HOST} denied.test\n`,
    // `openssl passwd -apr1 -salt headgate "pass word"`
    passwords: 'user:$apr1$headgate$Mx3tO3QfghBZHKBL2hpYL.\n',
  })
  await writeFile(join(folder, 'squid.conf'), squidConfig(folder, port))
  const child = spawn(SQUID, ['-N', '-f', join(folder, 'squid.conf')], { stdio: 'ignore' })
  after(() => child.kill('SIGKILL'))
  await listening(port, child)
  const provider = (host: string) => ({
    kind: 'openai-compatible',
    baseUrl: `https://${host}:${upstream.port}/v1`,
    keys: ['k'],
    models: ['m'],
  })
  const startWith = (userInfo: string) =>
    start({
      env: {
        HTTPS_PROXY: `http://${userInfo}127.0.0.1:${port}`,
        NODE_EXTRA_CA_CERTS: join(folder, 'ca.pem'),
      },
      files: {
        'headgate.yaml': JSON.stringify({ providers: { far: provider(HOST), denied: provider('denied.test') } }),
      },
    })
  {
    await using gateway = await startWith('user:pass%20word@')
    const answer = await ask(gateway.base, 'far/m')
    assert.equal(answer.status, 200, answer.text)
    const denied = await ask(gateway.base, 'denied/m')
    // Only this endpoint is affected: the other provider behind the same proxy answers.
    assert.match(String(denied.headers.get('x-headgate-trail')), /^denied#\w+:proxy_failed, far#\w+:200/)
  }
  await using gateway = await startWith('')
  const refused = await ask(gateway.base, 'far/m')
  assert.match(refused.text, /asks for credentials \(407\)\. Set HTTPS_PROXY=/)
})
