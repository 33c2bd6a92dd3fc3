/** Certificates and proxies of the configuration file, with a running gateway. */
import assert from 'node:assert/strict'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { selfSigned } from '../support/certificate.ts'
import { startProxy } from '../support/proxy.ts'
import { type Script, startUpstream } from '../support/upstream.ts'
import { post, run, start } from './support/process.ts'

const HOST = 'somewhere.else.test'
const PASSWORD = 'hunter2hunter2'
const answering: Script = (call) => answerWith(call, { text: 'fine' })

const closers: (() => Promise<void>)[] = []
after(async () => {
  for (const close of closers) await close()
})

const ask = (base: string, model: string) =>
  post(`${base}/chat/completions`, { model, messages: [{ role: 'user', content: 'hello' }] })

const provider = (baseUrl: string, more: object = {}) => ({
  kind: 'openai-compatible',
  baseUrl,
  keys: ['k'],
  models: ['m'],
  ...more,
})

test('egress: an authority of a provider is trusted once its file has it', async () => {
  // OpenSSL finds one certificate of a subject only.
  const [first, second] = [selfSigned('another host'), selfSigned()]
  const upstream = await startUpstream(answering, { tls: second })
  closers.push(upstream.close)
  await using gateway = await start({
    files: {
      'ca.pem': first.cert,
      'headgate.yaml': JSON.stringify({
        providers: { house: provider(`${upstream.url}/v1`, { ca: 'ca.pem' }) },
      }),
    },
  })
  // A file that cannot be used changes nothing.
  await writeFile(join(gateway.folder, 'ca.pem'), 'half a certific')
  await gateway.line(({ event }) => event === 'config_refused')
  await writeFile(join(gateway.folder, 'new.pem'), first.cert + second.cert)
  await rename(join(gateway.folder, 'new.pem'), join(gateway.folder, 'ca.pem'))
  await gateway.line(({ event }) => event === 'config_changed')
  const answer = await ask(gateway.base, 'house/m')
  assert.equal(answer.status, 200, answer.text)
})

test('egress: a provider has a proxy of its own, others that of network, and none where that is stated', async () => {
  const target = selfSigned('another host')
  const far = await startUpstream(answering, { tls: target })
  const near = await startUpstream(answering)
  const ports = { [HOST]: far.port }
  const [own, shared] = [await startProxy({ ports }), await startProxy({ ports })]
  closers.push(far.close, near.close, own.close, shared.close)
  const options = {
    env: { HTTPS_PROXY: 'http://127.0.0.1:9', NETWORK_CA: 'ca.pem', NODE_TLS_REJECT_UNAUTHORIZED: '0' },
    files: {
      'ca.pem': target.cert,
      'headgate.yaml': JSON.stringify({
        network: { proxy: `http://u:${PASSWORD}@127.0.0.1:${shared.port}` },
        providers: {
          own: provider(`https://${HOST}/v1`, { proxy: `http://u:${PASSWORD}@127.0.0.1:${own.port}` }),
          shared: provider(`https://${HOST}/v1`),
          house: provider(`${near.url}/v1`, { proxy: 'none' }),
        },
      }),
    },
  }
  await using gateway = await start(options)
  for (const id of ['own', 'shared', 'house']) {
    const answer = await ask(gateway.base, `${id}/m`)
    assert.equal(answer.status, 200, answer.text)
    assert.match(String(answer.headers.get('x-headgate-trail')), new RegExp(`^${id}#\\w+:200$`))
  }
  assert.ok(own.seen.includes(`CONNECT ${HOST}:443 HTTP/1.1`))
  assert.ok(shared.seen.includes(`CONNECT ${HOST}:443 HTTP/1.1`))
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text()
  assert.match(
    metrics,
    new RegExp(`headgate_proxy_connects_total\\{proxy="127.0.0.1:${own.port}",outcome="connected"\\} \\d`),
  )

  // Its own proxy fails: the others are not affected.
  own.play({ do: 'answer', bytes: 'HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\n\r\n' })
  far.closeIdle()
  const failed = await ask(gateway.base, 'own/m')
  assert.match(String(failed.headers.get('x-headgate-trail')), /^own#\w+:proxy_failed, (?:shared|house)#\w+:200$/)
  const doctor = await run({ ...options, args: ['doctor', '--json'] })
  await doctor.exited
  assert.match(doctor.output(), /does not accept the credentials in headgate\.yaml:1:\d+ \(407\)/)
  assert.match(
    doctor.output(),
    new RegExp(`127.0.0.1:${shared.port} \\(headgate.yaml:1:\\d+\\) connects in \\d+ ms, for shared`),
  )
  assert.match(gateway.output(), /NODE_TLS_REJECT_UNAUTHORIZED=0 has no effect/)
  assert.doesNotMatch(
    gateway.output() + doctor.output() + failed.text,
    new RegExp(`${PASSWORD}|${btoa(`u:${PASSWORD}`)}`),
  )
})
