/** Certificates of clients, names of servers, and when connections are used no more. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { selfSigned } from '../../../test/support/certificate.ts'
import { startUpstream } from '../../../test/support/upstream.ts'
import { DIRECT, type Egress } from '../../core/egress.ts'
import { Secret } from '../../core/secret.ts'
import type { Dial } from '../../core/world.ts'
import { dialer } from './dial.ts'

const closers: (() => Promise<void>)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

/** The text of the answer, or the message of the failure. */
const send = (dial: Dial, url: string, egress?: Egress): Promise<string> =>
  new Promise((resolve) => {
    let text = ''
    dial(
      { method: 'GET', url, headers: {}, connectTimeout: 5_000, egress },
      {
        onHeaders() {},
        onBody(chunk) {
          text += Buffer.from(chunk).toString()
          return true
        },
        onEnd: () => resolve(text),
        onFailure: ({ message }) => resolve(message),
      },
    )
  })

test('egress: a certificate is shown to a server that asks for one, and its name may differ', async () => {
  const [own, server] = [selfSigned(), selfSigned('another host')]
  const listening = createServer(
    { ...server, requestCert: true, rejectUnauthorized: true, ca: own.cert },
    (req, res) => {
      // The socket of an https server.
      const socket = req.socket as TLSSocket
      res.end(`${socket.getPeerCertificate().subject.CN} ${String(socket.servername)}`)
    },
  ).listen(0, '127.0.0.1')
  await once(listening, 'listening')
  const url = `https://127.0.0.1:${(listening.address() as AddressInfo).port}/`
  const { dial, close } = dialer()
  closers.push(close, async () => void listening.close())
  const tls = { ...DIRECT.tls, ca: server.cert, caOnly: false, serverName: 'somewhere.else.test' }
  const client = { cert: own.cert, key: new Secret(own.key) }
  assert.equal(await send(dial, url, { ...DIRECT, id: '1', tls: { ...tls, client } }), 'localhost somewhere.else.test')
  assert.match(await send(dial, url, { ...DIRECT, id: '2', tls }), /closed|failed|certificate/i)
  const unnamed = { ...tls, client, serverName: null }
  assert.match(await send(dial, url, { ...DIRECT, id: '3', tls: unnamed }), /ERR_TLS_CERT_ALTNAME_INVALID/)
  assert.match(await send(dial, url, { ...DIRECT, id: '4' }), /signed by "somewhere\.else\.test", which is not trusted/)
})

test('egress: an old connection, and one of another way, is used for no further call', async () => {
  const upstream = await startUpstream(() => ({ do: 'answer', body: 'fine' }))
  let usual: Egress = { ...DIRECT, id: 'a', maxConnectionAge: 200 }
  const { dial, keepOnly, close } = dialer({ egress: () => usual })
  closers.push(upstream.close, close)
  for (const _ of [1, 2]) await send(dial, upstream.url)
  assert.equal(upstream.connections(), 1)
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  await send(dial, upstream.url)
  assert.equal(upstream.connections(), 2)
  usual = { ...DIRECT, id: 'b' }
  keepOnly([usual])
  for (const _ of [1, 2]) assert.equal(await send(dial, upstream.url), 'fine')
  assert.equal(upstream.connections(), 3)
})
